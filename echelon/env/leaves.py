"""Entries of a TensorDict as a flat dict, for the inner loops of rollouts and matches.

Each access to a nested TensorDict takes a microsecond or more, as long as a small torch operator; a decision makes
hundreds of accesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

Leaves = dict[tuple[str, ...], Tensor]
"""Entries of a tensordict, `[B, ...]` each, by key."""


class Shown(Protocol):
    """A `TensorDictBase` or `Leaves`, from which the entries of both groups and of the root can be read by key."""

    def get(self, key: Any, default: Any = None, /) -> Any:
        """Return the entry, or `default`."""

    def __setitem__(self, key: Any, value: Any, /) -> None:
        """Set an entry."""


NO_SIZES: Mapping[str, torch.Size] = MappingProxyType({})


def leaves_from(shown: Shown) -> Leaves:
    """Return the entries as a flat dict by key; an input that is a dict is returned without a copy."""
    if isinstance(shown, dict):
        return shown
    assert isinstance(shown, TensorDictBase)
    return {key if isinstance(key, tuple) else (key,): leaf for key, leaf in shown.items(True, True)}


def nested(
    leaves: Mapping[tuple[str, ...], Tensor],
    batch_size: torch.Size,
    device: torch.device,
    of_groups: Mapping[str, torch.Size] = NO_SIZES,
) -> TensorDict:
    """Return a TensorDict of the entries, without checks.

    Args:
        leaves: entries by key.
        batch_size: batch size of the root and of everything in it.
        device: device of the entries.
        of_groups: batch sizes of nested entries that differ from `batch_size`.
    """
    tree: dict[str, Any] = {}
    for (*path, name), leaf in leaves.items():
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[name] = leaf

    def built(node: dict[str, Any], size: torch.Size, sizes: Mapping[str, torch.Size] = NO_SIZES) -> TensorDict:
        source = {
            name: built(value, sizes.get(name, size)) if isinstance(value, dict) else value
            for name, value in node.items()
        }
        return unchecked_tensordict(source, size, device)

    return built(tree, batch_size, of_groups)


def unchecked_tensordict(source: dict[str, Any], batch_size: torch.Size, device: torch.device) -> TensorDict:
    """Return a TensorDict of entries known to be valid. The public constructor of TensorDict would check and copy
    each entry."""
    if torch.compiler.is_compiling():
        return TensorDict(source, batch_size, device=device)
    return TensorDict._new_unsafe(source, batch_size=torch.Size(batch_size), device=device)

"""Entries of a TensorDict as a plain dict by their keys, for the inner loops of rollouts and matches.

Each access to a nested TensorDict takes a microsecond or more, as long as a small operation; a decision makes hundreds.
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
    """Entries of both groups and of the root by key: a `TensorDictBase`, or `Leaves`."""

    def get(self, key: Any, default: Any = None, /) -> Any:
        """The entry, or `default`."""

    def __setitem__(self, key: Any, value: Any, /) -> None:
        """Set an entry."""


NO_SIZES: Mapping[str, torch.Size] = MappingProxyType({})


def leaves_from(shown: Shown) -> Leaves:
    """The entries of either form by key; those of a dict are returned as they are."""
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
    """The TensorDict of some entries, which are not checked.

    Args:
        batch_size: of the root and of all that is in it.
        of_groups: batch sizes of entries of the root, where they are others.
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
    """A TensorDict of entries that are known to fit: its own constructor checks and copies each of them."""
    if torch.compiler.is_compiling():
        return TensorDict(source, batch_size, device=device)
    return TensorDict._new_unsafe(source, batch_size=torch.Size(batch_size), device=device)

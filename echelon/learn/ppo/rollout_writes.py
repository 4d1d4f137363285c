"""What a decision of a rollout puts together and writes: functions of tensors, which a GPU runs as graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.observation.layout import STREAMS
from echelon.runtime.compile import fused


def write_step(at: Tensor, leaves: Sequence[Tensor], buffers: Sequence[Tensor]) -> None:
    """Write `leaves [G, ...]` as step `at [1]` int64 of `buffers [T, G, ...]`, in their dtypes, in place."""
    for leaf, buffer in zip(leaves, buffers, strict=True):
        buffer.index_copy_(0, at, leaf.to(buffer.dtype)[None])


def concat_pieces(pieces: Sequence[Sequence[Tensor]], dtypes: Sequence[torch.dtype]) -> list[Tensor]:
    """Put pieces together `[G, ...]`, each whole in its dtype."""
    return [torch.cat([piece.to(dtype) for piece in parts]) for parts, dtype in zip(pieces, dtypes, strict=True)]


def reduced_view(
    teams: Sequence[TensorDictBase],
    memory: Iterable[str],
    dtype: torch.dtype,
    concat_pieces: Callable[..., list[Tensor]],
) -> TensorDict:
    """Views of teams as one, batch `[G, A]`, with streams and telemetry in `dtype`.

    Args:
        teams: as `PolicyAssignment.part` shows them, of A mechs each.
        memory: names of what the policy remembers, which stays in its own dtype.
        concat_pieces: the function of this name, or a graph of it.
    """
    shown: list[tuple[str, ...]] = [("observation", name) for name in STREAMS]
    rest: list[tuple[str, ...]] = [("mask",), *(("memory", name) for name in memory)]
    pieces = {key: [team.get(key) for team in teams] for key in (*shown, *rest)}
    pieces["telemetry",] = [team.get("telemetry")[:, 0] for team in teams]
    own = {key: parts[0].dtype for key, parts in pieces.items()}
    dtypes = [kind if key in rest or kind == torch.bool else dtype for key, kind in own.items()]
    found = dict(zip(pieces, concat_pieces(list(pieces.values()), dtypes), strict=True))
    shape, telemetry = found["mask",].shape, found.pop(("telemetry",))
    device = telemetry.device
    # Without a device the inner one would be moved: tensordict then enters `torch.device` into a table whose length
    # Dynamo guards, and all that was compiled before is compiled again.
    view = TensorDict({"memory": TensorDict({}, shape, device=device)}, shape, device=device)
    for key, leaf in found.items():
        view.set(key, leaf)
    return view.set("telemetry", telemetry[:, None].expand(*shape, -1, -1))


def on_device(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """`function` as a graph on a GPU; on a CPU itself."""
    return fused(function, device) if device.type == "cuda" else function

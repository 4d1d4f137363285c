"""Replaces what belongs to some battles by rows of other tensors, in place.

On a GPU one kernel of Triton for all tensors, whose programs leave at once where nothing is replaced: it costs by what
it replaces, where a mask reads and writes everything. Without Triton, and on a CPU, masks choose.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from echelon.env.select import select
from echelon.sim.gpu.launch import launch, operator, runs_on
from echelon.sim.kernels.dispatch import HAS_TRITON

PROGRAMS = 4
"""Programs a battle."""
BLOCK = 1024
"""Numbers that a program writes at a time."""

if HAS_TRITON:
    import triton
    import triton.language as tl

    @triton.jit
    def _replace(  # type: ignore[no-untyped-def]
        which,
        rows,
        targets,
        sources,
        is_given: tl.constexpr,
        sizes: tl.constexpr,
        to_next: tl.constexpr,
        from_next: tl.constexpr,
        share: tl.constexpr,
        block: tl.constexpr,
    ):
        """The program of a part of a battle, of `share` parts; the tuples have an entry for each tensor."""
        battle, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
        if tl.load(which + battle) == 0:
            return
        row = tl.load(rows + battle)
        for number in tl.static_range(len(targets)):
            target = targets[number] + battle * to_next[number]
            source = sources[number] + row * from_next[number]
            for begin in range(part * block, sizes[number], share * block):
                at = begin + tl.arange(0, block)
                inside = at < sizes[number]
                value = tl.load(source + at, inside & is_given[number], 0).to(targets[number].dtype.element_ty)
                tl.store(target + at, value, inside)


def replace_rows(
    which: Tensor, rows: Tensor | None, targets: Sequence[Tensor], sources: Sequence[Tensor | None]
) -> None:
    """Write row `rows[b]` of each source to row b of the target in its place, in its dtype, for the battles `which`.

    Args:
        which: `[B]` bool.
        rows: `[B]` int64; None for row b of b.
        targets: `[B, ...]` each, changed in place. Every row must be contiguous; rows may lie anywhere.
        sources: `[R, ...]` each, of other memory than the targets; None for zeros.
    """
    if runs_on(which.device):
        rows = torch.arange(len(which), device=which.device) if rows is None else rows
        replace_rows_triton(which, rows, list(targets), list(sources))
    else:
        replace_rows_dense(which, rows, targets, sources)


def replace_rows_dense(
    which: Tensor, rows: Tensor | None, targets: Sequence[Tensor], sources: Sequence[Tensor | None]
) -> None:
    """`replace_rows` by masks."""
    for target, source in zip(targets, sources, strict=True):
        if source is None:
            target.mul_(~which.view(-1, *[1] * (target.dim() - 1)))
        else:
            fresh = source if rows is None else source[rows]
            target.copy_(select(which, fresh.to(target.dtype), target))


@operator("replace_rows", ("targets",))
def replace_rows_triton(which: Tensor, rows: Tensor, targets: list[Tensor], sources: list[Tensor | None]) -> None:
    """`replace_rows` by programs for each battle."""
    # What is not given is not read.
    read = [target if source is None else source for target, source in zip(targets, sources, strict=True)]
    read = [source if source[0].is_contiguous() else source.contiguous() for source in read]
    assert all(target[0].is_contiguous() for target in targets)
    assert all(target[0].shape == source[0].shape for target, source in zip(targets, read, strict=True))
    launch(
        _replace,
        (len(which), PROGRAMS),
        which.device,
        # A mask may be a column of somebody's table.
        *(which.contiguous(), rows.contiguous()),
        *(tuple(map(as_bytes, tensors)) for tensors in (targets, read)),
        is_given=tuple(source is not None for source in sources),
        sizes=tuple(target[0].numel() for target in targets),
        to_next=tuple(target.stride(0) for target in targets),
        from_next=tuple(source.stride(0) for source in read),
        share=PROGRAMS,
        block=BLOCK,
        warps=4,
    )


def as_bytes(values: Tensor) -> Tensor:
    """The same memory, of bytes in place of truth values."""
    return values.view(torch.uint8) if values.dtype == torch.bool else values

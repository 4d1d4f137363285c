"""Some battles from one batch, the others from another."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.state import State


def select(which: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """`yes` for the battles `which [B]` bool, `no` for the others; both `[B, ...]`."""
    return torch.where(which.view(-1, *[1] * (yes.dim() - 1)), yes, no)


def cleared(values: Tensor, which: Tensor) -> Tensor:
    """`values [B, ...]`, zero for the battles `which [B]`."""
    return select(which, torch.zeros_like(values), values)


def select_state(which: Tensor, yes: State, no: State) -> State:
    """`select` for whole states that share their terrain."""
    parts = {name: getattr(yes, name) for name in State.__dataclass_fields__ if name != "terrain"}
    chosen = {
        name: select(which, part, getattr(no, name))
        if isinstance(part, Tensor)
        else part.apply(lambda new, old: select(which, new, old), getattr(no, name))
        for name, part in parts.items()
    }
    return no.replace(**chosen)


def replace_rows(state: State, rows: Tensor, fresh: State) -> State:
    """`state` with the battles `rows [R]` replaced by those of `fresh`; the terrain is written in place."""

    def replaced(old: Tensor, new: Tensor) -> Tensor:
        return old.index_copy(0, rows, new)

    changed = {}
    for name in State.__dataclass_fields__:
        old, new = getattr(state, name), getattr(fresh, name)
        if name == "terrain":
            for field in type(old).__dataclass_fields__:
                getattr(old, field)[rows] = getattr(new, field)
        else:
            changed[name] = replaced(old, new) if isinstance(old, Tensor) else old.apply(replaced, new)
    return state.replace(**changed)

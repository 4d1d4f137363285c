"""Battles that begin anew in the places of others: by a mask on a GPU, which is not asked; by row on a CPU."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from echelon.env.loops.rows import rows_where
from echelon.env.select import select
from echelon.state import Maps, State, Terrain


class ByMask:
    """The battles `which [B]` bool, without a host read: everything is made for all battles, and the mask chooses."""

    def __init__(self, which: Tensor) -> None:
        self.which = which

    def of(self, values: Tensor) -> Tensor:
        """What stands for the chosen battles among `values [B, ...]`: all of them."""
        return values

    def replaced(self, old: Any, new: Any) -> Any:
        """`old [B, ...]` with `new [B, ...]` for the chosen battles; tensors, or parts of a state."""
        if isinstance(old, Tensor):
            return select(self.which, new, old)
        return old.apply(lambda before, after: select(self.which, after, before), new)

    def own_terrain(self, terrain: Terrain) -> Terrain | None:
        """The ground on which the chosen battles are opened: what is there, to be restored afterwards."""
        return terrain

    def restore_terrain(self, terrain: Terrain, fresh: Terrain, map_id: Tensor, maps: Maps) -> None:
        """Set the ground of the chosen battles, in place, to that of their maps `map_id [B]`."""
        for columns, original in ((terrain.solid, maps.solid), (terrain.opaque, maps.opaque)):
            columns.copy_(select(self.which, original[map_id], columns))
        for changes in (terrain.rubble, terrain.damage):
            changes.mul_(~self.which.view(-1, *[1] * (changes.dim() - 1)))


class ByRow:
    """The battles `which [B]` bool, of which R are read on the host; no other is touched."""

    def __init__(self, which: Tensor) -> None:
        self.rows = rows_where(which)

    def of(self, values: Tensor) -> Tensor:
        """`[R, ...]` those of the chosen battles among `values [B, ...]`."""
        return values[self.rows]

    def replaced(self, old: Any, new: Any) -> Any:
        """`old [B, ...]` with `new [R, ...]` for the chosen battles; tensors, or parts of a state."""
        if isinstance(old, Tensor):
            return old.index_copy(0, self.rows, new)
        return old.apply(self.replaced, new)

    def own_terrain(self, terrain: Terrain) -> Terrain | None:
        """The ground on which the chosen battles are opened: made anew."""
        return None

    def restore_terrain(self, terrain: Terrain, fresh: Terrain, map_id: Tensor, maps: Maps) -> None:
        """Set the ground of the chosen battles, in place, to the `fresh [R]`."""
        for field in Terrain.__dataclass_fields__:
            getattr(terrain, field)[self.rows] = getattr(fresh, field)


Chosen = ByMask | ByRow


def restart_state(state: State, fresh: State, chosen: Chosen, maps: Maps) -> State:
    """`state` with the `chosen` battles replaced by `fresh` ones; the terrain is written in place."""
    names = [name for name in State.__dataclass_fields__ if name != "terrain"]
    state = state.replace(**{name: chosen.replaced(getattr(state, name), getattr(fresh, name)) for name in names})
    chosen.restore_terrain(state.terrain, fresh.terrain, state.map_id, maps)
    return state

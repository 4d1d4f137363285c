"""Battles that begin anew in the places of others: by a mask on a GPU, which is not asked; by row on a CPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from echelon.env.areas import draw_places
from echelon.env.leaves import Leaves
from echelon.env.loops.rows import rows_where
from echelon.env.map_pool import draw_map
from echelon.env.observation.layout import STREAMS
from echelon.env.orders.commander_view import command_view
from echelon.env.outcome import Winner
from echelon.runtime import noise
from echelon.runtime.noise import Stream
from echelon.sim.model import SimModel
from echelon.state import Maps, State, Terrain, initial_leaves, initial_state, initial_terrain, leaves_of
from echelon.world.splits import placed

TELEMETRY, WINNER = ("telemetry",), ("outcome", "winner")


class Selection:
    """Some of B battles: those of a mask, without a host read, or those in rows that the host knows.

    With a mask all values are computed for all battles and the mask chooses; with rows no other battle is touched.

    Args:
        mask: `[B]` bool.
        rows: `[R]` int64; None where the host does not know them.
    """

    def __init__(self, mask: Tensor | None = None, rows: Tensor | None = None) -> None:
        self.mask, self.rows = mask, rows

    @classmethod
    def by_row(cls, mask: Tensor) -> Selection:
        """The battles of `mask [B]` bool, which is read on the host."""
        return cls(rows=rows_where(mask))

    def of(self, values: Tensor) -> Tensor:
        """Values of the selected battles among `values [B, ...]`: `[R, ...]`, or all of them with a mask."""
        return values if self.rows is None else values[self.rows]

    def replaced(self, old: Any, new: Any) -> Any:
        """`old [B, ...]` with `new`, `[R, ...]` or `[B, ...]`, for the selected battles; tensors or parts of states."""
        if not isinstance(old, Tensor):
            return old.apply(self.replaced, new)
        if self.rows is not None:
            return old.index_copy(0, self.rows, new)
        assert self.mask is not None
        return select(self.mask, new, old)

    def ground(self, terrain: Terrain) -> Terrain | None:
        """The ground on which the selected battles are opened: with a mask the present one, to be restored afterwards;
        None for a new one."""
        return terrain if self.rows is None else None

    def restore(self, terrain: Terrain, fresh: Terrain) -> None:
        """Set the ground of the selected battles, in place, to `fresh [R]`; with rows only."""
        for field in Terrain.__dataclass_fields__:
            getattr(terrain, field)[self.rows] = getattr(fresh, field)


class Begun(NamedTuple):
    """What a restart makes of the battles that were there, all but their ground."""

    next_seed: Tensor
    """`[B]` int64 seeds of the battles that begin next."""
    state: State
    """The battles; the ground of those that began anew is yet to be restored."""
    fresh: State
    """The new battles alone, as opened."""
    leaves: Leaves
    """What the teams are shown and told."""


def begin(
    selection: Selection,
    next_seed: Tensor,
    state: State,
    leaves: Leaves,
    sim_model: SimModel,
    map_slots: Tensor,
    initial_observations: Mapping[str, Tensor],
) -> Begun:
    """Begin the selected battles anew: seeds, state, first observations; rewards and outcomes are cleared.

    Args:
        selection: the battles that begin anew.
        next_seed: `[B]` int64 seeds of the battles that begin.
        state: the battles that were there; nothing of it is written to.
        leaves: entries of a tensordict; observation streams, `mask` and telemetry are set, all others cleared.
        sim_model: with the maps.
        map_slots, initial_observations: of the `MapPool`.
    """
    seeds = selection.of(next_seed)
    fresh = open_on_map(seeds, sim_model, map_slots, initial_observations, selection.ground(state.terrain))
    following = selection.replaced(next_seed, noise.bits(fresh.seed, 0, Stream.EPISODE, 1)[:, 0])
    names = [name for name in State.__dataclass_fields__ if name != "terrain"]
    state = state.replace(**{name: selection.replaced(getattr(state, name), getattr(fresh, name)) for name in names})
    first = cached_initial_observation(fresh, sim_model, initial_observations, leaves.keys())

    def renewed(key: tuple[str, ...], old: Tensor) -> Tensor:
        if key in first:
            return selection.replaced(old, first[key])
        blank = int(Winner.RUNNING) if key == WINNER else 0
        return selection.replaced(old, torch.full_like(selection.of(old), blank))

    return Begun(following, state, fresh, {key: renewed(key, old) for key, old in leaves.items()})


def with_first_observations(
    begun: Begun, selection: Selection, fresh: State, streams: Mapping[str, Tensor], teams: Mapping[str, slice]
) -> Begun:
    """`begun`, with what is observed of the selected battles where they began in place of what their maps tell.

    Args:
        fresh, streams: of the selected battles, as `observe` returns them.
        teams: where each team sits on the mech axis.
    """
    first = {(group, "observation", name): streams[name][:, span] for group, span in teams.items() for name in STREAMS}
    observed = {key: selection.replaced(old, first[key]) if key in first else old for key, old in begun.leaves.items()}
    slots = selection.replaced(begun.state.focus_slots, fresh.focus_slots)
    return begun._replace(state=begun.state.replace(focus_slots=slots), leaves=observed)


def begin_in_rows(
    rows: Tensor,
    next_seed: Tensor,
    state: State,
    shown: Mapping[str, Tensor],
    sim_model: SimModel,
    map_slots: Tensor,
    initial_observations: Mapping[str, Tensor],
) -> tuple[Tensor, State]:
    """`begin` the battles in `rows [R]` int64 in their places, where loops have made the state and what is shown.

    Mechs, shots, clouds, tally, ground and `shown` are written in place, so no other battle is copied. The other
    fields of a state, which may be those of an earlier one, are copied.

    Args:
        next_seed, state, game, map_slots, initial_observations: as in `begin`, on maps without areas.
        shown: `[B, N, ...]` streams by name, and `telemetry [B, 16, 16]`.

    Returns:
        Next seeds and the state.
    """
    seed = placed(next_seed[rows], sim_model.config.split)
    map_id = draw_map(seed, map_slots)
    opened = initial_leaves(seed, map_id, sim_model.maps, sim_model.roster, sim_model.config)
    opened["focus_slots"] = initial_observations["focus_slots"][map_id]
    old, copied = leaves_of(state), {}
    for name, leaf in old.items():
        if "." in name:
            leaf.index_copy_(0, rows, opened[name])
        else:
            copied[name] = leaf.index_copy(0, rows, opened[name])
    Selection(rows=rows).restore(state.terrain, initial_terrain(map_id, sim_model.maps))
    for name, values in shown.items():
        if name in STREAMS:
            values.index_copy_(0, rows, initial_observations[name][map_id])
        elif name == TELEMETRY[0]:
            values.index_copy_(0, rows, sim_model.maps.telemetry[map_id])
        else:
            values.index_fill_(0, rows, 0)
    following = noise.bits(seed, 0, Stream.EPISODE, 1)[:, 0]
    return next_seed.index_copy(0, rows, following), state.replace(**copied)  # type: ignore[return-value]


def begin_by_mask(which: Tensor, *arguments: Any) -> Begun:
    """`begin` the battles `which [B]` bool, without a host read: a function of tensors, for torch.compile."""
    return begin(Selection(which), *arguments)


def restore_ground(terrain: Terrain, which: Tensor, map_id: Tensor, maps: Maps) -> None:
    """Set the ground of some battles, in place, to that of their maps.

    Args:
        terrain: of B battles.
        which: `[B]` bool, the battles that begin anew.
        map_id: `[B]` int64 the map of each.
        maps: the maps.
    """
    targets = [terrain.solid, terrain.opaque, terrain.rubble, terrain.damage]
    replace_rows(which, map_id, targets, [maps.solid, maps.opaque, None, None])


@dataclass(frozen=True)
class StaticBuffers:
    """Tensors that stay where they are, for battles that a CUDA graph plays on."""

    next_seed: Tensor
    """`[B]` int64, as in `Begun`."""
    state: State
    """The ground is that of the battles themselves, which is changed in place anyway."""
    leaves: Leaves
    """Entries of a tensordict, without observation streams, flags and memories."""
    is_init: Tensor
    """`[B, 1]` bool."""
    memories: Leaves
    """What policies remember, `[B, A, ...]` each."""


class NextMemory(NamedTuple):
    """What the mechs of one group remember next, in consecutive battles."""

    key: tuple[str, ...]
    """Entry of a tensordict."""
    start: int
    """The first of the battles."""
    value: Tensor
    """`[S, A, ...]`"""


def begin_into_buffers(
    which: Tensor,
    state: State,
    leaves: Leaves,
    remembered: Sequence[NextMemory],
    buffers: StaticBuffers,
    sim_model: SimModel,
    map_slots: Tensor,
    initial_observations: Mapping[str, Tensor],
) -> None:
    """`begin_by_mask` into `buffers`, flags and memories included: what goes on is written there too.

    Observation streams and the ground are left to `replace_rows`.

    Args:
        which: `[B]` bool, the battles that begin anew.
        state, leaves: what the last decision left behind.
        remembered: what policies remember next. What is not among it stays as it is: nobody has written to it since
            the battles were reset.
    """
    begun = begin_by_mask(which, buffers.next_seed, state, leaves, sim_model, map_slots, initial_observations)
    buffers.next_seed.copy_(begun.next_seed)
    values = leaves_of(begun.state)
    for name, buffer in leaves_of(buffers.state).items():
        buffer.copy_(values[name])
    for key, buffer in buffers.leaves.items():
        buffer.copy_(begun.leaves[key])
    buffers.is_init.copy_(which[:, None])
    for key, start, value in remembered:
        battles = slice(start, start + len(value))
        buffers.memories[key][battles].copy_(cleared(value, which[battles]))


def cached_initial_observation(
    fresh: State, sim_model: SimModel, initial_observations: Mapping[str, Tensor], wanted: Collection[object]
) -> Leaves:
    """Observations, masks and telemetry of battles at their first moment, those with a key in `wanted`."""
    leaves: Leaves = {TELEMETRY: sim_model.maps.telemetry[fresh.map_id]}
    for group, span in sim_model.roster.teams.items():
        keys = {(group, "observation", name): name for name in STREAMS}
        leaves |= {
            key: initial_observations[name][fresh.map_id][:, span] for key, name in keys.items() if key in wanted
        }
        leaves[group, "mask"] = fresh.mechs.alive[:, span]
    return leaves | command_view(fresh, sim_model) if sim_model.config.command.enabled else leaves


def open_on_map(
    seed: Tensor,
    sim_model: SimModel,
    map_slots: Tensor,
    initial_observations: Mapping[str, Tensor],
    terrain: Terrain | None = None,
) -> State:
    """Battles at their first moment, each on a map by its own seed `[B]`, which is `placed` in the config's split;
    `terrain` as in `initial_state`."""
    seed = placed(seed, sim_model.config.split)
    map_id = draw_map(seed, map_slots)
    state = draw_places(
        initial_state(seed, map_id, sim_model.maps, sim_model.roster, sim_model.config, terrain), sim_model
    )
    return state.replace(focus_slots=initial_observations["focus_slots"][map_id])


def select(which: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """`yes` for the battles `which [B]` bool, `no` for the others; both `[B, ...]`."""
    return torch.where(which.view(-1, *[1] * (yes.dim() - 1)), yes, no)


def cleared(values: Tensor, which: Tensor) -> Tensor:
    """`values [B, ...]`, zero for the battles `which [B]`."""
    return torch.where(which.view(-1, *[1] * (values.dim() - 1)), 0, values)


def replace_rows(
    which: Tensor, rows: Tensor | None, targets: Sequence[Tensor], sources: Sequence[Tensor | None]
) -> None:
    """Write row `rows[b]` of each source to row b of the target in its place, in its dtype, for the battles `which`.

    Args:
        which: `[B]` bool.
        rows: `[B]` int64; None for row b of b.
        targets: `[B, ...]` each, changed in place.
        sources: `[R, ...]` each, of other memory than the targets; None for zeros.
    """
    for target, source in zip(targets, sources, strict=True):
        if source is None:
            target.mul_(~which.view(-1, *[1] * (target.dim() - 1)))
        else:
            values = source if rows is None else source[rows]
            target.copy_(select(which, values.to(target.dtype), target))

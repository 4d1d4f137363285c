"""Restart battles in their rows of the batch, selected by a mask on a GPU (without a host read) or by index on a
CPU."""

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
    """A selection of some of B battles, given by a mask, without a host read, or by their row indices.

    With a mask, values are computed for all battles and selected afterwards; with rows, no other battle is touched.

    Args:
        mask: which battles are selected, `[B]` bool; None if `rows` is given.
        rows: indices of the selected battles, `[R]` int64; None if `mask` is given.
    """

    def __init__(self, mask: Tensor | None = None, rows: Tensor | None = None) -> None:
        self.mask, self.rows = mask, rows

    @classmethod
    def by_row(cls, mask: Tensor) -> Selection:
        """Select the battles `mask [B]` bool by index; reads the mask on the host."""
        return cls(rows=rows_where(mask))

    def of(self, values: Tensor) -> Tensor:
        """Return the selected rows of `values [B, ...]`, as `[R, ...]`; with a mask, return all rows, `[B, ...]`."""
        return values if self.rows is None else values[self.rows]

    def replaced(self, old: Any, new: Any) -> Any:
        """Return `old [B, ...]` with the selected rows taken from `new`; both are tensors or dataclasses of tensors.

        Args:
            old: values of all battles, `[B, ...]`.
            new: new values, `[R, ...]` with rows, `[B, ...]` with a mask.
        """
        if not isinstance(old, Tensor):
            return old.apply(self.replaced, new)
        if self.rows is not None:
            return old.index_copy(0, self.rows, new)
        assert self.mask is not None
        return select(self.mask, new, old)

    def ground(self, terrain: Terrain) -> Terrain | None:
        """Return the argument `terrain` of `initial_state`: with a mask, the current terrain, which is reset
        afterwards; with rows, None, which creates new terrain."""
        return terrain if self.rows is None else None

    def restore(self, terrain: Terrain, fresh: Terrain) -> None:
        """Copy `fresh [R]` into the terrain of the selected battles, in place; requires a selection by rows."""
        for field in Terrain.__dataclass_fields__:
            getattr(terrain, field)[self.rows] = getattr(fresh, field)


class ResetResult(NamedTuple):
    """Result of a restart: all B battles, except their terrain."""

    next_seed: Tensor
    """`[B]` int64 seeds of the battles that begin next."""
    state: State
    """All battles; the terrain of the restarted ones is not restored yet."""
    fresh: State
    """Only the new battles, at their start."""
    leaves: Leaves
    """Observations, rewards and outcomes by key."""


def reset_battles(
    selection: Selection,
    next_seed: Tensor,
    state: State,
    leaves: Leaves,
    sim_model: SimModel,
    map_slots: Tensor,
    initial_observations: Mapping[str, Tensor],
) -> ResetResult:
    """Start new battles in the selected rows: set seeds, state and initial observations, and clear rewards and
    outcomes.

    Args:
        selection: the battles to restart.
        next_seed: seeds of the new battles, `[B]` int64.
        state: state of the battles before the restart; not modified.
        leaves: entries of a tensordict; observation streams, `mask` and telemetry are set, all others cleared.
        sim_model: rules, roster and maps.
        map_slots, initial_observations: fields of the `MapPool`.
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

    return ResetResult(following, state, fresh, {key: renewed(key, old) for key, old in leaves.items()})


def with_initial_observations(
    restarted: ResetResult,
    selection: Selection,
    fresh: State,
    streams: Mapping[str, Tensor],
    teams: Mapping[str, slice],
) -> ResetResult:
    """Replace the cached initial observations of the selected battles by observations computed for these battles.

    Args:
        restarted: result of `reset_battles`.
        selection: the restarted battles.
        fresh, streams: result of `observe` for the selected battles.
        teams: slice of the mech axis by team.
    """
    first = {(group, "observation", name): streams[name][:, span] for group, span in teams.items() for name in STREAMS}
    observed = {
        key: selection.replaced(old, first[key]) if key in first else old for key, old in restarted.leaves.items()
    }
    slots = selection.replaced(restarted.state.focus_slots, fresh.focus_slots)
    return restarted._replace(state=restarted.state.replace(focus_slots=slots), leaves=observed)


def reset_rows(
    rows: Tensor,
    next_seed: Tensor,
    state: State,
    shown: Mapping[str, Tensor],
    sim_model: SimModel,
    map_slots: Tensor,
    initial_observations: Mapping[str, Tensor],
) -> tuple[Tensor, State]:
    """Restart the battles `rows [R]` int64 in place; requires that numba loops made the state and the observations.

    Mechs, shots, clouds, tally, terrain and `shown` are written in place, so no other battle is copied. Other fields of
    the state are copied, because earlier states may share them.

    Args:
        rows: indices of the battles to restart, `[R]` int64.
        next_seed, state, sim_model, map_slots, initial_observations: as in `reset_battles`, on maps without spawn
            areas.
        shown: streams by name, `[B, N, ...]` each, and `telemetry [B, 16, 16]`.

    Returns:
        The next seeds `[B]` and the state.
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


def reset_by_mask(which: Tensor, *arguments: Any) -> ResetResult:
    """Restart the battles where `which [B]` is True, without a host read, so that torch.compile can compile the
    restart."""
    return reset_battles(Selection(which), *arguments)


def restore_ground(terrain: Terrain, which: Tensor, map_id: Tensor, maps: Maps) -> None:
    """Reset the terrain of the battles that restart to the initial terrain of their maps, in place.

    Args:
        terrain: terrain of B battles.
        which: the battles that restart, `[B]` bool.
        map_id: index of each battle's map, `[B]` int64.
        maps: the maps.
    """
    targets = [terrain.solid, terrain.opaque, terrain.rubble, terrain.damage]
    replace_rows(which, map_id, targets, [maps.solid, maps.opaque, None, None])


@dataclass(frozen=True)
class StaticBuffers:
    """Tensors at fixed addresses, for battles that a CUDA graph plays."""

    next_seed: Tensor
    """`[B]` int64, as in `ResetResult`."""
    state: State
    """Contains the battles' own terrain, which is always changed in place."""
    leaves: Leaves
    """Entries of a tensordict, without observation streams, flags and memories."""
    is_init: Tensor
    """`[B, 1]` bool."""
    memories: Leaves
    """Memories of the policies, `[B, A, ...]` each."""


class NextMemory(NamedTuple):
    """Next memory of one group's mechs, in consecutive battles."""

    key: tuple[str, ...]
    """Key in a tensordict."""
    start: int
    """Index of the first battle."""
    value: Tensor
    """`[S, A, ...]`"""


def reset_into_buffers(
    which: Tensor,
    state: State,
    leaves: Leaves,
    remembered: Sequence[NextMemory],
    buffers: StaticBuffers,
    sim_model: SimModel,
    map_slots: Tensor,
    initial_observations: Mapping[str, Tensor],
) -> None:
    """Restart battles by mask and write all battles into `buffers`, with flags and memories.

    Observation streams and terrain are not written here, but by `replace_rows`.

    Args:
        which: the battles that restart, `[B]` bool.
        state, leaves: result of the last decision.
        remembered: next memories of the policies. Memories that are not listed have not changed since the last reset.
        buffers: receives the values, in place.
        sim_model, map_slots, initial_observations: as in `reset_battles`.
    """
    restarted = reset_by_mask(which, buffers.next_seed, state, leaves, sim_model, map_slots, initial_observations)
    buffers.next_seed.copy_(restarted.next_seed)
    values = leaves_of(restarted.state)
    for name, buffer in leaves_of(buffers.state).items():
        buffer.copy_(values[name])
    for key, buffer in buffers.leaves.items():
        buffer.copy_(restarted.leaves[key])
    buffers.is_init.copy_(which[:, None])
    for key, start, value in remembered:
        battles = slice(start, start + len(value))
        buffers.memories[key][battles].copy_(cleared(value, which[battles]))


def cached_initial_observation(
    fresh: State, sim_model: SimModel, initial_observations: Mapping[str, Tensor], wanted: Collection[object]
) -> Leaves:
    """Return cached initial observations, masks and telemetry of new battles; observations only if their key is in
    `wanted`."""
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
    """Return the state of new battles. Each battle's `seed [B]` is first moved into the seed range of the config's
    split, and then determines the map.

    The argument `terrain` is that of `initial_state`.
    """
    seed = placed(seed, sim_model.config.split)
    map_id = draw_map(seed, map_slots)
    state = draw_places(
        initial_state(seed, map_id, sim_model.maps, sim_model.roster, sim_model.config, terrain), sim_model
    )
    return state.replace(focus_slots=initial_observations["focus_slots"][map_id])


def select(which: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return `yes [B, ...]` for the battles `which [B]` bool, and `no [B, ...]` for all other battles."""
    return torch.where(which.view(-1, *[1] * (yes.dim() - 1)), yes, no)


def cleared(values: Tensor, which: Tensor) -> Tensor:
    """Return `values [B, ...]` with zeros for the battles `which [B]`."""
    return torch.where(which.view(-1, *[1] * (values.dim() - 1)), 0, values)


def replace_rows(
    which: Tensor, rows: Tensor | None, targets: Sequence[Tensor], sources: Sequence[Tensor | None]
) -> None:
    """Copy row `rows[b]` of each source to row b of its target, in the target's dtype, for the battles `which`.

    Args:
        which: the battles to write, `[B]` bool.
        rows: index of the source row of each battle, `[B]` int64; None copies row b to row b.
        targets: tensors `[B, ...]`, changed in place.
        sources: tensors `[R, ...]`, in other memory than the targets; None writes zeros.
    """
    for target, source in zip(targets, sources, strict=True):
        if source is None:
            target.mul_(~which.view(-1, *[1] * (target.dim() - 1)))
        else:
            values = source if rows is None else source[rows]
            target.copy_(select(which, values.to(target.dtype), target))

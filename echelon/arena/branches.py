"""Battles that continue from a moment of another battle, with other random numbers or an intervention on a mech."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.arena.batch_arena import BatchArena, Battle, BattleResult, MatchBatch
from echelon.env.observation.layout import GROUPS, action_width
from echelon.env.orders.destination import destination, way_there
from echelon.rules.actions import TRIGGER_COLUMNS, Act
from echelon.rules.orders import OrderField, OrderKind
from echelon.runtime.geometry import heading, to_body
from echelon.sim.model import SimModel
from echelon.state import State

Intervention = Literal[
    "hold_still",
    "hold_fire",
    "removed",
    "repaired",
    "follow_order",
    "hold_primary",
    "hold_secondary",
    "hold_tertiary",
    "hold_special",
]
"""The intervention on a mech from a moment on, by name:

`hold_still`: it does not walk, turn or jump. `hold_fire`: it releases all triggers. `removed`: it is dead at once.
`repaired`: its hit points are full. `follow_order`: it walks to the destination of its pack's order. `hold_TRIGGER`: it
releases one trigger."""
ALL_INTERVENTIONS: tuple[Intervention, ...] = get_args(Intervention)
INTERVENTIONS = ALL_INTERVENTIONS[:5]
"""The default interventions."""
MOVES = [int(act) for act in (Act.FORWARD, Act.STRAFE, Act.VERTICAL, Act.YAW_RATE)]
TRIGGERS = {trigger.name.lower(): int(act) for trigger, act in TRIGGER_COLUMNS.items()}
HELD: dict[str, tuple[list[int], float]] = {
    "hold_still": (MOVES, 0.0),
    "hold_fire": (list(TRIGGERS.values()), -1.0),
    **{f"hold_{trigger}": ([column], -1.0) for trigger, column in TRIGGERS.items()},
}
"""Columns of an action that an intervention sets, and their value."""
EDITS: dict[str, tuple[str, int | None]] = {
    "hp": ("hp", None),
    "leg_hp": ("leg_hp", None),
    "heat": ("heat", None),
    "stability": ("stability", None),
    "x": ("pos", 0),
    "y": ("pos", 1),
    "z": ("pos", 2),
    "yaw": ("yaw", None),
}
"""Editable values of a mech: the field of `Mechs`, and the index on its last axis."""


@dataclass(frozen=True)
class Moment:
    """Snapshot of a battle before one of its decisions, with the recurrent memory of the commanders."""

    decision: int
    state: TensorDictBase
    """Batch `[1]`, result of `EchelonEnv.get_state`."""
    memories: tuple[TensorDictBase, TensorDictBase]
    """Memory of the mechs of blue and of red, `[1, A]` each."""


@dataclass(frozen=True)
class Branch:
    """A battle that continues from a moment of another battle.

    Args:
        chance: seed of all later random numbers, of policies and simulation. With the seed of the original battle, the
            branch repeats the original battle.
        mech: index of the mech with the `intervention`, blue first.
    """

    moment: Moment
    chance: int
    mech: int = 0
    intervention: Intervention | None = None


class WatchedBatch(MatchBatch):
    """A batch of one battle that appends a snapshot to `moments` before each decision that `is_kept` selects."""

    def __init__(self, *of_match: Any, is_kept: Callable[[int], bool], moments: list[Moment]) -> None:
        super().__init__(*of_match)
        self.is_kept, self.moments = is_kept, moments

    def graph_key(self) -> None:
        """Return None: a CUDA graph cannot contain the copies that are made between decisions."""

    def _decide(self, td: TensorDictBase, decision: Tensor | int) -> None:
        if self.is_kept(int(decision)):
            blue, red = (memory_of(self, row) for row in (0, self.env.num_envs))
            self.moments.append(Moment(int(decision), self.env.get_state([0]), (blue, red)))
        super()._decide(td, decision)


class InterventionBatch(MatchBatch):
    """A batch in which interventions change the actions of mechs.

    Where `is_set [B, N, D]` is True, actions are replaced by `values [B, N, D]`. Mechs where `follows [B, N]` is True
    walk to the destination of their order; `follows` is None if there are no such mechs.
    """

    is_set: Tensor
    values: Tensor
    follows: Tensor | None

    def graph_key(self) -> None:
        """Return None: branches start at different decisions, so no CUDA graph is captured."""

    def choose(self, interventions: Sequence[tuple[int, Intervention | None]]) -> None:
        """Set the mech and the intervention of each of the first `len(interventions)` battles."""
        shape = (self.env.num_envs, sum(self.sizes), action_width(self.env.config.comm_dim))
        is_set, values = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape)
        follows = torch.zeros(shape[:2], dtype=torch.bool)
        for b, (mech, name) in enumerate(interventions):
            columns, value = HELD.get(name or "", ([], 0.0))
            is_set[b, mech, columns] = True
            values[b, mech, columns] = value
            follows[b, mech] = name == "follow_order"
        self.follows = follows.to(self.env.device) if bool(follows.any()) else None
        self.is_set, self.values = is_set.to(self.env.device), values.to(self.env.device)

    def _decide(self, td: TensorDictBase, decision: Tensor | int) -> None:
        super()._decide(td, decision)
        action = torch.cat([td.get((group, "action")) for group in GROUPS], 1)
        action = torch.where(self.is_set, self.values, action)
        if self.follows is not None:
            action = walking(action, self.follows, self.env.state, self.env.sim_model)
        for group, group_action in zip(GROUPS, action.split(self.sizes, 1), strict=True):
            td.set((group, "action"), group_action)


def walking(action: Tensor, follows: Tensor, state: State, sim_model: SimModel) -> Tensor:
    """Return `action [B, N, D]`, changed so that mechs in `follows [B, N]` with a destination walk there, around walls.

    Turning and firing of these mechs stay unchanged.
    """
    target = destination(state, sim_model)
    step = to_body(way_there(state, target, sim_model).step, heading(state.mechs.yaw)).clamp(-1, 1)
    walk = torch.cat((step, torch.zeros_like(step[..., :1])), -1)
    columns = slice(Act.FORWARD, Act.VERTICAL + 1)
    walks = torch.where((follows & target.is_sent)[..., None], walk, action[..., columns])
    return torch.cat((action[..., : columns.start], walks, action[..., columns.stop :]), -1)


def has_order(moment: Moment) -> bool:
    """Return whether a living mech has an order with a destination."""
    orders: Tensor | None = moment.state.get(("state", "orders_heard"), None)
    if orders is None or orders.numel() == 0:  # empty if orders are off
        return False
    is_ordered = (orders[..., OrderField.ISSUED] >= 0) & (orders[..., OrderField.KIND] != int(OrderKind.FREE))
    return bool((is_ordered & (moment.state.get(("state", "mechs", "hp")) > 0)).any())


class BranchBatch(InterventionBatch):
    """Plays one battle per branch, in the order of `branches`; the seed of each battle is the `chance` of its
    branch.
    """

    def __init__(self, *of_match: Any, branches: Sequence[Branch]) -> None:
        super().__init__(*of_match)
        self.branches = branches
        first = torch.zeros(self.env.num_envs, dtype=torch.int64)
        first[: len(branches)] = torch.tensor([branch.moment.decision for branch in branches])
        self.first = first.to(self.env.device)
        """`[B]` index of each battle's first decision."""
        self.choose([(branch.mech, branch.intervention) for branch in branches])

    def reset_battles(self) -> TensorDictBase:
        """Set each battle to the moment at which its branch starts."""
        super().reset_battles()
        sim_model, branches = self.env.sim_model, self.branches
        states = torch.cat(
            [state_of(branch.moment.state, branch.mech, branch.intervention, sim_model) for branch in branches]
        )
        td = self.env.set_state(states, range(len(self.branches)))
        self.env.state = self.env.state.replace(seed=self.seeds.clone())
        count = self.env.num_envs
        self.runner.remember(lambda row: branches[row % count].moment.memories[row // count][0])
        return td

    def _decide(self, td: TensorDictBase, decision: Tensor | int) -> None:
        super()._decide(td, self.first + decision)


@dataclass(frozen=True)
class Fork:
    """Changes to a battle that take effect at a decision.

    Args:
        decision: the first decision that may differ.
        battle: commanders and seed from that decision on; new commanders start with empty memory.
        mech: index of the mech with the `intervention`, blue first.
        edits: values to set in the state before that decision, as tuples of mech, name in `EDITS`, and value.
    """

    decision: int
    battle: Battle
    mech: int = 0
    intervention: Intervention | None = None
    edits: tuple[tuple[int, str, float], ...] = ()


class ForkedBatch(InterventionBatch):
    """Plays one battle from its start, with the changes of `fork` from a decision on."""

    def __init__(self, *of_match: Any, fork: Fork) -> None:
        super().__init__(*of_match)
        self.fork = fork
        self.successor = MatchBatch(self.arena, [fork.battle])
        # Record no value estimates, because they would mix the estimates of two commanders.
        self.estimates = None
        self.choose([])

    def _decide(self, td: TensorDictBase, decision: Tensor | int) -> None:
        if decision == self.fork.decision:
            td.update(self._intervene())
        super()._decide(td, decision)

    def _intervene(self) -> TensorDictBase:
        """Switch to the commanders and the state after the fork; return the observation."""
        fork, (before,) = self.fork, self.battles
        old = self.runner.memories()

        def memory_of(side: int) -> TensorDictBase | None:
            return old[side * self.env.num_envs] if before[side] == fork.battle[side] else None

        self.successor.runner.remember(lambda row: memory_of(row // self.successor.env.num_envs))
        state = state_of(self.env.get_state(), fork.mech, fork.intervention, self.env.sim_model)
        td = self.env.set_state(edited(state, fork.edits))
        self.runner, self.seeds, self.action_masks = (
            self.successor.runner,
            self.successor.seeds,
            self.successor.action_masks,
        )
        self.env.state = self.env.state.replace(seed=self.seeds.clone())
        self.choose([(fork.mech, fork.intervention)])
        return td


def memory_of(batch: MatchBatch, row: int) -> TensorDictBase:
    """Return the recurrent memory of the team in row `row` of the batch; batch size `[1, A]`."""
    return batch.runner.memories()[row][None]


def state_of(
    state: TensorDictBase, mech: int, intervention: Intervention | None, sim_model: SimModel
) -> TensorDictBase:
    """Return `state`, the `get_state` of one battle, after an intervention on a mech."""
    hp, leg_hp = (state.get(("state", "mechs", name))[0, mech] for name in ("hp", "leg_hp"))
    if intervention == "removed":
        changed = (torch.zeros_like(hp), leg_hp)
    elif intervention == "repaired" and bool(hp > 0):
        changed = (sim_model.roster.hp[mech], sim_model.roster.leg_hp[mech])
    else:
        return state
    state = state.clone()
    for name, value in zip(("hp", "leg_hp"), changed, strict=True):
        state.get(("state", "mechs", name))[0, mech] = value
    return state


def edited(state: TensorDictBase, edits: Sequence[tuple[int, str, float]]) -> TensorDictBase:
    """Return `state`, the `get_state` of one battle, with the values of `edits`; `set_state` validates them."""
    state = state.clone() if edits else state
    for mech, name, value in edits:
        field, axis = EDITS[name]
        leaf = state.get(("state", "mechs", field))
        leaf[(0, mech) if axis is None else (0, mech, axis)] = value
    return state


def moments_of(arena: BatchArena, battle: Battle, is_kept: Callable[[int], bool]) -> tuple[BattleResult, list[Moment]]:
    """Play a battle; return its result and a snapshot before each decision that `is_kept` selects."""
    moments: list[Moment] = []
    with batches_made_by(arena, partial(WatchedBatch, is_kept=is_kept, moments=moments)):
        (result,) = arena.play([battle]).results
    return result, [moment for moment in moments if moment.decision < result.decisions]


def play_branches(
    arena: BatchArena,
    battle: Battle,
    branches: Sequence[Branch],
    on_batch: Callable[[Sequence[BattleResult]], object] = lambda results: None,
) -> list[BattleResult]:
    """Play the branches of a battle to the end, with the commanders of that battle.

    Args:
        on_batch: called with the results of each batch.
    """
    results: list[BattleResult] = []
    for start in range(0, len(branches), arena.settings.batch):
        chunk = branches[start : start + arena.settings.batch]
        with batches_made_by(arena, partial(BranchBatch, branches=chunk)):
            results_of_chunk = arena.play([battle._replace(seed=branch.chance) for branch in chunk]).results
        results += results_of_chunk
        on_batch(results_of_chunk)
    return results


@contextlib.contextmanager
def batches_made_by(arena: BatchArena, make_batch: Callable[..., MatchBatch]) -> Iterator[None]:
    """Context manager in which an arena creates its batches with `make_batch`."""
    default, arena.make_batch = arena.make_batch, make_batch
    try:
        yield
    finally:
        arena.make_batch = default

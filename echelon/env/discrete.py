"""Discrete actions (one table of composite actions), multi-discrete actions (a factor per part of an action), and
masks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from echelon.rules.actions import CONTROLS, NO_MECH, PREFERENCES, TRIGGER_COLUMNS, Act
from echelon.rules.catalog import ECCM_TRIGGER, Trigger
from echelon.sim.model import SimModel
from echelon.state import State

MOVES: dict[str, dict[int, float]] = {
    "stand": {},
    "ahead": {Act.FORWARD: 1.0},
    "back": {Act.FORWARD: -1.0},
    "left": {Act.STRAFE: 1.0},
    "right": {Act.STRAFE: -1.0},
}
TURNS: dict[str, dict[int, float]] = {
    "straight": {},
    "turn_left": {Act.YAW_RATE: 1.0},
    "turn_right": {Act.YAW_RATE: -1.0},
}
FIRE: dict[str, tuple[Trigger, ...]] = {
    "hold": (),
    "primary": (Trigger.PRIMARY,),
    "secondary": (Trigger.SECONDARY,),
    "tertiary": (Trigger.TERTIARY,),
}
GUNS = FIRE["primary"] + FIRE["secondary"] + FIRE["tertiary"]
HELD = ECCM_TRIGGER
"""Value of a held trigger: above 0 fires; on the secondary of a hull with ECM, values up to `ECCM_TRIGGER` mean ECM."""
ALWAYS: dict[int, float] = {Act.PREFER_0: 1.0, Act.SORT_CLOSEST: 1.0, Act.HOSTILE_ONLY: 1.0}
"""Part of every action: contacts sorted by distance, only hostiles, and the first contact as target."""


IndexForm = Literal["discrete", "multi_discrete"]


@dataclass(frozen=True)
class CompositeAction:
    """A row of the table of discrete actions, or an option of a factor of multi-discrete actions."""

    name: str
    controls: Mapping[int, float]
    """Value of each column; the other columns are 0."""
    triggers: tuple[Trigger, ...] = ()
    """Triggers that the action holds; it is available if a weapon on one of them is ready in time."""
    needs_jets: bool = False
    needs_emitter: bool = False
    feature: str | None = None
    """System of `FeaturesConfig` without which it has no effect."""
    contact: int | None = None
    """Contact slot that must hold a living enemy."""


@dataclass(frozen=True)
class Factor:
    """A part of a multi-discrete action: the policy chooses one of the factor's options. Option 0 does nothing and
    is always available."""

    name: str
    """Name, such as `forward` or `primary`."""
    options: tuple[CompositeAction, ...]
    """The options; an action has the index of one of them."""


def _table() -> tuple[CompositeAction, ...]:
    """Return 60 combinations of movement, turn and fire, then four special actions."""
    rows = [
        CompositeAction(f"{move}_{turn}_{fire}", {**MOVES[move], **TURNS[turn]}, FIRE[fire])
        for move in MOVES
        for turn in TURNS
        for fire in FIRE
    ]
    rows += [
        CompositeAction("ahead_straight_all_guns", MOVES["ahead"], GUNS),
        CompositeAction("ahead_straight_special", MOVES["ahead"], (Trigger.SPECIAL,)),
        CompositeAction("ahead_straight_jump", {**MOVES["ahead"], Act.VERTICAL: 1.0}, needs_jets=True),
        CompositeAction("stand_straight_vent", {Act.VENT: 1.0}),
    ]
    return tuple(rows)


ACTIONS = _table()
"""The 64 composite actions. Action 0 does nothing; it is the only one available to dead mechs."""
COMPOSITES = Factor("action", ACTIONS)


def factors(comm_dim: int) -> tuple[Factor, ...]:
    """Return the factors of a multi-discrete action: every column of `echelon.rules.actions` belongs to one factor.

    Args:
        comm_dim: number of message values, each a factor of its own.
    """
    return (
        _steps(Act.FORWARD, ("stay", "ahead", "back")),
        _steps(Act.STRAFE, ("stay", "left", "right")),
        Factor(
            "vertical",
            (CompositeAction("stay", {}), CompositeAction("jump", {Act.VERTICAL: 1.0}, needs_jets=True)),
        ),
        _steps(Act.YAW_RATE, ("straight", "turn_left", "turn_right")),
        *map(_trigger, Trigger),
        Factor("vent", (CompositeAction("hold", {}), CompositeAction("vent", {Act.VENT: 1.0}))),
        Factor("contact", tuple(_contacts())),
        Factor(
            "sort",
            tuple(
                CompositeAction(
                    Act(column).name.lower().removeprefix("sort_"),
                    {column: 1.0},
                    feature=None if column == int(Act.SORT_CLOSEST) else "observation_control",
                )
                for column in range(Act.SORT_CLOSEST, Act.HOSTILE_ONLY)
            ),
        ),
        Factor(
            "listed",
            (
                CompositeAction("hostile_only", {Act.HOSTILE_ONLY: 1.0}),
                CompositeAction("all", {}, feature="observation_control"),
            ),
        ),
        *(_steps(CONTROLS + n, ("zero", "plus", "minus"), f"message_{n}", "comms") for n in range(comm_dim)),
    )


def _steps(column: int, names: Sequence[str], name: str | None = None, feature: str | None = None) -> Factor:
    """Return the factor of an action column, whose options are the values 0, 1 and -1."""
    zero, *moves = zip(names, (0.0, 1.0, -1.0), strict=True)
    options = (CompositeAction(one, {column: value}, feature=feature) for one, value in moves)
    return Factor(name or Act(column).name.lower(), (CompositeAction(zero[0], {}), *options))


def _trigger(trigger: Trigger) -> Factor:
    """Return the factor of a trigger; the secondary trigger also has an option for ECCM, the second mode of an
    emitter."""
    options = [CompositeAction("hold", {}), CompositeAction("fire", {}, (trigger,))]
    if trigger == Trigger.SECONDARY:
        options.append(CompositeAction("eccm", {TRIGGER_COLUMNS[trigger]: 1.0}, needs_emitter=True, feature="ewar"))
    return Factor(trigger.name.lower(), tuple(options))


def _contacts() -> Iterator[CompositeAction]:
    """Yield the options of the preferred target: the first contact, another contact, or no preference."""
    for slot in range(PREFERENCES):
        first = slot == 0
        yield CompositeAction(
            f"contact_{slot}",
            {Act.PREFER_0 + slot: 1.0},
            feature=None if first else "target_preference",
            contact=None if first else slot,
        )
    yield CompositeAction("none", {}, feature="target_preference")


def factors_of(form: IndexForm, comm_dim: int) -> tuple[Factor, ...]:
    """Return the factors of a form of actions: one factor of 64 composite actions for `discrete`, else those of
    `factors`."""
    return (COMPOSITES,) if form == "discrete" else factors(comm_dim)


def option_table(options: Sequence[CompositeAction], comm_dim: int) -> Tensor:
    """Return each option as a row of a table, `[K, D]` float32 on the CPU, with the columns of
    `echelon.rules.actions`."""
    table = torch.zeros(len(options), CONTROLS + comm_dim, dtype=torch.float32, device="cpu")
    for index, option in enumerate(options):
        triggers: dict[int, float] = {TRIGGER_COLUMNS[trigger]: HELD for trigger in option.triggers}
        for column, value in {**option.controls, **triggers}.items():
            table[index, column] = value
    return table


def action_table(comm_dim: int, device: torch.device) -> Tensor:
    """Return each composite action as a row of a table, `[64, D]` float32, with the columns of
    `echelon.rules.actions`; messages are 0."""
    table = option_table(ACTIONS, comm_dim)
    for column, value in ALWAYS.items():
        table[:, column] = value
    return table.to(device)


class FactorTable:
    """Tables that map a multi-discrete action to a continuous action; the factors have S options in total.

    Args:
        comm_dim: number of message values.
        device: device of the tensors.
    """

    def __init__(self, comm_dim: int, device: torch.device) -> None:
        own = factors(comm_dim)
        self.count = sum(len(factor.options) for factor in own)
        """Number of options S."""
        self.sizes = torch.tensor([len(factor.options) for factor in own], device=device)
        """[F] int64, number of options of each factor."""
        self.first = self.sizes.cumsum(0) - self.sizes
        """[F] int64, index of each factor's option 0 among all options."""
        tables = [option_table(factor.options, comm_dim) for factor in own]
        self.table = torch.cat(tables).to(device)
        """[S, D] float32, the columns of each option."""
        is_set = torch.stack([(table != 0).any(0) for table in tables])
        self.owner = is_set.int().argmax(0).to(device)
        """[D] int64, the factor that sets each column."""
        self.columns = torch.arange(len(self.owner), device=device)

    def __getitem__(self, action: Tensor) -> Tensor:
        """Return the continuous actions `[..., D]` float32 of the multi-discrete actions `[..., F]` int64.

        Raises:
            IndexError: on a CPU, if an index is out of the range of its factor. On a GPU, torch reports the error
                later.
        """
        is_option = (action >= 0) & (action < self.sizes)
        row = torch.where(is_option, action + self.first, self.count)
        return self.table[row[..., self.owner], self.columns]


class ActionMasks:
    """Computes masks of the discrete or multi-discrete actions available to each mech.

    Args:
        of: the factors to mask, by default the composite actions; the masks of their K options are concatenated.
    """

    def __init__(self, sim_model: SimModel, of: Sequence[Factor] | None = None) -> None:
        options = [option for factor in of or (COMPOSITES,) for option in factor.options]
        device, roster, features = sim_model.roster.hull.device, sim_model.roster, sim_model.config.features
        self.decision_repeat = sim_model.rules.decision_repeat
        self.timer = torch.tensor(roster.timers, device=device)
        """[W] int64, the cooldown timer of each weapon."""
        hangs_on = roster.trigger[..., None] == torch.arange(len(Trigger), device=device)  # [W, N, 4]
        if not features.smoke:
            hangs_on = hangs_on & ~roster.leaves_cloud[:, None, None]
        self.hangs_on = hangs_on.transpose(0, 1)
        """[N, W, 4] bool: weapon w of mech n is on the trigger."""
        emits = roster.has_ewar & features.ewar
        self.emits = emits[:, None] & (torch.arange(len(Trigger), device=device) == int(Trigger.SECONDARY))
        """[N, 4] bool: the trigger controls an emitter, which has no cooldown."""
        needs = [[trigger in option.triggers for trigger in Trigger] for option in options]
        self.needs = torch.tensor(needs, device=device)
        """[K, 4] bool: the option holds the trigger."""

        def flags(values: Iterable[bool]) -> Tensor:
            return torch.tensor(list(values), device=device)

        is_on = flags(option.feature is None or bool(getattr(features, option.feature)) for option in options)
        needs_jets, needs_emitter = (
            flags(getattr(option, name) for option in options) for name in ("needs_jets", "needs_emitter")
        )
        can_jump, can_emit = (roster.jet > 0)[:, None], roster.has_ewar[:, None]
        no_trigger = flags(not option.triggers for option in options)
        self.free = no_trigger & is_on & (~needs_jets | can_jump) & (~needs_emitter | can_emit)
        """[N, K] bool: available to a living mech without a weapon."""
        self.idle = flags(option is factor.options[0] for factor in of or (COMPOSITES,) for option in factor.options)
        """[K] bool: True for option 0 of each factor."""
        contacts = [PREFERENCES if option.contact is None else option.contact for option in options]
        self.contact = torch.tensor(contacts, device=device) if min(contacts) < PREFERENCES else None
        """[K] int64, the contact slot that the option needs, `PREFERENCES` for none; None if no option needs one."""

    def __call__(self, state: State) -> Tensor:
        """Return which options are available to each mech in its next decision, `[B, N, K]` bool.

        A trigger is available if a weapon on this trigger is ready in any substep of the decision. Dead mechs have only
        option 0 of each factor.
        """
        # A weapon's timer counts down before the weapon fires, so a cooldown of k substeps ends in the k-th substep.
        is_ready = (state.mechs.cooldown <= self.decision_repeat)[..., self.timer]  # [B, N, W]
        can_hold = (is_ready[..., None] & self.hangs_on).any(-2) | self.emits  # [B, N, 4]
        available = self.free | (can_hold[:, :, None] & self.needs).any(-1)  # [B, N, K]
        if self.contact is not None:
            is_enemy = torch.nn.functional.pad(state.focus_slots != NO_MECH, (0, 1), value=True)
            available = available & is_enemy[..., self.contact]
        return torch.where(state.mechs.alive[..., None], available, self.idle)

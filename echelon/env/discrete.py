"""Discrete actions: a table of composite actions, and masks of the actions available to a mech."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.actions import CONTROLS, TRIGGER_COLUMNS, Act
from echelon.rules.catalog import ECCM_TRIGGER, Trigger
from echelon.sim.model import SimModel
from echelon.state import State

MOVES: dict[str, dict[Act, float]] = {
    "stand": {},
    "ahead": {Act.FORWARD: 1.0},
    "back": {Act.FORWARD: -1.0},
    "left": {Act.STRAFE: 1.0},
    "right": {Act.STRAFE: -1.0},
}
TURNS: dict[str, dict[Act, float]] = {
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
ALWAYS = {Act.PREFER_0: 1.0, Act.SORT_CLOSEST: 1.0, Act.HOSTILE_ONLY: 1.0}
"""Part of every action: contacts sorted by distance, only hostiles, and the first contact as target."""


@dataclass(frozen=True)
class CompositeAction:
    """A row of the table."""

    name: str
    controls: dict[Act, float]
    triggers: tuple[Trigger, ...] = ()
    """Triggers that the action holds; it is available if a weapon on one of them is ready in time."""
    needs_jets: bool = False


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


def action_table(comm_dim: int, device: torch.device) -> Tensor:
    """Return `[64, D]` float32: each composite action in the columns of `echelon.rules.actions`; messages are 0."""
    table = torch.zeros(len(ACTIONS), CONTROLS + comm_dim, dtype=torch.float32, device="cpu")
    for index, action in enumerate(ACTIONS):
        triggers = {TRIGGER_COLUMNS[trigger]: HELD for trigger in action.triggers}
        for column, value in (ALWAYS | action.controls | triggers).items():
            table[index, column] = value
    return table.to(device)


class ActionMasks:
    """Masks of the composite actions available to each mech."""

    def __init__(self, sim_model: SimModel) -> None:
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
        needs = [[trigger in action.triggers for trigger in Trigger] for action in ACTIONS]
        self.needs = torch.tensor(needs, device=device)
        """[64, 4] bool: the action holds the trigger."""
        no_trigger = torch.tensor([not action.triggers for action in ACTIONS], device=device)
        needs_jets = torch.tensor([action.needs_jets for action in ACTIONS], device=device)
        self.free = no_trigger & (~needs_jets | (roster.jet > 0)[:, None])
        """[N, 64] bool: always available to a living mech."""
        self.idle = torch.arange(len(ACTIONS), device=device) == 0
        """[64] bool: True for action 0."""

    def __call__(self, state: State) -> Tensor:
        """Return `[B, N, 64]` bool: the action is available to the mech in its next decision.

        A trigger is available if a weapon on it is ready in any substep of the decision. Dead mechs have only action 0.
        """
        # A weapon's timer counts down before the weapon fires, so a cooldown of k substeps ends in the k-th substep.
        is_ready = (state.mechs.cooldown <= self.decision_repeat)[..., self.timer]  # [B, N, W]
        can_hold = (is_ready[..., None] & self.hangs_on).any(-2) | self.emits  # [B, N, 4]
        can_fire = (can_hold[:, :, None] & self.needs).any(-1)  # [B, N, 64]
        return torch.where(state.mechs.alive[..., None], self.free | can_fire, self.idle)

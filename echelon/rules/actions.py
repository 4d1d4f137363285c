"""The columns of an action, and decoding of actions into orders for each mech."""

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from echelon.rules.catalog import ECCM_TRIGGER, Trigger
from echelon.rules.config import EnvConfig, FeaturesConfig
from echelon.rules.roster import Roster
from echelon.runtime import exact
from echelon.runtime.geometry import length


class Act(IntEnum):
    """Columns of an action. The columns after `HOSTILE_ONLY` are the `comm_dim` values of the mech's message."""

    FORWARD = 0
    STRAFE = 1
    VERTICAL = 2
    YAW_RATE = 3
    PRIMARY = 4
    VENT = 5
    SECONDARY = 6
    TERTIARY = 7
    SPECIAL = 8
    PREFER_0 = 9
    PREFER_1 = 10
    PREFER_2 = 11
    PREFER_3 = 12
    PREFER_4 = 13
    SORT_CLOSEST = 14
    SORT_BIGGEST = 15
    SORT_MOST_DAMAGED = 16
    HOSTILE_ONLY = 17


CONTROLS = len(Act)
"""Number of columns before the message."""
PREFERENCES = Act.PREFER_4 - Act.PREFER_0 + 1
"""Number of contact slots with a target preference."""
SORT_MODES = Act.SORT_MOST_DAMAGED - Act.SORT_CLOSEST + 1
TRIGGER_COLUMNS = {
    Trigger.PRIMARY: Act.PRIMARY,
    Trigger.SECONDARY: Act.SECONDARY,
    Trigger.TERTIARY: Act.TERTIARY,
    Trigger.SPECIAL: Act.SPECIAL,
}
"""Action column of each trigger, in order. A dict, because graphs of older torch versions cannot iterate an enum."""
NO_MECH = -1
"""Index value that means no mech."""


def layout(comm_dim: int) -> str:
    """Return the names of all action columns as text, for error messages."""
    names = ", ".join(f"{act.value} {act.name.lower()}" for act in Act)
    return f"{names}, then {comm_dim} message numbers"


@dataclass(frozen=True)
class Orders:
    """Decoded actions of all mechs for one decision. B battles, N mechs."""

    throttle: Tensor
    """[B, N, 2] forward and left, a vector of length at most 1."""
    thrust: Tensor
    """[B, N] jet thrust in 0..1; 0 for a hull without jets."""
    turn: Tensor
    """[B, N] share of the maximum yaw rate, in -1..1."""
    vent: Tensor
    """[B, N] bool: vent heat."""
    fire: Tensor
    """[B, W, N] bool: the trigger of weapon w is held; false if the mech does not carry the weapon."""
    ecm: Tensor
    """[B, N] bool: jam enemy sensors; false if the hull has no ECM."""
    eccm: Tensor
    """[B, N] bool: counter the jamming of its own team's sensors; false if the hull has no ECCM."""
    focus: Tensor
    """[B, N] int64: index of the focus target, `NO_MECH` for none."""
    sort_mode: Tensor
    """[B, N] int64 in 0 .. SORT_MODES - 1: order of the contacts."""
    hostile_only: Tensor
    """[B, N] bool: list only enemies as contacts."""
    message: Tensor
    """[B, N, comm_dim] message to the pack, values in -1..1."""
    bad: Tensor
    """[B, N] int32: number of action values that were not finite."""


def decode(action: Tensor, focus_slots: Tensor, roster: Roster, features: FeaturesConfig) -> Orders:
    """Decode actions into orders. NaN and infinity count as 0; values out of range are clamped.

    Args:
        action: values in [-1, 1], `[B, N, CONTROLS + comm_dim]` float32; not modified.
        focus_slots: index of the enemy in each of the first contact slots of the last observation,
            `[B, N, PREFERENCES]` int64; `NO_MECH` if the slot held no living enemy.
        roster: mechs of the battle.
        features: enabled systems; columns of disabled systems count as 0.
    """
    finite = action.isfinite()
    act = torch.where(finite, action, 0.0).clamp(-1.0, 1.0)

    throttle = act[..., Act.FORWARD : Act.VERTICAL]
    throttle = throttle / length(throttle).clamp_min(1.0)[..., None]

    secondary = act[..., Act.SECONDARY]
    emits = roster.has_ewar & (secondary > 0) & features.ewar
    eccm = emits & (secondary > ECCM_TRIGGER)

    look = act[..., Act.SORT_CLOSEST : CONTROLS] * features.observation_control

    return Orders(
        throttle=throttle,
        thrust=act[..., Act.VERTICAL].clamp_min(0.0) * (roster.jet > 0),
        turn=act[..., Act.YAW_RATE],
        vent=act[..., Act.VENT] > 0,
        fire=weapons_fired(act, roster, features),
        ecm=emits & ~eccm,
        eccm=eccm,
        focus=focus_target(act, focus_slots, features),
        sort_mode=look[..., :SORT_MODES].argmax(-1),
        hostile_only=look[..., SORT_MODES] > 0,
        message=act[..., CONTROLS:] * features.comms,
        bad=exact.sum(~finite, -1).int(),
    )


def weapons_fired(act: Tensor, roster: Roster, features: FeaturesConfig) -> Tensor:
    """`[B, W, N]` bool: the trigger of weapon w of mech n is held; `act [B, N, D]` holds finite values in -1..1."""
    pressed = torch.stack([act[..., column] > 0 for column in TRIGGER_COLUMNS.values()], -1)  # [B, N, 4]
    # Gather along a static table: weapon w of mech n reads the trigger that fires it.
    trigger = roster.trigger.clamp_min(0).expand(act.shape[0], -1, -1)  # [B, W, N]
    fire = pressed.transpose(1, 2).gather(1, trigger) & (roster.trigger >= 0)
    if not features.smoke:
        fire = fire & ~roster.leaves_cloud[:, None]
    return fire


def focus_target(act: Tensor, focus_slots: Tensor, features: FeaturesConfig) -> Tensor:
    """Return the mech in the contact slot with the highest preference above 0, `[B, N]` int64, or `NO_MECH`.

    Args:
        act: actions, finite values in -1..1, `[B, N, D]`.
        focus_slots: as in `decode`, `[B, N, PREFERENCES]`.
    """
    preference = act[..., Act.PREFER_0 : Act.SORT_CLOSEST] * features.target_preference
    preference = torch.where(focus_slots == NO_MECH, -torch.inf, preference)
    best, slot = preference.max(-1, keepdim=True)
    return torch.where(best > 0, focus_slots.gather(-1, slot), NO_MECH).squeeze(-1)


def idle(batch: int, roster: Roster, config: EnvConfig) -> Orders:
    """Return the orders of an all-zero action, for the initial observation of a battle."""
    shape = (batch, roster.num_mechs)
    device = roster.hull.device
    action = torch.zeros((*shape, CONTROLS + config.comm_dim), dtype=torch.float32, device=device)
    no_focus = torch.full((*shape, PREFERENCES), NO_MECH, dtype=torch.int64, device=device)
    return decode(action, no_focus, roster, config.features)

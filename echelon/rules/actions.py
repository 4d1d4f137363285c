"""The action layout, and what a policy's numbers order each mech to do."""

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
    """Columns of an action; `comm_dim` message numbers follow `HOSTILE_ONLY`."""

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
"""Numbers before the message."""
PREFERENCES = Act.PREFER_4 - Act.PREFER_0 + 1
"""Contact slots a target preference can name."""
SORT_MODES = Act.SORT_MOST_DAMAGED - Act.SORT_CLOSEST + 1
TRIGGER_COLUMNS = {
    Trigger.PRIMARY: Act.PRIMARY,
    Trigger.SECONDARY: Act.SECONDARY,
    Trigger.TERTIARY: Act.TERTIARY,
    Trigger.SPECIAL: Act.SPECIAL,
}
"""Column of every trigger, in their order: graphs of older torch iterate no enum and add nothing to its members."""
NO_MECH = -1
"""An index that names no mech."""


def layout(comm_dim: int) -> str:
    """The columns in words, for error messages."""
    names = ", ".join(f"{act.value} {act.name.lower()}" for act in Act)
    return f"{names}, then {comm_dim} message numbers"


@dataclass(frozen=True)
class Orders:
    """What every mech was told for one decision. B battles, N mechs."""

    throttle: Tensor
    """[B, N, 2] ahead and left, length at most 1."""
    thrust: Tensor
    """[B, N] jets, 0..1; 0 for a hull without jets."""
    turn: Tensor
    """[B, N] -1..1 of the yaw rate."""
    vent: Tensor
    """[B, N] bool."""
    fire: Tensor
    """[B, W, N] bool: trigger of weapon w held, false where the mech carries none."""
    ecm: Tensor
    """[B, N] bool: jam, where the hull can."""
    eccm: Tensor
    """[B, N] bool: clear one's own team's sensors, where the hull can."""
    focus: Tensor
    """[B, N] int64: index of the focus target, `NO_MECH` for none."""
    sort_mode: Tensor
    """[B, N] int64 in 0 .. SORT_MODES - 1."""
    hostile_only: Tensor
    """[B, N] bool."""
    message: Tensor
    """[B, N, comm_dim] -1..1."""
    bad: Tensor
    """[B, N] int32: action numbers that were not finite."""


def decode(action: Tensor, focus_slots: Tensor, roster: Roster, features: FeaturesConfig) -> Orders:
    """Read an action `[B, N, CONTROLS + comm_dim]`. Not finite counts as 0, out of range is clipped.

    Systems that are switched off hear nothing: their columns count as 0.

    Args:
        action: squashed numbers, nominally in [-1, 1]; never written to.
        focus_slots: `[B, N, PREFERENCES]` mech index behind each of the first contact slots of the last
            observation, `NO_MECH` where the slot held no living hostile.
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
    """`[B, W, N]` bool: the trigger of weapon w of mech n is held; `act [B, N, D]` are finite numbers in -1..1."""
    pressed = torch.stack([act[..., column] > 0 for column in TRIGGER_COLUMNS.values()], -1)  # [B, N, 4]
    # A gather along a static table: weapon w of mech n reads the trigger it hangs on.
    trigger = roster.trigger.clamp_min(0).expand(act.shape[0], -1, -1)  # [B, W, N]
    fire = pressed.transpose(1, 2).gather(1, trigger) & (roster.trigger >= 0)
    if not features.smoke:
        fire = fire & ~roster.leaves_cloud[:, None]
    return fire


def focus_target(act: Tensor, focus_slots: Tensor, features: FeaturesConfig) -> Tensor:
    """`[B, N]` int64: the mech behind the slot most preferred, of those preferred above 0, or `NO_MECH`.

    Args:
        act: `[B, N, D]` finite numbers in -1..1.
        focus_slots: `[B, N, PREFERENCES]` as in `decode`.
    """
    preference = act[..., Act.PREFER_0 : Act.SORT_CLOSEST] * features.target_preference
    preference = torch.where(focus_slots == NO_MECH, -torch.inf, preference)
    best, slot = preference.max(-1, keepdim=True)
    return torch.where(best > 0, focus_slots.gather(-1, slot), NO_MECH).squeeze(-1)


def idle(batch: int, roster: Roster, config: EnvConfig) -> Orders:
    """The orders of mechs that were told nothing: what the first observation of a battle is built with."""
    shape = (batch, roster.num_mechs)
    device = roster.hull.device
    action = torch.zeros((*shape, CONTROLS + config.comm_dim), dtype=torch.float32, device=device)
    no_focus = torch.full((*shape, PREFERENCES), NO_MECH, dtype=torch.int64, device=device)
    return decode(action, no_focus, roster, config.features)

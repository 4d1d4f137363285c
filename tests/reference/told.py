"""Decode the action of one mech into its orders."""

import math

from first_catalog import HULLS

from echelon.rules.actions import Act
from echelon.rules.catalog import Hull, Trigger
from echelon.rules.config import FeaturesConfig

from .battle import Orders
from .hair import weigh

TRIGGERS = {
    Trigger.PRIMARY: Act.PRIMARY,
    Trigger.SECONDARY: Act.SECONDARY,
    Trigger.TERTIARY: Act.TERTIARY,
    Trigger.SPECIAL: Act.SPECIAL,
}
PREFERENCES = range(Act.PREFER_0, Act.PREFER_4 + 1)


def read(action: list[float], slots: list[int], hull: Hull, features: FeaturesConfig) -> Orders:
    """Decode one action. NaN and infinity become 0, values are clamped. `slots`: enemy of each first contact, or -1."""
    said = [max(-1.0, min(1.0, number)) if math.isfinite(number) else 0.0 for number in action]
    throttle = [said[Act.FORWARD], said[Act.STRAFE]]
    norm = math.hypot(*throttle)
    if norm > 1:
        throttle = [x / norm for x in throttle]
    secondary = said[Act.SECONDARY] if HULLS[hull].ewar and features.ewar else 0.0
    weigh(secondary, 0.5, "ECCM trigger")
    return Orders(
        throttle=throttle,
        thrust=max(0.0, said[Act.VERTICAL]) if HULLS[hull].jet_vox_per_s2 > 0 else 0.0,
        turn=said[Act.YAW_RATE],
        vent=said[Act.VENT] > 0,
        held={trigger: said[column] > 0 for trigger, column in TRIGGERS.items()},
        ecm=0 < secondary <= 0.5,
        eccm=secondary > 0.5,
        focus=preferred([said[column] for column in PREFERENCES], slots) if features.target_preference else None,
    )


def preferred(wishes: list[float], slots: list[int]) -> int | None:
    """Return the argmax over slots with a living enemy; ties go to the first, None for a value <= 0."""
    best, focus = 0.0, None
    for wish, slot in zip(wishes, slots, strict=True):
        if slot >= 0 and wish > best:
            best, focus = wish, slot
    return focus

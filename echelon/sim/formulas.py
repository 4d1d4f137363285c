"""The arithmetic of one mech, shot or pair, written once for both forms of a decision.

Functions take numbers and tensors alike: the dense systems give them tensors, the loops the float32 of a record. So
they neither branch nor compute with a number of their own, of which numba would make a float64: `one` and `half` are
arguments, and flags are 0 or 1.
"""

from typing import Any

Number = Any
"""A float, a float32 of a loop, or a tensor."""


def sink_per_s(base_per_s: Number, vents: Number, vent_factor: Number, one: Number) -> Number:
    """Heat points that a mech loses a second, `vent_factor` times more if it vents."""
    return base_per_s * (one + vent_factor * vents)


def jet_heat(thrust: Number, heat_per_s: Number, dt_s: Number) -> Number:
    """Heat points of jets in a substep."""
    return thrust * heat_per_s * dt_s


def emission_heat_per_s(ecm: Number, eccm: Number, ecm_heat_per_s: Number, eccm_heat_per_s: Number) -> Number:
    """Heat points a second of active emitters."""
    return ecm_heat_per_s * ecm + eccm_heat_per_s * eccm


def ground_heat_per_s(
    lava: Number, debris: Number, water: Number, lava_per_s: Number, debris_share: Number, water_per_s: Number
) -> Number:
    """Heat points a second of what a mech stands on; burning debris is `debris_share` of lava."""
    return lava_per_s * (lava + debris_share * debris) + water_per_s * water


def ground_damage_per_s(lava: Number, debris: Number, lava_per_s: Number, debris_share: Number) -> Number:
    """hp a second of what a mech stands on; burning debris is `debris_share` of lava."""
    return lava_per_s * (lava + debris_share * debris)


def unsteadiness(
    legged: Number,
    walks: Number,
    suppressed: Number,
    legged_share: Number,
    walking_share: Number,
    suppressed_share: Number,
) -> Number:
    """Share of the regeneration of stability that is lost."""
    return legged_share * legged + walking_share * walks + suppressed_share * suppressed


def turned(yaw: Number, turn: Number, yaw_rate: Number, dt_s: Number) -> Number:
    """rad after a substep, before it is wrapped."""
    return yaw + turn * yaw_rate * dt_s


def pace(max_speed: Number, leg_factor: Number, water_factor: Number) -> Number:
    """vox/s of a full throttle."""
    return max_speed * leg_factor * water_factor


def lift(thrust: Number, jet: Number, leg_factor: Number) -> Number:
    """vox/s² upward of jets."""
    return thrust * jet * leg_factor


def climb_rate(vel_z: Number, lift: Number, gravity: Number, dt_s: Number) -> Number:
    """vox/s upward after a substep of jets and gravity."""
    return vel_z + (lift - gravity) * dt_s


def homed(vel: Number, wanted: Number, keep: Number, turn: Number) -> Number:
    """Velocity along an axis of a shot that turns to its target by a share `turn`, and keeps the rest."""
    return keep * vel + turn * wanted


def drop(flight_s: Number, half_gravity: Number) -> Number:
    """vox that a ballistic shot falls: g t² / 2."""
    return half_gravity * (flight_s * flight_s)


def beam_height(middle: Number, luck: Number, half_height: Number, spread: Number, one: Number) -> Number:
    """z at which a beam hits a hull, by a number in 0..1; `spread` of the half height about its middle."""
    return middle + (luck + luck - one) * spread * half_height


def knee_height(middle: Number, half_height: Number, knee: Number) -> Number:
    """z below which a hit is one of the legs."""
    return middle - half_height * knee


def owed_to_paint(dealt: Number, marked: Number) -> Number:
    """hp of the damage dealt that are owed to paint, which multiplied it by `marked`."""
    return dealt - dealt / marked


def sensor_quality(jam: Number, clear: Number, jam_loss: Number, eccm_gain: Number, one: Number) -> Number:
    """Quality of sensors, before it is bounded, by the strongest ECM and the strongest ECCM at a mech."""
    return one - jam_loss * jam + eccm_gain * clear


def projects_between(a: Number, b: Number, apart: Number, radius_sq: Number, half: Number) -> Number:
    """Whether a cloud beside the segment between two mechs is within its radius of it.

    With a, b and d the squared lengths from the cloud to the first mech, to the second, and between the two, the cloud
    projects inside the segment where s = (a + d - b) / 2 is within 0..d, and is then a - s² / d away, squared.
    """
    projection = half * (a + apart - b)
    return (projection > 0) & (projection < apart) & ((a - radius_sq) * apart < projection * projection)


def loudness(noise: Number, distance: Number, cover: Number, one: Number) -> Number:
    """How loud a noise is some vox away, times a factor for what lies between."""
    return noise / (one + distance * distance) * cover

"""Formulas for one mech, shot or pair, shared by dense torch code and numba loops. Dense code passes tensors, and loops
pass float32 scalars. Therefore these functions have no branches and no numeric literals, because numba would make a
literal a float64. Constants such as `one` and `half` are arguments, and flags are 0 or 1.
"""

from typing import Any

Number = Any
"""A float, a float32 of a loop, or a tensor."""


def sink_per_s(base_per_s: Number, vents: Number, vent_factor: Number, one: Number) -> Number:
    """Return the heat points lost per second, times 1 + `vent_factor` if the mech vents."""
    return base_per_s * (one + vent_factor * vents)


def jet_heat(thrust: Number, heat_per_s: Number, dt_s: Number) -> Number:
    """Return the heat points that jets add in a substep."""
    return thrust * heat_per_s * dt_s


def emission_heat_per_s(ecm: Number, eccm: Number, ecm_heat_per_s: Number, eccm_heat_per_s: Number) -> Number:
    """Return the heat points per second of active emitters."""
    return ecm_heat_per_s * ecm + eccm_heat_per_s * eccm


def ground_heat_per_s(
    lava: Number, debris: Number, water: Number, lava_per_s: Number, debris_share: Number, water_per_s: Number
) -> Number:
    """Return the heat points per second of the ground; burning debris counts as `debris_share` of lava."""
    return lava_per_s * (lava + debris_share * debris) + water_per_s * water


def ground_damage_per_s(lava: Number, debris: Number, lava_per_s: Number, debris_share: Number) -> Number:
    """Return the damage of the ground in hp per second; burning debris counts as `debris_share` of lava."""
    return lava_per_s * (lava + debris_share * debris)


def unsteadiness(
    legged: Number,
    walks: Number,
    suppressed: Number,
    legged_share: Number,
    walking_share: Number,
    suppressed_share: Number,
) -> Number:
    """Return the share of stability regeneration that a mech loses by destroyed legs, walking or suppression."""
    return legged_share * legged + walking_share * walks + suppressed_share * suppressed


def turned(yaw: Number, turn: Number, yaw_rate: Number, dt_s: Number) -> Number:
    """Return the yaw after a substep in rad, not wrapped."""
    return yaw + turn * yaw_rate * dt_s


def pace(max_speed: Number, leg_factor: Number, water_factor: Number) -> Number:
    """Return the speed at full throttle in vox/s."""
    return max_speed * leg_factor * water_factor


def lift(thrust: Number, jet: Number, leg_factor: Number) -> Number:
    """Return the upward acceleration of jets in vox/s²."""
    return thrust * jet * leg_factor


def climb_rate(vel_z: Number, lift: Number, gravity: Number, dt_s: Number) -> Number:
    """Return the upward velocity in vox/s after a substep of jets and gravity."""
    return vel_z + (lift - gravity) * dt_s


def homed(vel: Number, wanted: Number, keep: Number, turn: Number) -> Number:
    """Return one component of a homing shot's velocity, which is `keep` times the old one plus `turn` times the wanted
    one."""
    return keep * vel + turn * wanted


def drop(flight_s: Number, half_gravity: Number) -> Number:
    """Return the drop of a ballistic shot in vox: g t² / 2."""
    return half_gravity * (flight_s * flight_s)


def beam_height(middle: Number, luck: Number, half_height: Number, spread: Number, one: Number) -> Number:
    """Return the height z at which a beam hits a hull, `middle` ± `spread` half heights, for a sample `luck` in
    0..1."""
    return middle + (luck + luck - one) * spread * half_height


def knee_height(middle: Number, half_height: Number, knee: Number) -> Number:
    """Return the z below which a hit is a leg hit."""
    return middle - half_height * knee


def damage_by_paint(dealt: Number, factor: Number) -> Number:
    """Return the part of the damage `dealt` that paint added by multiplying the damage by `factor`."""
    return dealt - dealt / factor


def sensor_quality(jam: Number, clear: Number, jam_loss: Number, eccm_gain: Number, one: Number) -> Number:
    """Return the unclamped sensor quality, given the strongest ECM (`jam`) and ECCM (`clear`) at a mech."""
    return one - jam_loss * jam + eccm_gain * clear


def projects_between(a: Number, b: Number, apart: Number, radius_sq: Number, half: Number) -> Number:
    """Return True if a cloud projects onto the segment between two mechs and lies within its radius of the segment.

    a, b and d = `apart` are squared distances: cloud to first mech, cloud to second mech, and between the mechs. The
    cloud projects inside the segment if s = (a + d - b) / 2 is in 0..d. The squared distance from cloud to segment is
    then a - s² / d.
    """
    projection = half * (a + apart - b)
    return (projection > 0) & (projection < apart) & ((a - radius_sq) * apart < projection * projection)


def loudness(noise: Number, distance: Number, cover: Number, one: Number) -> Number:
    """Return the loudness of a noise at a distance in vox, times the factor `cover` of obstacles in between."""
    return noise / (one + distance * distance) * cover


def approach(alive: Number, before: Number, after: Number, gamma: Number) -> Number:
    """Return the shaping reward of a living mech whose distance to the zone changed from `before` to `after`."""
    return alive * (before - gamma * after)


def credited(factor: Number, before: Number, after: Number) -> Number:
    """Return `factor` times the increase of a count in a decision."""
    return factor * (after - before)


def mixed(own: Number, mean: Number, own_share: Number, mean_share: Number) -> Number:
    """Return a mech's reward: `own_share` of its own plus `mean_share` of the mean of its team."""
    return own_share * own + mean_share * mean

"""Running and shut-down mechs, lines of sight and sensor quality."""

from first_catalog import CATALOG

from .battle import Battle, Cloud, Mech, Orders
from .hair import below, weigh
from .march import OPAQUE, is_open
from .vectors import Vector, add, apart, dot, minus, times


def is_shut_down(mech: Mech) -> bool:
    """Return True for heat > cap."""
    return below(mech.spec.heat_cap, mech.heat, "heat cap")


def is_running(mech: Mech) -> bool:
    """Return True for a mech that is alive, not shut down and not fallen."""
    return mech.alive and not is_shut_down(mech) and mech.fallen == 0


def is_in_smoke(cloud: Cloud, start: Vector, end: Vector) -> bool:
    """Return True if a cloud lies within its radius of a segment."""
    way = minus(end, start)
    long = dot(way, way)
    t = dot(minus(cloud.pos, start), way) / long if long > 0 else 0.0
    nearest = add(start, times(way, max(0.0, min(1.0, t))))
    return below(apart(cloud.pos, nearest), CATALOG.cloud_vox, "smoke")


def has_clear_line(battle: Battle, one: Mech, other: Mech) -> bool:
    """Return True if no opaque voxel lies strictly between the end cells, and no cloud on the segment."""
    smoke = [cloud for cloud in battle.clouds if cloud.ttl > 0] if battle.features.smoke else []
    if any(is_in_smoke(cloud, one.pos, other.pos) for cloud in smoke):
        return False
    return is_open(battle.ground, one.pos, other.pos, OPAQUE)


def sensor_quality(battle: Battle, orders: list[Orders], mech: Mech) -> float:
    """Return clip(1 - 0.85 jam + 0.65 eccm, 0.25, 1.5); 0.25 for a mech that is shut down or dead."""
    if not mech.alive or is_shut_down(mech):
        return 0.25
    jam = cleared = 0.0
    for other in battle.mechs:
        if other is mech or not is_running(other):
            continue
        felt = max(0.0, 1 - apart(mech.pos, other.pos) / CATALOG.ewar_vox)
        if orders[other.index].ecm and other.is_enemy(mech):
            jam = max(jam, felt)
        if orders[other.index].eccm and not other.is_enemy(mech):
            cleared = max(cleared, felt)
    quality = 1 - 0.85 * jam + 0.65 * cleared
    weigh(quality, 0.7, "sensor quality")
    return max(0.25, min(1.5, quality))

"""Clouds of smoke. See `sim/smoke.py`."""

from echelon.runtime.jit import device_function
from echelon.sim.loops.records import Clouds, Impacts, Rules


@device_function
def spawn_clouds(impacts: Impacts, flew: int, clouds: Clouds, rules: Rules) -> None:
    """Numba version of `smoke.spawn_clouds`."""
    for k in range(flew):
        impact = impacts[k]
        if impact.ends and rules.smokes and rules.first_launching <= impact.slot < rules.last_launching:
            first_slot = (impact.slot - rules.first_launching) * rules.clouds_each
            for slot in range(first_slot, first_slot + rules.clouds_each):
                cloud = clouds[slot]
                if cloud.ttl == 0:
                    cloud.pos[0], cloud.pos[1], cloud.pos[2] = impact.point[0], impact.point[1], impact.point[2]
                    cloud.ttl = rules.cloud_substeps
                    break

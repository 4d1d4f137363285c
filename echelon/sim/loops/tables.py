"""Build the constants of a battle as NumPy records."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from echelon.rules.actions import TRIGGER_COLUMNS
from echelon.rules.catalog import (
    BEAM_SPREAD,
    DEBRIS_DAMAGE,
    DEBRIS_HEAT,
    ECCM_TRIGGER,
    HOMING_PER_S,
    MISSILE_LOFT,
    MISSILE_RACK_VOX,
    Material,
    Trigger,
)
from echelon.rules.specs import MAX_WEAPONS
from echelon.runtime.noise import Stream
from echelon.sim.loops.records import HULL, RULES, SLOT, WEAPON
from echelon.sim.model import SimModel
from echelon.sim.shots import SKIN_VOX

MATERIALS = Material.AIR, Material.LAVA, Material.WATER, Material.DEBRIS_FIELD, Material.SOLID_DEBRIS
STREAMS = Stream.BEAM_HEIGHT, Stream.PRIORITY, Stream.AMS, Stream.WRECK


class Tables(NamedTuple):
    """The constants of a battle."""

    rules: Any
    """[1] RULES."""
    hulls: Any
    """[N] HULL."""
    weapons: Any
    """[W] WEAPON."""
    slots: Any
    """[S] SLOT."""


def build_tables(sim_model: SimModel) -> Tables:
    """Return the constants of `sim_model` as records on the host."""
    shots = sim_model.roster.shots
    return Tables(
        rules=rules_record(sim_model),
        hulls=hull_records(sim_model),
        weapons=weapon_records(sim_model),
        slots=filled(
            SLOT, shots.count, shooter=shots.shooter, weapon=shots.weapon.argmax(-1), planes=sim_model.leaf_reach
        ),
    )


def filled(kind: np.dtype, count: int, **columns: Any) -> Any:
    """Return `count` records; `columns` has a scalar or a sequence for each field.

    Raises:
        KeyError: if `columns` lacks a field or has an unknown field.
    """
    rows = np.zeros(count, kind)
    if columns.keys() != set(kind.names or ()):
        raise KeyError(f"fields differ: {sorted(columns.keys() ^ set(kind.names or ()))}")
    for name, values in columns.items():
        rows[name] = values.numpy() if isinstance(values, Tensor) else values
    return rows


def rules_record(sim_model: SimModel) -> Any:
    """Return the `RULES` record of a battle. The function is long, because it lists every constant."""
    rules, catalog, roster, features = sim_model.rules, sim_model.catalog, sim_model.roster, sim_model.config.features
    size = sim_model.config.world.size_x, sim_model.config.world.size_y, sim_model.config.world.size_z
    burst_vox = max(spec.splash_vox for spec in roster.weapons)

    def planes(reach_vox: float) -> int:
        return int(reach_vox) + 1

    columns = {name: getattr(rules, name) for name in RULES.names or () if hasattr(rules, name)}
    shared = {name: getattr(catalog, name) for name in RULES.names or () if hasattr(catalog, name)}
    spans = {name: getattr(roster, name) for name in ("interceptable", "splashing", "launching")}
    return filled(
        RULES,
        1,
        **columns,
        **shared,
        gravity=rules.gravity_vox_per_s2,
        half_gravity=0.5 * rules.gravity_vox_per_s2,
        fall=rules.gravity_vox_per_s2 * rules.dt_s,
        debris_heat=DEBRIS_HEAT,
        debris_damage=DEBRIS_DAMAGE,
        knee=1 - 2 * rules.leg_height,
        line_vox=roster.guns.line_vox,
        beam_spread=BEAM_SPREAD,
        missile_loft=MISSILE_LOFT,
        missile_rack_vox=MISSILE_RACK_VOX,
        turn=HOMING_PER_S * rules.dt_s,
        keep=1 - HOMING_PER_S * rules.dt_s,
        skin_vox=SKIN_VOX,
        eccm_trigger=ECCM_TRIGGER,
        fall_substeps=rules.substeps(rules.fall_s),
        alarm_substeps=rules.substeps(rules.under_fire_s),
        paint_substeps=rules.substeps(catalog.paint_s),
        cloud_substeps=rules.substeps(catalog.cloud_s),
        ams_substeps=rules.substeps(catalog.ams_cooldown_s),
        ams_timer=roster.ams_timer,
        cloud_vox_sq=catalog.cloud_vox**2,
        clouds_each=roster.clouds_each,
        shot_planes=planes(sim_model.reach_vox),
        sight_planes=planes(roster.guns.line_vox),
        burst_planes=planes(burst_vox),
        size=size,
        material_hp=sim_model.material_hp.numpy(),
        num_timers=roster.num_timers,
        num_weapons=len(roster.weapons),
        destroys=features.destruction,
        smokes=features.smoke,
        tears=len(sim_model.leaf_rounds) > 0,
        **{name: getattr(features, name) for name in ("ewar", "comms", "target_preference", "observation_control")},
        **{f"first_{name}": span.start for name, span in spans.items()},
        **{f"last_{name}": span.stop for name, span in spans.items()},
        **{material.name.lower(): int(material) for material in MATERIALS},
        **{f"{stream.name.lower()}_stream": int(stream) for stream in STREAMS},
    )


def hull_records(sim_model: SimModel) -> Any:
    """Return the `HULL` record of each mech."""
    roster = sim_model.roster
    has_ams = torch.zeros(roster.num_mechs, dtype=torch.bool, device="cpu")
    has_ams[roster.ams] = True
    columns = {name: getattr(roster, name) for name in HULL.names or () if hasattr(roster, name)}
    return filled(
        HULL,
        roster.num_mechs,
        **columns,
        muzzle_z=roster.muzzle[:, 2],
        has_ams=has_ams,
        first_slot=first_slots(sim_model),
        trigger_column=trigger_columns(sim_model),
    )


def trigger_columns(sim_model: SimModel) -> Any:
    """Return the action column that fires each weapon of each mech, `[N, W]` int32, -1 for none."""
    roster = sim_model.roster
    columns = np.full((roster.num_mechs, MAX_WEAPONS), -1, np.int32)
    column_of = np.array([TRIGGER_COLUMNS[trigger] for trigger in Trigger])
    trigger = roster.trigger.t().numpy()
    fires = trigger >= 0
    if not sim_model.config.features.smoke:
        fires &= ~roster.leaves_cloud.numpy()
    columns[:, : trigger.shape[1]] = np.where(fires, column_of[trigger], -1)
    return columns


def weapon_records(sim_model: SimModel) -> Any:
    """Return the `WEAPON` record of each weapon of the catalog."""
    roster, rules, guns = sim_model.roster, sim_model.rules, sim_model.roster.guns
    specs = roster.weapons
    shots = [
        0 if spec.is_beam else roster.shots.span[w].stop - roster.shots.span[w].start for w, spec in enumerate(specs)
    ]
    damage, scale = (
        np.array([getattr(spec, name) for spec in specs], np.float32) for name in ("damage", "splash_scale")
    )

    def each(name: str) -> list[Any]:
        return [getattr(spec, name) for spec in specs]

    return filled(
        WEAPON,
        len(specs),
        timer=roster.timers,
        cooldown=[rules.substeps(spec.cooldown_s) for spec in specs],
        damage=damage,
        splash_damage=damage * scale,
        suppress=[rules.substeps(spec.suppress_s) for spec in specs],
        **{name: each(name) for name in ("self_heat", "stability", "target_heat", "splash_vox", "range_vox")},
        arc_cos=guns.arc_cos.flatten(),
        focus_arc_cos=guns.focus_arc_cos.flatten(),
        speed=each("speed_vox_per_s"),
        lifetime=[0 if spec.is_beam else rules.substeps(spec.lifetime_s) for spec in specs],
        lifetime_s=[0 if spec.is_beam else spec.lifetime_s for spec in specs],
        needs_target=guns.needs_target.flatten(),
        needs_line=guns.needs_line.flatten(),
        needs_lock=guns.needs_lock.flatten(),
        focus_only=guns.focus_only.flatten(),
        is_beam=each("is_beam"),
        paints=[w in roster.painters for w in range(len(specs))],
        is_homing=[spec.guidance == "homing" for spec in specs],
        is_ballistic=[spec.guidance == "ballistic" for spec in specs],
        leaves_cloud=[spec.effect == "cloud" for spec in specs],
        slots=[count // max(len(guns.carriers[w]), 1) for w, count in enumerate(shots)],
    )


def first_slots(sim_model: SimModel) -> Any:
    """Return the first shot slot of each weapon of each mech, `[N, W]` int32, 0 for none."""
    roster = sim_model.roster
    first = np.zeros((roster.num_mechs, MAX_WEAPONS), np.int32)
    for weapon in roster.shells:
        span, carriers = roster.shots.span[weapon], roster.guns.carriers[weapon]
        if len(carriers):
            first[carriers.numpy(), weapon] = range(span.start, span.stop, (span.stop - span.start) // len(carriers))
    return first

"""NumPy record types that loops read and write: mechs, shots, clouds, orders and the constants of a battle.

A record stores all values of one mech side by side. Fields have the names of `State`, `Orders` and `Roster`; see there
for their meaning. Fields with one value per weapon or timer have the maximum length for any catalog, so that loops are
compiled once for all catalogs. Values per pack, pair or slot are arrays of records, so that loops are compiled once for
all rosters.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from echelon.rules.catalog import Catalog, Material
from echelon.rules.physics import RulesConfig
from echelon.rules.specs import MAX_TIMERS, MAX_WEAPONS
from echelon.runtime.limits import hints_of

W, T = MAX_WEAPONS, MAX_TIMERS

# Loop arguments (records and arrays of records) have the type Any, because NumPy does not type record fields.
BattleRow: TypeAlias = Any
Mech: TypeAlias = Any
Hull: TypeAlias = Any
Weapon: TypeAlias = Any
Shot: TypeAlias = Any
Impact: TypeAlias = Any
Pull: TypeAlias = Any
Order: TypeAlias = Any
TallyRow: TypeAlias = Any
Rules: TypeAlias = Any
Mechs: TypeAlias = Any  # [N] MECH
Hulls: TypeAlias = Any  # [N] HULL
Weapons: TypeAlias = Any  # [W] WEAPON
Tally: TypeAlias = Any  # [N] TALLY
Orders: TypeAlias = Any  # [N] ORDER
PaintRow: TypeAlias = Any  # [P] PAINT of one mech
Paint: TypeAlias = Any  # [N, P] PAINT
Pairs: TypeAlias = Any  # [N, N] PAIR
Shots: TypeAlias = Any  # [S] SHOT
Slots: TypeAlias = Any  # [S] SLOT
Impacts: TypeAlias = Any  # [S] IMPACT
Pulls: TypeAlias = Any  # [W * N] PULL
Clouds: TypeAlias = Any  # [C] CLOUD
Columns: TypeAlias = Any  # [Y, X] int32, bit z set if voxel z is solid or opaque; [Y * X] for names with `flat`


def record(
    floats: str = "",
    doubles: str = "",
    ints: str = "",
    indices: str = "",
    longs: str = "",
    octets: str = "",
    flags: str = "",
) -> np.dtype:
    """Return a record type. Each string lists fields of one type, as `name`, or `name:n` for an array of n numbers.

    Indices are unsigned, because numba checks signed indices for being negative. In numba, a boolean field of a record
    cannot be an array.
    """
    wide: dict[Any, str] = {np.float64: doubles, np.int64: longs}
    narrow: dict[Any, str] = {np.float32: floats, np.int32: ints, np.uint32: indices}
    kinds = {**wide, **narrow, np.uint8: octets, np.bool_: flags}
    fields: list[Any] = []
    for kind, names in kinds.items():
        for name in names.split():
            name, _, count = name.partition(":")
            fields.append((name, kind, int(count)) if count else (name, kind))
    return np.dtype(fields, align=True)


MECH = record(
    floats="pos:3 vel:3 yaw hp leg_hp heat stability hit_from:2 facing:2 priority next_pos:3 quality"
    f" spent_heat suppress dealt_by:{W}",
    ints="fallen suppressed under_fire neighbours stands_in stands_on column_bits first_cell:3 last_cell:3"
    f" cooldown:{T} aims:{W}",
    longs="columns",
    flags="wrecked vents fires was_shut_down stopped stays is_hit is_harmed",
    doubles="hit_stability hit_heat from_x from_y splash_x splash_y damage_done assist_hp paint_damage"
    f" direct_by:{W} splash_by:{W}",
)
"""A mech: the fields of `state.Mechs`, and values that are valid within a substep.

- Sums of `arithmetic.on_grid` over the hits of a phase: `hit_*`; `from_*` and `splash_*`, vectors towards the origins
  of direct hits and explosions; `direct_by` and `splash_by`, hull damage by enemy weapon.
- `dealt_by` is `damage.Dealt.by_weapon`. `damage_done`, `assist_hp` and `paint_damage` are credits of the mech.
- Caches, valid until the terrain changes; keys count from 1, and 0 means empty. `stands_in` is the voxel index and
  `stands_on` its material. `columns` identifies the columns under the hull, and `column_bits` is their bitwise or.
- `first_cell` and `last_cell` are the cells that the hull spans along each axis.
"""
PAINT = record(ints="left weapon", longs="by marker")
"""Paint of a pack on a mech. `left`: substeps left. `by`: the last painter. `weapon`: the weapon that painted last in
this substep. `marker`: the painter at the time when damage is dealt, -1 for none."""
PAIR = record(floats="dealt", doubles="direct splash legs")
"""Damage that the column's mech dealt to the row's mech in a substep. `direct`, `splash`, `legs`: sums of a phase of
hull damage by direct hits, by explosions, and of leg damage, all without paint. `dealt`: `damage.Dealt.by_shooter`,
which is 0 between decisions."""
SHOT = record(floats="pos:3 vel:3", ints="ttl", longs="target", flags="downed")
"""A shot slot; `downed` is set while an AMS shoots the shot down in this substep."""
CLOUD = record(floats="pos:3", ints="ttl")
TALLY = record(
    floats="damage kills team_kills assists assist_hp paint_damage intercepts intercepted_damage falls"
    f" legs_lost shutdowns vent_s zone_s bad_actions shots:{W} hits:{W} taken:{W} killed_by:{W}"
)
ORDER = record(
    floats="throttle:2 thrust turn", longs="focus sort_mode", octets=f"fire:{W}", flags="vent ecm eccm hostile_only"
)
BATTLE = record(floats="score:2 control:2", ints="num_active_clouds num_emitters", longs="seed tick map_id")
"""Values of a battle that belong to no mech or shot. `num_active_clouds` and `num_emitters` are the lengths of lists in
`Scratch`."""
IMPACT = record(
    floats="start:3 point:3 direction:3", indices="slot shooter weapon target", flags="ends on_mech on_voxel on_floor"
)
"""The flight of one shot in a substep; see `shots.Impacts`."""
PULL = record(indices="weapon shooter target", flags="aimed")
"""A weapon that fires; see `firing.Pulls`."""

HULL = record(
    floats="half_size:3 radius muzzle_z max_speed yaw_rate jet hp heat_cap heat_sink_per_s wreck_chance"
    " tonnage noise_factor",
    ints=f"trigger_column:{W}",
    indices=f"pack hull first_slot:{W}",
    flags="is_red has_ams has_ewar",
)
"""Constants of a mech from the roster. `first_slot`: first shot slot of each weapon. `trigger_column`: action column
that fires each weapon, -1 for none."""
WEAPON = record(
    floats="self_heat damage stability target_heat suppress splash_damage splash_vox arc_cos focus_arc_cos"
    " range_vox speed lifetime_s",
    ints="cooldown lifetime slots",
    indices="timer",
    flags="needs_target needs_line needs_lock focus_only is_beam paints is_homing is_ballistic leaves_cloud",
)
"""A weapon of the catalog; `slots` is its number of shot slots per mech."""
SLOT = record(ints="planes", indices="shooter weapon")
"""A shot slot; `planes` is the maximum number of grid planes of an axis that its shot crosses in a substep."""
RULES = record(
    floats=f"{' '.join(name for kind in (RulesConfig, Catalog) for name, t in hints_of(kind).items() if t is float)}"
    " gravity half_gravity fall debris_heat debris_damage knee cloud_vox_sq line_vox"
    f" beam_spread missile_loft missile_rack_vox turn keep skin_vox eccm_trigger material_hp:{len(Material)}",
    ints="fall_substeps alarm_substeps paint_substeps cloud_substeps ams_substeps clouds_each"
    " shot_planes sight_planes burst_planes size:3 decision_repeat num_timers num_weapons"
    " first_interceptable last_interceptable first_splashing last_splashing first_launching"
    " last_launching air lava water debris_field solid_debris beam_height_stream priority_stream"
    " ams_stream wreck_stream",
    indices="ams_timer",
    flags="destroys smokes tears ewar comms target_preference observation_control",
)
"""Constants of the rules, the catalog as a whole and the roster, and values derived from them."""


class Ground(NamedTuple):
    """The current terrain of a battle, and its original map; `[Y, X]` bit columns unless stated otherwise."""

    solid: Any
    opaque: Any
    rubble: Any
    damage: Any
    """[Z, Y, X] uint8."""
    material: Any
    """[Z, Y, X] uint8, material of the original map."""
    was_solid: Any
    was_opaque: Any
    hazard: Any


class Scratch(NamedTuple):
    """Scratch memory for one battle during a decision."""

    records: Any
    """`packing.Records` of the battle."""
    orders: Any
    """[N] ORDER."""
    pairs: Any
    """[N, N] PAIR."""
    lines: Any
    """[N * N] int8: 1 if a mech and a mech of higher index have a clear line in this substep, -1 if not yet computed.
    The index is low * N + high."""
    active_clouds: Any
    """[C] int32: the first `num_active_clouds` entries are the slots of active clouds."""
    emitters: Any
    """[N] int32: the first `num_emitters` entries are the mechs that emit."""
    boxes: Any
    """A `movement.Boxes`."""
    pulls: Any
    """[W * N] PULL."""
    impacts: Any
    """[S] IMPACT."""
    viewers: Any
    """[N] VIEWER."""
    by_mech: Any
    """A `sensing.MechArrays`."""
    sights: Any
    """A `sensing.Sights`."""
    ranking: Any
    """A `sensing.Ranking`."""
    line: Any
    """A `sight.Line`."""
    around: Any
    """A `local_map.Surroundings`."""

"""What loops read and write: NumPy records of mechs, shots, clouds and orders, and of the constants of a battle.

A record holds all that a battle knows of one mech side by side. Fields bear the names of `State`, `Orders` and
`Roster`, whose docstrings tell what they are. Fields by weapon or timer have room for as many as a catalog may have, so
that loops are compiled once for all catalogs; what has a number for each pack, pair or slot is an array of records, so
that they are compiled once for all rosters.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from echelon.rules.catalog import Catalog, Material
from echelon.rules.physics import RulesConfig
from echelon.rules.specs import MAX_TIMERS, MAX_WEAPONS
from echelon.runtime.limits import hints_of

W, T = MAX_WEAPONS, MAX_TIMERS

# Types of the arguments of loops: a record below, or an array of them. NumPy does not type the fields of a record.
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
Columns: TypeAlias = Any  # [Y, X] int32, bit z set where a voxel blocks; [Y * X] where they are called flat


def record(
    floats: str = "",
    doubles: str = "",
    ints: str = "",
    indices: str = "",
    longs: str = "",
    octets: str = "",
    flags: str = "",
) -> np.dtype:
    """A record of fields by type, each a name, or `name:n` for n numbers; numba has no field of several flags.

    Indices are unsigned: wherever a signed one is used, numba asks whether it counts from the end.
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
"""A mech: `state.Mechs`, and what is known of it within a substep. Of the hits of a phase, as sums of
`arithmetic.on_grid`: `hit_*`, `from_*` and `splash_*` (where they came from), hull damage by weapon of the enemy
(`direct_by`, `splash_by`). `dealt_by` is `damage.Dealt.by_weapon`; `damage_done`, `assist_hp` and `paint_damage` are
what it is credited with. What it knows of the ground, until that changes: the voxel that it stands in, counted from 1,
and what that is made of (`stands_in`, `stands_on`), the `columns` that its hull was last looked up in, a number from 1
on, and the bits that are set in any of them; `first_cell` and `last_cell` are what its hull spans along each axis."""
PAINT = record(ints="left weapon", longs="by marker")
"""A mech and a pack: substeps that paint is left, and by whom; within a substep, by whom when damage was dealt, -1
for nobody, and the weapon that painted last."""
PAIR = record(floats="dealt", doubles="direct splash legs")
"""Within a substep, what the mech of the column did to that of the row: hull damage by direct hits and by explosions,
before paint, and leg damage, as sums of a phase, and `damage.Dealt.by_shooter`, which is 0 between decisions."""
SHOT = record(floats="pos:3 vel:3", ints="ttl", longs="target", flags="downed")
"""A shot slot, and whether an AMS shoots the shot down in this substep."""
CLOUD = record(floats="pos:3", ints="ttl")
TALLY = record(
    floats="damage kills team_kills assists assist_hp paint_damage intercepts intercepted_damage falls"
    f" legs_lost shutdowns vent_s zone_s bad_actions shots:{W} hits:{W} taken:{W} killed_by:{W}"
)
ORDER = record(
    floats="throttle:2 thrust turn", longs="focus sort_mode", octets=f"fire:{W}", flags="vent ecm eccm hostile_only"
)
BATTLE = record(floats="score:2 control:2", ints="num_active_clouds num_emitters", longs="seed tick map_id")
"""The numbers of a battle that are neither a mech's nor a shot's; `num_active_clouds` clouds hang,
`num_emitters` mechs emit."""
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
"""What a roster tells of a mech; `first_slot` of each weapon's shots, and the column of an action that fires it, -1 for
none."""
WEAPON = record(
    floats="self_heat damage stability target_heat suppress splash_damage splash_vox arc_cos focus_arc_cos"
    " range_vox speed lifetime_s",
    ints="cooldown lifetime slots",
    indices="timer",
    flags="needs_target needs_line needs_lock focus_only is_beam paints is_homing is_ballistic leaves_cloud",
)
"""A weapon of the catalog; `slots` are those of its shots a mech."""
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
"""Numbers of the rules and of the catalog that belong to no row of it: every float, and what follows from them."""


class Ground(NamedTuple):
    """The ground of a battle, and that of its map; `[Y, X]` bit columns unless said."""

    solid: Any
    opaque: Any
    rubble: Any
    damage: Any
    """[Z, Y, X] uint8."""
    material: Any
    """[Z, Y, X] uint8, of the map."""
    was_solid: Any
    was_opaque: Any
    hazard: Any


class Scratch(NamedTuple):
    """Memory for what is known of one battle while a decision runs."""

    records: Any
    """`packing.Records`."""
    orders: Any
    """[N] ORDER."""
    pairs: Any
    """[N, N] PAIR."""
    lines: Any
    """[N * N] int8: whether a mech and a later one have a clear line in this substep, -1 where nobody has asked yet."""
    active_clouds: Any
    """[C] int32: the clouds that hang, `num_active_clouds` of them."""
    emitters: Any
    """[N] int32: the mechs that emit, `num_emitters` of them."""
    boxes: Any
    """`movement.Boxes`."""
    pulls: Any
    """[W * N] PULL."""
    impacts: Any
    """[S] IMPACT."""
    viewers: Any
    """[N] VIEWER."""
    by_mech: Any
    """A `sensing.MechArrays`."""
    sights: Any
    """`sensing.Sights`."""
    ranking: Any
    """A `sensing.Ranking`."""
    line: Any
    """A `sight.Line`."""
    around: Any
    """`local_map.Surroundings`."""

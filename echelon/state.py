"""The state of B battles side by side, every field a batched tensor on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tensordict import TensorClass, TensorDict
from torch import Tensor

from echelon.rules.actions import NO_MECH, PREFERENCES
from echelon.rules.config import EnvConfig
from echelon.rules.orders import OrderField
from echelon.rules.roster import Roster

TELEMETRY_CELLS = 16
"""Rows and columns of the picture of a map from above."""


class Fields:
    """What the tensor classes of a state have in common."""

    if not TYPE_CHECKING:

        def replace(self, **changes: Tensor | TensorClass) -> Fields:
            """The same with other tensors in some fields. Shallow: both share whatever is not replaced.

            tensordict's own copies every nested collection, which takes 324 us for a whole state where this takes 19;
            a decision replaces fields 230 times.
            """
            if torch.compiler.is_compiling():
                return super().replace(**changes)
            unknown = changes.keys() - type(self).__dataclass_fields__.keys()
            if unknown:
                raise AttributeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
            mine = self.__dict__.get("_tensordict")
            if type(mine) is not TensorDict:
                return super().replace(**changes)
            for name, value in changes.items():
                if value.shape[: mine.ndim] != mine.batch_size:
                    expected = f"{type(self).__name__}.{name} must begin with {tuple(mine.batch_size)}"
                    raise RuntimeError(f"{expected}, got {tuple(value.shape)}")
            source = {**mine._tensordict, **changes}
            fields = TensorDict._new_unsafe(source, batch_size=mine.batch_size, device=mine.device)
            return type(self)._from_tensordict(fields, safe=False)

        def __deepcopy__(self, memo: dict[int, object]) -> Fields:
            """A clone: tensordict's own warns that it will be removed."""
            copied: Fields = self.clone()
            return copied


class Maps(Fields, TensorClass):
    """M maps that all battles share. None changes while a battle is fought on it. N mechs, size X, Y, Z in voxels."""

    seed: Tensor  # [M] int64, what each was made from
    material: Tensor  # [M, Z, Y, X] uint8, a Material
    solid: Tensor  # [M, Y, X] int32, bit z set where a voxel stops hulls and shots
    opaque: Tensor  # [M, Y, X] int32, bit z set where a voxel stops lines of sight
    hazard: Tensor  # [M, Y, X] int32, bit z set where a voxel burns or cools: lava, debris, water
    spawn_pos: Tensor  # [M, N, 3] vox, hull centres, standing on the ground
    spawn_places: Tensor  # [M, N, K, 3] vox, hull centres of which a battle draws one a mech, infinite behind the last
    spawn_yaw: Tensor  # [M, N] rad
    spawn_hp: Tensor  # [M, N] hit points
    spawn_leg_hp: Tensor  # [M, N] hit points of the legs
    spawn_heat: Tensor  # [M, N] heat points
    spawn_cooldown: Tensor  # [M, N, T] int32 substeps until a weapon is ready
    zone_center: Tensor  # [M, 2] vox
    zone_radius: Tensor  # [M] vox
    path_length: Tensor  # [M, Y, X] vox, walking distance to the zone's edge, 0 inside
    path_direction: Tensor  # [M, Y, X, 2] unit vector of the next step towards the zone, 0 inside
    ways: Tensor  # [M, L, Y, X] int16, way to each of L blocks (`world.walkways`); no block where orders are off
    second_center: Tensor  # [M, 2] vox, of a second zone; the way to the zone is then that to the nearer one
    second_radius: Tensor  # [M] vox, 0 where there is no second zone
    control_rate: Tensor  # [M, 2] score for a second of zone control, blue and red
    clock_rate: Tensor  # [M, 2] score that a team has for each substep of the battle
    runner: Tensor  # [M, N] bool, mechs that shall reach the zone
    arrival_score: Tensor  # [M, 2] score that a team has for each of its runners that was in the zone
    loss_score: Tensor  # [M, 2] score that a team has for each runner of the other one that died before it was there
    telemetry: Tensor  # [M, 16, 16] 0..1, the map seen from above


class Mechs(Fields, TensorClass):
    """Every mech of every battle. B battles, N mechs, blue first, P packs of both teams."""

    pos: Tensor  # [B, N, 3] vox, hull centre
    vel: Tensor  # [B, N, 3] vox/s
    yaw: Tensor  # [B, N] rad, 0 = +x
    hp: Tensor  # [B, N] hit points, 0 when dead
    leg_hp: Tensor  # [B, N] hit points of the legs, 0 when legged
    heat: Tensor  # [B, N] heat points
    stability: Tensor  # [B, N] 0 .. 100
    fallen: Tensor  # [B, N] int32 substeps until it stands up, 0 = on its feet
    suppressed: Tensor  # [B, N] int32 substeps of suppression left
    cooldown: Tensor  # [B, N, T] int32 substeps until a weapon is ready
    paint: Tensor  # [B, N, P] int32 substeps that pack p's paint on the mech lasts
    painter: Tensor  # [B, N, P] int64, who of pack p painted it last
    under_fire: Tensor  # [B, N] int32 substeps until it feels safe again
    hit_from: Tensor  # [B, N, 2] unit vector towards where its last hit came from, 0 before the first
    wrecked: Tensor  # [B, N] bool, dead and its wreck lies on the map, or absent from the beginning

    @property
    def alive(self) -> Tensor:
        """[B, N] bool."""
        return self.hp > 0

    @property
    def legged(self) -> Tensor:
        """[B, N] bool: legs shot off."""
        return self.leg_hp <= 0


class Shots(Fields, TensorClass):
    """Shots in flight, S slots. Slot s belongs to one mech and weapon for ever (`Roster.shots`)."""

    pos: Tensor  # [B, S, 3] vox
    vel: Tensor  # [B, S, 3] vox/s
    ttl: Tensor  # [B, S] int32 substeps of flight left, 0 = empty slot
    target: Tensor  # [B, S] int64, whom a homing shot turns to, NO_MECH for other shots


class Clouds(Fields, TensorClass):
    """Smoke, C places: `Roster.clouds_each` for each mech of `Roster.launchers`, one after the other."""

    pos: Tensor  # [B, C, 3] vox, centre
    ttl: Tensor  # [B, C] int32 substeps left, 0 = no cloud


class Terrain(Fields, TensorClass):
    """Each battle's own ground, a map as the battle has changed it. The one part of a state written in place.

    What a voxel is made of now follows from the map and these: `rubble` tells what a wreck filled, `solid` and
    `opaque` whether it still stands. Rubble on dirt that is shot away leaves dirt, which is like air to everyone.
    """

    solid: Tensor  # [B, Y, X] int32, bit z set where a voxel stops hulls and shots
    opaque: Tensor  # [B, Y, X] int32, bit z set where a voxel stops lines of sight
    rubble: Tensor  # [B, Y, X] int32, bit z set where a wreck filled a voxel
    damage: Tensor  # [B, Z, Y, X] uint8 hp lost


class Tally(Fields, TensorClass):
    """What each mech did and suffered since its battle began. W weapons."""

    damage: Tensor  # [B, N] hp taken from enemies
    kills: Tensor  # [B, N] enemies killed
    team_kills: Tensor  # [B, N] own mechs killed
    assists: Tensor  # [B, N] kills by packmates of targets it painted
    assist_hp: Tensor  # [B, N] full hp of those targets
    paint_damage: Tensor  # [B, N] hp that its paint added to the damage of its packmates
    shots: Tensor  # [B, N, W] times each weapon fired
    hits: Tensor  # [B, N, W] direct hits on enemies
    intercepts: Tensor  # [B, N] shots its AMS destroyed
    intercepted_damage: Tensor  # [B, N] hp that a direct hit of each of them would have taken
    falls: Tensor  # [B, N] times it was knocked down
    legs_lost: Tensor  # [B, N] 1 once its legs were shot off
    shutdowns: Tensor  # [B, N] times it overheated
    vent_s: Tensor  # [B, N] seconds in which it vented heat
    taken: Tensor  # [B, N, W] hp lost to each weapon of the enemy
    killed_by: Tensor  # [B, N, W] 1 where an enemy's weapon took most in the substep of its death
    zone_s: Tensor  # [B, N] seconds inside the zone
    bad_actions: Tensor  # [B, N] action numbers that were not finite


PER_WEAPON = ("shots", "hits", "taken", "killed_by")
"""Fields of `Tally` with a column for each weapon."""


class State(Fields, TensorClass):
    """B battles. What the next substep depends on, the maps and the catalog apart."""

    mechs: Mechs
    shots: Shots
    clouds: Clouds
    terrain: Terrain
    tally: Tally
    seed: Tensor  # [B] int64, this episode's own
    tick: Tensor  # [B] int64, substeps since the battle began
    map_id: Tensor  # [B] int64
    last_event: Tensor  # [B] int64, tick of the last decision in which a team did damage or scored
    score: Tensor  # [B, 2] s of zone control, blue and red, or what counts as much by `Maps.clock_rate` and the like
    control: Tensor  # [B, 2] zone tick of each team in the last decision, 0..1
    messages: Tensor  # [B, N, comm_dim] what each mech said in the last decision
    focus_slots: Tensor  # [B, N, PREFERENCES] int64, hostile behind each first contact slot or NO_MECH
    orders_sent: Tensor  # [B, Q, P, OrderField] the last orders to each pack, newest first; Q = 0 where orders are off
    orders_heard: Tensor  # [B, N, OrderField] what each mech was told last; no mech where orders are off


def begun_whole(pos: Tensor, roster: Roster) -> dict[str, Tensor]:
    """What `Maps` hold of mechs that begin at `pos [M, N, 3]`, whole, cool and with weapons that are ready."""
    shape = pos.shape[:2]
    return {
        "spawn_pos": pos,
        "spawn_places": pos[:, :, None].clone(),
        "spawn_hp": roster.hp.expand(shape).clone(),
        "spawn_leg_hp": roster.leg_hp.expand(shape).clone(),
        "spawn_heat": torch.zeros(shape, dtype=torch.float32, device=pos.device),
        "spawn_cooldown": torch.zeros((*shape, roster.num_timers), dtype=torch.int32, device=pos.device),
    }


def won_by_zone(count: int, mechs: int, device: torch.device) -> dict[str, Tensor]:
    """What `Maps` hold of the objective of battles that the one zone of each of `count` maps decides."""

    def zeros(*shape: int) -> Tensor:
        return torch.zeros((count, *shape), dtype=torch.float32, device=device)

    return {
        "second_center": zeros(2),
        "second_radius": zeros(),
        "control_rate": zeros(2) + 1,
        "clock_rate": zeros(2),
        "runner": zeros(mechs).bool(),
        "arrival_score": zeros(2),
        "loss_score": zeros(2),
    }


def untouched(map_id: Tensor, maps: Maps) -> Terrain:
    """The ground of battles that begin on the maps `map_id [B]`."""
    solid = maps.solid[map_id]
    return Terrain(
        solid=solid,
        opaque=maps.opaque[map_id],
        rubble=torch.zeros_like(solid),
        damage=torch.zeros((solid.shape[0], *maps.material.shape[1:]), dtype=torch.uint8, device=solid.device),
        batch_size=solid.shape[:1],
    )


def open_battle(
    seed: Tensor, map_id: Tensor, maps: Maps, roster: Roster, config: EnvConfig, terrain: Terrain | None = None
) -> State:
    """Battles at their first moment: everybody at its spawn, as the map has it.

    Args:
        seed: `[B]` int64 episode seeds.
        map_id: `[B]` int64, the map of each battle.
        terrain: their ground; by default made anew from the maps.
    """
    batch_size, whole = seed.shape, dict[str, Tensor]()
    parts: dict[str, dict[str, Tensor]] = {"mechs": {}, "shots": {}, "clouds": {}, "tally": {}}
    for name, leaf in opening_leaves(seed, map_id, maps, roster, config).items():
        part, _, field_name = name.rpartition(".")
        (parts[part] if part else whole)[field_name] = leaf
    return State(
        mechs=Mechs(**parts["mechs"], batch_size=batch_size),
        shots=Shots(**parts["shots"], batch_size=batch_size),
        clouds=Clouds(**parts["clouds"], batch_size=batch_size),
        terrain=untouched(map_id, maps) if terrain is None else terrain,
        tally=Tally(**parts["tally"], batch_size=batch_size),
        **whole,
        batch_size=batch_size,
    )


def opening_leaves(seed: Tensor, map_id: Tensor, maps: Maps, roster: Roster, config: EnvConfig) -> dict[str, Tensor]:
    """Every tensor of `open_battle` by its dotted name, without the terrain; arguments as there."""
    batch, mechs, device = seed.shape[0], roster.num_mechs, seed.device
    slots, places = roster.shots.count, roster.launchers.shape[0] * roster.clouds_each

    def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros((batch, *shape), dtype=dtype, device=device)

    spawned, tally = (
        mechs_at_spawns(map_id, maps, roster, config),
        empty_tally(batch, mechs, len(roster.weapons), device),
    )
    return {
        **{f"mechs.{name}": leaf for name, leaf in spawned.items()},
        "shots.pos": zeros(slots, 3),
        "shots.vel": zeros(slots, 3),
        "shots.ttl": zeros(slots, dtype=torch.int32),
        "shots.target": torch.full((batch, slots), NO_MECH, device=device),
        "clouds.pos": zeros(places, 3),
        "clouds.ttl": zeros(places, dtype=torch.int32),
        **{f"tally.{name}": leaf for name, leaf in tally.items()},
        "seed": seed,
        "tick": torch.zeros_like(seed),
        "map_id": map_id,
        "last_event": torch.zeros_like(seed),
        "score": zeros(2),
        "control": zeros(2),
        "messages": zeros(mechs, config.comm_dim),
        "focus_slots": torch.full((batch, mechs, PREFERENCES), NO_MECH, device=device),
        **no_orders(batch, roster, config),
    }


def no_orders(batch: int, roster: Roster, config: EnvConfig) -> dict[str, Tensor]:
    """What a state holds of orders before the first one."""
    command, device = config.command, roster.hull.device
    queue = command.queue(config.rules.decision_s) if command.enabled else 0
    # Not a constant of the host's, which would be copied to the device at every restart.
    column = torch.arange(len(OrderField), device=device)
    columns = -((column == int(OrderField.TARGET)) | (column == int(OrderField.ISSUED))).to(torch.float32)
    return {
        "orders_sent": columns.expand(batch, queue, roster.num_packs, -1).clone(),
        "orders_heard": columns.expand(batch, roster.num_mechs if command.enabled else 0, -1).clone(),
    }


def mechs_at_spawns(map_id: Tensor, maps: Maps, roster: Roster, config: EnvConfig) -> dict[str, Tensor]:
    """The fields of the `Mechs` of battles that begin on the maps `map_id [B]`: at rest at their spawns."""
    batch, mechs, device = map_id.shape[0], roster.num_mechs, map_id.device

    def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros((batch, mechs, *shape), dtype=dtype, device=device)

    hp = maps.spawn_hp[map_id]
    return dict[str, Tensor](
        pos=maps.spawn_pos[map_id],
        vel=zeros(3),
        yaw=maps.spawn_yaw[map_id],
        hp=hp,
        leg_hp=maps.spawn_leg_hp[map_id],
        heat=maps.spawn_heat[map_id],
        stability=zeros() + config.rules.stability_cap,
        fallen=zeros(dtype=torch.int32),
        suppressed=zeros(dtype=torch.int32),
        cooldown=maps.spawn_cooldown[map_id],
        paint=zeros(roster.num_packs, dtype=torch.int32),
        painter=zeros(roster.num_packs, dtype=torch.int64),
        under_fire=zeros(dtype=torch.int32),
        hit_from=zeros(2),
        wrecked=hp <= 0,
    )


def empty_tally(batch: int, mechs: int, weapons: int, device: torch.device) -> dict[str, Tensor]:
    """The fields of a `Tally` of `batch` battles, all zero."""
    shapes = {
        name: (batch, mechs, weapons) if name in PER_WEAPON else (batch, mechs) for name in Tally.__dataclass_fields__
    }
    return {name: torch.zeros(shape, dtype=torch.float32, device=device) for name, shape in shapes.items()}


def is_off(name: str, leaf: Tensor) -> bool:
    """Whether a leaf of a state or of maps is empty because orders are off: it is in no digest and no file then."""
    return name in ("orders_sent", "orders_heard", "ways") and leaf.numel() == 0


def leaves_of(state: State) -> dict[str, Tensor]:
    """Every tensor of a state by its dotted name, without terrain and what `is_off`."""
    leaves: dict[str, Tensor] = {}
    for name in State.__dataclass_fields__:
        part = getattr(state, name)
        if isinstance(part, Tensor):
            leaves |= {} if is_off(name, part) else {name: part}
        elif not isinstance(part, Terrain):
            leaves |= {f"{name}.{leaf}": value for leaf, value in part.items()}
    return leaves


def with_leaves(state: State, leaves: dict[str, Tensor]) -> State:
    """`state` with the tensors replaced by `leaves`; terrain is unchanged."""
    parts: dict[str, dict[str, Tensor]] = {}
    plain: dict[str, object] = {}
    for name, value in leaves.items():
        part, _, leaf = name.partition(".")
        if leaf:
            parts.setdefault(part, {})[leaf] = value
        else:
            plain[name] = value
    return state.replace(**plain, **{part: getattr(state, part).replace(**values) for part, values in parts.items()})

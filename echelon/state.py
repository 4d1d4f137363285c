"""The state of B parallel battles. Every field is a batched tensor on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from tensordict import TensorClass, TensorDict
from torch import Tensor

from echelon.rules.actions import NO_MECH, PREFERENCES
from echelon.rules.config import EnvConfig
from echelon.rules.orders import OrderField
from echelon.rules.physics import RulesConfig
from echelon.rules.roster import Roster

TELEMETRY_CELLS = 16
"""Number of rows and columns of `Maps.telemetry`, the map seen from above."""


class Fields:
    """Base class of the tensor classes of a state."""

    if not TYPE_CHECKING:

        def replace(self, **changes: Tensor | TensorClass) -> Fields:
            """Return a shallow copy with some fields replaced. The copy shares all other tensors.

            tensordict's own `replace` copies every nested collection: 324 µs for a state instead of 19 µs, and a
            decision replaces fields 230 times.

            Raises:
                AttributeError: if a field does not exist.
                RuntimeError: if a tensor does not begin with the batch size.
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
            return self.with_valid(changes)

        def with_valid(self, changes: Mapping[str, Tensor | TensorClass]) -> Fields:
            """Return a copy as `replace` does, without checks of the changes: they must be valid."""
            if torch.compiler.is_compiling():
                return super().replace(**changes)
            mine = self.__dict__["_tensordict"]
            source = {**mine._tensordict, **changes}
            fields = TensorDict._new_unsafe(source, batch_size=mine.batch_size, device=mine.device)
            return type(self)._from_tensordict(fields, safe=False)

        def __deepcopy__(self, memo: dict[int, object]) -> Fields:
            """Return a clone. The `__deepcopy__` of tensordict warns that it will be removed."""
            copied: Fields = self.clone()
            return copied


class Maps(Fields, TensorClass):
    """M maps, shared by all battles, of X x Y x Z voxels, for N mechs. A map does not change during a battle."""

    seed: Tensor  # [M] int64, seed of the map generator
    material: Tensor  # [M, Z, Y, X] uint8, the `Material` of each voxel
    solid: Tensor  # [M, Y, X] int32, bit z is set if voxel z stops hulls and shots
    opaque: Tensor  # [M, Y, X] int32, bit z is set if voxel z stops lines of sight
    hazard: Tensor  # [M, Y, X] int32, bit z is set if voxel z heats or cools mechs: lava, debris, water
    spawn_pos: Tensor  # [M, N, 3] vox, hull centres of the mechs at the start
    spawn_places: Tensor  # [M, N, K, 3] vox, K hull centres per mech, of which a battle draws one; padded with infinity
    spawn_yaw: Tensor  # [M, N] rad
    spawn_hp: Tensor  # [M, N] hit points
    spawn_leg_hp: Tensor  # [M, N] hit points of the legs
    spawn_heat: Tensor  # [M, N] heat points
    spawn_cooldown: Tensor  # [M, N, T] int32 substeps until weapon timer t is ready
    zone_center: Tensor  # [M, 2] vox
    zone_radius: Tensor  # [M] vox
    path_length: Tensor  # [M, Y, X] vox, walking distance to the zone's edge, 0 inside
    path_direction: Tensor  # [M, Y, X, 2] unit vector of the next step towards the zone, 0 inside the zone
    ways: Tensor  # [M, L, Y, X] int16, paths to each of L map blocks (`world.walkways`); L = 0 without orders
    second_center: Tensor  # [M, 2] vox, centre of the second zone, if any; paths lead to the nearer zone
    second_radius: Tensor  # [M] vox, radius of the second zone, 0 if there is none
    control_rate: Tensor  # [M, 2] score per second of zone control, for blue and red
    clock_rate: Tensor  # [M, 2] score that each team gains per substep
    last_tick: Tensor  # [M] substep at which the time limit ends a battle
    runner: Tensor  # [M, N] bool, mechs that score by reaching the zone
    arrival_score: Tensor  # [M, 2] score that a team gains when one of its `runner` mechs reaches the zone
    loss_score: Tensor  # [M, 2] score that a team gains when an enemy `runner` mech dies before it reaches the zone
    telemetry: Tensor  # [M, 16, 16] 0..1, mean height of each map block


class Mechs(Fields, TensorClass):
    """The mechs of B battles. Each battle has N mechs, blue first, in P packs (groups of mechs of one team)."""

    pos: Tensor  # [B, N, 3] vox, centre of the hull
    vel: Tensor  # [B, N, 3] vox/s
    yaw: Tensor  # [B, N] rad, 0 = +x
    hp: Tensor  # [B, N] hit points, 0 when dead
    leg_hp: Tensor  # [B, N] hit points of the legs, 0 when the legs are destroyed
    heat: Tensor  # [B, N] heat points
    stability: Tensor  # [B, N] 0 .. 100
    fallen: Tensor  # [B, N] int32 substeps until a fallen mech stands up, 0 if it stands
    suppressed: Tensor  # [B, N] int32 substeps for which the mech stays suppressed
    cooldown: Tensor  # [B, N, T] int32 substeps until weapon timer t is ready
    paint: Tensor  # [B, N, P] int32 substeps for which the mech stays painted (marked) by pack p
    painter: Tensor  # [B, N, P] int64, index of the mech of pack p that last painted (marked) this mech
    under_fire: Tensor  # [B, N] int32 substeps for which the mech still counts as under fire
    hit_from: Tensor  # [B, N, 2] unit vector towards the origin of the last hit, 0 before the first hit
    wrecked: Tensor  # [B, N] bool, the mech is dead with its wreck on the map, or it was absent from the start

    @property
    def alive(self) -> Tensor:
        """[B, N] bool: the mech has hit points left."""
        return self.hp > 0

    @property
    def legged(self) -> Tensor:
        """[B, N] bool: the legs are destroyed."""
        return self.leg_hp <= 0


class Shots(Fields, TensorClass):
    """S slots for shots in flight. Each slot belongs to a fixed mech and weapon (`Roster.shots`)."""

    pos: Tensor  # [B, S, 3] vox
    vel: Tensor  # [B, S, 3] vox/s
    ttl: Tensor  # [B, S] int32 substeps of flight left, 0 for an empty slot
    target: Tensor  # [B, S] int64, index of the mech that a homing shot follows, NO_MECH for other shots


class Clouds(Fields, TensorClass):
    """C slots for smoke clouds, with `Roster.clouds_each` consecutive slots for each mech of `Roster.launchers`."""

    pos: Tensor  # [B, C, 3] vox, centre
    ttl: Tensor  # [B, C] int32 substeps until the cloud ends, 0 for an empty slot


class Terrain(Fields, TensorClass):
    """The current terrain of each battle: the map with the changes of the battle. The simulation modifies the terrain
    in place.

    The current material of a voxel follows from the map and these fields; see `sim.terrain.current_material`. Rubble
    that is shot away from dirt leaves dirt, which has the same effects as air.
    """

    solid: Tensor  # [B, Y, X] int32, bit z is set if voxel z stops hulls and shots
    opaque: Tensor  # [B, Y, X] int32, bit z is set if voxel z stops lines of sight
    rubble: Tensor  # [B, Y, X] int32, bit z is set if a wreck fills voxel z
    damage: Tensor  # [B, Z, Y, X] uint8, hit points that each voxel has lost


class Tally(Fields, TensorClass):
    """Statistics of each mech since the start of the battle, float32. The catalog has W weapons."""

    damage: Tensor  # [B, N] damage dealt to enemies, hp
    kills: Tensor  # [B, N] enemies killed
    team_kills: Tensor  # [B, N] mechs of its own team that it killed
    assists: Tensor  # [B, N] targets that this mech painted (marked) and a packmate killed
    assist_hp: Tensor  # [B, N] sum of the full hp of the targets counted in `assists`
    paint_damage: Tensor  # [B, N] extra damage of packmates due to this mech's paint (target mark), hp
    shots: Tensor  # [B, N, W] number of times that each weapon fired
    hits: Tensor  # [B, N, W] direct hits on enemies by each weapon
    intercepts: Tensor  # [B, N] shots destroyed by its anti-missile system (AMS)
    intercepted_damage: Tensor  # [B, N] damage that direct hits of the intercepted shots would have dealt, hp
    falls: Tensor  # [B, N] falls
    legs_lost: Tensor  # [B, N] 1 once the legs are destroyed
    shutdowns: Tensor  # [B, N] shutdowns by overheating
    vent_s: Tensor  # [B, N] seconds of venting
    taken: Tensor  # [B, N, W] damage taken from each weapon of the enemy, hp
    killed_by: Tensor  # [B, N, W] 1 for the enemy weapon that dealt most damage in the substep in which the mech died
    zone_s: Tensor  # [B, N] seconds that the mech was inside the zone
    bad_actions: Tensor  # [B, N] number of action values that were not finite


PER_WEAPON = ("shots", "hits", "taken", "killed_by")
"""Fields of `Tally` with a column for each weapon."""


class State(Fields, TensorClass):
    """The state of B battles: everything that the next substep depends on, except the maps and the catalog."""

    mechs: Mechs
    shots: Shots
    clouds: Clouds
    terrain: Terrain
    tally: Tally
    seed: Tensor  # [B] int64, seed of the episode
    tick: Tensor  # [B] int64, substeps since the start of the battle
    map_id: Tensor  # [B] int64, index of the map
    last_event: Tensor  # [B] int64, tick of the last decision in which a team dealt damage or scored
    score: Tensor  # [B, 2] score of blue and red, such as seconds of zone control times `Maps.control_rate`
    control: Tensor  # [B, 2] share of the zone that each team controlled in the last decision, 0..1
    messages: Tensor  # [B, N, comm_dim] message that each mech sent in the last decision
    focus_slots: Tensor  # [B, N, PREFERENCES] int64, index of the enemy in each of the first contact slots, or NO_MECH
    orders_sent: Tensor  # [B, Q, P, OrderField] last Q orders to each pack, newest first; Q = 0 without orders
    orders_heard: Tensor  # [B, N, OrderField] last order that each mech received; N = 0 without orders


def undamaged_spawns(pos: Tensor, roster: Roster) -> dict[str, Tensor]:
    """Return the spawn fields of `Maps` for undamaged, cool mechs at `pos [M, N, 3]` with all weapons ready."""
    shape = pos.shape[:2]
    return {
        "spawn_pos": pos,
        "spawn_places": pos[:, :, None].clone(),
        "spawn_hp": roster.hp.expand(shape).clone(),
        "spawn_leg_hp": roster.leg_hp.expand(shape).clone(),
        "spawn_heat": torch.zeros(shape, dtype=torch.float32, device=pos.device),
        "spawn_cooldown": torch.zeros((*shape, roster.num_timers), dtype=torch.int32, device=pos.device),
    }


def single_zone_objective(count: int, mechs: int, rules: RulesConfig, device: torch.device) -> dict[str, Tensor]:
    """Return the objective fields of `count` maps on which teams score by control of a single zone."""

    def zeros(*shape: int) -> Tensor:
        return torch.zeros((count, *shape), dtype=torch.float32, device=device)

    return {
        "second_center": zeros(2),
        "second_radius": zeros(),
        "control_rate": zeros(2) + 1,
        "clock_rate": zeros(2),
        "last_tick": zeros() + rules.max_decisions * rules.decision_repeat,
        "runner": zeros(mechs).bool(),
        "arrival_score": zeros(2),
        "loss_score": zeros(2),
    }


def initial_terrain(map_id: Tensor, maps: Maps) -> Terrain:
    """Return the terrain of battles that start on the maps `map_id [B]`."""
    solid = maps.solid[map_id]
    return Terrain(
        solid=solid,
        opaque=maps.opaque[map_id],
        rubble=torch.zeros_like(solid),
        damage=torch.zeros((solid.shape[0], *maps.material.shape[1:]), dtype=torch.uint8, device=solid.device),
        batch_size=solid.shape[:1],
    )


def initial_state(
    seed: Tensor, map_id: Tensor, maps: Maps, roster: Roster, config: EnvConfig, terrain: Terrain | None = None
) -> State:
    """Return the initial state of battles, with all mechs at the spawns of their map.

    Args:
        seed: seeds of the episodes, `[B]` int64.
        map_id: the map of each battle, `[B]` int64.
        maps: all maps.
        roster: mechs of both teams.
        config: configuration of the battles.
        terrain: initial terrain; by default that of the maps.
    """
    batch_size = seed.shape
    whole: dict[str, Tensor] = {}
    parts: dict[str, dict[str, Tensor]] = {"mechs": {}, "shots": {}, "clouds": {}, "tally": {}}
    for name, leaf in initial_leaves(seed, map_id, maps, roster, config).items():
        part, _, field_name = name.rpartition(".")
        (parts[part] if part else whole)[field_name] = leaf
    return State(
        mechs=Mechs(**parts["mechs"], batch_size=batch_size),
        shots=Shots(**parts["shots"], batch_size=batch_size),
        clouds=Clouds(**parts["clouds"], batch_size=batch_size),
        terrain=initial_terrain(map_id, maps) if terrain is None else terrain,
        tally=Tally(**parts["tally"], batch_size=batch_size),
        **whole,
        batch_size=batch_size,
    )


def initial_leaves(seed: Tensor, map_id: Tensor, maps: Maps, roster: Roster, config: EnvConfig) -> dict[str, Tensor]:
    """Return the tensors of `initial_state`, keyed by dotted name, without the terrain. Same arguments."""
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
    """Return the order fields of a state before the first order."""
    command, device = config.command, roster.hull.device
    queue = command.queue(config.rules.decision_s) if command.enabled else 0
    # Create the columns on the device, because constants of the host would be copied at every reset.
    column = torch.arange(len(OrderField), device=device)
    columns = -((column == int(OrderField.TARGET)) | (column == int(OrderField.ISSUED))).to(torch.float32)
    return {
        "orders_sent": columns.expand(batch, queue, roster.num_packs, -1).clone(),
        "orders_heard": columns.expand(batch, roster.num_mechs if command.enabled else 0, -1).clone(),
    }


def mechs_at_spawns(map_id: Tensor, maps: Maps, roster: Roster, config: EnvConfig) -> dict[str, Tensor]:
    """Return the fields of `Mechs` at the start of battles on the maps `map_id [B]`: at rest at their spawns."""
    batch, mechs, device = map_id.shape[0], roster.num_mechs, map_id.device

    def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros((batch, mechs, *shape), dtype=dtype, device=device)

    hp = maps.spawn_hp[map_id]
    return dict(
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
    """Return the fields of a `Tally` of `batch` battles, all zero."""
    shapes = {
        name: (batch, mechs, weapons) if name in PER_WEAPON else (batch, mechs) for name in Tally.__dataclass_fields__
    }
    return {name: torch.zeros(shape, dtype=torch.float32, device=device) for name, shape in shapes.items()}


def is_off(name: str, leaf: Tensor) -> bool:
    """Return True for an order field that is empty because orders are disabled. Digests and files omit such a field."""
    return name in ("orders_sent", "orders_heard", "ways") and leaf.numel() == 0


def leaves_of(state: State) -> dict[str, Tensor]:
    """Return the tensors of a state, keyed by dotted name, without the terrain and without fields that are `is_off`."""
    leaves: dict[str, Tensor] = {}
    for name in State.__dataclass_fields__:
        part = getattr(state, name)
        if isinstance(part, Tensor):
            leaves |= {} if is_off(name, part) else {name: part}
        elif not isinstance(part, Terrain):
            leaves |= {f"{name}.{leaf}": value for leaf, value in part.items()}
    return leaves


def with_leaves(state: State, leaves: dict[str, Tensor]) -> State:
    """Return `state` with the tensors `leaves`, keyed by dotted name, replaced; the terrain is unchanged."""
    parts: dict[str, dict[str, Tensor]] = {}
    plain: dict[str, object] = {}
    for name, value in leaves.items():
        part, _, leaf = name.partition(".")
        if leaf:
            parts.setdefault(part, {})[leaf] = value
        else:
            plain[name] = value
    return state.replace(**plain, **{part: getattr(state, part).replace(**values) for part, values in parts.items()})

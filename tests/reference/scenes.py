"""Random states in the middle of battles: damaged terrain, and mechs in all conditions."""

import math
import random

import numpy as np
import torch
from builders import bits_of, columns_of, flat_maps
from first_catalog import CATALOG, MATERIALS, SLOTS, TIMER_OF, WEAPONS, Timer, Weapon

from echelon.env.observation import layout
from echelon.rules.actions import NO_MECH, PREFERENCES, Act
from echelon.rules.catalog import HAZARDS, Material
from echelon.rules.config import EnvConfig
from echelon.rules.roster import Roster, build_roster
from echelon.sim import step
from echelon.sim.model import SimModel, build_model
from echelon.state import Maps, State, initial_state

CPU = torch.device("cpu")
GRAIN = 1024
"""Positions are odd multiples of 1 / (2 * GRAIN): exact in float32, even if mirrored, and never on a voxel's face."""
GAP = 0.003
"""Minimum distance between two placed hulls, vox."""
SOLID = np.array([MATERIALS[m].solid for m in Material])
WALLS = (Material.SOLID, Material.SOLID_DEBRIS, Material.GLASS, Material.REINFORCED)
BUILT = tuple(material for material in WALLS if material != Material.SOLID_DEBRIS)
"""Walls of maps. Solid debris comes only from wrecks."""
POOLS = (Material.LAVA, Material.WATER, Material.DEBRIS_FIELD)


def grain(value: float) -> float:
    """Return the nearest grid position."""
    return (math.floor(value * GRAIN) + 0.5) / GRAIN


def rough_ground(rng: random.Random, world) -> np.ndarray:
    """Return open ground with random boxes of every material, `[Z, Y, X]` uint8."""
    size = (world.size_z, world.size_y, world.size_x)
    material = np.zeros(size, dtype=np.uint8)
    material[0] = int(Material.DIRT)

    def box(what: Material, wide: tuple[int, int], bottom: int, top: int) -> None:
        x, y = rng.randrange(world.size_x), rng.randrange(world.size_y)
        material[bottom:top, y : y + rng.randint(*wide), x : x + rng.randint(*wide)] = int(what)

    for _ in range(rng.randint(2, 6)):
        box(rng.choice(POOLS), (2, 8), 0, rng.randint(1, 2))
    for _ in range(rng.randint(4, 12)):
        box(rng.choice(BUILT), (1, 4), 0, rng.randint(1, 7))
    for _ in range(rng.randint(2, 8)):
        box(rng.choice(BUILT), (2, 7), 0, 1)  # low enough to step onto
    for _ in range(rng.randint(0, 5)):
        box(rng.choice((*BUILT, Material.AIR)), (1, 3), rng.randint(1, 5), rng.randint(2, 8))
    for _ in range(rng.randint(0, 8)):
        box(Material.FOLIAGE, (1, 4), rng.randint(0, 2), rng.randint(2, 6))
    return material


def make_maps(config: EnvConfig, material: np.ndarray) -> Maps:
    """Build maps from voxels `[M, Z, Y, X]`."""
    voxels = torch.from_numpy(material)
    return (
        flat_maps(config)
        .expand(len(material))
        .clone()
        .replace(
            material=voxels,
            solid=columns_of(voxels, "solid"),
            opaque=columns_of(voxels, "opaque"),
            hazard=bits_of(voxels, torch.tensor([m in HAZARDS for m in Material])),
        )
    )


def scar(rng: random.Random, material: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Damage one map `[Z, Y, X]` randomly. Returns its current materials, the voxels of wrecks, and lost hp."""
    now, rubble, lost = material.copy(), np.zeros(material.shape, dtype=bool), np.zeros_like(material)
    breakable = np.argwhere(np.isin(now, [m for m in Material if MATERIALS[m].hp < math.inf and m in WALLS]))
    for z, y, x in breakable[[rng.randrange(len(breakable)) for _ in range(min(12, len(breakable)))]]:
        now[z, y, x] = int(Material.AIR)
    leaves = np.argwhere(now == int(Material.FOLIAGE))
    for z, y, x in leaves[[rng.randrange(len(leaves)) for _ in range(min(4, len(leaves)))]]:
        now[z, y, x] = int(Material.AIR)
    for _ in range(rng.randint(0, 3)):
        z, y, x = rng.randint(0, 2), rng.randrange(now.shape[1]), rng.randrange(now.shape[2])
        where = np.zeros_like(rubble)
        where[z : z + rng.randint(1, 4), y : y + rng.randint(1, 4), x : x + rng.randint(1, 4)] = True
        where &= np.isin(now, (int(Material.AIR), int(Material.DIRT)))
        rubble |= where
        now[where] = int(rng.choice((Material.SOLID_DEBRIS, Material.DEBRIS_FIELD)))
    walls = np.argwhere(SOLID[now])
    for z, y, x in walls[[rng.randrange(len(walls)) for _ in range(len(walls) // 2)]] if len(walls) else ():
        hp = MATERIALS[Material(now[z, y, x])].hp
        if hp < math.inf:
            lost[z, y, x] = rng.randrange(int(hp))
    return now, rubble, lost


def scarred(state: State, now: np.ndarray, rubble: np.ndarray, lost: np.ndarray) -> State:
    """Return the state with the terrain that `scar` made for each battle."""
    voxels = torch.from_numpy(now)
    state.terrain.solid.copy_(columns_of(voxels, "solid"))
    state.terrain.opaque.copy_(columns_of(voxels, "opaque"))
    state.terrain.rubble.copy_(bits_of(torch.from_numpy(rubble).to(torch.uint8), torch.tensor([False, True])))
    state.terrain.damage.copy_(torch.from_numpy(lost))
    return state


class Crowd:
    """Places mechs on one map, without overlap with other hulls or terrain."""

    def __init__(self, rng: random.Random, solid: np.ndarray, center: tuple[float, float]) -> None:
        self.rng, self.solid, self.center = rng, solid, center
        self.size = solid.shape[::-1]
        self.stand: list[tuple[list[float], list[float]]] = []

    def add(self, half: list[float], must_fit: bool) -> list[float]:
        """Return a free hull centre; dead mechs may be anywhere."""
        pos = next(
            pos
            for tries in range(5000)
            if self.is_inside(pos := self.guess(half, tries), half) and (not must_fit or self.is_free(pos, half))
        )
        if must_fit:
            self.stand.append((pos, half))
        return pos

    def guess(self, half: list[float], tries: int) -> list[float]:
        """Return a random position: sometimes near another hull, else around the middle, farther out with each try."""
        rng = self.rng
        if self.stand and rng.random() < 0.4:
            other, other_half = rng.choice(self.stand)
            axis, side = rng.randrange(2), rng.choice((-1, 1))
            x, y = (c + rng.uniform(-1, 1) * h for c, h in zip(other[:2], other_half[:2], strict=True))
            beside = other[axis] + side * (half[axis] + other_half[axis] + rng.uniform(GAP, 0.4))
            x, y = (beside, y) if axis == 0 else (x, beside)
        else:
            reach = 0.28 * max(self.size) + tries / 50
            x, y = (c + rng.uniform(-reach, reach) for c in self.center)
        x, y = grain(x), grain(y)
        kind, bottom = rng.random(), 0.0
        if kind > 0.65:
            bottom = grain(rng.uniform(0, 4))
        if kind > 0.8:
            box = self.box([x, y, 0.0], [*half[:2], self.size[2]])
            filled = np.flatnonzero(self.solid[box].any((1, 2)))
            bottom = grain(filled.max() + 1 + rng.uniform(GAP, 0.4)) if len(filled) else 0.0
        return [x, y, float(np.float32(half[2])) + bottom]

    def box(self, pos: list[float], half: list[float]) -> tuple[slice, slice, slice]:
        """Return the voxels that a hull overlaps."""
        low = [max(0, math.floor(c - h)) for c, h in zip(pos, half, strict=True)]
        high = [math.ceil(c + h) for c, h in zip(pos, half, strict=True)]
        return slice(low[2], high[2]), slice(low[1], high[1]), slice(low[0], high[0])

    def is_inside(self, pos: list[float], half: list[float]) -> bool:
        return all(h <= c <= s - h for c, h, s in zip(pos, half, self.size, strict=True))

    def is_free(self, pos: list[float], half: list[float]) -> bool:
        for other, other_half in self.stand:
            gaps = [abs(a - b) - h - k for a, b, h, k in zip(pos, other, half, other_half, strict=True)]
            if max(gaps) < GAP:
                return False
        return not self.solid[self.box(pos, half)].any()


def scramble(state: State, sim_model: SimModel, now: np.ndarray, seed: int) -> State:
    """Place all mechs at free positions in voxels `now [B, Z, Y, X]`, in random conditions, with shots in flight."""
    state = state.clone()
    for b in range(len(now)):
        rng = random.Random(f"{seed} {b}")
        solid = SOLID[now[b]]
        size_y, size_x = solid.shape[1:]
        center = (rng.uniform(0.3, 0.7) * size_x, rng.uniform(0.3, 0.7) * size_y)
        put_mechs(rng, state, sim_model, b, Crowd(rng, solid, center))
        put_shots(rng, state, sim_model, b, solid)
    return state


def put_mechs(rng: random.Random, state: State, sim_model: SimModel, b: int, crowd: Crowd) -> None:
    """Set the mechs of battle `b`."""
    mechs, roster, rules = state.mechs, sim_model.roster, sim_model.rules
    count, half = roster.num_mechs, roster.half_size.tolist()
    pack, hostile = roster.pack.tolist(), roster.hostile.tolist()
    for n in range(count):
        dead = rng.random() < 0.1
        hp = roster.hp[n].item()
        mechs.hp[b, n] = 0.0 if dead else rng.choice((hp, rng.uniform(0.1, hp), rng.uniform(0.05, 15)))
        mechs.pos[b, n] = torch.tensor(crowd.add(half[n], must_fit=not dead))
        mechs.wrecked[b, n] = dead and rng.random() < 0.5
        mechs.leg_hp[b, n] = rng.choice((roster.leg_hp[n].item(), rng.uniform(0, 12), 0.0))
        cap = roster.heat_cap[n].item()
        mechs.heat[b, n] = rng.choice(
            (0.0, *(rng.uniform(0, 1) * cap for _ in range(4)), rng.uniform(0.6, 1) * cap, rng.uniform(1, 2) * cap)
        )
        mechs.stability[b, n] = rng.choice(
            (100.0, *(rng.uniform(0, 100) for _ in range(3)), rng.uniform(0, 50), rng.uniform(0, 15), 0.0)
        )
        if rng.random() < 0.12:
            mechs.fallen[b, n], mechs.stability[b, n] = rng.choice((1, 2, rng.randint(1, 60))), 0.0
        mechs.suppressed[b, n] = rng.choice((0, 1, rng.randint(0, 24)))
        mechs.under_fire[b, n] = rng.randint(0, 20)
        for timer, longest in zip(Timer, roster.longest_cooldown[n].tolist(), strict=True):
            mechs.cooldown[b, n, timer] = rng.choice((0, 0, min(1, longest), rng.randint(0, longest)))
    put_marks(rng, state, sim_model, b, pack, hostile)
    for n in range(count):
        enemies = [m for m in range(count) if hostile[n][m] and mechs.hp[b, m] > 0]
        mechs.yaw[b, n] = aimed_yaw(rng, mechs.pos[b], n, enemies)
        speed = rng.uniform(0, 1) * roster.max_speed[n].item()
        way = mechs.yaw[b, n].item() + rng.uniform(-1, 1)
        mechs.vel[b, n] = torch.tensor(
            [speed * math.cos(way), speed * math.sin(way), rng.choice((0.0, 0.0, rng.uniform(-4, 4)))]
        )
        for slot in range(PREFERENCES):
            state.focus_slots[b, n, slot] = rng.choice(enemies) if enemies and rng.random() < 0.8 else NO_MECH
    mechs.vel[b] *= (mechs.hp[b] > 0)[:, None]
    assert rules.substeps(CATALOG.ams_cooldown_s) > 0


def put_marks(
    rng: random.Random, state: State, sim_model: SimModel, b: int, pack: list[int], hostile: list[list[bool]]
) -> None:
    """Add paint of enemy packs."""
    for n in range(len(pack)):
        for p in range(sim_model.roster.num_packs):
            members = [m for m in range(len(pack)) if pack[m] == p]
            if hostile[n][members[0]]:
                state.mechs.paint[b, n, p] = rng.choice((0, 0, 1, rng.randint(1, 100)))
                state.mechs.painter[b, n, p] = rng.choice(members)


def aimed_yaw(rng: random.Random, pos: torch.Tensor, n: int, enemies: list[int]) -> float:
    """Return a random heading, mostly towards an enemy."""
    if not enemies or rng.random() < 0.25:
        return rng.uniform(-math.pi, math.pi)
    x, y, _ = (pos[rng.choice(enemies)] - pos[n]).tolist()
    return math.remainder(math.atan2(y, x) + rng.choice((0.02, 0.12, 0.4)) * rng.uniform(-1, 1), math.tau)


def put_shots(rng: random.Random, state: State, sim_model: SimModel, b: int, solid: np.ndarray) -> None:
    """Add clouds, and shots of every kind, most of them towards a mech."""
    shots, roster, mechs = state.shots, sim_model.roster, state.mechs
    count, size = roster.num_mechs, solid.shape[::-1]
    shooters = roster.shots.shooter.tolist()
    wall = wall_near(rng, solid, mechs.pos[b].tolist())
    for weapon in Weapon:
        span, spec = roster.shots.span[int(weapon)], WEAPONS[weapon]
        for s in range(span.start, span.stop):
            if rng.random() < 0.45:
                continue
            enemies = [m for m in range(count) if roster.hostile[shooters[s], m]]
            target = rng.choice(enemies)
            if rng.random() < 0.3:
                wall = wall_near(rng, solid, mechs.pos[b].tolist())
            pos, vel = course(rng, mechs.pos[b, target].tolist(), wall, spec.speed_vox_per_s, weapon, size)
            x, y, z = (math.floor(c) for c in pos)
            if not (0 <= x < size[0] and 0 <= y < size[1] and 0 <= z < size[2]) or solid[z, y, x]:
                continue
            shots.pos[b, s], shots.vel[b, s] = torch.tensor(pos), torch.tensor(vel)
            shots.ttl[b, s] = rng.choice((1, 2, rng.randint(1, sim_model.rules.substeps(spec.lifetime_s))))
            if weapon == Weapon.MISSILE:
                shots.target[b, s] = target
        # A weapon without a free slot is not ready for a while.
        slots = max(1, SLOTS[weapon])
        full = (shots.ttl[b, span].view(-1, slots) > 0).all(-1)
        for n, is_full in zip(shooters[span.start : span.stop : slots], full.tolist(), strict=True):
            if is_full:
                mechs.cooldown[b, n, TIMER_OF[weapon]] = roster.longest_cooldown[n, TIMER_OF[weapon]].clamp(max=8)
    smoking = shots.ttl[b, roster.shots.span[int(Weapon.SMOKE)]] > 0
    each = roster.clouds_each
    for n in range(count):
        # Slots for the shot in flight, and for one launched now.
        for place in rng.sample(range(each), rng.randint(0, each - 1 - bool(smoking[n]))):
            near = mechs.pos[b, rng.randrange(count)].tolist()
            state.clouds.pos[b, n * each + place] = torch.tensor([grain(c + rng.uniform(-6, 6)) for c in near])
            state.clouds.ttl[b, n * each + place] = rng.randint(1, sim_model.rules.substeps(CATALOG.cloud_s))


def wall_near(rng: random.Random, solid: np.ndarray, pos: list[list[float]]) -> list[float] | None:
    """Return the centre of a random solid voxel near a mech."""
    walls = np.argwhere(solid)
    if len(walls) == 0:
        return None
    x, y, z = rng.choice(pos)
    some = walls[[rng.randrange(len(walls)) for _ in range(12)]]
    nearest = some[np.abs(some - (z, y, x)).sum(1).argmin()]
    return [c + 0.5 for c in nearest[::-1].tolist()]


def course(
    rng: random.Random,
    target: list[float],
    wall: list[float] | None,
    speed: float,
    weapon: Weapon,
    size: tuple[int, int, int],
) -> tuple[list[float], list[float]]:
    """Return position and velocity of a shot towards the target, a wall, the ground, or past the target."""
    kind, level = rng.random(), weapon == Weapon.SMOKE
    aim = near = target
    if kind > 0.5 and wall:
        aim = near = wall
    if kind > 0.75:
        aim = [rng.uniform(0, size[0]), rng.uniform(0, size[1]), rng.uniform(-2, 3)]
        near = aim if kind < 0.9 else target
    away = [rng.gauss(0, 1), rng.gauss(0, 1), 0.0 if level else rng.gauss(0.2, 0.4)]
    norm = math.hypot(*away)
    far = rng.choice((rng.uniform(0.1, 5.5), rng.uniform(0.6, 2.0)))
    pos = [grain(c + far * a / norm) for c, a in zip(near, away, strict=True)]
    spread = 0.25 if aim is wall else 0.5
    way = [a - p + rng.gauss(0, spread) for a, p in zip(aim, pos, strict=True)]
    way[2] = 0.0 if level else way[2]
    long = math.hypot(*way)
    return pos, [speed * w / long for w in way]


def random_actions(rng: random.Random, batch: int, count: int, comm_dim: int) -> torch.Tensor:
    """Return random actions `[B, N, D]` slightly beyond -1 .. 1, few of them not finite, most triggers held."""
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    action = torch.rand((batch, count, layout.action_width(comm_dim)), generator=generator) * 2.4 - 1.2
    action[..., [Act.PRIMARY, Act.SECONDARY, Act.TERTIARY]] += 0.8
    action[..., Act.SPECIAL] -= 0.3
    action[..., Act.VENT] -= 0.8
    broken = torch.rand(action.shape, generator=generator)
    action[broken < 0.004] = math.nan
    action[broken > 0.996] = math.inf
    return action


def random_draws(rng: random.Random, batch: int, count: int) -> step.Draws:
    """Return uniform samples for one substep."""
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    return step.Draws(*torch.rand((4, batch, count), generator=generator).unbind(0))


def make_scenes(config: EnvConfig, count: int, seed: int) -> tuple[SimModel, State, np.ndarray]:
    """Return `count` battles, each on its own map, and the current materials of their terrain, `[B, Z, Y, X]`."""
    roster: Roster = build_roster(config, CPU)
    rng = random.Random(seed)
    material = np.stack([rough_ground(rng, config.world) for _ in range(count)])
    maps = make_maps(config, material)
    which = torch.arange(count)
    state = initial_state(which, which, maps, roster, config)
    now, rubble, lost = material, np.zeros(material.shape, dtype=bool), np.zeros_like(material)
    if config.features.destruction:
        now, rubble, lost = (np.stack(x) for x in zip(*(scar(rng, m) for m in material), strict=True))
    sim_model = build_model(config, roster, maps)
    return sim_model, scramble(scarred(state, now, rubble, lost), sim_model, now, seed), now

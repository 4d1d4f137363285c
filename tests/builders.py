"""Scenes for tests: hand-made maps, and mechs at chosen places."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from first_catalog import MATERIALS, SLOTS, SMALL, Weapon
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite

from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.rules import actions
from echelon.rules.actions import NO_MECH, Act, Orders
from echelon.rules.catalog import HAZARDS, Catalog, Material
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.roster import build_roster
from echelon.sim import step
from echelon.sim.model import SimModel, build_model
from echelon.sim.terrain import material_at
from echelon.state import PER_WEAPON, Maps, State, initial_state, single_zone_objective, undamaged_spawns
from echelon.world.walkways import ways_on_foot

CPU = torch.device("cpu")
HALF = 0.5
"""The uniform sample that aims a beam at its target's centre."""


def short_battles(decisions: int) -> EnvConfig:
    """Return a 2v2 config that ends after the given decisions of one substep each."""
    rules = RulesConfig(decision_repeat=1, max_episode_s=RulesConfig.dt_s * decisions)
    blue, red = ("medium", "light"), ("medium", "scout")
    return dataclasses.replace(EnvConfig.small(), map_pool=2, blue=blue, red=red, rules=rules)


def weak_catalog() -> Catalog:
    """Return the newest catalog with a tenth of each hull's hit points, for battles in which mechs die soon."""
    newest = Catalog()
    hulls = {name: dataclasses.replace(hull, hp=hull.hp / 10) for name, hull in newest.hulls.items()}
    return dataclasses.replace(newest, hulls=hulls)


def columns_of(material: Tensor, fact: str) -> Tensor:
    """Return `[M, Y, X]` int32 bit columns of the voxels `[M, Z, Y, X]` whose material has `fact`."""
    return bits_of(material, torch.tensor([getattr(MATERIALS[m], fact) for m in Material]))


def bits_of(material: Tensor, table: Tensor) -> Tensor:
    """Return `[M, Y, X]` int32 bit columns of the voxels `[M, Z, Y, X]` whose material is marked in `table`."""
    bits = torch.arange(material.shape[1], dtype=torch.int32)[:, None, None]
    return (table[material.long()].to(torch.int32) << bits).sum(1, dtype=torch.int32)


def flat_maps(config: EnvConfig, *boxes: tuple[int, int, int, int, int, int, Material]) -> Maps:
    """Return one map: open ground with a zone in the middle, and boxes (x0, x1, y0, y1, z0, z1, material) on it."""
    world = config.world
    roster = build_roster(config, CPU)
    material = torch.zeros((1, world.size_z, world.size_y, world.size_x), dtype=torch.uint8)
    material[:, 0] = int(Material.DIRT)
    for x0, x1, y0, y1, z0, z1, what in boxes:
        material[:, z0:z1, y0:y1, x0:x1] = int(what)

    spawn = torch.zeros(1, roster.num_mechs, 3)
    for team, span in enumerate(roster.teams.values()):
        for i, n in enumerate(range(span.start, span.stop)):
            spawn[0, n, 0] = 4 + 4.5 * (i % 5)
            spawn[0, n, 1] = 4 + 4.5 * (i // 5) if team == 0 else world.size_y - 4 - 4.5 * (i // 5)
    spawn[..., 2] = roster.half_size[:, 2]
    center = torch.tensor([world.size_x / 2, world.size_y / 2])
    y, x = torch.meshgrid(torch.arange(world.size_y) + 0.5, torch.arange(world.size_x) + 0.5, indexing="ij")
    to_center = center - torch.stack((x, y), -1)
    away = to_center.norm(dim=-1)
    solid, lava = columns_of(material, "solid"), (material == int(Material.LAVA)).any(1)
    return Maps(
        seed=torch.zeros(1, dtype=torch.int64),
        material=material,
        solid=solid,
        opaque=columns_of(material, "opaque"),
        hazard=bits_of(material, torch.tensor([m in HAZARDS for m in Material])),
        **undamaged_spawns(spawn, roster),
        spawn_yaw=torch.where(roster.is_red, -math.pi / 2, math.pi / 2)[None],
        zone_center=center[None],
        zone_radius=torch.tensor([7.5]),
        path_length=(away - 7.5).clamp_min(0)[None],
        path_direction=(to_center / away.clamp_min(1e-6)[..., None])[None],
        ways=ways_on_foot(solid, lava, spawn, config),
        telemetry=torch.zeros(1, 16, 16),
        **single_zone_objective(1, roster.num_mechs, config.rules, CPU),
        batch_size=[1],
    )


@dataclass
class Scene:
    """A few battles that a test controls."""

    sim_model: SimModel
    state: State

    def place(self, mech: int, x: float, y: float, yaw: float = 0.0, bottom: float = 0.0) -> Scene:
        """Place a mech, facing `yaw`."""
        z = bottom + self.sim_model.roster.half_size[mech, 2].item()
        self.state.mechs.pos[:, mech] = torch.tensor([x, y, z])
        self.state.mechs.yaw[:, mech] = yaw
        return self

    def set(self, mech: int, **values: float) -> Scene:
        """Set fields of one mech, such as `heat=50`."""
        for name, value in values.items():
            getattr(self.state.mechs, name)[:, mech] = value
        return self

    def orders(self, *told: tuple[int, Act, float], focus: dict[int, int] | None = None) -> Orders:
        """Return idle orders with (mech, column, value) entries, and each mech's focus target."""
        batch, count = self.state.mechs.yaw.shape
        action = torch.zeros(batch, count, layout.action_width(self.sim_model.config.comm_dim))
        for mech, column, value in told:
            action[:, mech, column] = value
        orders = actions.decode(action, self.state.focus_slots, self.sim_model.roster, self.sim_model.config.features)
        wanted = torch.full((batch, count), NO_MECH)
        for mech, target in (focus or {}).items():
            wanted[:, mech] = target
        return dataclasses.replace(orders, focus=wanted)

    def draws(
        self,
        beam_height: float | Sequence[float] = HALF,
        ams: float | Sequence[float] = 1.0,
        wreck: float | Sequence[float] = 1.0,
        priority: Sequence[float] | None = None,
    ) -> step.Draws:
        """Return fixed samples, one for all mechs or one each. By default beams have one height, AMS misses, wrecks
        burn, and lower indices walk first."""
        batch, count = self.state.mechs.yaw.shape

        def each(values: float | Sequence[float]) -> Tensor:
            return torch.as_tensor(values, dtype=torch.float32).expand(batch, count)

        first = [(count - n) / count for n in range(count)] if priority is None else priority
        return step.Draws(beam_height=each(beam_height), priority=each(first), ams=each(ams), wreck=each(wreck))

    def run(self, orders: Orders, substeps: int = 1, **draws: float | Sequence[float]) -> Scene:
        """Play some substeps; `draws` as in the method `draws`."""
        for _ in range(substeps):
            self.state = step.substep(self.state, orders, self.draws(**draws), self.sim_model)
        return self

    def wait(self, substeps: int = 1, **draws: float | Sequence[float]) -> Scene:
        """Play some substeps with idle orders."""
        return self.run(self.orders(), substeps, **draws)

    def paint(self, target: int, painter: int, substeps: int = 100) -> Scene:
        """Mark `target` as painted by `painter`, for the given substeps from now."""
        pack = self.sim_model.roster.pack[painter]
        self.state.mechs.paint[:, target, pack] = substeps
        self.state.mechs.painter[:, target, pack] = painter
        return self

    def slot(self, weapon: Weapon, mech: int, which: int = 0) -> int:
        """Return the slot of one of a mech's shots of a weapon."""
        span, shooter = self.sim_model.roster.shots.span[int(weapon)], self.sim_model.roster.shots.shooter
        own = [s for s in range(span.start, span.stop) if shooter[s] == mech]
        assert len(own) == SLOTS[weapon], f"mech {mech} carries no {weapon.name}"
        return own[which]

    def shot(self, weapon: Weapon, mech: int, which: int = 0) -> tuple[list[float], list[float], int]:
        """Return position, velocity and remaining substeps of one of a mech's shots."""
        shots, slot = self.state.shots, self.slot(weapon, mech, which)
        return shots.pos[0, slot].tolist(), shots.vel[0, slot].tolist(), int(shots.ttl[0, slot])

    def throw(
        self,
        weapon: Weapon,
        mech: int,
        pos: Sequence[float],
        vel: Sequence[float],
        ttl: int = 50,
        target: int = NO_MECH,
        which: int = 0,
    ) -> Scene:
        """Add one of a mech's shots in flight."""
        shots, slot = self.state.shots, self.slot(weapon, mech, which)
        shots.pos[:, slot], shots.vel[:, slot] = torch.tensor(pos), torch.tensor(vel)
        shots.ttl[:, slot], shots.target[:, slot] = ttl, target
        return self

    def smoke(self, mech: int, x: float, y: float, z: float, ttl: int = 100, which: int = 0) -> Scene:
        """Add one of a mech's smoke clouds."""
        cloud = mech * self.sim_model.roster.clouds_each + which
        self.state.clouds.pos[:, cloud] = torch.tensor([x, y, z])
        self.state.clouds.ttl[:, cloud] = ttl
        return self

    def clouds(self, mech: int) -> list[tuple[list[float], int]]:
        """Return place and remaining substeps of each active cloud of a mech."""
        each = self.sim_model.roster.clouds_each
        own = slice(mech * each, (mech + 1) * each)
        pos, ttl = self.state.clouds.pos[0, own].tolist(), self.state.clouds.ttl[0, own].tolist()
        return [(where, left) for where, left in zip(pos, ttl, strict=True) if left > 0]

    def material(self, x: int, y: int, z: int) -> Material:
        """Return the current material of a voxel."""
        cell = (torch.full((self.state.seed.shape[0], 1), v) for v in (x, y, z))
        return Material(material_at(self.state, self.sim_model, *cell)[0, 0].item())

    def materials(self) -> Tensor:
        """Return `[Z, Y, X]`, the current material of each voxel of the first battle."""
        world = self.sim_model.config.world
        grid = torch.meshgrid(*(torch.arange(n) for n in (world.size_z, world.size_y, world.size_x)), indexing="ij")
        z, y, x = (axis.expand(self.state.seed.shape[0], *axis.shape) for axis in grid)
        return material_at(self.state, self.sim_model, x, y, z)[0]

    def blocks(self, x: int, y: int, z: int) -> tuple[bool, bool]:
        """Return whether a voxel blocks hulls and shots, and whether it blocks lines of sight."""
        terrain = self.state.terrain
        solid, opaque = (bool(int(columns[0, y, x]) >> z & 1) for columns in (terrain.solid, terrain.opaque))
        return solid, opaque

    def worn(self, x: int, y: int, z: int) -> int:
        """Return the hit points that a voxel has lost."""
        return int(self.state.terrain.damage[0, z, y, x])

    def value(self, name: str, mech: int) -> float:
        """Return a number of one mech, such as `hp`."""
        return getattr(self.state.mechs, name)[0, mech].item()

    def pos(self, mech: int) -> list[float]:
        """Return the position of a mech's hull centre."""
        return self.state.mechs.pos[0, mech].tolist()

    def vel(self, mech: int) -> list[float]:
        """Return the velocity of a mech."""
        return self.state.mechs.vel[0, mech].tolist()

    def bottom(self, mech: int) -> float:
        """Return the height of a mech's underside."""
        return self.pos(mech)[2] - self.sim_model.roster.half_size[mech, 2].item()

    def counted(self, name: str, mech: int, weapon: Weapon | None = None) -> float:
        """Return a number of one mech's tally; where there is one for each weapon, that of one weapon or the sum."""
        values = getattr(self.state.tally, name)[0, mech]
        if name in PER_WEAPON:
            values = values.sum() if weapon is None else values[int(weapon)]
        return values.item()


def scene(config: EnvConfig, *boxes: tuple[int, int, int, int, int, int, Material], batch: int = 1) -> Scene:
    """Return a battle of `config` on open ground with `boxes`."""
    maps = flat_maps(config, *boxes)
    roster = build_roster(config, CPU)
    seed = torch.arange(batch)
    state = initial_state(seed, torch.zeros_like(seed), maps, roster, config)
    return Scene(build_model(config, roster, maps), state)


def arena(
    config: EnvConfig,
    *boxes: tuple[int, int, int, int, int, int, Material],
    num_envs: int = 1,
    seed: int | Tensor = 0,
    memory: Composite | None = None,
) -> EchelonEnv:
    """Return an environment of `config` on open ground with `boxes`."""
    return EchelonEnv(config, num_envs, "cpu", seed, memory, flat_maps(config, *boxes))


def told(env: EchelonEnv, td: TensorDictBase, *orders: tuple[int, int, float]) -> TensorDictBase:
    """Write actions that are 0 except for (mech, column, value) entries."""
    width = layout.action_width(env.config.comm_dim)
    action = torch.zeros(env.num_envs, env.config.num_mechs, width)
    for mech, column, value in orders:
        action[:, mech, column] = value
    for group, span in env.teams.items():
        td[group, "action"] = action[:, span].clone()
    return td


def brawl(td: TensorDictBase, generator: torch.Generator) -> TensorDictBase:
    """Write actions of mechs that walk to the zone, turn to their first contact and fire, with noise on all columns."""
    for group in ("blue", "red"):
        seen = td[group, "observation"]
        way = seen["ego"][..., layout.columns(layout.EGO, "path_direction")]
        heat = seen["ego"][..., layout.columns(layout.EGO, "heat")][..., 0]
        contact = seen["contacts"][..., 0, layout.columns(layout.CONTACT, "rel_pos")]
        bearing = torch.where(seen["contacts_mask"][..., 0], contact[..., 1], way[..., 1])
        shape = (*heat.shape, layout.action_width(seen["comms"].shape[-1]))
        action = torch.rand(shape, generator=generator) * 2 - 1
        action[..., : Act.STRAFE + 1] = way + 0.5 * action[..., : Act.STRAFE + 1]
        action[..., Act.YAW_RATE] = bearing * 20 + 0.2 * action[..., Act.YAW_RATE]
        action[..., [Act.PRIMARY, Act.SECONDARY, Act.TERTIARY]] += 0.8
        action[..., Act.VENT] += 2 * heat - 2
        action[..., Act.SPECIAL] -= 0.97  # rare smoke: it hides all mechs for ten seconds
        td[group, "action"] = action.clamp(-1, 1)
    return td


def duel(
    range_vox: float = 8.0,
    blue: str = "heavy",
    red: str = "heavy",
    *boxes: tuple[int, int, int, int, int, int, Material],
) -> Scene:
    """Return a duel on a small map: blue (0) at (10.5, 20.5) faces red (1), `range_vox` ahead, which faces blue."""
    config = dataclasses.replace(SMALL, blue=(blue,), red=(red,))
    return scene(config, *boxes).place(0, 10.5, 20.5).place(1, 10.5 + range_vox, 20.5, yaw=math.pi)


def battle(
    blue: Sequence[str],
    red: Sequence[str],
    *boxes: tuple[int, int, int, int, int, int, Material],
    **features: bool,
) -> Scene:
    """Return teams on a small map, to be placed by the test; `features` sets switches."""
    config = dataclasses.replace(SMALL, blue=tuple(blue), red=tuple(red))
    return scene(dataclasses.replace(config, features=dataclasses.replace(config.features, **features)), *boxes)

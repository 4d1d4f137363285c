"""The pool of maps that all battles share, generated from seeds before play, and recipes that recreate a map."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from echelon.rules.catalog import HAZARDS, Material
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.roster import Roster, build_roster
from echelon.rules.versions import MAP_MAKER_VERSION
from echelon.runtime import exact
from echelon.runtime.errors import require
from echelon.runtime.noise import Stream, bits
from echelon.state import TELEMETRY_CELLS, Maps, single_zone_objective, undamaged_spawns
from echelon.world import biomes, layout, paths, stamps, walkways
from echelon.world.splits import placed


def make_pool(config: EnvConfig, roster: Roster, device: torch.device) -> Maps:
    """Generate the maps of `config.map_seed`: first the map pool, then the spare maps."""
    return make_maps(config, roster, pool_seeds(config, device))


def pool_seeds(config: EnvConfig, device: torch.device, renewal: int = 0) -> Tensor:
    """Return the seed of each map, `[M]` int64: of the initial pool, or of its n-th `renewal`."""
    root = torch.full((1,), config.map_seed, dtype=torch.int64, device=device)
    return placed(bits(root, renewal, Stream.WORLD, config.map_pool + config.map_spares)[0], config.split)


BLOCK = 64
"""Maps per block on a CPU. Larger blocks exceed its caches (256 maps at once: 93 maps/s, in blocks of 64: 190)."""


def make_maps(config: EnvConfig, roster: Roster, seeds: Tensor) -> Maps:
    """Generate one map per seed, `[M]` int64, on the device of the seeds. Seeds are first mapped into the range of the
    split by `placed`.

    Map m depends only on the config and seeds[m], not on the other maps.
    """
    layout.check_room(config)
    seeds = placed(seeds, config.split)
    blocks = seeds.split(BLOCK if seeds.device.type == "cpu" else len(seeds))
    return cast(Maps, torch.cat([make_block(config, roster, block) for block in blocks]))


def make_block(config: EnvConfig, roster: Roster, seeds: Tensor) -> Maps:
    world = config.world
    areas = layout.arrange_spawns(seeds, config)
    zone = layout.choose_zones(seeds, areas, world)

    material = bare_ground(seeds, world)
    biomes.furnish(material, biomes.quadrants(seeds, world), seeds, world)
    layout.open_zone(material, zone, seeds, world)
    # Clear the lanes from the spawns to the zone, even through canals and lava.
    stamps.clear(material, layout.lanes(seeds, areas, zone, world))
    layout.open_spawns(material, areas, world)

    spawn_pos, spawn_yaw = layout.place_mechs(seeds, areas, zone.center_vox, roster, world)
    maps, field = assemble_maps(seeds, material, zone, spawn_pos, spawn_yaw, config, roster)
    check_connected(field.reached, spawn_pos, seeds)
    return maps


def assemble_maps(
    seeds: Tensor,
    material: Tensor,
    zone: layout.Zone,
    spawn_pos: Tensor,
    spawn_yaw: Tensor,
    config: EnvConfig,
    roster: Roster,
) -> tuple[Maps, paths.PathField]:
    """Return maps built from finished terrain, and the paths to their zones.

    All mechs start undamaged and cool, and zone control is the objective.

    Args:
        seeds: seeds of the maps, `[M]` int64.
        material: a `Material` per voxel, `[M, Z, Y, X]` uint8.
        zone: the zones.
        spawn_pos: hull centres, `[M, N, 3]` vox.
        spawn_yaw: headings, `[M, N]` rad.
        config: the battle.
        roster: mechs of the battle.
    """
    solid = bit_columns(material, [config.catalog.material(kind).solid for kind in Material])
    opaque = bit_columns(material, [config.catalog.material(kind).opaque for kind in Material])
    lava = (material == Material.LAVA).any(1)
    field = paths.walk_to(zone.disc(config.world), solid, lava, config.world.size_z)
    maps = Maps(
        seed=seeds,
        material=material,
        solid=solid,
        opaque=opaque,
        hazard=bit_columns(material, [kind in HAZARDS for kind in Material]),
        **undamaged_spawns(spawn_pos, roster),
        spawn_yaw=spawn_yaw,
        zone_center=zone.center_vox,
        zone_radius=zone.radius_vox,
        path_length=field.length_vox,
        path_direction=field.direction,
        ways=walkways.ways_on_foot(solid, lava, spawn_pos, config),
        telemetry=seen_from_above(solid | opaque, config.world.size_z),
        **single_zone_objective(len(seeds), roster.num_mechs, config.rules, seeds.device),
        batch_size=[len(seeds)],
    )
    return maps, field


def bare_ground(seeds: Tensor, world: WorldConfig) -> Tensor:
    """Return one layer of DIRT, in which mechs stand, below AIR, `[M, Z, Y, X]` uint8."""
    shape = (len(seeds), world.size_z, world.size_y, world.size_x)
    material = torch.full(shape, int(Material.AIR), dtype=torch.uint8, device=seeds.device)
    material[:, 0] = int(Material.DIRT)
    return material


def bit_columns(material: Tensor, blocks: list[bool]) -> Tensor:
    """Return bit columns `[M, Y, X]` int32 of `material [M, Z, Y, X]`. Bit z is set where `blocks[material]` is
    True."""
    table = torch.tensor(blocks, dtype=torch.int32, device=material.device)
    columns = torch.zeros_like(material[:, 0], dtype=torch.int32)
    for z in range(material.shape[1]):
        columns |= table[material[:, z].int()] << z
    return columns


def column_heights(columns: Tensor, size_z: int) -> Tensor:
    """Return the top of the highest set voxel of `columns [M, Y, X]`, `[M, Y, X]` int32 vox; 0 for empty columns."""
    height = torch.zeros_like(columns)
    for z in range(size_z):
        height = torch.where((columns >> z) & 1 == 1, z + 1, height)
    return height


def seen_from_above(blocked: Tensor, size_z: int) -> Tensor:
    """Return the mean column height in each block as a share of the map's height, `[M, 16, 16]` float32.

    The height of a column is its highest bit in `blocked [M, Y, X]`, even if there is air below.
    """
    height = column_heights(blocked, size_z)
    # Sum the heights of each of the 16 x 16 blocks from cumulative sums of integers. If a side of the map is no
    # multiple of 16, neighbouring blocks share a row.
    total = F.pad(height.cumsum(1).cumsum(2), (1, 0, 1, 0))
    (top, bottom), (left, right) = (block_edges(side, height.device) for side in height.shape[1:])
    upper, lower = total[:, top], total[:, bottom]
    sums = lower[..., right] - lower[..., left] - upper[..., right] + upper[..., left]
    return exact.divide(sums.float() / (bottom - top)[:, None] / (right - left), size_z)


def block_edges(side: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Split `side` rows into 16 blocks. Returns the first row and the end row (exclusive) of each, `[16]` int64."""
    index = torch.arange(TELEMETRY_CELLS, device=device)
    return index * side // TELEMETRY_CELLS, ((index + 1) * side - 1) // TELEMETRY_CELLS + 1


def check_connected(reached: Tensor, spawn_pos: Tensor, seeds: Tensor) -> None:
    """Raise `RuntimeError` unless the widest hull can walk to the zone from every spawn. The lanes guarantee a path."""
    x, y = spawn_pos[..., 0].long(), spawn_pos[..., 1].long()
    own_map = torch.arange(len(seeds), device=seeds.device)[:, None]
    cut_off = ~reached[own_map, y, x].all(1)
    if cut_off.any():
        raise RuntimeError(f"no path from a spawn to the zone on the maps of seeds {seeds[cut_off].tolist()}")


MAKERS: dict[int, Callable[[EnvConfig, Roster, Tensor], Maps]] = {2: make_maps}
"""The map generator of each version. Old generators stay, so that their recipes keep working."""
RECIPE_FIELDS: dict[str, type] = {"version": int, "seed": int, "sha256": str}


@dataclass(frozen=True)
class Recipe:
    """The generator version and seed of a map, and the hash of the result."""

    version: int
    seed: int
    sha256: str
    """Hash of the map; see `fingerprints`."""

    def make(self, config: EnvConfig, device: torch.device | str = "cpu") -> Maps:
        """Generate the map again.

        Raises:
            ConfigError: if the version is unknown, or the map differs from the recorded hash.
        """
        versions = ", ".join(map(str, MAKERS))
        require(
            self.version in MAKERS, "map.version", f"a map generator version of this Echelon, {versions}", self.version
        )
        device = torch.device(device)
        maps = MAKERS[self.version](config, build_roster(config, device), torch.tensor([self.seed], device=device))
        (sha256,) = fingerprints(maps)
        hint = f"{self.sha256}, as in the recipe, which belongs to other settings or to an authored map"
        require(sha256 == self.sha256, f"the sha256 of map {self.seed}", hint, sha256)
        return maps

    def as_json(self) -> dict[str, Any]:
        return {"version": self.version, "seed": self.seed, "sha256": self.sha256}


def recipe_from_json(values: Any) -> Recipe:
    require(isinstance(values, dict), "map", "a recipe", values)
    for name, kind in RECIPE_FIELDS.items():
        require(type(values.get(name)) is kind, f"map.{name}", f"a {kind.__name__}", values.get(name))
    require(0 <= values["seed"] < 2**32, "map.seed", "0..4294967295", values["seed"])
    return Recipe(**{name: values[name] for name in RECIPE_FIELDS})


def fingerprints(maps: Maps) -> list[str]:
    """Return the sha256 of each map: of its voxels, its zone and its spawns."""
    tensors = (maps.material, maps.zone_center, maps.zone_radius, maps.spawn_pos)
    rows = [values.cpu().numpy() for values in tensors]
    return [hashlib.sha256(b"".join(values[m].tobytes() for values in rows)).hexdigest() for m in range(maps.shape[0])]


def write_recipes(maps: Maps) -> list[Recipe]:
    return [
        Recipe(MAP_MAKER_VERSION, seed, sha) for seed, sha in zip(maps.seed.tolist(), fingerprints(maps), strict=True)
    ]

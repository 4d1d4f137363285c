"""Every setting of a battle, as frozen dataclasses that check themselves. Training has its own in `echelon.learn`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal

import tyro

from echelon.rules import limits
from echelon.rules.catalog import Catalog, check_flight
from echelon.rules.config_json import as_json, from_json
from echelon.rules.orders import CommandConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.position import Position
from echelon.rules.versions import MAP_MAKER, RULES, current_versions, stored_versions
from echelon.runtime.errors import require, short_repr
from echelon.runtime.limits import SEED, SHARE, Limits, Settings, check_settings

PACK = ("heavy", "medium", "medium", "light", "scout")
BIOME_NAMES = (
    "urban_residential",
    "industrial_refinery",
    "civic_government",
    "forest_park",
    "barrens",
    "arcology_spire",
    "sunken_canal",
    "geo_front",
    "glass_desert",
    "command_outpost",
    "dense_jungle",
    "mining_pit",
    "volcanic_ridge",
    "hydroponic_lab",
    "server_farm",
    "orbital_relay",
)
REGISTERED_BIOMES: list[str] = []
"""Names of biomes from outside the package, which `echelon.register_biome` adds in this process."""

Split = Literal["train", "validation", "test"]
EXTRA = "extra"
"""Where a signature's reward holds the weights of the user's own terms."""
NO_EXTRA_REWARDS: Mapping[str, float] = MappingProxyType({})


def require_biome(name: str) -> None:
    """Refuse the name of a biome that nobody can paint. It may stand in a stranger's file, so it imports nothing."""
    names = (*BIOME_NAMES, *REGISTERED_BIOMES)
    hint = "; one of your own is registered first, by echelon.register_biome(name, paint) in a module of --allow-module"
    hint += " or at the top of your script's module, and so in every process that plays on its maps"
    require(name in names, "WorldConfig.biomes", f"chosen from {names}{hint}", name)


@dataclass(frozen=True)
class WorldConfig:
    """Size and content of the generated maps. One voxel is one metre.

    Raises:
        ConfigError: a number is outside its limits, or a biome is not known in this process.
    """

    size_x: Annotated[int, limits.SIDE] = 64
    """Voxels of ground along x, 32..500."""
    size_y: Annotated[int, limits.SIDE] = 64
    """Voxels of ground along y, 32..500."""
    size_z: Annotated[int, Limits(6, 31, "vox (a column is one int32)")] = 20
    """Voxels of height, 6..31."""
    biomes: tuple[str, ...] = BIOME_NAMES
    """Which kinds of ground the maps are made of; `echelon.register_biome` adds to them."""
    difficulty: Annotated[float, SHARE] = 1.0
    """Obstacle density from 0 (open ground) to 1."""

    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_settings(self)
        require(len(self.biomes) > 0, "WorldConfig.biomes", f"a non-empty choice of {BIOME_NAMES}", self.biomes)
        for name in self.biomes:
            require_biome(name)

    @property
    def size(self) -> tuple[int, int, int]:
        """Voxels along x, y and z."""
        return self.size_x, self.size_y, self.size_z

    @property
    def longest_side(self) -> int:
        """The longer side of the ground, vox: what distances are shown as shares of."""
        return max(self.size_x, self.size_y)


@dataclass(frozen=True)
class FeaturesConfig(Settings):
    """Systems that can be switched off, for ablations. No shape changes with them.

    Columns that need one of them are 0 without it; `env.describe()` names them.

    Raises:
        ConfigError: a value is not a bool.
    """

    ewar: bool = True
    """ECM and ECCM."""
    comms: bool = True
    """Messages to the pack."""
    target_preference: bool = True
    """Off: no mech has a focus target."""
    observation_control: bool = True
    """Off: contacts come closest first, friends included, whatever the action asks for."""
    suites: bool = True
    """Off: every cockpit shows all it senses, and nothing of what packmates sense."""
    smoke: bool = True
    """Off: smoke launchers do nothing."""
    destruction: bool = True
    """Off: shots leave the terrain as it is, and the dead leave no wreck."""

    __repr__ = short_repr


@dataclass(frozen=True)
class RewardConfig(Settings):
    """Weight of each reward term, a number of any sign; a mech's reward is their weighted sum, mixed with its team's.

    Raises:
        ConfigError: a number is outside its limits.
    """

    approach: Annotated[float, limits.WEIGHT] = 6.0
    """Walking to the zone by the longest side of the map. High enough to be heard above the value function's errors: at
    1.0 no team learnt to walk."""
    zone: Annotated[float, limits.WEIGHT] = 0.05
    """A decision inside the zone, times the share in which its team controls it."""
    damage: Annotated[float, limits.WEIGHT] = 0.005
    """A hit point taken from an enemy."""
    kill: Annotated[float, limits.WEIGHT] = 1.0
    """An enemy killed."""
    assist: Annotated[float, limits.WEIGHT] = 0.5
    """A packmate's kill of a target that it painted."""
    death: Annotated[float, limits.WEIGHT] = -0.3
    """Its own death. Mild: at -1.0 teams learnt to win, then learnt to stay out of the fight."""
    terminal: Annotated[float, limits.WEIGHT] = 5.0
    """A battle won; one lost is paid the negative."""
    contested_offence: Annotated[float, limits.WEIGHT] = 2.0
    """Factor on damage and kills dealt inside a contested zone."""
    contested_death: Annotated[float, limits.WEIGHT] = 0.5
    """Factor on a death inside a contested zone."""
    team_mix_alpha: Annotated[float, SHARE] = 0.5
    """1 pays each mech its own terms, 0 the mean of its team. At 1.0 each mech in time leaves the fight to others."""
    gamma: Annotated[float, Limits(1e-6, 1)] = 0.995
    """Discount of the approach potential. The only copy: PPO reads it too."""

    __repr__ = short_repr


def _packs(count: int) -> tuple[str, ...]:
    return PACK * count


@dataclass(frozen=True)
class EnvConfig:
    """One battle: its world, rules, rewards, rosters and what a mech observes. By default that of `standard`.

    `dataclasses.replace(EnvConfig.small(), comm_dim=4)` changes one.

    Raises:
        ConfigError: naming the field that is outside its limits, its limit and its value.
    """

    world: WorldConfig = field(default_factory=WorldConfig)
    rules: RulesConfig = field(default_factory=RulesConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    command: CommandConfig = field(default_factory=CommandConfig)
    """Orders to packs, off by default (`docs/COMMAND.md`)."""
    blue: tuple[str, ...] = _packs(2)
    """Hull name of each blue mech, 1..20, packs of five in order."""
    red: tuple[str, ...] = _packs(2)
    """Hull name of each red mech; the teams may differ in size and kind."""
    catalog: Annotated[Catalog, tyro.conf.Fixed, tyro.conf.Suppress] = field(default_factory=Catalog)
    """Hulls, weapons, suites and materials; no flag of its own."""
    observation_mode: Literal["partial", "full"] = "partial"
    """Whether a mech observes what it senses, or every living mech."""
    sight_range_vox: Annotated[float, Limits(0.1, 1e6, "vox")] = 60.0
    """How far a mech sees along a clear line."""
    radar_range_vox: Annotated[float, limits.RANGE] = 14.0
    """How far it senses through walls, at a sensor quality of 1."""
    command_suites: bool = False
    """Give each pack's light a pack commander's cockpit, and the first pack's first medium a squad commander's."""
    comm_dim: Annotated[int, Limits(0, limits.MOST_COMMS, "numbers in a message")] = 8
    """Numbers in a message to the pack, the last columns of an action."""
    map_pool: Annotated[int, Limits(1, limits.MOST_MAPS, "maps")] = 64
    """Maps made at start; every battle draws one of them by its own seed."""
    map_spares: Annotated[int, Limits(0, limits.MOST_MAPS, "maps")] = 0
    """Maps made on top and drawn by nobody: `EchelonEnv.renew_maps` makes them anew and lets them take turns."""
    map_seed: Annotated[int, SEED] = 0
    """What the maps of the pool are made from."""
    positions: Annotated[tuple[Position, ...], tyro.conf.Fixed, tyro.conf.Suppress] = ()
    """How battles begin, one of these each, drawn by its own seed, in place of generated maps; no flag of its own.
    `Scenario.config` and `echelon.scene_config` fill it."""
    split: Annotated[Literal[Split, None], tyro.conf.arg(aliases=("--split",))] = None
    """`train`, `validation` or `test`: seeds of maps and battles lie in a range that no other split meets; None:
    anywhere (`docs/TRAINING.md`)."""

    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("blue", "red"):
            roster = getattr(self, name)
            require(1 <= len(roster) <= 20, f"EnvConfig.{name}", "1..20 hull names", roster)
            for hull in roster:
                require(
                    hull in self.catalog.hulls, f"EnvConfig.{name}", f"chosen from {tuple(self.catalog.hulls)}", hull
                )
        check_flight(self.catalog, self.rules, (*self.blue, *self.red))
        self.command.queue(self.rules.decision_s)
        is_within = 0 <= self.map_spares <= self.map_pool
        require(is_within, "EnvConfig.map_spares", "0..map_pool", self.map_spares)
        self._check_positions()

    def _check_positions(self) -> None:
        spares = 0 if self.positions else self.map_spares
        require(self.map_spares == spares, "EnvConfig.map_spares", "0 where battles begin as written", self.map_spares)
        teams = {"blue": self.blue, "red": self.red}
        for i, position in enumerate(self.positions):
            position.check(self.world.size, self.catalog, self.rules.max_episode_s)
            for team, roster in position.rosters.items():
                where = f"{team} of EnvConfig.positions[{i}]"
                require(roster == teams[team], where, f"the {', '.join(teams[team])} of the battle", ", ".join(roster))

    @classmethod
    def small(cls) -> EnvConfig:
        """5v5 on 40x40x16."""
        return cls(world=WorldConfig(40, 40, 16), blue=_packs(1), red=_packs(1))

    @classmethod
    def standard(cls) -> EnvConfig:
        """10v10 on 64x64x20."""
        return cls()

    @classmethod
    def large(cls) -> EnvConfig:
        """10v10 on 100x100x20, 90 s."""
        return cls(world=WorldConfig(100, 100, 20), rules=RulesConfig(max_episode_s=90.0))

    @property
    def num_mechs(self) -> int:
        """Mechs of both teams, N."""
        return len(self.blue) + len(self.red)

    @property
    def is_unequal(self) -> bool:
        """The teams differ in size, kind or where they begin, so that results are told by side."""
        return self.blue != self.red or len(self.positions) > 0

    @property
    def num_maps(self) -> int:
        """Maps made at start: one for each position, or else the pool and its spares."""
        return len(self.positions) or self.map_pool + self.map_spares

    @property
    def squad_slots(self) -> int:
        """Comrades the widest cockpit shows, S."""
        return 12 if self.command_suites else 5

    @property
    def title(self) -> str:
        """The preset that it is, or what a reader tells it by: `5v5 on 40x40x16`."""
        for name, preset in ENV_PRESETS.items():
            if self == preset():
                return name
        world = self.world
        begins = f" from {len(self.positions)} positions" if len(self.positions) > 1 else ""
        begins = " from a position" if len(self.positions) == 1 else begins
        return f"{len(self.blue)}v{len(self.red)} on {world.size_x}x{world.size_y}x{world.size_z}{begins}"

    def signature(self, extra_rewards: Mapping[str, float] = NO_EXTRA_REWARDS) -> dict[str, Any]:
        """What a policy was trained in, as plain JSON values: the versions of the rules and of the map maker, and the
        settings without the seed of the maps and the split.

        Args:
            extra_rewards: weight of each reward term of the user's own, by name; `reward.extra` holds them, if any.
        """
        values = {**current_versions().as_json(), **as_json(self)}
        del values["map_seed"]
        values.pop("split", None)
        if extra_rewards:
            values["reward"][EXTRA] = dict(extra_rewards)
        return values


ENV_PRESETS = {"small": EnvConfig.small, "standard": EnvConfig.standard, "large": EnvConfig.large}


def env_from_json(values: dict[str, Any]) -> EnvConfig:
    """The battle that `EnvConfig.signature` described, with the values that it had then. Of the user's own reward terms
    it keeps nothing: their functions are in no file, and battles do not depend on them.
    """
    stored_versions(values, "env")
    settings = {name: value for name, value in values.items() if name not in (RULES, MAP_MAKER)}
    if isinstance(reward := settings.get("reward"), dict):
        settings["reward"] = {term: weight for term, weight in reward.items() if term != EXTRA}
    config: EnvConfig = from_json(EnvConfig, {"map_seed": EnvConfig.map_seed, **settings}, "env")
    return config

"""All settings of a battle, as frozen dataclasses that check their values. For training see `echelon.learn.config`."""

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
"""Names of the user's biomes, added by `echelon.register_biome` in this process."""

Split = Literal["train", "validation", "test"]
EXTRA = "extra"
"""Key of the user's own reward terms in the `reward` of a signature."""
NO_EXTRA_REWARDS: Mapping[str, float] = MappingProxyType({})


def require_biome(name: str) -> None:
    """Raise `ConfigError` for an unknown biome. This check imports nothing, because the name may come from an untrusted
    file."""
    names = (*BIOME_NAMES, *REGISTERED_BIOMES)
    hint = "; register your own biome first, by echelon.register_biome(name, paint) in a module of --allow-module or"
    hint += " at the top of your script's module, so that every process that plays on its maps registers it"
    require(name in names, "WorldConfig.biomes", f"chosen from {names}{hint}", name)


@dataclass(frozen=True)
class WorldConfig:
    """Size and content of the generated maps. One voxel is one metre.

    Raises:
        ConfigError: if a value is outside its limits, or a biome is not registered in this process.
    """

    size_x: Annotated[int, limits.SIDE] = 64
    """Size of the map along x, 32..500 vox."""
    size_y: Annotated[int, limits.SIDE] = 64
    """Size of the map along y, 32..500 vox."""
    size_z: Annotated[int, Limits(6, 31, "vox (a column is one int32)")] = 20
    """Height of the map, 6..31 vox."""
    biomes: tuple[str, ...] = BIOME_NAMES
    """Biomes that maps are generated from. Register your own with `echelon.register_biome`."""
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
        """Size of the map along x, y and z, vox."""
        return self.size_x, self.size_y, self.size_z

    @property
    def longest_side(self) -> int:
        """The longer horizontal side of the map, vox. Observations divide distances by this length."""
        return max(self.size_x, self.size_y)


@dataclass(frozen=True)
class FeaturesConfig(Settings):
    """Parts of the simulation that can be disabled for ablations. Shapes stay the same.

    Observation columns that depend on a disabled part are 0; `env.describe()` lists them.

    Raises:
        ConfigError: if a value is not a bool.
    """

    ewar: bool = True
    """ECM and ECCM."""
    comms: bool = True
    """Messages to the pack."""
    target_preference: bool = True
    """Focus targets chosen by the action. If disabled, no mech has a focus target."""
    observation_control: bool = True
    """Contact order chosen by the action. If disabled, contacts are sorted by distance and include friends."""
    suites: bool = True
    """Combat suites. If disabled, each mech observes all it senses, and no contacts that packmates sense."""
    smoke: bool = True
    """Smoke launchers. If disabled, they do nothing."""
    destruction: bool = True
    """Damage to the terrain. If disabled, shots do not change the terrain, and dead mechs leave no wreck."""

    __repr__ = short_repr


@dataclass(frozen=True)
class RewardConfig(Settings):
    """Weights of the reward terms. A mech's reward is the weighted sum of the terms, mixed with the mean reward of its
    team.

    Raises:
        ConfigError: if a value is outside its limits.
    """

    approach: Annotated[float, limits.WEIGHT] = 6.0
    """Reward for walking a distance of the longest map side towards the zone. At 1.0 the value function's errors
    drowned it, and no team learned to walk."""
    zone: Annotated[float, limits.WEIGHT] = 0.05
    """Reward per decision inside the zone, times the share of the zone that the team controls."""
    damage: Annotated[float, limits.WEIGHT] = 0.005
    """Reward per hit point of damage to an enemy."""
    kill: Annotated[float, limits.WEIGHT] = 1.0
    """Reward per enemy killed."""
    assist: Annotated[float, limits.WEIGHT] = 0.5
    """Reward per kill by a packmate of a target that this mech painted."""
    death: Annotated[float, limits.WEIGHT] = -0.3
    """Reward for the mech's own death. At -1.0 teams first learned to win, then to avoid the fight."""
    terminal: Annotated[float, limits.WEIGHT] = 5.0
    """Reward for a won battle, and its negative for a lost one."""
    contested_offence: Annotated[float, limits.WEIGHT] = 2.0
    """Factor on damage and kills dealt inside a contested zone."""
    contested_death: Annotated[float, limits.WEIGHT] = 0.5
    """Factor on a death inside a contested zone."""
    team_mix_alpha: Annotated[float, SHARE] = 0.5
    """Share of the mech's own terms in its reward; the rest is the mean of its team. At 1.0 mechs learn to avoid the
    fight."""
    gamma: Annotated[float, Limits(1e-6, 1)] = 0.995
    """Discount of the approach potential. PPO uses the same value."""

    __repr__ = short_repr


def _packs(count: int) -> tuple[str, ...]:
    return PACK * count


@dataclass(frozen=True)
class EnvConfig:
    """Settings of a battle: world, rules, rewards, rosters and observations. The defaults are the preset `standard`.

    Change a preset with `dataclasses.replace(EnvConfig.small(), comm_dim=4)`.

    Raises:
        ConfigError: if a field is outside its limits. The error message contains the field, its limits and the value.
    """

    world: WorldConfig = field(default_factory=WorldConfig)
    rules: RulesConfig = field(default_factory=RulesConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    command: CommandConfig = field(default_factory=CommandConfig)
    """Orders to packs, off by default (`docs/COMMAND.md`)."""
    blue: tuple[str, ...] = _packs(2)
    """Hull name of each blue mech, 1..20 mechs, in packs of five."""
    red: tuple[str, ...] = _packs(2)
    """Hull name of each red mech. The teams may differ in size and hulls."""
    catalog: Annotated[Catalog, tyro.conf.Fixed, tyro.conf.Suppress] = field(default_factory=Catalog)
    """Hulls, weapons, suites and materials. Not a command-line flag."""
    observation_mode: Literal["partial", "full"] = "partial"
    """`partial`: a mech observes the mechs that it senses; `full`: all living mechs."""
    sight_range_vox: Annotated[float, Limits(0.1, 1e6, "vox")] = 60.0
    """Range of vision along a clear line, vox."""
    radar_range_vox: Annotated[float, limits.RANGE] = 14.0
    """Range of radar, which works through walls, at a sensor quality of 1, vox."""
    command_suites: bool = False
    """Give each pack's first light a pack command suite, and the first pack's first medium a squad command suite."""
    comm_dim: Annotated[int, Limits(0, limits.MOST_COMMS, "numbers in a message")] = 8
    """Number of values in a message to the pack, the last columns of an action."""
    map_pool: Annotated[int, Limits(1, limits.MOST_MAPS, "maps")] = 64
    """Number of maps generated at the start. Each battle draws one of them by its own seed."""
    map_spares: Annotated[int, Limits(0, limits.MOST_MAPS, "maps")] = 0
    """Number of extra maps that battles do not draw. `EchelonEnv.renew_maps` regenerates them and swaps them in."""
    map_seed: Annotated[int, SEED] = 0
    """Seed of the generated maps."""
    positions: Annotated[tuple[Position, ...], tyro.conf.Fixed, tyro.conf.Suppress] = ()
    """Initial positions that replace generated maps; each battle draws one by its own seed. Not a command-line flag.
    `Scenario.config` and `echelon.scene_config` set it."""
    split: Annotated[Literal[Split, None], tyro.conf.arg(aliases=("--split",))] = None
    """`train`, `validation` or `test`. Seeds of maps and battles of different splits are disjoint. None: any seed
    (`docs/TRAINING.md`)."""

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
        require(self.map_spares == spares, "EnvConfig.map_spares", "0 with authored positions", self.map_spares)
        teams = {"blue": self.blue, "red": self.red}
        for i, position in enumerate(self.positions):
            position.check(self.world.size, self.catalog, self.rules)
            for team, roster in position.rosters.items():
                where = f"{team} of EnvConfig.positions[{i}]"
                require(
                    roster == teams[team],
                    where,
                    f"{', '.join(teams[team])}, the mechs of the battle",
                    ", ".join(roster),
                )

    @classmethod
    def small(cls) -> EnvConfig:
        """Return the preset `small`: 5 against 5 mechs on a map of 40x40x16 voxels."""
        return cls(world=WorldConfig(40, 40, 16), blue=_packs(1), red=_packs(1))

    @classmethod
    def standard(cls) -> EnvConfig:
        """Return the preset `standard`: 10 against 10 mechs on a map of 64x64x20 voxels."""
        return cls()

    @classmethod
    def large(cls) -> EnvConfig:
        """Return the preset `large`: 10 against 10 mechs on a map of 100x100x20 voxels, for 90 s."""
        return cls(world=WorldConfig(100, 100, 20), rules=RulesConfig(max_episode_s=90.0))

    @property
    def num_mechs(self) -> int:
        """Number of mechs of both teams, N."""
        return len(self.blue) + len(self.red)

    @property
    def is_unequal(self) -> bool:
        """True if the teams differ in size, hulls or start positions. Results of unequal teams are reported for each
        side."""
        return self.blue != self.red or len(self.positions) > 0

    @property
    def num_maps(self) -> int:
        """Number of maps built at the start: one per authored position, or else the map pool and its spare maps."""
        return len(self.positions) or self.map_pool + self.map_spares

    @property
    def squad_slots(self) -> int:
        """Largest number of teammates that any combat suite shows, S."""
        return 12 if self.command_suites else 5

    @property
    def title(self) -> str:
        """Name of the preset if the config equals one, else a description such as `5v5 on 40x40x16`."""
        for name, preset in ENV_PRESETS.items():
            if self == preset():
                return name
        world = self.world
        begins = f" from {len(self.positions)} positions" if len(self.positions) > 1 else ""
        begins = " from a position" if len(self.positions) == 1 else begins
        return f"{len(self.blue)}v{len(self.red)} on {world.size_x}x{world.size_y}x{world.size_z}{begins}"

    def signature(self, extra_rewards: Mapping[str, float] = NO_EXTRA_REWARDS) -> dict[str, Any]:
        """Return a description of the training environment as plain JSON values.

        The description contains the versions of the rules and of the map generator, and all settings except `map_seed`
        and `split`.

        Args:
            extra_rewards: weights of the user's own reward terms, keyed by name; stored in `reward.extra`.
        """
        values = {**current_versions().as_json(), **as_json(self)}
        del values["map_seed"]
        values.pop("split", None)
        if extra_rewards:
            values["reward"][EXTRA] = dict(extra_rewards)
        return values


ENV_PRESETS = {"small": EnvConfig.small, "standard": EnvConfig.standard, "large": EnvConfig.large}


def env_from_json(values: dict[str, Any]) -> EnvConfig:
    """Return the config that `EnvConfig.signature` stored, with the values that its settings had then.

    The user's own reward terms are dropped: files do not contain their functions, and battles do not depend on them.

    Args:
        values: the stored signature, as JSON values.

    Raises:
        ConfigError: if a version is not supported, or a field is unknown, missing or outside its limits.
    """
    stored_versions(values, "env")
    settings = {name: value for name, value in values.items() if name not in (RULES, MAP_MAKER)}
    if isinstance(reward := settings.get("reward"), dict):
        settings["reward"] = {term: weight for term, weight in reward.items() if term != EXTRA}
    config: EnvConfig = from_json(EnvConfig, {"map_seed": EnvConfig.map_seed, **settings}, "env")
    return config

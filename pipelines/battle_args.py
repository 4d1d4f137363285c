"""Flags that define the battles and their commanders."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.arena.match import MOST_PLAYED
from echelon.arena.resolve import Commander, common_env
from echelon.rules.catalog import read_catalog
from echelon.rules.config import ENV_PRESETS, EnvConfig, Split
from echelon.runtime.errors import require
from echelon.runtime.limits import SEED, Limits, Settings
from echelon.scenarios.scene import config_of_words

PLAYED = Limits(2, MOST_PLAYED, "battles, an even number")


@dataclass(frozen=True)
class BattleArgs:
    """Changes to the battle preset: scenario, catalog of hulls and weapons, and rosters."""

    scenario: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Scenario used instead of --env: a name of echelon.scenario_names() or a JSON file (`docs/SCENARIOS.md`).
    Repeatable; each battle draws one of them, with weight 1 or an appended :WEIGHT. Results are reported per side."""
    catalog: Path | None = None
    """JSON file of hulls, weapons, suites and materials to add to the catalog or to change in it."""
    blue_roster: tuple[str, ...] = ()
    """Hull name of each blue mech (scout, light, medium, heavy); by default those of the preset. Teams may differ in
    size and hulls: each commander plays both."""
    red_roster: tuple[str, ...] = ()
    """Hull name of each red mech."""

    def apply(self, env: EnvConfig) -> EnvConfig:
        """Return `env` with the catalog and rosters of the flags, or the config of the scenarios of `--scenario`."""
        if self.scenario:
            is_alone = self == BattleArgs(scenario=self.scenario)
            require(is_alone, "--scenario", "used without --catalog and without roster flags", " ".join(self.scenario))
            return config_of_words(self.scenario)
        catalog = env.catalog if self.catalog is None else read_catalog(self.catalog)
        blue, red = self.blue_roster or env.blue, self.red_roster or env.red
        return dataclasses.replace(env, catalog=catalog, blue=blue, red=red)


@dataclass(frozen=True, kw_only=True)
class ChosenBattle:
    """Base class of commands whose flags choose a battle."""

    env: Literal["auto", "small", "standard", "large"] = "auto"
    """Battle preset; auto: the battle of the checkpoint or the league, else small."""
    changes: tyro.conf.OmitArgPrefixes[BattleArgs] = field(default_factory=BattleArgs)

    def config(self, commanders: Sequence[Commander]) -> EnvConfig:
        """Return the config of the preset, with the command line's changes.

        For `auto` the config is that of the battle that the commanders have in common.
        """
        if self.changes.scenario:
            require(self.env == "auto", "--scenario", "given without --env", " ".join(self.changes.scenario))
            return self.changes.apply(ENV_PRESETS["small"]())
        return self.changes.apply(common_env(commanders) if self.env == "auto" else ENV_PRESETS[self.env]())


@dataclass(frozen=True, kw_only=True)
class SplitBattle(Settings, ChosenBattle):
    """Base class of commands that play battles of a data split (train, validation or test)."""

    seed: Annotated[int, SEED] = 0
    split: Split | None = None
    """Split of the maps and battles: train, validation or test; by default none."""

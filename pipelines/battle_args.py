"""The flags that say how battles begin and who fights."""

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
    """How battles begin, what is fought with and who fights, where it is not what the battle preset says."""

    scenario: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Scenario in which battles begin, in place of --env: a name of echelon.scenario_names() or a JSON file
    (`docs/SCENARIOS.md`); repeatable, and each battle draws one of them, as often as a :WEIGHT behind it says. Results
    are told by side."""
    catalog: Path | None = None
    """A JSON file of the hulls, weapons, suites and materials that are added to the catalog or changed."""
    blue_roster: tuple[str, ...] = ()
    """Hull name of each blue mech (scout, light, medium, heavy); those of the preset by default. The teams may differ
    in size and kind: either commander plays both."""
    red_roster: tuple[str, ...] = ()
    """Hull name of each red mech."""

    def apply(self, env: EnvConfig) -> EnvConfig:
        """`env`, or the battles of the scenarios, with this catalog and these teams."""
        if self.scenario:
            is_alone = self == BattleArgs(scenario=self.scenario)
            require(is_alone, "--scenario", "given without --catalog and rosters", " ".join(self.scenario))
            return config_of_words(self.scenario)
        catalog = env.catalog if self.catalog is None else read_catalog(self.catalog)
        blue, red = self.blue_roster or env.blue, self.red_roster or env.red
        return dataclasses.replace(env, catalog=catalog, blue=blue, red=red)


@dataclass(frozen=True, kw_only=True)
class ChosenBattle:
    """Base of the commands that are told which battle is fought."""

    env: Literal["auto", "small", "standard", "large"] = "auto"
    """Battle preset; auto takes the one that a checkpoint was trained in or a league has, else small."""
    changes: tyro.conf.OmitArgPrefixes[BattleArgs] = field(default_factory=BattleArgs)

    def config(self, commanders: Sequence[Commander]) -> EnvConfig:
        """A preset, or for `auto` what the commanders have in common, with the changes of the command line."""
        if self.changes.scenario:
            require(self.env == "auto", "--scenario", "given without --env", " ".join(self.changes.scenario))
            return self.changes.apply(ENV_PRESETS["small"]())
        return self.changes.apply(common_env(commanders) if self.env == "auto" else ENV_PRESETS[self.env]())


@dataclass(frozen=True, kw_only=True)
class SplitBattle(Settings, ChosenBattle):
    """Base of the commands that play battles of a split."""

    seed: Annotated[int, SEED] = 0
    split: Split | None = None
    """Maps and battles of train, validation or test; by default any."""

"""The flags that all commands which play battles share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from echelon.arena.config import ArenaConfig, Precision
from echelon.arena.resolve import Commander, common_env
from echelon.league.league_arena import LeagueArena
from echelon.league.store import Store
from echelon.learn.config import SWITCH, Switch
from echelon.rules.catalog_json import read_catalog
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.limits import MOST_BATTLES
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits, Settings
from echelon.runtime.ray_tasks import RayTasks
from echelon.scenarios.scene import config_of_words


@dataclass(frozen=True)
class ArenaArgs(Settings):
    """How battles are played."""

    device: str = "auto"
    batch: Annotated[int, Limits(1, MOST_BATTLES, "battles")] = 256
    """Maximum number of battles in parallel, which determines the memory use."""
    precision: Precision = "auto"
    """Dtype of the networks' matrix products. auto: bf16 on a GPU that multiplies it, else fp32."""
    compiled: Switch = "auto"
    """Compile networks, and on a GPU simulation and scripted commanders. auto: on a GPU, where that saves more time
    in all battles than compiling takes (`docs/LEAGUE.md`)."""
    cuda_graphs: Switch = "auto"
    """Capture a decision of all battles as a CUDA graph and replay it. auto: on a GPU."""

    def settings(self, tasks: RayTasks | None = None, battles: int | None = None) -> ArenaConfig:
        """How an arena of this process computes; `battles` as of `ArenaConfig`."""
        switches = SWITCH[self.compiled], SWITCH[self.cuda_graphs]
        return ArenaConfig(self.place(tasks), self.batch, self.precision, *switches, battles)

    def build(self, store: Store, tasks: RayTasks | None = None, battles: int | None = None) -> LeagueArena:
        """The arena of a league, on this machine or of a cluster."""
        return LeagueArena(store, self.settings(tasks, battles), tasks)

    def place(self, tasks: RayTasks | None) -> torch.device:
        """Where this process computes: with a cluster it keeps policies, on its CPU."""
        if tasks is None:
            return use_device(resolve_device(self.device))
        require(self.device == "auto", "--device", "left out with --ray: --ray-gpus says what tasks use", self.device)
        return torch.device("cpu")

    def keywords(self, tasks: RayTasks | None = None) -> dict[str, Any]:
        """How battles are played, as `echelon.evaluate` takes it."""
        settings = vars(self.settings(tasks))
        return {name: settings[name] for name in ("device", "batch", "precision", "compiled", "cuda_graph")}


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

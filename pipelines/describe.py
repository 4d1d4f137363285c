"""The `echelon` commands that print columns, tasks and the fingerprint."""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import tyro
from rich.console import Console

from echelon.arena.fingerprint import fingerprint
from echelon.env.describe.columns import describe_battle
from echelon.env.describe.description import PIPED_WIDTH, columns_page, print_tables
from echelon.env.observation import layout
from echelon.env.tasks.task import tasks
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.versions import CHANGES
from echelon.runtime.errors import require
from echelon.runtime.limits import check_settings, limits_of
from echelon.scenarios.scene import config_of_words


@dataclass(frozen=True)
class Describe:
    """Print every column of actions, observations, rewards and outcomes with its range, unit and required feature."""

    env: Literal["small", "standard", "large"] = "standard"
    """Battle preset."""
    scenario: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Scenario used instead: a name of echelon.scenario_names() or a JSON file."""
    comm_dim: int = EnvConfig().comm_dim
    """Length of a message."""
    json: bool = False
    """Print JSON, including the layout stored in checkpoints and its hash."""
    markdown: bool = False
    """Print the page docs/COLUMNS.md."""

    def __post_init__(self) -> None:
        check_settings(self, {"comm_dim": limits_of(EnvConfig)["comm_dim"]})
        require(not (self.json and self.markdown), "--json", "left out with --markdown", self.json)
        is_alone = (self.env, self.comm_dim, self.markdown) == (Describe.env, Describe.comm_dim, False)
        require(
            is_alone or not self.scenario, "--scenario", "used without --env, --comm-dim and --markdown", self.scenario
        )

    def run(self) -> None:
        preset = replace(ENV_PRESETS[self.env](), comm_dim=self.comm_dim)
        config = config_of_words(self.scenario) if self.scenario else preset
        description = describe_battle(config)
        if self.json:
            stored = {"layout": layout.describe(config.comm_dim), "sha256": layout.layout_hash(config.comm_dim)}
            print(json.dumps({**description.to_json(), **stored}))
        elif self.markdown:
            print(columns_page(self.env, description), end="")
        else:
            console = Console()
            # If the terminal width is unknown, print each column on one line.
            print_tables(description, console if console.is_terminal else Console(width=PIPED_WIDTH))


@dataclass(frozen=True)
class Tasks:
    """Print every named task with its versions of rules and map maker, first Echelon version, and fingerprint."""

    def run(self) -> None:
        for name, task in tasks().items():
            echelon = CHANGES[task.rules_version].echelon
            versions = f"rules {task.rules_version}, map maker {task.map_maker}, Echelon {echelon}"
            print(f"{name:<30}{versions:<44}{task.fingerprint}")


@dataclass(frozen=True)
class Fingerprint:
    """Play a short battle and print its sha256, which is the same on every machine."""

    def run(self) -> None:
        print(fingerprint())

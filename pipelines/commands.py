"""The commands of `python -m echelon` and the script `echelon`: describe, plot, report, export, verify, doctor ..."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from echelon.arena.fingerprint import fingerprint
from echelon.arena.resolve import named_checkpoint
from echelon.env.describe.columns import describe_battle
from echelon.env.describe.description import Description, markdown, print_tables
from echelon.env.observation import layout
from echelon.env.tasks.task import tasks
from echelon.learn.checkpoint.files import CheckpointReport, inspect_checkpoint
from echelon.pipelines.console import parse_command
from echelon.pipelines.doctor import Doctor
from echelon.pipelines.export import Export
from echelon.pipelines.pictures import Plot, Report
from echelon.pipelines.strangers import Verify
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.versions import CHANGES, MAP_MAKER, RULES
from echelon.runtime.errors import one_line, require
from echelon.runtime.limits import check_settings, limits_of
from echelon.scenarios.scene import config_of_words

PIPED_WIDTH = 200
"""Letters of a line of tables that are not shown on a terminal."""
PAGE = """# What a column means

Made by `python -m echelon describe --env {env} --markdown > docs/COLUMNS.md`; a test holds it against the code.
`env.describe()` tells the same of any environment and view, flat observations included, as dataclasses (`to_json()`
gives JSON).

Shapes are those of the preset `{env}`. *needs* names fields of `FeaturesConfig`: with any of them off, an observation
or a statistic is always 0, and an action is not heard. Rewards, ends and outcomes of a decision stand below
`("next", ...)`. The rows of contacts and comrades that nobody fills are 0, as is what a dead mech observes, but where
it says otherwise. What policies remember is their user's own and not listed.
"""


@dataclass(frozen=True)
class Describe:
    """Print every column of actions, observations, rewards and outcomes: name, range, unit, which feature it needs."""

    env: Literal["small", "standard", "large"] = "standard"
    """Which battle."""
    scenario: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """In its place that of a scenario: a name of echelon.scenario_names() or a JSON file."""
    comm_dim: int = EnvConfig().comm_dim
    """Length of a message vector."""
    json: bool = False
    """Print JSON, with the layout that checkpoints store and its hash."""
    markdown: bool = False
    """Print the page docs/COLUMNS.md, which is made of this."""

    def __post_init__(self) -> None:
        check_settings(self, {"comm_dim": limits_of(EnvConfig)["comm_dim"]})
        require(not (self.json and self.markdown), "--json", "left out beside --markdown", self.json)
        is_alone = (self.env, self.comm_dim, self.markdown) == (Describe.env, Describe.comm_dim, False)
        require(
            is_alone or not self.scenario, "--scenario", "given without --env, --comm-dim and --markdown", self.scenario
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
            # Where nobody tells how wide it is, a column's row is one line.
            print_tables(description, console if console.is_terminal else Console(width=PIPED_WIDTH))


def columns_page(env: str, description: Description) -> str:
    return "\n".join((PAGE.format(env=env), *markdown(description)))


@dataclass(frozen=True)
class Checkpoint:
    """Print the metadata of a checkpoint and validate its files, without building a model. Exit code 1 if invalid."""

    path: Annotated[Path, tyro.conf.Positional]
    """Its folder, that of a run, trained:NAME, or league:FOLDER/NAME."""
    json: bool = False
    """Print JSON with the complete metadata."""

    def run(self) -> None:
        is_name = ":" in str(self.path) and not self.path.exists()
        report = inspect_checkpoint(named_checkpoint(str(self.path)).path if is_name else self.path)
        if self.json:
            print(json.dumps({**asdict(report), "holds": report.is_valid}))
        else:
            for line in format_report(report):
                print(one_line(line))
        sys.exit(0 if report.is_valid else 1)


@dataclass(frozen=True)
class Tasks:
    """Print every named task: its rules and map maker, the first Echelon with these rules, its fingerprint."""

    def run(self) -> None:
        for name, task in tasks().items():
            echelon = CHANGES[task.rules_version].echelon
            versions = f"rules {task.rules_version}, map maker {task.map_maker}, Echelon {echelon}"
            print(f"{name:<30}{versions:<44}{task.fingerprint}")


@dataclass(frozen=True)
class Fingerprint:
    """Play a short battle and print its sha256, the same on every machine."""

    def run(self) -> None:
        print(fingerprint())


def format_report(report: CheckpointReport) -> list[str]:
    lines = [f"checkpoint  {report.path}"]
    if report.claims:
        claims, env, counters = report.claims, report.claims["env"], report.claims["counters"]
        sizes, model, processes = claims["group_sizes"], claims["model"], claims["processes"]
        lines += [
            f"schema      {claims['schema']} version {claims['version']}",
            f"trained     {', '.join(f'{value} {name}' for name, value in counters.items())}",
            f"rules       version {report.versions[RULES]}, map maker {report.versions[MAP_MAKER]}",
            f"battle      {sizes.get('blue')} against {sizes.get('red')}, world {env.get('world')}",
            f"model       {', '.join(f'{name} {value}' for name, value in model.items())}",
            f"layout      {claims['layout_hash']}",
            *provenance_lines(report.provenance),
            f"goes on     {f'with its battles, processes: {processes}' if processes else 'without its battles'}",
        ]
    for file in report.files:
        size = f"{file.bytes} bytes, {file.tensors} tensors, {file.numbers} numbers"
        lines.append(f"file        {file.problem or f'{file.name}: {size}, sha256 and values hold'}")
    return [*lines, "it holds" if report.is_valid else "it does not hold"]


def provenance_lines(provenance: dict[str, list[str]]) -> list[str]:
    """What weights were trained against, a line for each kind; kinds of which not all is known say so."""
    unknown = provenance["unknown"]
    entries = {kind: provenance[kind] + ["unknown"] * (kind in unknown) for kind in provenance if kind != "unknown"}
    return [f"met         {kind} {', '.join(names) or 'none'}" for kind, names in entries.items()]


COMMANDS: dict[str, Callable[..., Any]] = {
    "describe": Describe,
    "checkpoint": Checkpoint,
    "tasks": Tasks,
    "fingerprint": Fingerprint,
    "plot": Plot,
    "report": Report,
    "export": Export,
    "verify": Verify,
    "doctor": Doctor,
}
"""What each command does, in the order of the help."""


def main(description: str) -> None:
    parse_command(COMMANDS, sys.argv[1:], description).run()

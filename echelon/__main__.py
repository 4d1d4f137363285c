"""`python -m echelon layout`: layout of observations and actions; `… checkpoint PATH`: metadata of a checkpoint;
`… fingerprint`: a hash that is the same on every machine; `… convert PATH`: rewrites a file of an older version;
`… plot RUN …`: draws training runs over each other."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from echelon.arena.fingerprint import fingerprint
from echelon.convert import convert
from echelon.env.observation import layout
from echelon.learn.checkpoint.inspect import CheckpointReport, inspect_checkpoint
from echelon.pipelines.console import parse, run
from echelon.pipelines.plot_runs import Plot
from echelon.pipelines.progress_bar import reading
from echelon.rules.config import EnvConfig
from echelon.rules.limits import ENV
from echelon.rules.versions import MAP_MAKER, RULES
from echelon.runtime.errors import one_line
from echelon.runtime.limits import check_settings


@dataclass(frozen=True)
class Layout:
    """Print the layout of actions and observations: every stream's shape and columns."""

    comm_dim: int = EnvConfig().comm_dim
    """Length of a message vector."""
    json: bool = False
    """Print JSON, as stored in checkpoints."""

    def __post_init__(self) -> None:
        check_settings(self, {"comm_dim": ENV["comm_dim"]})

    def run(self) -> None:
        """Print the result."""
        if self.json:
            described = {"layout": layout.describe(self.comm_dim), "sha256": layout.layout_hash(self.comm_dim)}
            print(json.dumps(described))
            return
        console = Console()
        for stream, features in layout.streams(self.comm_dim).items():
            console.print(Text(f"{stream}  {layout.SHAPES[stream]}"))
            table = Table("columns", "name", "range")
            for feature in features:
                where = layout.columns(features, feature.name)
                last = where.stop - 1
                columns = f"{last}" if feature.width == 1 else f"{where.start}..{last}"
                table.add_row(columns, feature.name, f"{feature.low:g} .. {feature.high:g}")
            console.print(table)


@dataclass(frozen=True)
class Checkpoint:
    """Print the metadata of a checkpoint and validate its files, without building a model. Exit code 1 if invalid."""

    path: Annotated[Path, tyro.conf.Positional]
    """Its folder."""
    json: bool = False
    """Print JSON with the complete metadata."""

    def run(self) -> None:
        """Print the result."""
        found = inspect_checkpoint(self.path)
        if self.json:
            print(json.dumps({**asdict(found), "holds": found.is_valid}))
        else:
            for line in format_report(found):
                print(one_line(line))
        sys.exit(0 if found.is_valid else 1)


@dataclass(frozen=True)
class Fingerprint:
    """Play a short battle and print its sha256, which must equal the one in the README on every machine."""

    def run(self) -> None:
        """Print the result."""
        print(fingerprint())


@dataclass(frozen=True)
class Convert:
    """Rewrite a file of an older version in place: a checkpoint, a run folder, a league, its export or a replay."""

    path: Annotated[Path, tyro.conf.Positional]
    """The file or folder."""

    def run(self) -> None:
        """Convert, and print what was rewritten."""
        with reading(self.path) as watched:
            lines = convert(self.path, watched)
        for line in lines:
            print(one_line(line))


def format_report(found: CheckpointReport) -> list[str]:
    """Format a report as lines of text."""
    lines = [f"checkpoint  {found.path}"]
    if found.claims:
        claims, env, counters = found.claims, found.claims["env"], found.claims["counters"]
        sizes, model, processes = claims["group_sizes"], claims["model"], claims["processes"]
        lines += [
            f"schema      {claims['schema']} version {claims['version']}",
            f"trained     {', '.join(f'{value} {name}' for name, value in counters.items())}",
            f"rules       version {found.versions[RULES]}, map maker {found.versions[MAP_MAKER]}",
            f"battle      {sizes.get('blue')} against {sizes.get('red')}, world {env.get('world')}",
            f"model       {', '.join(f'{name} {value}' for name, value in model.items())}",
            f"layout      {claims['layout_hash']}",
            f"goes on     {f'with its battles, processes: {processes}' if processes else 'without its battles'}",
        ]
    for file in found.files:
        size = f"{file.bytes} bytes, {file.tensors} tensors, {file.numbers} numbers"
        lines.append(f"file        {file.problem or f'{file.name}: {size}, sha256 and values hold'}")
    return [*lines, "it holds" if found.is_valid else "it does not hold"]


def main() -> None:
    """Parse the command line and run the command."""
    commands: dict[str, Callable[..., Any]] = {
        "layout": Layout,
        "checkpoint": Checkpoint,
        "fingerprint": Fingerprint,
        "convert": Convert,
        "plot": Plot,
    }
    parse(lambda: tyro.extras.subcommand_cli_from_dict(commands, description=__doc__)).run()


def program() -> None:
    """The console script `echelon`."""
    run(main)


if __name__ == "__main__":
    program()

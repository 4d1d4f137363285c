"""Commands of `python -m echelon` and of the script `echelon`, such as describe, plot, report, export and verify."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from echelon.arena.resolve import named_checkpoint
from echelon.learn.checkpoint.files import format_report, inspect_checkpoint
from echelon.pipelines.demo import Demo
from echelon.pipelines.describe import Describe, Fingerprint, Tasks
from echelon.pipelines.export import Export
from echelon.pipelines.mcp import McpServer
from echelon.pipelines.runs import Plot, Report
from echelon.pipelines.verify import Verify
from echelon.reports.doctor import print_answers
from echelon.runtime.command_line import parse_command
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import one_line


@dataclass(frozen=True)
class Checkpoint:
    """Print the metadata of a checkpoint and validate its files, without building a model. Exit code 1 if invalid."""

    path: Annotated[Path, tyro.conf.Positional]
    """Checkpoint folder, run folder, trained:NAME, or league:FOLDER/NAME."""
    json: bool = False
    """Print JSON with the complete metadata."""

    def run(self) -> None:
        is_name = ":" in str(self.path) and not self.path.exists()
        report = inspect_checkpoint(named_checkpoint(str(self.path)).path if is_name else self.path)
        if self.json:
            # Version 1.0 used the key `claims` for `metadata`; scripts may read it until version 2.0.
            print(json.dumps({**asdict(report), "claims": report.metadata, "holds": report.is_valid}))
        else:
            for line in format_report(report):
                print(one_line(line))
        sys.exit(0 if report.is_valid else 1)


@dataclass(frozen=True)
class Doctor:
    """Show what this machine supports: device, driver, versions, compilers, and fallbacks with their causes."""

    device: str = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:N."""
    rehearse: bool = False
    """Also compile on a CPU, and compare compiled with uncompiled battles; takes minutes the first time."""
    measure: bool = False
    """Also measure GPU loops against the alternative, and store the result, by which `auto` chooses; takes minutes."""

    def run(self) -> None:
        print_answers(use_device(resolve_device(self.device)), self.rehearse, self.measure)


COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": Demo,
    "describe": Describe,
    "checkpoint": Checkpoint,
    "tasks": Tasks,
    "fingerprint": Fingerprint,
    "plot": Plot,
    "report": Report,
    "export": Export,
    "verify": Verify,
    "mcp": McpServer,
    "doctor": Doctor,
}
"""Command classes, in the order of the help."""


def main(description: str) -> None:
    parse_command(COMMANDS, sys.argv[1:], description).run()

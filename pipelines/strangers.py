"""Protocol 2 at the command line: what `evaluate --protocol 2` does, `verify`, and the table of results."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro

from echelon.arena.strangers.evaluation import (
    StrangersEvaluation,
    battles_of,
    evaluate_strangers,
    met_in_training,
    plan_of,
    strangers_of,
)
from echelon.arena.strangers.leaderboard import add_result, markdown, read_table
from echelon.arena.strangers.verify import SAMPLE, verify
from echelon.env.tasks.task import find_task
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.console import terminal
from echelon.pipelines.progress_bar import bar
from echelon.pipelines.result_tables import show
from echelon.pipelines.train_flags import program_words
from echelon.reports.strangers import write_leaderboard_page, write_strangers_page
from echelon.rules.config import Split
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import require, rounded
from echelon.runtime.files import check_writable, write_whole


@dataclass(frozen=True)
class StrangersArgs:
    """What protocol 2 is asked for beside the policy and the task."""

    runs: tuple[str, ...] = ()
    """With --protocol 2: further training runs of the same recipe. Intervals are then over runs."""
    out: Path | None = None
    """With --protocol 2: write the result as JSON, which `echelon verify` checks."""
    report: Path | None = None
    """With --protocol 2: write table and picture as a page of HTML."""

    def evaluate(self, policy: str, task: str, split: Split | None, how: ArenaArgs, as_json: bool) -> None:
        """Judge, and print or write what was asked for."""
        check_writable(self.out, self.report)
        task_used, policies, split_used = find_task(task), [policy, *self.runs], split or "test"
        total = 0
        if split_used != "train":
            protocol = strangers_of(task_used)
            total = len(policies) * battles_of(protocol, split_used, plan_of(protocol, None, None, None))
        with bar(total, "battles", quiet=as_json) as progress:
            evaluation = evaluate_strangers(
                policies,
                task_used,
                split=split_used,
                on_battles=progress.advance,
                command=shlex.join([*program_words(sys.argv[0]), *sys.argv[1:]]),
                **how.keywords(),
            )
        if self.out is not None:
            write_whole(self.out, (json.dumps(evaluation.as_json()) + "\n").encode())
        if self.report is not None:
            write_strangers_page(evaluation.as_json(), self.report)
        if as_json:
            print(json.dumps(evaluation.as_json()))
            return
        self._print(evaluation)

    def _print(self, evaluation: StrangersEvaluation) -> None:
        record, unit = evaluation.record, evaluation.scores["unit"]
        rows = [
            {name: rounded(cell, 3) if isinstance(cell, float) else cell for name, cell in row.items()}
            for row in evaluation.rows()
        ]
        policy = record["runs"][0]["policy"]
        show(rows, False, f"{policy}, {record['task']} ({record['fingerprint']}): 95 % intervals, a {unit} is the unit")
        contacts = met_in_training(record)
        note = f"in training met: {', '.join(contacts)}: this is no figure of the task" if contacts else ""
        if not record["by_protocol"]:
            note = "numbers or split are not those of the task: this is no figure of it"
        for line in filter(None, (note, *(f"written: {path}" for path in (self.out, self.report) if path))):
            terminal().print(line, markup=False, highlight=False)


@dataclass(frozen=True)
class CheckArgs:
    """How a result is checked."""

    policy: tuple[str, ...] = ()
    """The policies that were judged, one a run; commanders that ship with Echelon may be left out."""
    sample: int = SAMPLE
    """Battles that are fought again, chosen by chance; 0 for all."""
    statistical: bool = False
    """Compare how often was won, not bit by bit: for a processor that is of another kind than it says."""
    device: str = "auto"
    batch: int = 256
    """Maximum number of battles in parallel."""

    def how(self) -> dict[str, Any]:
        """Arguments of `verify`."""
        device = use_device(resolve_device(self.device))
        return {"sample": self.sample, "statistical": self.statistical, "device": device, "batch": self.batch}


@dataclass(frozen=True)
class Verify:
    """Say whether a result of protocol 2 tells the truth: all that follows from its battles is found anew, and a sample
    of the battles is fought again. Exit code 1 if it does not."""

    result: tyro.conf.Positional[Path]
    """A file that `echelon-arena evaluate --protocol 2 --out` wrote."""
    check: tyro.conf.OmitArgPrefixes[CheckArgs] = field(default_factory=CheckArgs)

    def run(self) -> None:
        verified = verify(self.result, self.check.policy, **self.check.how())
        terminal().print(f"{self.result}: {verified}", markup=False, highlight=False)


@dataclass(frozen=True)
class Leaderboard:
    """Keep the table of results of protocol 2: add one that is true and a figure of its task, show all, or write them
    as a page."""

    action: tyro.conf.Positional[Literal["add", "show", "page"]]
    """add a result; show the table as Markdown; or write a page of HTML."""
    result: tyro.conf.Positional[str] = ""
    """To add: a file that `echelon-arena evaluate --protocol 2 --out` wrote."""
    name: str = ""
    """To add: what its row is called; by default the first policy."""
    table: Path = Path("benchmarks/results/leaderboard.json")
    """The table."""
    out: Path = Path("leaderboard.html")
    """The page."""
    check: tyro.conf.OmitArgPrefixes[CheckArgs] = field(default_factory=CheckArgs)

    def __post_init__(self) -> None:
        limit = "given to add, and only there"
        require((self.result != "") == (self.action == "add"), "a result", limit, self.result or "none")

    def run(self) -> None:
        if self.action == "add":
            check_writable(self.table)
            row, verified = add_result(self.table, self.result, self.name, self.check.policy, **self.check.how())
            message = f"{self.table}: {row['name']} at {row['task']}; {self.result} is {verified}"
        elif self.action == "page":
            write_leaderboard_page(read_table(self.table), self.out)
            message = f"written: {self.out}"
        else:
            print(markdown(read_table(self.table)))
            return
        terminal().print(message, markup=False, highlight=False)

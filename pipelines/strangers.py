"""Flags and implementation of `evaluate --protocol 2`."""

import json
from dataclasses import dataclass
from pathlib import Path

from echelon.arena.strangers.evaluation import battles_of, evaluate_strangers, plan_of, strangers_of
from echelon.env.tasks.task import find_task
from echelon.pipelines.arena_args import ArenaArgs
from echelon.reports.strangers import write_strangers_page
from echelon.reports.tables import show_strangers
from echelon.rules.config import Split
from echelon.runtime.command_line import this_command
from echelon.runtime.files import check_writable, write_whole
from echelon.runtime.terminal import bar


@dataclass(frozen=True)
class StrangersArgs:
    """Flags of protocol 2, in addition to the policy and the task."""

    runs: tuple[str, ...] = ()
    """With --protocol 2: further training runs of the same recipe; intervals are then over runs."""
    out: Path | None = None
    """With --protocol 2: write the result as JSON, which `echelon verify` can check."""
    report: Path | None = None
    """With --protocol 2: write table and picture as an HTML page."""

    def evaluate(self, policy: str, task: str, split: Split | None, how: ArenaArgs, as_json: bool) -> None:
        """Evaluate the policy, and print or write the result as requested."""
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
                command=this_command(),
                **how.keywords(),
            )
        if self.out is not None:
            write_whole(self.out, (json.dumps(evaluation.as_json()) + "\n").encode())
        if self.report is not None:
            write_strangers_page(evaluation.as_json(), self.report)
        if as_json:
            print(json.dumps(evaluation.as_json()))
            return
        show_strangers(evaluation, (self.out, self.report))

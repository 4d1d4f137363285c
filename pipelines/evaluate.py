"""The `arena.py` command that evaluates a policy on a named task, or against the entries of a league."""

import json
from dataclasses import dataclass
from functools import partial

from echelon.arena.evaluate import evaluate
from echelon.env.tasks.task import scenario_task
from echelon.league import commands
from echelon.league.store import Store
from echelon.pipelines.evaluate_args import EvaluateArgs
from echelon.reports.tables import log_evaluation, show_evaluation
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.terminal import with_progress
from echelon.scenarios.scene import config_of_words

LEAGUE_SEEDS = 4
"""Default number of seeds of an evaluation in a league."""


@dataclass(frozen=True)
class Evaluate(EvaluateArgs):
    """Evaluate a policy on a task of `echelon.tasks()`, or against the active entries of a league.

    On a task, the task's protocol is used. In a league, the policy is also rated, and the league does not change. Each
    seed is played once per side, and actions are sampled from the policy. With --ray, the workers of a Ray cluster play
    the battles.
    """

    def run(self) -> None:
        require(self.log is None or self.protocol == 1, "--log", "given with --protocol 1", self.protocol)
        check_writable(self.log)
        if self.protocol == 2:
            self.strangers.evaluate(self.policy, self.task, self.split, self.arena, self.json)
            return
        progress = partial(with_progress, quiet=self.json)
        with self.cluster.connected() as tasks:
            if self.league is None:
                evaluation = evaluate(
                    self.policy,
                    scenario_task(config_of_words(self.scenario)) if self.scenario else self.task,
                    self.opponents or None,
                    2 * self.seeds if self.seeds > 0 else None,
                    split=self.split,
                    cluster=tasks,
                    watch=progress,
                    **self.arena.keywords(tasks),
                )
            else:
                store, seeds = Store(self.league), self.seeds or LEAGUE_SEEDS
                arena = self.arena.build(store, tasks, 2 * seeds * (len(self.opponents) or len(store.active())))
                evaluation = commands.evaluate(arena, self.policy, seeds, progress, self.opponents)
        if self.log is not None:
            log_evaluation(evaluation, self.log)
        if self.json:
            print(json.dumps(evaluation.as_json()))
        else:
            show_evaluation(evaluation, self.policy, self.task, self.scenario, self.league)

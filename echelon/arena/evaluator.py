"""Evaluates a policy during training, always in the same held-out battles against the same panel of opponents.

The panel consists of the commanders named in the run's config, scripted ones by default, and the run's best policy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from echelon.agents.heuristic import full_name, scripted
from echelon.arena.batch_arena import BatchArena
from echelon.arena.config import ArenaConfig
from echelon.arena.evaluate import evaluate
from echelon.arena.match import Result, replay_of
from echelon.env.form import form_of
from echelon.env.tasks.task import RUN_SEED, Protocol, Task, held_out
from echelon.learn.config import SWITCH, TrainConfig
from echelon.learn.metrics import CsvTable
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.opponents.assignment import LEARNER
from echelon.learn.opponents.named import OpponentOf
from echelon.replay.battle import Replay
from echelon.replay.recorder import Recorder
from echelon.rules.versions import current_versions
from echelon.runtime.errors import require
from echelon.runtime.json_checks import integer, number
from echelon.runtime.tensor_files import StateDict

BEST = "best"
MAX_ITERATION = 2**53
COLUMNS = (
    *("iteration", "agent_steps", "seconds", "rival", "battles", "wins", "win_rate", "low", "high"),
    *("kills", "deaths", "kill_ratio", "damage", "zone_s", "enemy_zone_s"),
)
"""Columns of `evaluations.csv`, one row per opponent (`rival`). `low` and `high` are the 95 % interval of the win rate,
see `win_rate_interval`. If the teams differ, `win_rate_blue` and `win_rate_red` follow."""

BEHAVIOUR = "behaviour.csv"
"""Statistics of both teams in the evaluations: two rows per opponent, one for the `LEARNER` and one for its `RIVAL`,
with the mean of every statistic over battles (`echelon.env.outcome.stat_names`)."""
RIVAL = "rival"
BEHAVIOUR_COLUMNS = ("iteration", "agent_steps", "rival", "team")


@dataclass(frozen=True)
class Score:
    """Result of the policy against one opponent of the panel."""

    rival: str
    result: Result
    by_side: bool = False
    """Whether the teams differ, so that results by side are reported."""

    @property
    def win_rate(self) -> float:
        return self.result.x_wins / self.result.battles

    def row(self) -> dict[str, object]:
        """Return the values of those `COLUMNS` that are computed from the battles."""
        row = self.result.row(self.by_side)
        del row["draws"]
        return {"rival": self.rival, **row}

    def __str__(self) -> str:
        return format_row(self.row())


def format_row(row: Mapping[str, Any]) -> str:
    """Format a row of `evaluations.csv` as one line; values are numbers, or strings as read from the file."""
    low, high, kill_ratio, damage, zone_s = (float(row[k]) for k in ("low", "high", "kill_ratio", "damage", "zone_s"))
    roles = [f"{float(row[f'win_rate_{side}']):.0%} as {side}" for side in ("blue", "red") if f"win_rate_{side}" in row]
    return (
        f"{row['rival']}: wins {row['wins']}/{row['battles']} ({', '.join([f'{low:.0%} to {high:.0%}', *roles])}), "
        f"kills per death {kill_ratio:.2f}, damage {damage:.0f}, zone {zone_s:.1f} mech-s"
    )


def panel_task(config: TrainConfig, opponents: tuple[str, ...]) -> Task:
    """Return held-out battles against `opponents`, as a task; their results select the best policy of a run.

    Published tasks use other battles, so this selection does not bias results on published tasks.
    """
    panel, battles = Protocol(opponents, config.evaluation.battles, RUN_SEED), held_out(config.env, RUN_SEED)
    return Task("training", "the run's own panel", config.env, *current_versions(), battles, panel)


class Evaluator:
    """Evaluates a policy against the commanders in `EvalConfig.tiers` and the best policy so far.

    Args:
        policy: the policy to evaluate; each evaluation uses its current weights.
        folder: the run folder; `evaluations.csv` is written there.
        opponent_of: builds the commanders, as in `Trainer`.
    """

    def __init__(
        self,
        policy: ActorCritic,
        config: TrainConfig,
        folder: Path,
        opponent_of: OpponentOf = scripted,
    ) -> None:
        self.policy = policy
        self.config = config
        self.device = next(policy.parameters()).device
        self.env = held_out(config.env, RUN_SEED)
        self.best = frozen_copy(policy)
        self.best_rate = -1.0
        self.best_iteration = 0
        self.last_iteration = -1
        """Iteration of the last evaluation; -1 before the first one."""
        names = [full_name(entry) for entry in config.evaluation.tiers]
        for name in names:
            require(name not in (BEST, LEARNER), "EvalConfig.tiers", f"names other than {BEST} and {LEARNER}", name)
        commanders = {name: opponent_of(name, self.env, self.device) for name in names}
        self.opponents = {**commanders, BEST: self.best}
        self.task = panel_task(config, tuple(self.opponents))
        self.arena = self._arena(config.evaluation.battles)
        self.path = folder / "evaluations.csv"
        self.table: CsvTable | None = None
        self.behaviour: CsvTable | None = None

    def open_table(self, last: int) -> None:
        """Open `evaluations.csv` and `behaviour.csv`, and drop the rows after the iteration `last`."""
        self.table = CsvTable(self.path, COLUMNS, last)
        self.behaviour = CsvTable(self.path.with_name(BEHAVIOUR), BEHAVIOUR_COLUMNS, last)

    def _arena(self, battles: int, is_recorded: bool = False) -> BatchArena:
        """Create an arena with the run's precision, for `battles` simultaneous battles per opponent.

        The arena reuses its environment. To record battles, nothing is compiled, because compiling would take longer
        than the battles.
        """
        run = self.config
        is_compiled = form_of(self.device, run.backend) != "eager" and run.compile_policy != "off"
        compiled = SWITCH[run.evaluation.compiled] if is_compiled or run.evaluation.compiled == "on" else False
        settings = replace(
            ArenaConfig.of_run(run, self.device),
            batch=battles * len(self.opponents),
            precision=run.precision,
            compiled=False if is_recorded else compiled,
        )
        return BatchArena(self.env, {**self.opponents, LEARNER: self.policy}.__getitem__, settings)

    @property
    def panel(self) -> list[str]:
        """Opponents of the next evaluation. The first evaluation omits the best policy, which is still the evaluated
        policy itself.
        """
        return [name for name in self.opponents if name != BEST or self.last_iteration >= 0]

    def evaluate(self) -> list[Score]:
        """Play against every opponent of the panel. The call does not change the best policy, see `update_best`."""
        return self._play(self.arena, self.config.evaluation.battles, self.panel)

    def update_best(self, scores: list[Score], iteration: int) -> bool:
        """Store the current policy as the best, unless its mean win rate against the named commanders is lower.

        At equal win rates the later policy is stored, because it was trained for longer.

        Args:
            scores: the result of `evaluate`; a score against the best policy itself is ignored.

        Returns:
            Whether the best policy was replaced.
        """
        rates = [score.win_rate for score in scores if score.rival != BEST]
        rate = sum(rates) / len(rates)
        self.last_iteration = iteration
        if rate < self.best_rate:
            return False
        self.best_rate, self.best_iteration = rate, iteration
        self.best.load_state_dict(self.policy.state_dict())
        return True

    def state_dict(self) -> StateDict:
        """Return weights and win rate of the best policy, and the iteration of the last evaluation."""
        facts = {"best_rate": self.best_rate, "best_iteration": self.best_iteration, "judged": self.last_iteration}
        return StateDict(self.best.state_dict(), facts)

    def load_state_dict(self, state_dict: StateDict) -> None:
        state_dict.check(self.best.state_dict())
        self.best.load_state_dict(state_dict.tensors)
        self.best_rate = float(state_dict.fact("best_rate", number(-1, 1)))
        self.last_iteration = state_dict.fact("judged", integer(-1, MAX_ITERATION))
        self.best_iteration = state_dict.fact("best_iteration", integer(0, MAX_ITERATION))

    def evaluate_final(self) -> list[Score]:
        """Play `EvalConfig.final_battles` battles against every opponent of the panel.

        If the arena is compiled, it is reused, because a new batch size would require another compilation.
        """
        battles = self.config.evaluation.final_battles
        return self._play(self.arena if self.arena.settings.compiled else self._arena(battles), battles, self.panel)

    def record_battles(self, count: int, name: str = LEARNER) -> Replay:
        """Play the first battles of an evaluation against the last commander in `EvalConfig.tiers` again, and record
        them.

        Recorded battles run in eager mode, which is many times slower on a CPU.

        Args:
            count: number of battles, at least 1.
        """
        last = full_name(self.config.evaluation.tiers[-1])
        recorder = Recorder(list(range(count)))
        self._play(self._arena(count, is_recorded=True), count + count % 2, [last], recorder)
        return replay_of(recorder, name, last)

    def _play(
        self,
        arena: BatchArena,
        battles: int,
        opponents: Sequence[str] | None = None,
        recorder: Recorder | None = None,
    ) -> list[Score]:
        with evaluation_mode(self.policy):
            evaluation = evaluate(LEARNER, self.task, opponents, battles=battles, arena=arena, recorder=recorder)
        return [Score(name, result, evaluation.by_side) for name, result in evaluation.results.items()]

    def record(self, scores: list[Score], iteration: int, agent_steps: int, seconds: float) -> None:
        """Append the scores to `evaluations.csv` and both teams' statistics to `behaviour.csv`.

        Args:
            seconds: training time so far.
        """
        if self.table is None:
            self.open_table(self.last_iteration)
        assert self.table is not None and self.behaviour is not None
        for score in scores:
            counters = {"iteration": iteration, "agent_steps": agent_steps}
            self.table.write({**counters, "seconds": round(seconds, 1), **score.row()})
            for team, x in ((LEARNER, True), (RIVAL, False)):
                stats = {name: round(mean, 4) for name, mean in score.result.mean_stats(x).items()}
                self.behaviour.write({**counters, "rival": score.rival, "team": team, **stats})


@contextlib.contextmanager
def evaluation_mode(policy: nn.Module) -> Iterator[None]:
    """Switch a policy to evaluation mode, and afterwards restore the mode of each of its modules."""
    modes = [(module, module.training) for module in policy.modules()]
    policy.eval()
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


def frozen_copy(policy: ActorCritic) -> ActorCritic:
    """Return an independent copy of a policy in evaluation mode."""
    copy = policy.model.build(policy.specs).to(next(policy.parameters()).device)
    copy.load_state_dict(policy.state_dict())
    copy.network.compute = policy.network.compute
    return copy.eval()

"""How good a policy is while it learns: the same held-out battles against the same panel, all along a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelon.agents.heuristic import scripted
from echelon.arena.match import Match, Result, replay_of, wilson_interval
from echelon.env.group_policy import TeamPolicy
from echelon.learn.config import TrainConfig
from echelon.learn.metrics import CsvTable
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.opponents.assignment import LEARNER
from echelon.replay.battle import Replay
from echelon.replay.recorder import Recorder
from echelon.runtime.state_dict import StateDict

EVAL_SEED = 1_000_003
"""Evaluation battles are drawn from this seed, on maps of this seed: none is met in training."""
BEST = "best"
MAX_ITERATION = 2**53
COLUMNS = (
    *("iteration", "agent_steps", "seconds", "rival", "battles", "wins", "win_rate", "low", "high"),
    *("kills", "deaths", "kill_ratio", "damage", "zone_s", "enemy_zone_s"),
)
"""Columns of `evaluations.csv`, a row for each rival; `low` and `high` bound the win rate with 95 %."""


@dataclass(frozen=True)
class Score:
    """Battles of the policy against one of the panel."""

    rival: str
    result: Result

    @property
    def win_rate(self) -> float:
        """Share of the battles won."""
        return self.result.x_wins / self.result.battles

    def row(self) -> dict[str, object]:
        """The numbers of `COLUMNS` that a match gives."""
        low, high = wilson_interval(self.result.x_wins, self.result.battles)
        own, enemy = self.result.mean_stats(x=True), self.result.mean_stats(x=False)
        return {
            "rival": self.rival,
            "battles": self.result.battles,
            "wins": self.result.x_wins,
            "win_rate": self.win_rate,
            "low": low,
            "high": high,
            **{name: own[name] for name in ("kills", "deaths", "damage", "zone_s")},
            "kill_ratio": own["kills"] / max(own["deaths"], 1 / self.result.battles),
            "enemy_zone_s": enemy["zone_s"],
        }

    def __str__(self) -> str:
        return in_words(self.row())


def in_words(row: Mapping[str, Any]) -> str:
    """A row of `evaluations.csv` in one line, as numbers or as they were read."""
    low, high, kill_ratio, damage, zone_s = (float(row[k]) for k in ("low", "high", "kill_ratio", "damage", "zone_s"))
    return (
        f"{row['rival']}: wins {row['wins']}/{row['battles']} ({low:.0%} to {high:.0%}), "
        f"kills per death {kill_ratio:.2f}, damage {damage:.0f}, zone {zone_s:.1f} s"
    )


class EvalCallback:
    """The scripted commanders of `EvalConfig.tiers`, and the best policy so far.

    Args:
        policy: what is judged, always in its weights of the moment.
        config: the run.
        folder: where `evaluations.csv` goes.
        state: of the run that goes on; evaluations after it are dropped.
    """

    def __init__(self, policy: ActorCritic, config: TrainConfig, folder: Path, state: StateDict | None = None) -> None:
        self.policy = policy
        self.config = config
        self.device = next(policy.parameters()).device
        self.env = dataclasses.replace(config.env, map_seed=config.env.map_seed + EVAL_SEED)
        self.best = copied(policy)
        self.best_rate = -1.0
        self.best_iteration = 0
        self.judged = -1
        """Iteration of the last evaluation; -1 before the first."""
        if state is not None:
            self.load_state_dict(state)
        tiers: dict[str, TeamPolicy] = {
            f"heuristic:{tier}": scripted(f"heuristic:{tier}", self.env, self.device)
            for tier in config.evaluation.tiers
        }
        self.others = {**tiers, BEST: self.best}
        self.match = self._match(config.evaluation.battles)
        self.table = CsvTable(folder / "evaluations.csv", COLUMNS, self.judged)

    def _match(self, battles: int) -> Match:
        return Match(
            (LEARNER, self.policy),
            self.others,
            self.env,
            battles,
            self.device,
            compute=self.policy.network.compute,
            compiled=self.config.evaluation.compiled,
        )

    def fight(self) -> list[Score]:
        """Fight the panel, and change nothing about it."""
        return self._fight(self.match)

    def keep_best(self, scores: list[Score], iteration: int) -> bool:
        """Take note of what the policy of an iteration won: it takes the place of the best if it wins more against the
        scripted commanders. Returns whether it does."""
        rate = sum(score.win_rate for score in scores[:-1]) / (len(scores) - 1)
        self.judged = iteration
        if rate <= self.best_rate:
            return False
        self.best_rate, self.best_iteration = rate, iteration
        self.best.load_state_dict(self.policy.state_dict())
        return True

    def state_dict(self) -> StateDict:
        """The best so far, and when the last evaluation was."""
        facts = {"best_rate": self.best_rate, "best_iteration": self.best_iteration, "judged": self.judged}
        return StateDict(self.best.state_dict(), facts)

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Know the best again."""
        state_dict.check(self.best.state_dict())
        self.best.load_state_dict(state_dict.tensors)
        self.best_rate = state_dict.fact("best_rate", float)
        self.judged = state_dict.whole("judged", -1, MAX_ITERATION)
        self.best_iteration = state_dict.whole("best_iteration", 0, MAX_ITERATION)

    def judge_finally(self, recorded: int = 0, name: str = LEARNER) -> tuple[list[Score], Replay | None]:
        """Fight the panel in `EvalConfig.final_battles` battles each.

        Args:
            recorded: battles against the last of the scripted commanders to keep.
            name: what the policy is called in their replay.
        """
        battles, tier = self.config.evaluation.final_battles, f"heuristic:{self.config.evaluation.tiers[-1]}"
        match = self._match(battles)
        if recorded == 0:
            return self._fight(match), None
        recorder = Recorder(match.places(tier, range(min(recorded, battles))))
        return self._fight(match, recorder), replay_of(recorder, name, tier)

    def _fight(self, match: Match, recorder: Recorder | None = None) -> list[Score]:
        was_training = self.policy.training
        self.policy.eval()
        results = match.play(EVAL_SEED, recorder)
        self.policy.train(was_training)
        return [Score(name, result) for name, result in zip(self.others, results.values(), strict=True)]

    def record(self, scores: list[Score], iteration: int, agent_steps: int, seconds: float) -> None:
        """Write rows of `evaluations.csv`."""
        for score in scores:
            when = {"iteration": iteration, "agent_steps": agent_steps, "seconds": round(seconds, 1)}
            self.table.write({**when, **score.row()})


def copied(policy: ActorCritic) -> ActorCritic:
    """The same weights, kept apart, in evaluation mode."""
    twin = ActorCritic(policy.model, policy.comm_dim).to(next(policy.parameters()).device)
    twin.load_state_dict(policy.state_dict())
    twin.network.compute = policy.network.compute
    return twin.eval()

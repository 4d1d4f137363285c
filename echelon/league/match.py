"""Matches: two commanders fight a batch of battles, each seed from both sides."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from echelon import noise
from echelon.agents.heuristic import Heuristic, is_scripted, scripted
from echelon.agents.seat import TeamPolicy
from echelon.config import ConfigError, EnvConfig, require
from echelon.env.env import EchelonEnv
from echelon.env.outcome import STATS, Reason, Winner
from echelon.files import FileError
from echelon.learn.checkpoint import open_checkpoint
from echelon.learn.seats import Rival, Seats
from echelon.replay.battle import Replay
from echelon.replay.recorder import Recorder

LOOK_EVERY = 16
"""Decisions between two looks at whether every battle has ended: the only host reads of a match."""
Decide = Callable[[TensorDictBase, int], object]
"""Writes every team's action into what it sees, at the decision of this number."""
Z_95 = 1.959964
"""Quantile of the standard normal law for a 95 % interval."""


@dataclass(frozen=True)
class Result:
    """What came of a match between commanders X and Y. Battle b and b + battles / 2 share a seed, sides swapped."""

    x_is_blue: list[bool]
    winner: list[Winner]
    reason: list[Reason]
    score: list[list[float]]
    """Seconds of zone control, blue and red."""
    decisions: list[int]
    stats: list[list[list[float]]]
    """By battle, side (blue, red) and entry of `STATS`."""
    seconds: float

    @property
    def battles(self) -> int:
        """How many were fought."""
        return len(self.winner)

    def count(self, winner: Winner) -> int:
        """Battles with this verdict."""
        return sum(w == winner for w in self.winner)

    @property
    def x_wins(self) -> int:
        """Battles X won, on either side."""
        own = [Winner.BLUE if blue else Winner.RED for blue in self.x_is_blue]
        return sum(w == mine for w, mine in zip(self.winner, own, strict=True))

    @property
    def y_wins(self) -> int:
        """Battles Y won, on either side."""
        return self.battles - self.count(Winner.DRAW) - self.x_wins

    def mean_stats(self, x: bool) -> dict[str, float]:
        """Mean of each of `STATS` over the battles, for X or for Y."""
        sides = [0 if blue == x else 1 for blue in self.x_is_blue]
        rows = [battle[side] for battle, side in zip(self.stats, sides, strict=True)]
        return {name: sum(row[i] for row in rows) / len(rows) for i, name in enumerate(STATS)}

    def as_json(self) -> dict[str, object]:
        """One JSON object. `blue` and `red` count sides; `x` is the commander named first."""
        low, high = wilson_interval(self.x_wins, self.battles)
        rows = zip(self.x_is_blue, self.winner, self.reason, self.score, self.decisions, strict=True)
        return {
            "battles": self.battles,
            "blue_wins": self.count(Winner.BLUE),
            "red_wins": self.count(Winner.RED),
            "draws": self.count(Winner.DRAW),
            "x_wins": self.x_wins,
            "y_wins": self.y_wins,
            "x_win_rate": self.x_wins / self.battles,
            "x_win_rate_95": [low, high],
            "x_stats": self.mean_stats(x=True),
            "y_stats": self.mean_stats(x=False),
            "battles_per_s": self.battles / self.seconds,
            "outcomes": [
                {
                    "x_side": "blue" if blue else "red",
                    "winner": winner.name.lower(),
                    "reason": reason.name.lower(),
                    "score": score,
                    "decisions": decisions,
                }
                for blue, winner, reason, score, decisions in rows
            ],
        }


def wilson_interval(wins: int, battles: int) -> tuple[float, float]:
    """95 % confidence interval of a win rate (Wilson 1927)."""
    rate, z2 = wins / battles, Z_95**2 / battles
    middle = (rate + z2 / 2) / (1 + z2)
    half = math.sqrt(rate * (1 - rate) * z2 + z2**2 / 4) / (1 + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


def commander_env(name: str) -> EnvConfig | None:
    """The battle a commander was trained in; None for a scripted one."""
    return None if is_scripted(name) else open_checkpoint(name).env


def load_commander(name: str, env: EnvConfig, device: torch.device) -> TeamPolicy:
    """The commander called `heuristic[:tier]`, or the policy in a checkpoint folder."""
    if is_scripted(name):
        return scripted(name, env, device)
    if not Path(name).exists():
        raise FileError(f"{name}: expected heuristic[:tier] or a checkpoint folder, found none")
    found = open_checkpoint(name)
    width = found.claims["comm_dim"]
    if width != env.comm_dim:
        raise FileError(f"{name}: comm_dim must be {env.comm_dim} for this battle, got {width}")
    return found.policy(device)


class Arena:
    """Battles of a commander X against others, all in one environment that is kept from match to match.

    Policies act as they were trained to, by chance, from a generator that the match's seed sets: the same seed gives
    the same match. (Their mean action is another policy: a trigger that they pull now and then it never pulls, or
    always.)

    Args:
        x: the commander whose results are told.
        others: by name, whom it meets; each in `battles` battles, an even number: every seed once with X as blue, once
            with X as red. All of them meet X on the same seeds.
        recorder: keeps some of the battles to be watched.
    """

    def __init__(
        self,
        x: TeamPolicy,
        others: dict[str, TeamPolicy],
        env: EnvConfig,
        battles: int,
        device: torch.device,
        compiled: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        even = battles >= 2 and battles % 2 == 0
        require(even, "battles", "even and >= 2 (each seed is played on both sides)", battles)
        same = len(env.blue) == len(env.red)
        require(same, "env", "of equal team sizes (commanders change sides)", (env.blue, env.red))
        self.policies = (x, *others.values())
        self.battles = battles
        self.device = device
        self.seats = Seats(x, [Rival(name, policy, battles) for name, policy in others.items()])
        self.env = EchelonEnv(
            env,
            self.seats.num_envs,
            device=device,
            seed=0,
            memory=self.seats.memory,
            compiled=compiled,
            witness=recorder,
        )

    def fight(self, seed: int) -> dict[str, Result]:
        """The results against each of the others.

        Raises:
            ConfigError: a policy is in training mode, or on another device than its battles.
        """
        for policy in self.policies:
            require_ready(policy, self.device)
        others = len(self.seats.met)
        self.env.set_seed(noise.battle_seeds(seed, self.battles // 2, self.device).repeat(2 * others))
        began = time.perf_counter()
        gpus = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(gpus), torch.inference_mode(), set_exploration_type(ExplorationType.RANDOM):
            torch.manual_seed(seed)
            outcome = first_outcomes(self.env, lambda now, _: self.seats.decide(now))
        seconds = (time.perf_counter() - began) / others
        return {name: result_of(outcome[battles], seconds) for name, battles in self.seats.met.items()}


def require_ready(policy: TeamPolicy, device: torch.device) -> None:
    """Refuse a policy that would learn from its match, or that could not read what it sees."""
    if not isinstance(policy, nn.Module):
        return
    if policy.training and not isinstance(policy, Heuristic):
        raise ConfigError("a policy must be in evaluation mode for a match, got training mode: call .eval()")
    for leaf in (*policy.parameters(), *policy.buffers()):
        require(leaf.device.type == device.type, "a policy's device", f"{device}, as of its battles", str(leaf.device))


def result_of(outcome: TensorDictBase, seconds: float) -> Result:
    """The result of battles of which X was blue in the first half."""
    host = {name: value.tolist() for name, value in outcome.items()}
    battles = len(outcome)
    return Result(
        x_is_blue=[b < battles // 2 for b in range(battles)],
        winner=[Winner(row[0]) for row in host["winner"]],
        reason=[Reason(row[0]) for row in host["reason"]],
        score=host["score"],
        decisions=[row[0] for row in host["decisions"]],
        stats=host["stats"],
        seconds=seconds,
    )


def play(
    x: TeamPolicy,
    y: TeamPolicy,
    env: EnvConfig,
    battles: int,
    seed: int,
    device: torch.device,
    compiled: bool = False,
    recorder: Recorder | None = None,
) -> Result:
    """Fight one match between X and Y, see `Arena`; `both_sides` names the places a recorder may keep."""
    return Arena(x, {"y": y}, env, battles, device, compiled, recorder).fight(seed)["y"]


def both_sides(count: int, battles: int) -> list[int]:
    """Places of `count` battles to record among `battles`: as many seeds as that gives, each from both sides."""
    half = battles // 2
    return sorted(i // 2 + half * (i % 2) for i in range(min(count, battles)))


def replay_of(recorder: Recorder, x: str, y: str, battles: int, first: int = 0) -> Replay:
    """What was recorded of the match between the commanders named `x` and `y` that begins at battle `first`."""
    x_is_blue = [place - first < battles // 2 for place in recorder.battles]
    return recorder.finish(blue=[x if is_x else y for is_x in x_is_blue], red=[y if is_x else x for is_x in x_is_blue])


def first_outcomes(env: EchelonEnv, decide: Decide) -> TensorDictBase:
    """Play until every battle has ended once; battles that ended go on unnoticed, so that no shape changes."""
    now = env.reset()
    ended = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    outcome: TensorDictBase | None = None
    for decision in range(env.config.rules.max_decisions):
        decide(now, decision)
        played, now = env.step_and_maybe_reset(now)
        news, done = played.get(("next", "outcome")), played.get(("next", "done"))[:, 0]
        outcome = news.clone() if outcome is None else news.where(done & ~ended, outcome)
        ended = ended | done
        if decision % LOOK_EVERY == LOOK_EVERY - 1 and bool(ended.all()):
            break
    assert outcome is not None
    return outcome

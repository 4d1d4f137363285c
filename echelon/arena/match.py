"""Matches: two commanders fight a number of battles, each seed from both sides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from echelon.arena.batch_arena import BatchArena, Battle, BattleResult
from echelon.env.group_policy import TeamPolicy
from echelon.env.outcome import STATS, Winner
from echelon.replay.battle import Replay
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime import noise
from echelon.runtime.errors import require

Z_95 = 1.959964
"""Quantile of the standard normal distribution for a 95 % interval."""


@dataclass(frozen=True)
class Result:
    """What came of a match between commanders X and Y. Battles 2i and 2i + 1 share a seed; X is blue in the first."""

    outcomes: Sequence[BattleResult]
    seconds: float

    @property
    def battles(self) -> int:
        """How many were fought."""
        return len(self.outcomes)

    def count(self, winner: Winner) -> int:
        """Battles with this verdict."""
        return sum(outcome.winner == winner for outcome in self.outcomes)

    @property
    def x_wins(self) -> int:
        """Battles X won, on either side."""
        return sum(outcome.winner == (Winner.BLUE, Winner.RED)[b % 2] for b, outcome in enumerate(self.outcomes))

    @property
    def y_wins(self) -> int:
        """Battles Y won, on either side."""
        return self.battles - self.count(Winner.DRAW) - self.x_wins

    def mean_stats(self, x: bool) -> dict[str, float]:
        """Mean of each of `STATS` over the battles, for X or for Y."""
        rows = [outcome.stats[b % 2 if x else 1 - b % 2] for b, outcome in enumerate(self.outcomes)]
        return {name: sum(row[i] for row in rows) / len(rows) for i, name in enumerate(STATS)}

    def as_json(self) -> dict[str, object]:
        """One JSON object. `blue` and `red` count sides; `x` is the commander named first."""
        low, high = wilson_interval(self.x_wins, self.battles)
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
                    "x_side": ("blue", "red")[b % 2],
                    "winner": outcome.winner.name.lower(),
                    "reason": outcome.reason.name.lower(),
                    "score": outcome.score,
                    "decisions": outcome.decisions,
                    "state_hash": outcome.state_hash,
                }
                for b, outcome in enumerate(self.outcomes)
            ],
        }


def wilson_interval(wins: int, battles: int) -> tuple[float, float]:
    """95 % confidence interval of a win rate (Wilson 1927)."""
    rate, z2 = wins / battles, Z_95**2 / battles
    middle = (rate + z2 / 2) / (1 + z2)
    half = math.sqrt(rate * (1 - rate) * z2 + z2**2 / 4) / (1 + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


class Match:
    """A commander X against others, each in the same number of battles and on the same seeds, from both sides.

    Policies act as they were trained to, by chance, drawn from the seed of each battle: the first battles of a longer
    match are those of a shorter one. (Their mean action is another policy: a trigger that they pull now and then it
    never pulls, or always.)

    Args:
        x: name and policy of the commander whose results are told.
        others: by name, whom it meets. A name tells where a team stands among others of its policy: the same names,
            the same battles. One that X has too must be of the same policy.
        env: the battle.
        battles: against each of the others; an even number.
        batch: battles side by side at most; by default all.
        compute, compiled: as in `BatchArena`.

    Raises:
        ConfigError: an odd number of battles, or teams of unequal size.
    """

    def __init__(
        self,
        x: tuple[str, TeamPolicy],
        others: Mapping[str, TeamPolicy],
        env: EnvConfig,
        battles: int,
        device: torch.device,
        batch: int | None = None,
        compute: torch.dtype = torch.float32,
        compiled: bool = False,
    ) -> None:
        even = battles >= 2 and battles % 2 == 0
        require(even, "battles", "even and >= 2 (each seed is played on both sides)", battles)
        total = battles * len(others)
        self.x, policy = x
        self.others, self.battles = tuple(others), battles
        policies = {**others, self.x: policy}
        size = total if batch is None else min(batch, total)
        self.arena = BatchArena(env, policies.__getitem__, device, size, compute, compiled)

    def play(self, seed: int, recorder: Recorder | None = None) -> dict[str, Result]:
        """The results against each of the others; `recorder` keeps battles at `places` of the first batch."""
        seeds = noise.battle_seeds(seed, self.battles // 2, torch.device("cpu")).tolist()
        sides = [pair for other in self.others for pair in ((self.x, other), (other, self.x))]
        battles = [Battle(*pair, own) for own in seeds for pair in sides]
        batches = list(self.arena.play_all(battles, recorder))
        outcomes = [outcome for batch in batches for outcome in batch.results]
        seconds = sum(batch.seconds for batch in batches) / len(self.others)
        every = range(self.battles)
        return {name: Result([outcomes[place] for place in self.places(name, every)], seconds) for name in self.others}

    def places(self, other: str, battles: Sequence[int]) -> list[int]:
        """Where the battles of these numbers against one of the others stand among all: for a `Recorder`."""
        pair, pairs = self.others.index(other), len(self.others)
        return [2 * (number // 2 * pairs + pair) + number % 2 for number in battles]


def play(
    x: TeamPolicy,
    y: TeamPolicy,
    env: EnvConfig,
    battles: int,
    seed: int,
    device: torch.device,
    compiled: bool = False,
) -> Result:
    """One match between X and Y, see `Match`."""
    return Match(("x", x), {"y": y}, env, battles, device, compiled=compiled).play(seed)["y"]


def replay_of(recorder: Recorder, x: str, y: str) -> Replay:
    """What was recorded of the match between the commanders named `x` and `y`: X is blue at even places."""
    sides = [(x, y) if place % 2 == 0 else (y, x) for place in recorder.battles]
    return recorder.finish(blue=[blue for blue, _ in sides], red=[red for _, red in sides])

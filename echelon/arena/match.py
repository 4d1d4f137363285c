"""Matches: two commanders play a number of battles, two per seed with exchanged sides."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from echelon.agents.team_policy import TeamPolicy, is_policy
from echelon.arena.batch_arena import BatchArena, BatchResult, Battle, BattleResult, StepSink
from echelon.arena.config import ArenaConfig, check_settings
from echelon.arena.pack_commanders import with_orders
from echelon.arena.resolve import common_env, resolve
from echelon.env.arguments import one_seed, whole_within
from echelon.env.outcome import STATS, Winner, stat_names
from echelon.replay.battle import Replay
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime import noise
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits

RESAMPLES, CONFIDENCE = 2000, 0.95
Z_95 = 1.959964
"""Quantile of the standard normal distribution for a 95 % interval."""


def win_rate_interval(shares: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval (low, high) of a mean win rate.

    Battles with the same seed share map and spawns, so only seeds are independent: the sample has one win rate per
    seed. If the two battles of each seed were independent, the interval would be as wide as Wilson's interval over
    battles. If one side wins every battle, the width is inversely proportional to the number of seeds, not to its
    square root.

    Args:
        shares: the win rate on each seed, between 0 and 1.
    """
    return adjusted_wald(shares, 0.0, 1.0)


def adjusted_wald(values: Sequence[float], least: float, most: float) -> tuple[float, float]:
    """Return the 95 % interval (low, high) of the mean of `values`, each between `least` and `most`.

    The adjusted Wald interval for paired data (Bonett and Price 2012): the values `least` and `most` are added to the
    sample before mean and deviation are computed.
    """
    sample = [*values, least, most]
    mean = math.fsum(sample) / len(sample)
    variance = math.fsum((value - mean) ** 2 for value in sample) / len(sample)
    half = Z_95 * math.sqrt(variance / len(sample))
    return max(least, mean - half), min(most, mean + half)


def interval_over_seeds(points: Sequence[float]) -> tuple[float, float]:
    """Return `win_rate_interval` for the points of battles, of which numbers 2i and 2i + 1 share a seed."""
    return win_rate_interval([sum(pair) / 2 for pair in zip(points[::2], points[1::2], strict=True)])


def bootstrap_interval(samples: Sequence[np.ndarray], of: Callable[..., Any], axis: int = -1) -> Any:
    """Return `low` and `high`, the ends of the 95 % bootstrap interval (percentiles) of the statistic `of`."""
    from scipy.stats import bootstrap  # takes a second to import

    options: dict[str, Any] = {"method": "percentile", "confidence_level": CONFIDENCE, "n_resamples": RESAMPLES}
    return bootstrap(samples, of, axis=axis, rng=np.random.default_rng(0), **options).confidence_interval


MOST_PLAYED = 10**7
"""Maximum number of battles against each opponent."""


@dataclass(frozen=True)
class Result:
    """Result of a match between commanders X and Y. Battles 2i and 2i + 1 share a seed; X is blue in battle 2i.

    Args:
        outcomes: one result per battle.
        seconds: wall-clock time of the match.
        stat_names: names of the statistics of a battle.
    """

    outcomes: Sequence[BattleResult]
    seconds: float
    stat_names: Sequence[str] = STATS

    @property
    def battles(self) -> int:
        return len(self.outcomes)

    def count(self, winner: Winner) -> int:
        return sum(outcome.winner == winner for outcome in self.outcomes)

    @property
    def won_by_x(self) -> list[bool]:
        return [outcome.winner == (Winner.BLUE, Winner.RED)[b % 2] for b, outcome in enumerate(self.outcomes)]

    @property
    def x_wins(self) -> int:
        """Number of battles won by X, on either side."""
        return sum(self.won_by_x)

    @property
    def x_points(self) -> float:
        """Points of X: 1 for a win, 0.5 for a draw."""
        return self.x_wins + self.count(Winner.DRAW) / 2

    @property
    def x_win_rate_95(self) -> tuple[float, float]:
        """95 % confidence interval (low, high) of the win rate of X, over seeds, see `win_rate_interval`."""
        return interval_over_seeds(self.won_by_x)

    @property
    def x_points_95(self) -> tuple[float, float]:
        """95 % confidence interval (low, high) of the points of X per battle, over seeds."""
        drawn_by_seed = [outcome.winner == Winner.DRAW for outcome in self.outcomes]
        return interval_over_seeds([won + half / 2 for won, half in zip(self.won_by_x, drawn_by_seed, strict=True)])

    def win_rates_by_side(self, x: bool) -> dict[str, float]:
        """Return the win rates on side `blue` and `red`, of X if `x`, else of Y."""
        half = self.battles / 2
        rates: dict[str, float] = {}
        for side in (Winner.BLUE, Winner.RED):
            # Policy X is blue in battles with an even index; policy Y is blue in the other battles.
            first = int((side == Winner.RED) == x)
            rates[side.name.lower()] = sum(outcome.winner == side for outcome in self.outcomes[first::2]) / half
        return rates

    @property
    def y_wins(self) -> int:
        """Number of battles won by Y, on either side."""
        return self.battles - self.count(Winner.DRAW) - self.x_wins

    def mean_stats(self, x: bool) -> dict[str, float]:
        """Return the mean of each statistic over the battles, for X if `x`, else for Y."""
        rows = [outcome.stats[b % 2 if x else 1 - b % 2] for b, outcome in enumerate(self.outcomes)]
        return {name: sum(row[i] for row in rows) / len(rows) for i, name in enumerate(self.stat_names)}

    def row(self, by_side: bool = False) -> dict[str, Any]:
        """Return battles, wins, draws and win rate of X with its 95 % interval, and the means of the main statistics.

        Args:
            by_side: whether to add the win rates by side.
        """
        (low, high), stats, enemy_stats = self.x_win_rate_95, self.mean_stats(x=True), self.mean_stats(x=False)
        rates = self.win_rates_by_side(x=True) if by_side else {}
        return {
            "battles": self.battles,
            "wins": self.x_wins,
            "draws": self.count(Winner.DRAW),
            "win_rate": self.x_wins / self.battles,
            "low": low,
            "high": high,
            **{name: stats[name] for name in ("kills", "deaths", "damage", "zone_s")},
            "kill_ratio": stats["kills"] / max(stats["deaths"], 1 / self.battles),
            "enemy_zone_s": enemy_stats["zone_s"],
            **{f"win_rate_{side}": rate for side, rate in rates.items()},
        }

    def as_json(self) -> dict[str, object]:
        """Return JSON values. `blue_wins` and `red_wins` count wins by side, `x_wins` and `y_wins` count wins by
        commander.
        """
        return {
            "battles": self.battles,
            "blue_wins": self.count(Winner.BLUE),
            "red_wins": self.count(Winner.RED),
            "draws": self.count(Winner.DRAW),
            "x_wins": self.x_wins,
            "y_wins": self.y_wins,
            "x_win_rate": self.x_wins / self.battles,
            "x_win_rate_95": list(self.x_win_rate_95),
            "x_win_rate_by_side": self.win_rates_by_side(x=True),
            "y_win_rate_by_side": self.win_rates_by_side(x=False),
            "x_stats": self.mean_stats(x=True),
            "y_stats": self.mean_stats(x=False),
            "battles_per_s": self.battles / self.seconds,
            "outcomes": outcomes_json(self.outcomes),
        }


SIDES = ("blue", "red")


def match_events(result: Result, x: str, y: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return a `match` event for each battle between X and Y, in the format of a league's log.

    Args:
        seeds: one seed per pair of battles.
    """
    return [
        {
            **{"event": "match", "blue_name": x if b % 2 == 0 else y, "red_name": y if b % 2 == 0 else x},
            **{"seed": seeds[b // 2], "winner": outcome.winner.name.lower(), "reason": outcome.reason.name.lower()},
            **{"decisions": outcome.decisions, "state_hash": outcome.state_hash},
        }
        for b, outcome in enumerate(result.outcomes)
    ]


def outcomes_json(outcomes: Sequence[BattleResult], sides: Sequence[str] = SIDES) -> list[dict[str, Any]]:
    """Return the result of each battle and the hash of its final state, in the format of result files.

    Args:
        sides: side of X in each battle; a shorter sequence is repeated.
    """
    return [
        {
            "x_side": sides[b % len(sides)],
            "winner": outcome.winner.name.lower(),
            "reason": outcome.reason.name.lower(),
            "score": outcome.score,
            "decisions": outcome.decisions,
            "state_hash": outcome.state_hash,
        }
        for b, outcome in enumerate(outcomes)
    ]


class Match:
    """A match of commander X against several opponents, with the same seeds against each opponent. X plays every seed
    once per side.

    Policies sample their actions, as in training, from the seed of the battle, so a longer match starts with the
    battles of a shorter one. (The mean action would be a different policy: a trigger that fires occasionally would
    fire never, or always.)

    Args:
        others: the opponents by name. Names determine the order of teams in batched forward passes, so a match is
            reproducible bit by bit only with the same names. An opponent with the name of X must be the same policy as
            X.
        battles: number of battles against each opponent; even.
        settings: settings of the arena.
    """

    def __init__(
        self,
        x: tuple[str, TeamPolicy],
        others: Mapping[str, TeamPolicy],
        env: EnvConfig,
        battles: int,
        settings: ArenaConfig,
    ) -> None:
        battles = whole_within("battles", battles, Limits(2, MOST_PLAYED, "battles, each seed on both sides"))
        require(battles % 2 == 0, "battles", "even and >= 2 (each seed is played on both sides)", battles)
        is_pair = isinstance(x, tuple) and len(x) == 2 and isinstance(others, Mapping)
        require(is_pair, "a match", "built with x=(name, policy) and others={name: policy}", x)
        require(isinstance(env, EnvConfig), "env", "an EnvConfig, such as EnvConfig.small()", env)
        check_settings(settings)
        self.x, policy = x
        self.others, self.battles = tuple(others), battles
        policies = {**others, self.x: policy}
        for name, candidate in policies.items():
            require(is_policy(candidate), f"policy {name!r}", "a TeamPolicy, neither a class nor a name", candidate)
        self.arena = BatchArena(env, policies.__getitem__, settings.of_match(battles * len(others)))

    def play(self, seed: int, recorder: Recorder | None = None) -> dict[str, Result]:
        """Play the match.

        Args:
            recorder: records the battles at the indices given by `places`, if the first batch contains them.

        Returns:
            One result per opponent, keyed by the opponent's name.
        """
        return play_match(self.arena, self.x, self.others, battle_seeds(seed, self.battles), recorder)

    def places(self, other: str, battles: Sequence[int]) -> list[int]:
        """Convert indices of battles against `other` to their indices among all battles of `play`, as a `Recorder` uses
        them.
        """
        return places(self.others, other, battles)


def battle_seeds(seed: int, battles: int) -> list[int]:
    """Return the `battles / 2` seeds of a match; a longer match starts with the seeds of a shorter one."""
    require(battles % 2 == 0, "battles", "even and >= 2 (each seed is played on both sides)", battles)
    seeds: list[int] = noise.battle_seeds(one_seed(seed), battles // 2, torch.device("cpu")).tolist()
    return seeds


def play_match(
    arena: BatchArena,
    x: str,
    others: Sequence[str],
    seeds: Sequence[int],
    recorder: Recorder | None = None,
    watch: Callable[[Iterator[BatchResult], int, BatchArena], Iterable[BatchResult]] | None = None,
    sink: StepSink | None = None,
) -> dict[str, Result]:
    """Play X against every opponent with every seed, once per side.

    Args:
        recorder: records the battles at the indices given by `places`, if the first batch contains them.
        watch: wraps the iterator of batch results; its further arguments are the number of battles and the arena.
        sink: stores every step.

    Returns:
        One result per opponent, keyed by the opponent's name.
    """
    sides = [pair for opponent in others for pair in ((x, opponent), (opponent, x))]
    battles = [Battle(*pair, seed) for seed in seeds for pair in sides]
    played_batches = arena.play_all(battles, recorder, sink)
    require(
        watch is None or callable(watch),
        "watch",
        "a function of the arguments (batches, battles, arena), or None",
        watch,
    )
    watched = played_batches if watch is None else watch(played_batches, len(battles), arena)
    require(isinstance(watched, Iterable), "what watch returns", "the batches that it received", watched)
    batches = list(watched)
    outcomes = [outcome for batch in batches for outcome in batch.results]
    seconds = sum(batch.seconds for batch in batches) / len(others)
    positions = {name: places(others, name, range(2 * len(seeds))) for name in others}
    names = stat_names(arena.config.catalog)
    return {name: Result([outcomes[p] for p in indices], seconds, names) for name, indices in positions.items()}


def places(others: Sequence[str], other: str, battles: Sequence[int]) -> list[int]:
    """Convert indices of battles against `other` to their indices among all battles of `play_match`."""
    pair, pairs = others.index(other), len(others)
    return [2 * (number // 2 * pairs + pair) + number % 2 for number in battles]


def play(x: TeamPolicy, y: TeamPolicy, env: EnvConfig, battles: int, seed: int, settings: ArenaConfig) -> Result:
    """Play a match between X and Y; for arguments and errors see `Match`."""
    return Match(("x", x), {"y": y}, env, battles, settings).play(seed)["y"]


def named_match(
    x: str | os.PathLike[str], y: str | os.PathLike[str], env: EnvConfig | None, battles: int, settings: ArenaConfig
) -> Match:
    """Create the match between the commanders named `x` and `y`, with names as in `resolve`.

    Args:
        env: config of the battles; None for the config that both were trained in, see `common_env`.
        battles, settings: as in `Match`.
    """
    check_settings(settings)
    commanders = resolve(x), resolve(y)
    env = with_orders(common_env(commanders) if env is None else env, commanders)
    x_policy, y_policy = (commander.policy(env, settings.device) for commander in commanders)
    x_id, y_id = (commander.id for commander in commanders)
    if x_id == y_id and getattr(x_policy, "model", None) != getattr(y_policy, "model", None):
        # The ids are hashes of weights. The weights are equal here, but other settings differ: use the names.
        x_id, y_id = (commander.name for commander in commanders)
    return Match((x_id, x_policy), {y_id: y_policy}, env, battles, settings)


def replay_of(recorder: Recorder, x: str, y: str) -> Replay:
    """Return the replay of recorded battles between `x` and `y`. X is blue in battles with an even index."""
    sides = [(x, y) if index % 2 == 0 else (y, x) for index in recorder.battles]
    return recorder.finish(blue=[blue for blue, _ in sides], red=[red for _, red in sides])

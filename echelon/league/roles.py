"""The three roles of league training (Vinyals et al. 2019, Methods, 'Multi-agent learning').

The main agent trains against the whole league. The main exploiter trains to beat the current main agent, the league
exploiter to beat all entries. An exploiter that succeeds is added to the league and is reset. This module defines the
opponents of each role and the decision after each turn. AlphaStar also adds an exploiter that ran out of time; here it
begins anew without joining, so that every exploiter of a league has beaten somebody.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from echelon.league.config import LeagueConfig, Weighting
from echelon.league.matchmaking import Opponent, preference


class Role(str, Enum):
    MAIN = "main"
    MAIN_EXPLOITER = "main exploiter"
    LEAGUE_EXPLOITER = "league exploiter"


Shares = dict[str, float]
"""Probability of each opponent by entry id; where they sum to less than 1, the rest is self-play."""


@dataclass(frozen=True)
class Verdict:
    """Decision about a learner after a turn, with its reason."""

    joins: bool
    """Whether its policy is added to the league."""
    resets: bool
    """Whether it restarts from the initial weights."""
    reason: str


def spread(pool: list[Opponent], weighting: Weighting, hardness: float, share: float) -> Shares:
    """Distribute `share` over a pool by `matchmaking.preference`."""
    gaps = [0.0] * len(pool)
    chances = preference(weighting, [opponent.win_rate for opponent in pool], gaps, hardness)
    return {opponent.id: share * chance for opponent, chance in zip(pool, chances, strict=True)}


def main_shares(pool: list[Opponent], rivals: list[Opponent], config: LeagueConfig) -> Shares:
    """Opponents of the main agent: itself, the whole league, and forgotten rivals.

    Args:
        rivals: past main agents and exploiters; forgotten are those beaten at a rate below `forgotten_below`.
    """
    forgotten = [opponent for opponent in rivals if opponent.win_rate < config.forgotten_below]
    forgotten_share = 1 - config.main_self_share - config.main_pfsp_share
    shares: Shares = {}
    pools = ((pool, config.main_pfsp_share), (forgotten, forgotten_share))
    for opponents, share in pools:
        chances = spread(opponents, "hard", config.hardness, share) if opponents else {}
        for id, chance in chances.items():
            shares[id] = shares.get(id, 0.0) + chance
    return shares


def main_exploiter_shares(main: Opponent | None, earlier: list[Opponent], config: LeagueConfig) -> Shares:
    """Opponents of the main exploiter: the current main agent, or past ones if that one is too strong to learn from.

    Args:
        main: the main agent, with the results of the exploiter's last evaluation.
    """
    if main is None:
        return {}
    # By default four lost games suffice: the win rate is smoothed by one drawn game.
    if main.win_rate > config.exploiter_hopeless or not earlier:
        return {main.id: 1.0}
    return spread(earlier, "variance", config.hardness, 1.0)


def league_exploiter_shares(pool: list[Opponent], config: LeagueConfig) -> Shares:
    return spread(pool, "hard", config.hardness, 1.0) if pool else {}


def judge(role: Role, win_rates: dict[str, float], turns: int, config: LeagueConfig, rng: random.Random) -> Verdict:
    """Decide whether a learner is added to the league and whether it is reset.

    Args:
        win_rates: points per game by opponent, in the evaluation against the current main agent for a main exploiter,
            against all active entries for a league exploiter; empty where there was no opponent, which is no win.
    """
    if role is Role.MAIN:
        return Verdict(True, False, "a main agent's snapshot joins after every turn and it learns on")
    name, worst = min(win_rates.items(), key=lambda pair: pair[1], default=("", 0.0))
    result = f"{worst:.0%} of the points against {name}, {config.exploiter_wins:.0%} wanted, turn {turns}"
    if not win_rates:
        result = f"no opponent to be judged against, turn {turns}"
    wins, is_late = bool(win_rates) and worst >= config.exploiter_wins, turns >= config.exploiter_turns
    if not wins and not is_late:
        return Verdict(False, False, f"learns on: {result} of {config.exploiter_turns}")
    resets = role is Role.MAIN_EXPLOITER or rng.random() < config.league_exploiter_reset
    why = f"won: {result}; joins and" if wins else f"out of turns: {result};"
    return Verdict(wins, resets, f"{why} {'begins anew' if resets else 'learns on'}")

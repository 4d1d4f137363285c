"""The three learners of a league (Vinyals et al. 2019, Methods, 'Multi-agent learning'): whom each meets, and what
becomes of it after a turn.

The main agent gets better against everybody. Its exploiter looks for the weaknesses of the main agent of the moment,
the league's exploiter for those that all have in common; both join when they found one, and begin anew.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from echelon.league.config import LeagueConfig, Weighting
from echelon.league.matchmaking import Opponent, preference


class Role(str, Enum):
    """Who learns."""

    MAIN = "main"
    MAIN_EXPLOITER = "main exploiter"
    LEAGUE_EXPLOITER = "league exploiter"


Shares = dict[str | None, float]
"""Chance of meeting each entry; None for the learner itself."""


@dataclass(frozen=True)
class Verdict:
    """What becomes of a learner after a turn, and why."""

    joins: bool
    resets: bool
    reason: str


def spread(pool: list[Opponent], weighting: Weighting, hardness: float, share: float) -> Shares:
    """`share` over a pool, by preference."""
    gaps = [0.0] * len(pool)
    chances = preference(weighting, [other.win_rate for other in pool], gaps, hardness)
    return {other.id: share * chance for other, chance in zip(pool, chances, strict=True)}


def main_shares(pool: list[Opponent], rivals: list[Opponent], config: LeagueConfig) -> Shares:
    """Itself, anybody of the league, and those of its `rivals` that it forgot how to beat.

    Args:
        pool: everybody.
        rivals: earlier main agents and exploiters.
    """
    forgotten = [other for other in rivals if other.win_rate < config.forgotten_below]
    third = 1 - config.main_self_share - config.main_pfsp_share
    shares: Shares = {None: config.main_self_share}
    parts = ((pool, config.main_pfsp_share), (forgotten, third))
    for who, share in parts:
        if not who:
            shares[None] += share
            continue
        for id, chance in spread(who, "hard", config.hardness, share).items():
            shares[id] = shares.get(id, 0.0) + chance
    return shares


def main_exploiter_shares(main: Opponent | None, earlier: list[Opponent], config: LeagueConfig) -> Shares:
    """The main agent of the moment; its earlier selves where that one is too strong to learn anything from.

    Args:
        main: with what the exploiter showed against the main agent when it was last judged.
    """
    if main is None:
        return {None: 1.0}
    # Four games lost are `exploiter_hopeless` by default: one drawn game is taken for granted.
    if main.win_rate > config.exploiter_hopeless or not earlier:
        return {main.id: 1.0}
    return spread(earlier, "variance", config.hardness, 1.0)


def league_exploiter_shares(pool: list[Opponent], config: LeagueConfig) -> Shares:
    """Anybody of the league."""
    return spread(pool, "hard", config.hardness, 1.0) if pool else {None: 1.0}


def judge(role: Role, win_rates: dict[str, float], turns: int, config: LeagueConfig, chance: random.Random) -> Verdict:
    """What becomes of a learner.

    Args:
        win_rates: its share of the points against those it is judged by: the main agent of the moment for a main
            exploiter, everybody for a league exploiter.
        turns: how many it has learnt since it began or last joined.
        chance: of a league exploiter's reset.
    """
    if role is Role.MAIN:
        return Verdict(True, False, "a main agent's snapshot joins after every turn and it learns on")
    name, worst = min(win_rates.items(), key=lambda pair: pair[1])
    said = f"{worst:.0%} of the points against {name}, {config.exploiter_wins:.0%} wanted, turn {turns}"
    wins, is_late = worst >= config.exploiter_wins, turns >= config.exploiter_turns
    if not wins and not is_late:
        return Verdict(False, False, f"learns on: {said} of {config.exploiter_turns}")
    why = f"won: {said}" if wins else f"out of turns: {said}"
    if role is Role.MAIN_EXPLOITER:
        return Verdict(True, True, f"{why}; joins and begins anew")
    resets = chance.random() < config.league_exploiter_reset
    return Verdict(True, resets, f"{why}; joins and {'begins anew' if resets else 'learns on'}")

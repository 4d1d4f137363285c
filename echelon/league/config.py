"""Settings of a league: ratings, matchmaking, promotion, exploiters."""

from dataclasses import dataclass
from typing import Annotated, Literal

from echelon.runtime.errors import require
from echelon.runtime.limits import MANY, SHARE, Limits, check_settings

Weighting = Literal["hard", "variance", "bell", "uniform"]
"""Weighting of opponents, see `echelon.league.matchmaking.preference`."""


@dataclass(frozen=True)
class LeagueConfig:
    """Rules of a league.

    AlphaStar's values in the descriptions of fields are from Vinyals et al. (2019), Methods, 'Multi-agent learning'.
    """

    tau: Annotated[float, Limits(1e-3, 100)] = 0.5
    """System constant of Glicko-2 that limits changes of the volatility (Glickman 2012: 0.3 to 1.2)."""
    conservatism: Annotated[float, Limits(0, 1e3)] = 2.0
    """Factor k of the conservative rating r - k RD, which determines promotions."""
    commanders: Annotated[int, Limits(1, 10**6, "entries")] = 5
    """Number of the best entries that are commanders."""
    min_games: Annotated[int, Limits(0, MANY.high)] = 20
    """Number of games before an entry may be promoted."""
    commander_points: Annotated[float, SHARE] = 0.5
    """Points per game, 1 for a win and 0.5 for a draw, below which no entry is a commander."""
    candidates_kept: Annotated[int, Limits(1, 10**6, "entries")] = 16
    """Number of candidates that stay active; candidates with lower ratings retire."""
    equal_rating: Annotated[float, Limits(0, 1e6)] = 20.0
    """Largest difference of r - k RD at which candidates count as equal when some retire: the most different fighting
    styles stay, if all candidates have a measured style (`standings --style`). 0: by rating alone."""
    weighting: Weighting = "hard"
    """Weighting of opponents in a training run. Roles of `evolve` have their own weightings, see `roles`."""
    hardness: Annotated[float, Limits(1e-3, 1e3)] = 2.0
    """Exponent p of the `hard` weighting (1 - x)^p (AlphaStar: 2)."""
    cold_games: Annotated[int, Limits(0, MANY.high)] = 20
    """Number of games below which an entry plays only opponents of similar rating."""
    cold_gap: Annotated[float, Limits(1e-3, 1e6)] = 200.0
    """Largest rating difference to such opponents."""
    main_self_share: Annotated[float, SHARE] = 0.35
    """Share of self-play in the battles of a main agent (AlphaStar: 35 %)."""
    main_pfsp_share: Annotated[float, SHARE] = 0.5
    """Share against the whole league by PFSP (AlphaStar: 50 %); the rest is against forgotten opponents."""
    forgotten_below: Annotated[float, SHARE] = 0.3
    """Win rate of a main agent below which a past main agent or an exploiter counts as forgotten (AlphaStar: 30 %)."""
    exploiter_wins: Annotated[float, SHARE] = 0.7
    """Win rate at which an exploiter is added to the league and is reset (AlphaStar: 70 %)."""
    exploiter_hopeless: Annotated[float, SHARE] = 0.1
    """Win rate against the main agent up to which its exploiter plays past main agents instead (AlphaStar: 10 %)."""
    exploiter_turns: Annotated[int, MANY] = 4
    """Turns after which an exploiter that did not win is reset (AlphaStar also adds it, after 2e9 to 4e9 steps)."""
    league_exploiter_reset: Annotated[float, SHARE] = 0.25
    """Probability that a league exploiter is reset when it is added or out of turns (AlphaStar: 25 %)."""

    def __post_init__(self) -> None:
        check_settings(self)
        total_share = self.main_self_share + self.main_pfsp_share
        require(total_share <= 1, "LeagueConfig.main_pfsp_share", "<= 1 - main_self_share", self.main_pfsp_share)

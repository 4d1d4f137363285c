"""Settings of a league: ratings, matchmaking, promotion, exploiters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from echelon.runtime.errors import require, require_finite

Weighting = Literal["hard", "variance", "bell", "uniform"]
"""How opponents are preferred, see `echelon.league.matchmaking`."""
SHARES = (
    *("main_self_share", "main_pfsp_share", "exploiter_wins", "exploiter_hopeless"),
    *("league_exploiter_reset", "forgotten_below"),
)


@dataclass(frozen=True)
class LeagueConfig:
    """Rules of a league. What AlphaStar did is in Vinyals et al. 2019, Methods, 'Multi-agent learning'."""

    tau: float = 0.5
    """How fast volatilities change (Glickman 2012: 0.3 to 1.2)."""
    conservatism: float = 2.0
    """k of the conservative score r - k RD by which commanders are promoted."""
    commanders: int = 5
    """How many of the best are commanders."""
    min_games: int = 20
    """Games before somebody may be promoted."""
    candidates_kept: int = 16
    """Candidates that stay when more were added; the lowest of the others retire."""
    weighting: Weighting = "hard"
    """How a training run prefers its opponents; AlphaStar's main agents take the hard ones, as roles that evolve do."""
    hardness: float = 2.0
    """p of the hard weighting (1 - x)^p (AlphaStar: 2)."""
    cold_games: int = 20
    """Games below which only near opponents are met."""
    cold_gap: float = 200.0
    """How near, in points of rating."""
    main_self_share: float = 0.35
    """Share of a main agent's battles against itself (AlphaStar: 35 %)."""
    main_pfsp_share: float = 0.5
    """Share against anybody of the league, by weighting (AlphaStar: 50 %); the rest goes to what it forgot."""
    forgotten_below: float = 0.3
    """Win rate below which a main agent has forgotten an earlier main or an exploiter (AlphaStar: 30 %)."""
    exploiter_wins: float = 0.7
    """Win rate at which an exploiter joins the league and begins anew (AlphaStar: 70 %)."""
    exploiter_hopeless: float = 0.1
    """Win rate against the main up to which its exploiter meets the main's earlier selves (AlphaStar: 10 %)."""
    exploiter_turns: int = 4
    """Turns after which an exploiter that did not win joins all the same (AlphaStar: 2e9 to 4e9 steps)."""
    league_exploiter_reset: float = 0.25
    """Chance that a league exploiter begins anew once it has joined (AlphaStar: 25 %)."""

    def __post_init__(self) -> None:
        require_finite(self)
        for name in ("tau", "hardness", "cold_gap"):
            require(getattr(self, name) > 0, f"LeagueConfig.{name}", "> 0", getattr(self, name))
        require(self.conservatism >= 0, "LeagueConfig.conservatism", ">= 0", self.conservatism)
        for name in ("commanders", "candidates_kept", "exploiter_turns"):
            require(getattr(self, name) >= 1, f"LeagueConfig.{name}", ">= 1", getattr(self, name))
        for name in ("min_games", "cold_games"):
            require(getattr(self, name) >= 0, f"LeagueConfig.{name}", ">= 0", getattr(self, name))
        for name in SHARES:
            require(0 <= getattr(self, name) <= 1, f"LeagueConfig.{name}", "0..1", getattr(self, name))
        together = self.main_self_share + self.main_pfsp_share
        require(together <= 1, "LeagueConfig.main_pfsp_share", "<= 1 - main_self_share", self.main_pfsp_share)
        known = get_args(Weighting)
        require(self.weighting in known, "LeagueConfig.weighting", f"one of {known}", self.weighting)

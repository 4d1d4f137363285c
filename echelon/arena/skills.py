"""Win rates of a policy on the set pieces, each of which tests one skill."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from echelon.arena.batch_arena import BatchArena, Battle, BattleResult
from echelon.arena.config import ArenaConfig, Precision, definite_precision
from echelon.arena.evaluate import versions_of
from echelon.arena.match import battle_seeds, win_rate_interval
from echelon.arena.pack_commanders import with_orders
from echelon.arena.resolve import LINE, POLICY, contender, place_of
from echelon.env.arguments import whole_within
from echelon.env.outcome import Winner
from echelon.runtime.device import processor_name
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits, path_text
from echelon.scenarios.piece import PIECES, Piece, find_piece, pieces

SEED = 2_000_003
"""Seed from which the seeds of the battles are derived."""
SEEDS = 64
"""Battles per piece."""
PROFILE = "pieces.json"
"""File name of a profile in a run folder."""
OTHER = "opponent"
BAR = 20
"""Characters of a full bar."""


@dataclass(frozen=True)
class PieceResult:
    """Results of a policy on one set piece (a short scenario), one battle per seed."""

    skill: str
    opponent: str
    won: tuple[bool, ...]
    """For each seed, whether the policy won; a draw is not a win."""
    draws: int
    outcomes: tuple[BattleResult, ...] = ()
    """Results of the battles."""

    @property
    def win_rate(self) -> float:
        return sum(self.won) / len(self.won)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval (low, high) of the win rate, see `win_rate_interval`."""
        return win_rate_interval([float(is_win) for is_win in self.won])

    def row(self) -> dict[str, Any]:
        low, high = self.interval
        counts = {"battles": len(self.won), "wins": sum(self.won), "draws": self.draws}
        return {**counts, "win_rate": self.win_rate, "low": low, "high": high}


@dataclass(frozen=True)
class SkillProfile:
    """Win rates of a policy on each set piece."""

    policy: str
    """Name of the policy; `policy` for a policy object."""
    results: Mapping[str, PieceResult]
    """Results by name of the piece."""
    seeds: tuple[int, ...]
    """Seeds of the battles, the same for each piece."""
    versions: Mapping[str, Any]
    """Versions of Echelon, rules, map generator and torch, the processor or GPU, and the precision of matrix
    products."""

    @property
    def win_rate(self) -> float:
        """Win rate, averaged over pieces."""
        return sum(result.win_rate for result in self.results.values()) / len(self.results)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per piece: battles, wins, draws, and the win rate with its 95 % interval over seeds."""
        return [{"piece": name, **result.row()} for name, result in self.results.items()]

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        results = {
            name: {"skill": result.skill, "opponent": result.opponent, **result.row(), "won": list(result.won)}
            for name, result in self.results.items()
        }
        profile = {"set": PIECES, "policy": self.policy, "win_rate": self.win_rate, "versions": dict(self.versions)}
        return {**profile, "seeds": list(self.seeds), "pieces": results}

    def __str__(self) -> str:
        """Return one line per piece: a bar, the win rate with its interval, and the skill."""
        width = max(map(len, self.results))
        lines = []
        for name, result in self.results.items():
            (low, high), full = result.interval, round(BAR * result.win_rate)
            share = f"{result.win_rate:4.0%} ({low:4.0%} to {high:4.0%})"
            lines.append(f"{name:<{width}}  {'#' * full:.<{BAR}}  {share}  {result.skill}")
        return "\n".join(lines)


def skill_profile(
    policy: Any,
    names: Sequence[str] | None = None,
    seeds: int = SEEDS,
    *,
    device: torch.device | str | None = None,
    batch: int = 256,
    precision: Precision = "auto",
    compiled: bool | None = None,
    cuda_graph: bool | None = None,
    on_piece: Callable[[str], object] | None = None,
) -> SkillProfile:
    """Play the set pieces (short scenarios) with a policy, on the side and against the opponent that each piece
    defines.

    Args:
        policy: a name or a policy, as in `echelon.evaluate`; `line` plays the script that solves each piece.
        names: names of pieces; by default all of `echelon.pieces()`.
        seeds: battles per piece; a larger number starts with the same seeds.
        device, batch, precision, compiled, cuda_graph: see `echelon.evaluate`.
        on_piece: called with the name of each finished piece.

    Returns:
        The win rates by piece.

    Raises:
        ConfigError: if a piece does not exist, or an argument is out of range.
        FileError: if a name does not exist, or its checkpoint does not fit these battles.
    """
    set_pieces = [find_piece(name) for name in piece_names(names)]
    count = whole_within("seeds", seeds, Limits(1, 10**6, "seeds"))
    set_seeds = battle_seeds(SEED, 2 * count)
    policy = path_text(policy)
    settings = ArenaConfig(place_of(policy, device), batch, precision, compiled, cuda_graph)
    precision = definite_precision(precision, settings.device)
    results = {}
    for piece in set_pieces:
        results[piece.name] = play_piece(piece, policy, set_seeds, settings)
        if on_piece is not None:
            on_piece(piece.name)
    versions = versions_of({"device": processor_name(settings.device), "precision": precision})
    return SkillProfile(policy if isinstance(policy, str) else POLICY, results, tuple(set_seeds), versions)


def piece_names(names: Sequence[str] | None) -> list[str]:
    if names is None:
        return pieces()
    is_list = isinstance(names, Iterable) and not isinstance(names, str | bytes)
    require(is_list and len(names) > 0, "names", "a list of at least one piece", names)
    return list(dict.fromkeys(map(os.fspath, names)))


def play_piece(piece: Piece, policy: Any, seeds: Sequence[int], settings: ArenaConfig) -> PieceResult:
    """Play a set piece with a policy, which is given as in `skill_profile`, once per seed."""
    config, name = piece.scenario.config, f"{LINE}:{piece.name}" if policy == LINE else policy
    contenders = {POLICY: contender(name), OTHER: contender(piece.opponent)}
    config = with_orders(config, [one.source for one in contenders.values()])
    policies = {key: one.policy(config, settings.device) for key, one in contenders.items()}
    arena = BatchArena(config, policies.__getitem__, replace(settings, batch=min(settings.batch, len(seeds))))
    sides = (POLICY, OTHER) if piece.side == "blue" else (OTHER, POLICY)
    outcomes = [
        result for batch in arena.play_all([Battle(*sides, seed) for seed in seeds]) for result in batch.results
    ]
    wins = Winner[piece.side.upper()]
    draws = sum(result.winner == Winner.DRAW for result in outcomes)
    is_won = tuple(result.winner == wins for result in outcomes)
    return PieceResult(piece.skill, piece.opponent, is_won, draws, tuple(outcomes))

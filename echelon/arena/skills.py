"""What a policy can do: how often it wins each set piece, a skill each."""

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
"""From which the seeds of its battles are derived."""
SEEDS = 64
"""Battles of each piece."""
PROFILE = "pieces.json"
"""A profile in the folder of a run."""
OTHER = "opponent"
BAR = 20
"""Letters of a full bar."""


@dataclass(frozen=True)
class PieceResult:
    """The battles of one piece, one a seed."""

    skill: str
    opponent: str
    won: tuple[bool, ...]
    """By seed whether the policy won; a draw is no win."""
    draws: int
    outcomes: tuple[BattleResult, ...] = ()
    """The battles themselves."""

    @property
    def win_rate(self) -> float:
        return sum(self.won) / len(self.won)

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval of the win rate, as `win_rate_interval` has it."""
        return win_rate_interval([float(is_win) for is_win in self.won])

    def row(self) -> dict[str, Any]:
        low, high = self.interval
        counts = {"battles": len(self.won), "wins": sum(self.won), "draws": self.draws}
        return {**counts, "win_rate": self.win_rate, "low": low, "high": high}


@dataclass(frozen=True)
class SkillProfile:
    """How often a policy wins each set piece."""

    policy: str
    """Its name; `policy` for one that was given as an object."""
    results: Mapping[str, PieceResult]
    """By name of the piece."""
    seeds: tuple[int, ...]
    """Seeds of the battles, the same for each piece."""
    versions: Mapping[str, Any]
    """Versions of Echelon, of rules and map maker, of torch, the processor or GPU, and the precision of matrix
    products."""

    @property
    def win_rate(self) -> float:
        """Mean over pieces."""
        return sum(result.win_rate for result in self.results.values()) / len(self.results)

    def rows(self) -> list[dict[str, Any]]:
        """A row per piece: battles, wins, draws, and the win rate with the ends of its 95 % interval over seeds."""
        return [{"piece": name, **result.row()} for name, result in self.results.items()]

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        results = {
            name: {"skill": result.skill, "opponent": result.opponent, **result.row(), "won": list(result.won)}
            for name, result in self.results.items()
        }
        profile = {"set": PIECES, "policy": self.policy, "win_rate": self.win_rate, "versions": dict(self.versions)}
        return {**profile, "seeds": list(self.seeds), "pieces": results}

    def __str__(self) -> str:
        """A line for each piece: its bar, the share won with its interval, and the skill."""
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
    """Let a policy play the set pieces, each with its own opponent, on the piece's own side.

    Args:
        policy: a name or a policy, as `echelon.evaluate` takes them; `line` plays each piece's own line.
        names: of the pieces, all of `echelon.pieces()` by default.
        seeds: battles of each piece; those of fewer seeds are the first ones of more.
        device, batch, precision, compiled, cuda_graph: as in `echelon.evaluate`.
        on_piece: called with the name of each piece that was played.

    Raises:
        ConfigError: there is no such piece, or an argument is out of range.
        FileError: a name means no commander, or its checkpoint does not fit these battles.
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
    """Let a policy, as `skill_profile` takes it, play a piece on each of `seeds`."""
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

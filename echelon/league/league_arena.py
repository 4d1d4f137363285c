"""Plays the battles of a league, each once whatever number of processes take part, and records the matches."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from echelon.agents.heuristic import scripted
from echelon.arena.batch_arena import COMPUTE, BatchArena, Battle, BattleResult, Precision
from echelon.env.group_policy import TeamPolicy
from echelon.env.outcome import STATS
from echelon.league.claims import claiming
from echelon.league.store import MAP_SEED, MatchRecord, Store
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime import noise

POLL_S = 0.5
"""How often it looks whether the battles that another process has claimed are played."""


@dataclass(frozen=True)
class PlayedBatch:
    """The matches of one batch of battles."""

    matches: list[MatchRecord]
    seconds: float


class LeagueArena:
    """Plays the battles of a league and records them. The same battle ends the same way in every batch.

    Args:
        store: the league.
        batch: battles side by side at most.
        precision: dtype of the networks' matrix products.
        compiled: compile simulation and networks, which pays for thousands of battles.
    """

    def __init__(
        self,
        store: Store,
        device: torch.device,
        batch: int = 256,
        precision: Precision = "fp32",
        compiled: bool = False,
    ) -> None:
        self.store, self.device = store, device
        self.recipe = json.dumps({"map_seed": MAP_SEED, "precision": precision})
        self.scripts = {entry.id: entry.name for entry in store.entries() if entry.is_scripted}
        self.arena = BatchArena(league_env(store.env), self.policy, device, batch, COMPUTE[precision], compiled)

    def policy(self, entry_id: str) -> TeamPolicy:
        """The commander that an entry is."""
        if entry_id in self.scripts:
            return scripted(self.scripts[entry_id], self.arena.config, self.device)
        return self.store.weights.policy(entry_id)

    def unplayed(self, battles: Sequence[Battle]) -> list[Battle]:
        """Those that were not played yet, at whatever precision: a pair meets on a seed once."""
        known = self.store.played()
        return [battle for battle in battles if battle not in known]

    def play(self, battles: Sequence[Battle], recorder: Recorder | None = None) -> Iterator[PlayedBatch]:
        """Play battles that count, batch by batch; each is in the league's file when it is yielded.

        Each is played once, however many processes are told to: what another one plays at the moment is waited for at
        the end, and played here if that process dies.

        Args:
            recorder: keeps some battles of the first batch.

        Raises:
            ConfigError: a commander does not fit these battles.
        """
        with claiming(self.store) as claims:
            while True:
                batch, others_play = claims.claim(battles, self.arena.batch)
                if batch:
                    played = self._play_batch(batch, recorder)
                    self.store.record(played.matches)
                    recorder = None
                    yield played
                elif others_play:
                    time.sleep(POLL_S)
                else:
                    return

    def play_unrated(self, battles: Sequence[Battle]) -> Iterator[PlayedBatch]:
        """Play battles that count for nobody: they are not recorded, and may have been played before."""
        size = self.arena.batch
        for start in range(0, len(battles), size):
            yield self._play_batch(battles[start : start + size])

    def _play_batch(self, battles: Sequence[Battle], recorder: Recorder | None = None) -> PlayedBatch:
        result = self.arena.play([to_match_seed(battle) for battle in battles], recorder)
        matches = [
            self._record_of(battle, one, result.seconds / len(battles))
            for battle, one in zip(battles, result.results, strict=True)
        ]
        return PlayedBatch(matches, result.seconds)

    def _record_of(self, battle: Battle, result: BattleResult, duration_s: float) -> MatchRecord:
        blue, red = (dict(zip(STATS, side, strict=True)) for side in result.stats)
        return MatchRecord(
            *battle,
            recipe=self.recipe,
            winner=int(result.winner),
            reason=result.reason.name.lower(),
            decisions=result.decisions,
            duration_s=duration_s,
            stats=json.dumps({"score": result.score, "blue": blue, "red": red}),
            state_hash=result.state_hash,
        )


def matches_of(batches: Iterable[PlayedBatch]) -> list[MatchRecord]:
    """All matches of some batches, in their order."""
    return [match for batch in batches for match in batch.matches]


def to_match_seed(battle: Battle) -> Battle:
    """A battle of the league in the arena: a seed of the schedule stands for the first battle of a match of that seed,
    so `arena.py play --seed S --battles 2` fights the two battles of seed S, on maps of its own."""
    return battle._replace(seed=int(noise.battle_seeds(battle.seed, 1, torch.device("cpu"))))


def league_env(env: EnvConfig) -> EnvConfig:
    """The league's battle on its own maps."""
    return dataclasses.replace(env, map_seed=MAP_SEED)

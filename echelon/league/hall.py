"""Where the entries of a league fight, and what they fought is written down."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from echelon.agents.heuristic import scripted
from echelon.arena.batch_arena import COMPUTE, BatchArena, BatchResult, Battle, Precision
from echelon.env.group_policy import TeamPolicy
from echelon.env.outcome import STATS
from echelon.league.claims import claiming
from echelon.league.library import Library
from echelon.league.store import MAP_SEED, MatchRecord, Store
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime import noise

CPU = torch.device("cpu")
LOOK_S = 0.5
"""How often it looks whether what another process fights is done."""


@dataclass(frozen=True)
class Fought:
    """What a batch of battles told."""

    matches: list[MatchRecord]
    seconds: float


class Hall:
    """Where the entries of a league fight. The same battle ends the same way in every batch.

    Args:
        store: the league.
        library: whom it reads policies by; by default one of its own.
        batch: battles side by side at most.
        precision: numbers the networks are computed in.
        compiled: compile simulation and networks, which pays for thousands of battles.
    """

    def __init__(
        self,
        store: Store,
        device: torch.device,
        library: Library | None = None,
        batch: int = 256,
        precision: Precision = "fp32",
        compiled: bool = False,
    ) -> None:
        self.store, self.device = store, device
        self.library = library or Library(store.vault)
        self.recipe = json.dumps({"map_seed": MAP_SEED, "precision": precision})
        self.scripts = {entry.id: entry.name for entry in store.entries() if entry.is_scripted}
        self.arena = BatchArena(battle_of(store.env), self.policy, device, batch, COMPUTE[precision], compiled)

    def policy(self, entry_id: str) -> TeamPolicy:
        """The commander that an entry is."""
        if entry_id in self.scripts:
            return scripted(self.scripts[entry_id], self.arena.config, self.device)
        return self.library.policy(entry_id)

    def missing(self, battles: Sequence[Battle]) -> list[Battle]:
        """Those that were not fought yet, at whatever precision: a pair meets on a seed once."""
        known = self.store.fought()
        return [battle for battle in battles if battle not in known]

    def fight(self, battles: Sequence[Battle], recorder: Recorder | None = None, kept: bool = True) -> Iterator[Fought]:
        """Fight them batch by batch; each is in the league's file when it is told of.

        Of battles that count each is fought once, however many processes are told to: what another one fights at the
        moment is waited for at the end, and fought here if that process dies.

        Args:
            recorder: keeps some battles of the first batch.
            kept: whether they count: written into the league's file.

        Raises:
            ConfigError: a commander does not fit these battles.
        """
        size = self.arena.batch
        batches = (battles[start : start + size] for start in range(0, len(battles), size))
        for some in self._claimed(battles) if kept else batches:
            result = self.arena.play([as_played(battle) for battle in some], recorder)
            matches = self._matches(some, result)
            if kept:
                self.store.record(matches)
            recorder = None
            yield Fought(matches, result.seconds)

    def _claimed(self, battles: Sequence[Battle]) -> Iterator[Sequence[Battle]]:
        """Batches of those that are left, until all are in the league's file."""
        with claiming(self.store) as claims:
            while True:
                some, others_fight = claims.take(battles, self.arena.batch)
                if some:
                    yield some
                elif others_fight:
                    time.sleep(LOOK_S)
                else:
                    return

    def _matches(self, battles: Sequence[Battle], fought: BatchResult) -> list[MatchRecord]:
        found = []
        for battle, result in zip(battles, fought.results, strict=True):
            blue, red = (dict(zip(STATS, side, strict=True)) for side in result.stats)
            stats = json.dumps({"score": result.score, "blue": blue, "red": red})
            found.append(
                MatchRecord(
                    *battle,
                    recipe=self.recipe,
                    winner=int(result.winner),
                    reason=result.reason.name.lower(),
                    decisions=result.decisions,
                    duration_s=fought.seconds / len(battles),
                    stats=stats,
                    state_hash=result.state_hash,
                )
            )
        return found


def as_played(battle: Battle) -> Battle:
    """A battle of the league in the arena: a seed of the schedule stands for the first battle of a match of that seed,
    so `arena.py play --seed S --battles 2` fights the two battles of seed S, on maps of its own."""
    return battle._replace(seed=int(noise.battle_seeds(battle.seed, 1, CPU)))


def battle_of(env: EnvConfig) -> EnvConfig:
    """The league's battle on its own maps."""
    return dataclasses.replace(env, map_seed=MAP_SEED)

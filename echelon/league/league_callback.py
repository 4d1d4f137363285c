"""Callback of a training run that regularly adds the learner to a league as a candidate and rates it."""

from __future__ import annotations

from pathlib import Path

from echelon.league import log
from echelon.league.league_arena import LeagueArena
from echelon.league.opponent_sampler import OpponentSampler
from echelon.league.rating_period import rate_entry
from echelon.league.records import Entry
from echelon.league.store import Store
from echelon.runtime.state_dict import StateDict


class LeagueCallback:
    """Adds checkpoints of a learner to a league.

    Args:
        arena: plays the rated battles.
        sampler: sampler of opponents, which is updated with every entry of the learner.
        seeds: number of seeds per opponent, each played once per side.
    """

    def __init__(self, arena: LeagueArena, sampler: OpponentSampler, seeds: int) -> None:
        self.arena, self.sampler, self.seeds = arena, sampler, seeds

    @property
    def store(self) -> Store:
        """The league."""
        return self.arena.store

    def submit(self, checkpoint: Path, kind: str = "candidate") -> Entry:
        """Add a checkpoint, play it against all active entries, close the rating period and refresh the sampler.

        A checkpoint that an interrupted run has already rated is not played again.

        Args:
            checkpoint: path of the checkpoint folder.
            kind: kind of the new entry.

        Returns:
            The entry.

        Raises:
            ConfigError: if it was trained in another battle.
        """
        parent = self.sampler.me
        entry = self.store.add(checkpoint, kind, parent.id if parent is not None else None)
        if entry.id not in self.store.rated():
            period = rate_entry(self.arena, entry, self.seeds)
            log.write_event(
                self.store, "submitted", name=entry.name, kind=kind, number=period, checkpoint=str(checkpoint)
            )
        self.sampler.set_learner(entry.id)
        return self.store.find(entry.id)

    def state_dict(self) -> StateDict:
        """Id of the last entry of the learner."""
        return StateDict(facts={"me": self.sampler.me.id if self.sampler.me is not None else ""})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore what `state_dict` returned."""
        self.sampler.set_learner(state_dict.fact("me", str))

    def standing(self) -> str:
        """Rating and rank of the last entry of the learner, as one line."""
        stands = self.store.standings()
        me = self.sampler.me
        place, own = next((n, s) for n, s in enumerate(stands, 1) if me is not None and s.id == me.id)
        return f"{own.name} ({own.kind}): {own.rating:.0f} ± {2 * own.deviation:.0f}, place {place} of {len(stands)}"

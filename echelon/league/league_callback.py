"""A training run's part in a league: it enters as a candidate again and again, and is rated there."""

from __future__ import annotations

from pathlib import Path

from echelon.league import log
from echelon.league.league_arena import LeagueArena
from echelon.league.opponent_sampler import OpponentSampler
from echelon.league.rating_period import rate_entry
from echelon.league.store import Entry, Store
from echelon.runtime.state_dict import StateDict


class LeagueCallback:
    """Takes a learner's checkpoints into a league.

    Args:
        arena: where they are rated.
        sampler: told of every entry, so that it draws by the learner's latest strength.
        seeds: played against each of the league, from both sides.
    """

    def __init__(self, arena: LeagueArena, sampler: OpponentSampler, seeds: int) -> None:
        self.arena, self.sampler, self.seeds = arena, sampler, seeds

    @property
    def store(self) -> Store:
        """The league."""
        return self.arena.store

    def submit(self, checkpoint: Path, kind: str = "candidate") -> Entry:
        """Add a checkpoint, play it against everybody, close the period and draw from the league as it is then.

        One that was rated already, before its run was cut short, is only known again.
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
        """The learner's last entry."""
        return StateDict(facts={"me": self.sampler.me.id if self.sampler.me is not None else ""})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Know it again."""
        self.sampler.set_learner(state_dict.fact("me", str))

    def standing(self) -> str:
        """The learner's last entry in one line."""
        stands = self.store.standings()
        me = self.sampler.me
        place, own = next((n, s) for n, s in enumerate(stands, 1) if me is not None and s.id == me.id)
        return f"{own.name} ({own.kind}): {own.rating:.0f} ± {2 * own.deviation:.0f}, place {place} of {len(stands)}"

"""A training run's part in a league: it enters as a candidate again and again, and is rated there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from echelon.arena.batch_arena import Battle
from echelon.league import log
from echelon.league.hall import Hall
from echelon.league.schedule import one_against, seeds_of
from echelon.league.season import close_period
from echelon.league.sparring import Sparring
from echelon.league.store import Entry, MatchRecord, Store
from echelon.runtime.state_dict import Kept


def fight(hall: Hall, battles: Sequence[Battle], kept: bool = True) -> list[MatchRecord]:
    """Fight them all, without a word."""
    return [match for fought in hall.fight(battles, kept=kept) for match in fought.matches]


def enter(hall: Hall, entry: Entry, seeds: int) -> int:
    """Let a newcomer fight everybody on so many seeds, and close the period; returns its number."""
    store = hall.store
    period, others = store.period, [other.id for other in store.active()]
    fight(hall, hall.missing(one_against(entry.id, others, seeds_of(period, seeds))))
    return close_period(store, period)


class Campaign:
    """Takes a learner's checkpoints into a league.

    Args:
        hall: where they are rated.
        sparring: told of every entry, so that it draws by the learner's latest strength.
        seeds: fought against each of the league, from both sides.
    """

    def __init__(self, hall: Hall, sparring: Sparring, seeds: int) -> None:
        self.hall, self.sparring, self.seeds = hall, sparring, seeds

    @property
    def store(self) -> Store:
        """The league."""
        return self.hall.store

    def submit(self, checkpoint: Path, kind: str = "candidate") -> Entry:
        """Add a checkpoint, fight everybody, close the period and draw from the league as it is then.

        One that was rated already, before its run was cut short, is only known again.
        """
        parent = self.sparring.me
        entry = self.store.add(checkpoint, kind, parent.id if parent is not None else None)
        if entry.id not in self.store.rated():
            period = enter(self.hall, entry, self.seeds)
            log.tell(self.store, "submitted", name=entry.name, kind=kind, number=period, checkpoint=str(checkpoint))
        self.sparring.follow(entry.id)
        return self.store.find(entry.id)

    def keep(self) -> Kept:
        """The learner's last entry."""
        return Kept(facts={"me": self.sparring.me.id if self.sparring.me is not None else ""})

    def go_on(self, kept: Kept) -> None:
        """Know it again."""
        self.sparring.follow(kept.fact("me", str))

    def standing(self) -> str:
        """The learner's last entry in one line."""
        stands = self.store.standings()
        me = self.sparring.me
        place, own = next((n, s) for n, s in enumerate(stands, 1) if me is not None and s.id == me.id)
        return f"{own.name} ({own.kind}): {own.rating:.0f} ± {2 * own.deviation:.0f}, place {place} of {len(stands)}"

"""A training run's part in a league: it enters as a candidate again and again, and is rated there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from echelon.league import log
from echelon.league.hall import Hall
from echelon.league.schedule import Battle, one_against, seeds_of
from echelon.league.season import close_period
from echelon.league.sparring import Sparring
from echelon.league.store import Entry, Match, Store

Fight = Callable[[Hall, Sequence[Battle]], list[Match]]


def fight_quietly(hall: Hall, battles: Sequence[Battle]) -> list[Match]:
    """Fight without a progress bar."""
    return [match for fought in hall.fight(battles) for match in fought.matches]


class Campaign:
    """Takes a learner's checkpoints into a league.

    Args:
        hall: where they are rated.
        sparring: told of every entry, so that it draws by the learner's latest strength.
        seeds: fought against each of the league, from both sides.
        fight: fights and may show it.
    """

    def __init__(self, hall: Hall, sparring: Sparring, seeds: int, fight: Fight = fight_quietly) -> None:
        self.hall, self.sparring, self.seeds, self.fight = hall, sparring, seeds, fight

    @property
    def store(self) -> Store:
        """The league."""
        return self.hall.store

    def submit(self, checkpoint: Path, kind: str = "candidate") -> Entry:
        """Add a checkpoint, fight everybody, close the period and draw from the league as it is then."""
        parent = self.sparring.me
        entry = self.store.add(checkpoint, kind, parent.id if parent is not None else None)
        others = [other.id for other in self.store.active()]
        battles = one_against(entry.id, others, seeds_of(self.store.period, self.seeds))
        self.fight(self.hall, self.hall.missing(battles))
        period = close_period(self.store)
        self.sparring.me = self.store.find(entry.id)
        self.sparring.refresh()
        log.tell(self.store, "submitted", name=entry.name, kind=kind, number=period, checkpoint=str(checkpoint))
        return self.sparring.me

    def standing(self) -> str:
        """The learner's last entry in one line."""
        stands = self.store.standings()
        me = self.sparring.me
        place, own = next((n, s) for n, s in enumerate(stands, 1) if me is not None and s.id == me.id)
        return f"{own.name} ({own.kind}): {own.rating:.0f} ± {2 * own.deviation:.0f}, place {place} of {len(stands)}"

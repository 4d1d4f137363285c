"""The memory of a league: one SQLite file that many processes may write to, and that survives their deaths.

Every change is one transaction that holds the write lock from its beginning (`BEGIN IMMEDIATE`) and is on the disk
when it returns (WAL, synchronous FULL). Nothing of a transaction that was cut short is seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from echelon.agents.tiers import TIERS
from echelon.arena.batch_arena import Battle
from echelon.league.config import LeagueConfig
from echelon.league.names import commander_name
from echelon.league.ratings.glicko2 import DEVIATION, RATING, VOLATILITY
from echelon.league.schema import MIGRATIONS
from echelon.league.weight_store import WeightStore
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.rules.config import EnvConfig, as_json, battle_difference, env_from_json, from_json
from echelon.runtime import version
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError, sync_folder

FILE = "league.sqlite"
BUSY_S = 60.0
"""How long a writer waits for the others."""
LONGEST_REASON = 1000
"""Letters of why something happened."""
MAP_SEED = 2_000_003
"""League battles are fought on maps of this seed: none is met in training or in its evaluations."""


class Entry(NamedTuple):
    """Somebody who fights in the league."""

    id: str
    """sha256 of its weights, or of the name of a scripted tier."""
    kind: str
    name: str
    parent: str | None
    env: str
    """Signature of the battle it was trained in, as JSON."""
    created: float

    @property
    def is_scripted(self) -> bool:
        """Whether it is a tier of the heuristic; only its name holds a colon."""
        return ":" in self.name


class MatchRecord(NamedTuple):
    """A battle that was fought."""

    blue: str
    red: str
    seed: int
    recipe: str
    """What it was fought on: battle settings, map seed, precision."""
    winner: int
    reason: str
    decisions: int
    duration_s: float
    stats: str
    """JSON: by side (blue, red) the entries of `echelon.env.outcome.STATS`, and the score."""
    state_hash: str = ""
    """Of every bit of the final state, see `echelon.arena.fingerprint.state_hash`; empty where it was not kept."""

    @property
    def key(self) -> str:
        """What makes it this battle and no other: the same commanders, seed and recipe would fight it again."""
        return match_key(Battle(self.blue, self.red, self.seed), self.recipe)

    def points(self, who: str) -> float:
        """What one of the two took: 1 for a victory, 0.5 for a draw."""
        return 0.5 if self.winner == 0 else float((self.blue, self.red)[self.winner - 1] == who)


MATCH_COLUMNS = ", ".join(MatchRecord._fields)
"""The columns of the table `matches` that a `MatchRecord` holds."""


def match_key(battle: Battle, recipe: str) -> str:
    """The key that the match of a battle has, fought on this."""
    return f"{recipe}/{battle.seed}/{battle.blue}/{battle.red}"


class Standing(NamedTuple):
    """How an entry stands after the last closed period."""

    id: str
    name: str
    kind: str
    rating: float
    deviation: float
    volatility: float
    games: int
    score: float
    """Points taken of them: a win is 1, a draw 0.5."""

    def conservative(self, conservatism: float) -> float:
        """r - k RD: what the entry is worth at least."""
        return self.rating - conservatism * self.deviation


@dataclass(frozen=True)
class Change:
    """Something that happened to an entry, and why."""

    period: int
    name: str
    change: str
    reason: str


class Store:
    """A league in a folder: its file, and the weights beside it.

    Raises:
        FileError: there is no league, or not one that can be read.
    """

    def __init__(self, folder: str | Path, file: str = FILE) -> None:
        self.folder = Path(folder)
        self.weights = WeightStore(self.folder)
        path = self.folder / file
        if path.is_symlink() or not path.is_file():
            raise FileError(f"{path}: expected the file of a league, found none: make one with `arena.py init`")
        self.database = self._connect(path)

    @staticmethod
    def create(
        folder: str | Path,
        env: EnvConfig,
        rules: LeagueConfig | None = None,
        fill: Callable[[Store], None] | None = None,
    ) -> Store:
        """A fresh league that fights in `env` by `rules`. Its file appears when it is complete.

        Args:
            fill: writes its first rows; by default the scripted tiers and an open period.

        Raises:
            FileError: there is one already.
        """
        path = Path(folder) / FILE
        draft = path.with_name(f".{FILE}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            draft.touch()
            store = Store(folder, draft.name)
            with store.writing():
                store.set_setting("env", env.signature())
                store.set_setting("rules", as_json(rules or LeagueConfig()))
                store.set_setting("written_by", {"version": version.VERSION})
                (fill or begin)(store)
            store.close()
            os.link(draft, path)
            sync_folder(path.parent)
        except OSError as error:
            raise FileError(f"{path}: cannot be made: {error.strerror}") from None
        finally:
            draft.unlink(missing_ok=True)
        return Store(folder)

    def _connect(self, path: Path) -> sqlite3.Connection:
        try:
            database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
            for setting in ("trusted_schema = OFF", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                database.execute(f"PRAGMA {setting}")
            self._migrate(database, path)
        except sqlite3.DatabaseError as error:
            raise FileError(f"{path}: not the file of a league: {error}") from None
        return database

    @staticmethod
    def _migrate(database: sqlite3.Connection, path: Path) -> None:
        """Bring a file of an older version up to this one."""
        if database.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS):
            return
        database.execute("BEGIN IMMEDIATE")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            database.execute("ROLLBACK")
            raise FileError(f"{path}: version must be at most {len(MIGRATIONS)}, got {version}: use a newer Echelon")
        for statement in (statement for step in MIGRATIONS[version:] for statement in step):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        database.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction, whole or not at all; joins the one that is under way."""
        if self.database.in_transaction:
            yield
            return
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """One SQL statement."""
        return self.database.execute(statement, values)

    # What the league is

    def set_setting(self, name: str, value: dict[str, Any]) -> None:
        """Keep some settings or a standing under a name, in the place of those before."""
        with self.writing():
            self.execute("INSERT OR REPLACE INTO league VALUES (?, ?)", name, json.dumps(value, sort_keys=True))

    def get_setting(self, name: str) -> dict[str, Any] | None:
        """What was kept under this name."""
        row = self.execute("SELECT value FROM league WHERE name = ?", name).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def _settings(self, name: str) -> dict[str, Any]:
        found = self.get_setting(name)
        if found is None:
            raise FileError(f"{self.folder / FILE}: expected the {name} of a league, found none")
        return found

    @property
    def env(self) -> EnvConfig:
        """The battle this league fights."""
        return env_from_json(self._settings("env"))

    @property
    def rules(self) -> LeagueConfig:
        """How it rates, matches and promotes."""
        rules: LeagueConfig = from_json(LeagueConfig, self._settings("rules"), "rules")
        return rules

    # Entries

    def add(self, checkpoint: str | Path, kind: str = "candidate", parent: str | None = None) -> Entry:
        """Take in the policy of a checkpoint: its weights first, then its row.

        Adding it twice is adding it once; one that was retired fights again.

        Raises:
            ConfigError: it was trained in another battle.
        """
        digest = self.add_weights(checkpoint)
        theirs = self.weights.open(digest).claims["env"]
        with self.writing():
            known = next((entry for entry in self.entries() if entry.id == digest), None)
            if known is not None and known.kind == "retired":
                self.set_kind(known, kind, "added", f"again, as {kind} from {checkpoint}")
            if known is not None:
                return self.find(digest)
            name = commander_name(digest, {entry.name for entry in self.entries()})
            entry = Entry(digest, kind, name, parent, json.dumps(theirs, sort_keys=True), time.time())
            self.insert(entry)
            self.record_change("added", f"as {kind} from {checkpoint}", entry)
        return entry

    def add_weights(self, checkpoint: str | Path) -> str:
        """Put the weights of a checkpoint that fits into the weight store; returns their sha256.

        Raises:
            ConfigError: it was trained in another battle.
        """
        found = open_checkpoint(checkpoint)
        difference = battle_difference(self.env.signature(), found.env.signature())
        if difference:
            raise ConfigError(f"{checkpoint}: trained in another battle than this league's: {difference}")
        return self.weights.add(found)

    def insert(self, entry: Entry) -> None:
        """Write an entry's row."""
        self.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", *entry)

    def entries(self, *kinds: str) -> list[Entry]:
        """Those of these kinds, or all, oldest first."""
        rows = self.execute("SELECT id, kind, name, parent, env, created FROM entries ORDER BY created, rowid")
        return [entry for entry in map(Entry._make, rows) if not kinds or entry.kind in kinds]

    def active(self) -> list[Entry]:
        """All that still fight."""
        return [entry for entry in self.entries() if entry.kind != "retired"]

    def find(self, name: str) -> Entry:
        """The entry of this name, or whose id begins so."""
        found = [e for e in self.entries() if e.name == name or (len(name) >= 6 and e.id.startswith(name))]
        if len(found) != 1:
            raise ConfigError(f"an entry must be a name or the beginning of an id in this league, got {name!r}")
        return found[0]

    def set_kind(self, entry: Entry, kind: str, change: str, reason: str, period: int | None = None) -> None:
        """Give an entry another kind, and write down why."""
        with self.writing():
            self.execute("UPDATE entries SET kind = ? WHERE id = ?", kind, entry.id)
            self.record_change(change, reason, entry, period)

    def record_change(self, change: str, reason: str, entry: Entry | None = None, period: int | None = None) -> None:
        """Write down that something happened, to an entry or to a role that has none yet.

        Args:
            reason: on one line; what cannot be printed becomes a question mark.
            period: when it happened, by default the open one.
        """
        line = "".join(letter if letter.isprintable() else "?" for letter in reason)[:LONGEST_REASON]
        with self.writing():
            who = entry.id if entry is not None else None
            self.execute(
                "INSERT INTO changes (period, entry, change, reason, created) VALUES (?, ?, ?, ?, ?)",
                *(self.period if period is None else period, who, change, line, time.time()),
            )

    def changes(self) -> list[Change]:
        """All that happened, oldest first."""
        rows = self.execute(
            "SELECT period, coalesce(name, ''), change, reason FROM changes LEFT JOIN entries ON id = entry "
            "ORDER BY number"
        )
        return [Change(*row) for row in rows]

    # Matches

    def record(self, matches: Sequence[MatchRecord]) -> int:
        """Write battles down, in the period that is open. Returns how many were not known yet."""
        with self.writing():
            before, period, now = self.database.total_changes, self.period, time.time()
            marks = ", ".join("?" * (3 + len(MatchRecord._fields)))
            self.database.executemany(
                f"INSERT INTO matches (key, period, created, {MATCH_COLUMNS}) VALUES ({marks}) ON CONFLICT (key) DO NOTHING",
                [(match.key, period, now, *match) for match in matches],
            )
            new = self.database.total_changes - before
            fought = [(match.blue, match.red, match.seed) for match in matches]
            self.database.executemany("DELETE FROM claims WHERE blue = ? AND red = ? AND seed = ?", fought)
            return new

    def played(self) -> set[Battle]:
        """All battles that were played."""
        return {Battle._make(row) for row in self.execute("SELECT blue, red, seed FROM matches")}

    def matches(self, period: int | None = None) -> list[MatchRecord]:
        """Battles of a period, or all."""
        rows = self.execute(
            f"SELECT {MATCH_COLUMNS} FROM matches WHERE period = coalesce(?, period) ORDER BY rowid", period
        )
        return [MatchRecord._make(row) for row in rows]

    def payoff(self) -> dict[tuple[str, str], tuple[int, float]]:
        """Games of each ordered pair that met, and the points the first took."""
        return {(x, y): (games, score) for x, y, games, score in self.execute("SELECT * FROM payoff")}

    # Ratings

    @property
    def period(self) -> int:
        """Number of the rating period that is open."""
        return int(self.execute("SELECT max(number) FROM periods").fetchone()[0])

    def standings(self) -> list[Standing]:
        """Everybody, best rating first."""
        rows = self.execute("SELECT * FROM standings").fetchall()
        fresh = (RATING, DEVIATION, VOLATILITY)
        stands = [Standing(*row[:3], *(row[3:6] if row[3] is not None else fresh), *row[6:]) for row in rows]
        return sorted(stands, key=lambda standing: (-standing.rating, standing.name))

    def rated(self) -> set[str]:
        """Ids of all who fought a battle that counts."""
        return {standing.id for standing in self.standings() if standing.games > 0}

    def close_period(self, ratings: dict[str, tuple[float, float, float]]) -> None:
        """Write everybody's rating, deviation and volatility after the open period, close it and open the next."""
        with self.writing():
            period, now = self.period, time.time()
            self.database.executemany(
                "INSERT INTO ratings VALUES (?, ?, ?, ?, ?)", [(period, who, *row) for who, row in ratings.items()]
            )
            self.execute("UPDATE periods SET closed = ? WHERE number = ?", now, period)
            self.execute("INSERT INTO periods VALUES (?, ?, NULL)", period + 1, now)

    def history(self, entry: Entry) -> list[tuple[int, float, float, float]]:
        """Period, rating, deviation and volatility of an entry, oldest first."""
        rows = self.execute(
            "SELECT period, rating, deviation, volatility FROM ratings WHERE entry = ? ORDER BY period", entry.id
        )
        return rows.fetchall()


def begin(store: Store) -> None:
    """The first rows of a league: an open period, and the scripted tiers."""
    store.execute("INSERT INTO periods VALUES (1, ?, NULL)", time.time())
    for tier in TIERS:
        store.insert(scripted_entry(tier))


def scripted_entry(tier: str) -> Entry:
    """A tier of the heuristic as an entry."""
    name = f"heuristic:{tier}"
    return Entry(hashlib.sha256(name.encode()).hexdigest(), "scripted", name, None, "{}", time.time())

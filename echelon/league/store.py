"""The entries and matches of a league: one SQLite file that several processes may write to, and a folder of weights.

Every change is one transaction that takes the write lock at its start (`BEGIN IMMEDIATE`) and is durable at its end
(WAL, synchronous FULL). Interrupted transactions are rolled back.

Weights are content-addressed: each policy has a folder named by the sha256 of its weights, which contains the files
`checkpoint.json` and `policy.safetensors` of a checkpoint. A folder is written under a temporary name, synced to disk
and renamed before the database refers to it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from echelon.agents.heuristic import full_name, is_scripted
from echelon.agents.tiers import TIERS
from echelon.arena.batch_arena import Battle
from echelon.arena.resolve import named_checkpoint
from echelon.command.pack_policy import names_orders
from echelon.league import database as sqlite
from echelon.league.config import LeagueConfig
from echelon.league.ratings import DEVIATION, RATING, VOLATILITY
from echelon.league.records import (
    MATCH_COLUMNS,
    Change,
    Entry,
    MatchRecord,
    Standing,
    commander_name,
    match_key,
    recipe_versions,
    scripted_entry,
)
from echelon.learn.checkpoint.format import METADATA, POLICY, Checkpoint, open_checkpoint, warn_rules_version
from echelon.learn.models.actor_critic import ActorCritic
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.config_json import as_json, battle_difference, from_json
from echelon.rules.versions import current_versions
from echelon.runtime import version
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError, as_file_error, new_folder, read_file, sync_folder, write_through
from echelon.runtime.json_checks import SHA256, record

WEIGHTS_FOLDER = "weights"


class WeightStore:
    """The folder `weights` of a league, with an LRU cache of policies."""

    def __init__(self, league: Path, capacity: int = 64) -> None:
        require(capacity >= 1, "a weight store's capacity", ">= 1 policies", capacity)
        self.folder = league / WEIGHTS_FOLDER
        self.load = functools.lru_cache(capacity)(lambda digest: self.open(digest).policy())

    def path(self, digest: str) -> Path:
        """Return the folder of the weights with this sha256; it need not exist."""
        SHA256(WEIGHTS_FOLDER, digest)
        return self.folder / digest

    def add(self, checkpoint: Checkpoint) -> str:
        """Validate the policy of a checkpoint, copy it into the store and return its sha256. Idempotent.

        Raises:
            FileError: if the checkpoint is invalid or cannot be copied; the store is then unchanged.
        """
        checkpoint.policy()
        digest = str(checkpoint.metadata["files"][POLICY])
        path = self.path(digest)
        if path.exists():
            return digest
        try:
            with new_folder(path, self.folder / f".{digest}.{os.getpid()}") as draft:
                for name in (METADATA, POLICY):
                    write_through(draft / name, read_file(checkpoint.path / name))
        except FileError:
            if not path.exists():  # If the folder exists now, another process has just added the same content.
                raise
        self.open(digest)
        sync_folder(self.folder.parent)
        return digest

    def open(self, digest: str) -> Checkpoint:
        """Open a stored checkpoint and verify its metadata; the hash of its weights is verified when they are read."""
        path = self.path(digest)
        if path.is_symlink():
            raise FileError(f"{WEIGHTS_FOLDER}/{digest}: expected a folder, got a link")
        checkpoint = open_checkpoint(path)
        stored_hash = checkpoint.metadata["files"].get(POLICY)
        if stored_hash != digest:
            raise FileError(f"{WEIGHTS_FOLDER}/{digest}: sha256 mismatch: expected {digest}, got {stored_hash}")
        return checkpoint

    def policy(self, digest: str) -> ActorCritic:
        """Load a policy on the CPU in evaluation mode.

        The policy is shared through the cache, so callers must not modify it.
        """
        return self.load(digest)

    @property
    def hit_rate(self) -> float:
        info = self.load.cache_info()
        return info.hits / max(1, info.hits + info.misses)


FILE = "league.sqlite"
UNRATED = {"rating": RATING, "deviation": DEVIATION, "volatility": VOLATILITY}
MAP_SEED = 2_000_003
"""Map seed of league battles; training and its evaluations do not use these maps."""
RECIPES = """
    WITH RECURSIVE others (recipe) AS (
        SELECT (SELECT recipe FROM matches ORDER BY key LIMIT 1)
        UNION
        SELECT (SELECT recipe FROM matches WHERE key > others.recipe || '0' ORDER BY key LIMIT 1) FROM others)
    SELECT recipe FROM others WHERE recipe IS NOT NULL"""
"""All recipes of matches, with one index lookup for each: keys begin with a recipe and `/`, and `0` is the next
character after `/`."""


class Store:
    """A league in a folder: the database and the weights of its entries."""

    def __init__(self, folder: str | Path, file: str = FILE) -> None:
        self.folder = Path(folder)
        self.weights = WeightStore(self.folder)
        path = self.folder / file
        if path.is_symlink() or not path.is_file():
            raise FileError(f"{path}: expected the file of a league, found none: create one with `arena.py init`")
        self.path, self.database = path, sqlite.open_database(path)
        self.execute, self.writing = self.database.execute, self.database.transaction
        try:
            env = self.get_setting("env")
            if env is not None:  # `env` is None while the league is being created.
                sqlite.check_rules(str(path), env)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def create(folder: str | Path, env: EnvConfig, rules: LeagueConfig | None = None) -> Store:
        """Create a league with the scripted tiers, the environment config of its battles, and its rules."""

        def fill(store: Store) -> None:
            store.set_config(env, rules or LeagueConfig())
            store.database.insert("periods", [(1, time.time(), None)])
            store.database.insert("entries", [scripted_entry(tier) for tier in TIERS])

        return Store.build(folder, fill)

    @staticmethod
    def build(folder: str | Path, fill: Callable[[Store], object]) -> Store:
        """Create a league. The database file appears atomically, when it is complete.

        Args:
            fill: inserts settings and rows, in any order; it must check references between rows itself.
        """
        path = Path(folder) / FILE
        draft = path.with_name(f".{FILE}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(b"")
            sqlite.make_database(draft)
            with closing(Store(folder, draft.name)) as store:
                # Disable foreign keys: rows come in any order, and SQLite would scan a whole table for each reference.
                store.execute("PRAGMA foreign_keys = OFF")
                with store.writing():
                    fill(store)
                # Write the log into the main file: only this file is linked, and `close` would not report a full disk.
                store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            os.link(draft, path)
            sync_folder(path.parent)
        except OSError as error:
            raise FileError(f"{path}: cannot be created: {error.strerror}") from None
        except FileError as error:
            raise FileError(str(error).replace(draft.name, FILE)) from None
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                # If the folder could not be created, there is no draft file to delete.
                with contextlib.suppress(OSError):
                    draft.with_name(draft.name + suffix).unlink()
        return Store(folder)

    def close(self) -> None:
        self.database.close()

    def read(self, table: str, columns: Sequence[str], query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return rows of a table after checking their values, because the league's file may be untrusted."""
        rows = self.execute(query, *values)
        for number, row in enumerate(rows):
            sqlite.check_values(
                f"{self.path}: {table}[{number}]", dict(zip(columns, row, strict=True)), sqlite.RULES[table]
            )
        return rows

    # Settings

    def set_setting(self, name: str, value: dict[str, Any]) -> None:
        """Store a JSON object under a name, replacing the previous one."""
        with self.writing():
            self.database.insert("league", [(name, json.dumps(value, sort_keys=True))], "OR REPLACE")

    def set_config(self, env: EnvConfig, rules: LeagueConfig) -> None:
        """Store the environment config of the battles, the rules of the league, and the version of Echelon."""
        self.set_setting("env", env.signature())
        self.set_setting("rules", as_json(rules))
        self.set_setting("written_by", {"version": version.VERSION})

    def get_setting(self, name: str) -> dict[str, Any] | None:
        """Return the JSON object stored under a name; None if there is none."""
        rows = self.execute("SELECT value FROM league WHERE name = ?", name)
        return sqlite.json_object(f"{self.path}: {name}", rows[0][0]) if rows else None

    def _settings(self, name: str) -> dict[str, Any]:
        settings = self.get_setting(name)
        if settings is None:
            raise FileError(f"{self.path}: expected the {name} of a league, found none")
        return settings

    @property
    def env(self) -> EnvConfig:
        with as_file_error(self.path):
            return env_from_json(self._settings("env"))

    @property
    def rules(self) -> LeagueConfig:
        with as_file_error(self.path):
            rules: LeagueConfig = from_json(LeagueConfig, self._settings("rules"), "rules")
        return rules

    def role(self, name: str) -> dict[str, Any]:
        """Return the stored progress of a training role of `evolve`; empty before the role's first turn."""
        values = self.get_setting(f"role {name}") or {}
        record({}, later=sqlite.RULES["role"])(f"{self.path}: role {name}", values)
        return values

    # Entries

    def add(self, checkpoint: str | Path, kind: str = "candidate", parent: str | None = None) -> Entry:
        """Add the policy of a checkpoint as an entry.

        Adding the same policy again changes nothing, except that a retired entry becomes active again.

        Args:
            kind: kind of the entry, one of `database.KINDS`.
            parent: id of the entry that it was trained from; by default the newest of its `ancestors` that is an entry,
                or None.
        """
        digest = self.add_weights(checkpoint)
        source = self.weights.open(digest)
        with self.writing():
            entries = self.entries()
            existing = next((entry for entry in entries if entry.id == digest), None)
            if existing is not None and existing.kind == "retired":
                self.set_kind(existing, kind, "added", f"again, as {kind} from {checkpoint}")
            if existing is not None:
                return self.find(digest)
            ids = {entry.id for entry in entries}
            parent = parent or next((ancestor for ancestor in reversed(source.ancestors) if ancestor in ids), None)
            name = commander_name(digest, {entry.name for entry in entries})
            entry = Entry(digest, kind, name, parent, json.dumps(source.metadata["env"], sort_keys=True), time.time())
            self.database.insert("entries", [entry])
            self.record_change("added", f"as {kind} from {checkpoint}", entry)
        return entry

    def add_weights(self, checkpoint: str | Path) -> str:
        """Add the weights of a trained policy, by name or path, to the weight store and return their sha256.

        If the policy was trained under earlier rules of the game, a warning is logged.
        """
        limit = "a policy with weights; `evaluate NAME --league FOLDER` rates a commander of packs"
        require(not names_orders(checkpoint), "an entry of a league", limit, checkpoint)
        source = named_checkpoint(checkpoint)
        difference = battle_difference(self.env.signature(), source.env.signature())
        if difference:
            raise ConfigError(f"{checkpoint}: trained with another battle config than this league's: {difference}")
        warn_rules_version(str(checkpoint), source.versions.rules)
        return self.weights.add(source)

    def entries(self, *kinds: str) -> list[Entry]:
        """Return the entries of the given kinds, oldest first; without kinds, return all entries."""
        query = "SELECT id, kind, name, parent, env, created FROM entries ORDER BY created, rowid"
        rows = [Entry._make(row) for row in self.read("entries", Entry._fields, query)]
        for number, entry in enumerate(rows):
            sqlite.check_identity(f"{self.path}: entries[{number}]", entry.id, entry.name, entry.kind)
        return [entry for entry in rows if not kinds or entry.kind in kinds]

    def active(self) -> list[Entry]:
        return [entry for entry in self.entries() if entry.kind != "retired"]

    def find(self, name: str) -> Entry:
        """Return the entry with this name, or with an id that starts with it (at least 6 characters).

        `heuristic:TIER`, or TIER if no entry has that name, is the scripted tier of the current rules.
        """
        entries, full = self.entries(), full_name(name)
        is_tier = is_scripted(full) and all(entry.name != name for entry in entries)
        stored_name = f"{full}@{current_versions().rules}" if is_tier else name
        matching = [e for e in entries if e.name == stored_name or (len(name) >= 6 and e.id.startswith(name))]
        require(len(matching) == 1, "an entry", "a name or the beginning of an id in this league", name)
        return matching[0]

    def set_kind(self, entry: Entry, kind: str, change: str, reason: str, period: int | None = None) -> None:
        with self.writing():
            self.execute("UPDATE entries SET kind = ? WHERE id = ?", kind, entry.id)
            self.record_change(change, reason, entry, period)

    def record_change(self, change: str, reason: str, entry: Entry | None = None, period: int | None = None) -> None:
        """Record a change of an entry; without an entry, a change of a training role.

        Args:
            change: one of `database.CHANGES`.
            reason: unprintable characters become question marks; at most `LONGEST_REASON` characters are stored.
            period: rating period of the change; the open one by default.
        """
        line = "".join(letter if letter.isprintable() else "?" for letter in reason)[: sqlite.LONGEST_REASON]
        with self.writing():
            entry_id = entry.id if entry is not None else None
            row = (self.period if period is None else period, entry_id, change, line, time.time())
            self.database.insert("changes (period, entry, change, reason, created)", [row])

    def changes(self) -> list[Change]:
        """Return all recorded changes of entries and roles, oldest first."""
        names = {entry.id: entry.name for entry in self.entries()}
        query = "SELECT period, entry, change, reason FROM changes ORDER BY number"
        rows = self.read("changes", ("period", "entry", "change", "reason"), query)
        return [Change(period, names.get(entry, ""), change, reason) for period, entry, change, reason in rows]

    # Matches

    def record(self, matches: Sequence[MatchRecord]) -> int:
        """Insert matches into the open rating period and release their claims; return the number of new matches."""
        with self.writing():
            period, now_s = self.period, time.time()
            marks = ", ".join("?" * (3 + len(MatchRecord._fields)))
            new = self.database.executemany(
                f"INSERT INTO matches (key, period, created, {MATCH_COLUMNS}) VALUES ({marks}) "
                "ON CONFLICT (key) DO NOTHING",
                [(match.key, period, now_s, *match) for match in matches],
            )
            battles = [(match.blue, match.red, match.seed) for match in matches]
            self.database.executemany("DELETE FROM claims WHERE blue = ? AND red = ? AND seed = ?", battles)
            return new

    def played(self, battles: Iterable[Battle]) -> set[Battle]:
        """Return those of `battles` that have a match recorded under the current rules and map generator.

        The query uses the index of match keys, so its time hardly depends on the number of matches.
        """
        recipes = self.read("matches", ("recipe",), RECIPES)
        with as_file_error(self.path):
            current = [recipe for (recipe,) in recipes if recipe_versions(recipe) == current_versions()]
        keys = {match_key(battle, recipe): battle for battle in battles for recipe in current}
        rows = self.execute(
            "SELECT key FROM matches WHERE key IN (SELECT value FROM json_each(?))", json.dumps(list(keys))
        )
        return {keys[key] for (key,) in rows}

    def matches(self, period: int | None = None) -> list[MatchRecord]:
        """Return the matches of a rating period, in the order of recording; without a period, return all matches."""
        query = f"SELECT {MATCH_COLUMNS} FROM matches WHERE period = coalesce(?, period) ORDER BY rowid"
        records = [MatchRecord._make(row) for row in self.read("matches", MatchRecord._fields, query, period)]
        ids = {entry.id for entry in self.entries()}
        for match in records:
            if match.blue == match.red or not ids >= {match.blue, match.red}:
                raise FileError(f"{self.path}: a match must have two known entries, got {match.blue} and {match.red}")
        return records

    def payoff(self) -> dict[tuple[str, str], tuple[int, float]]:
        """Return the number of games of each ordered pair of entry ids, and the first entry's points in them."""
        return {(x, y): (games, score) for x, y, games, score in self.execute("SELECT * FROM payoff")}

    # Ratings

    @property
    def period(self) -> int:
        ((number,),) = self.read("periods", ("number",), "SELECT max(number) FROM periods")
        return int(number)

    def standings(self) -> list[Standing]:
        """Return the standings of all entries, including retired ones, best rating first."""
        rows = [Standing(*row) for row in self.execute("SELECT * FROM standings")]
        ranked = [row._replace(**UNRATED) if row.rating is None else row for row in rows]
        rules = {**sqlite.RULES["entries"], **sqlite.RULES["ratings"], **sqlite.RULES["standings"]}
        for number, row in enumerate(ranked):
            sqlite.check_values(f"{self.path}: standings[{number}]", row._asdict(), rules)
        return sorted(ranked, key=lambda standing: (-standing.rating, standing.name))

    def rated(self) -> set[str]:
        return {standing.id for standing in self.standings() if standing.games > 0}

    def close_period(self, ratings: dict[str, tuple[float, float, float]]) -> None:
        """Store each entry's rating, deviation and volatility for the open period, close it and open the next one."""
        with self.writing():
            period, now_s = self.period, time.time()
            self.database.insert("ratings", [(period, entry_id, *row) for entry_id, row in ratings.items()])
            self.execute("UPDATE periods SET closed = ? WHERE number = ?", now_s, period)
            self.database.insert("periods", [(period + 1, now_s, None)])

    def history(self, entry: Entry) -> list[tuple[int, float, float, float]]:
        """Return an entry's rating, deviation and volatility after each rating period, oldest first."""
        columns = ("period", "rating", "deviation", "volatility")
        query = f"SELECT {', '.join(columns)} FROM ratings WHERE entry = ? ORDER BY period"
        return [(period, *values) for period, *values in self.read("ratings", columns, query, entry.id)]

"""Takes a league over into the rules of today: its entries stay, its matches and ratings belong to the rules before."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from echelon.agents.tiers import TIERS
from echelon.league.database import Database
from echelon.league.records import scripted_entry
from echelon.league.roles import Role
from echelon.league.store import FILE, Store
from echelon.rules.upgrade import env_under_current_rules
from echelon.rules.versions import current_versions, stored_versions
from echelon.runtime.files import FileError, sync_folder


def backup_path(path: Path, rules: int) -> Path:
    """Where the file of a league stays as it was under other rules: beside it."""
    return path.with_name(f"{path.name}.rules_{rules}")


def take_over(store: Store) -> Path | None:
    """Convert a league of earlier rules, opened with `any_rules`, to the rules of today, in one transaction.

    Entries keep ids, kinds and lineage, scripted tiers become those of today, and roles of `evolve` begin anew.

    Returns:
        A copy of the database as it was, which an Echelon of those rules reads; None for a league of today's rules.

    Raises:
        FileError: if the disk is full or not writable; then the league is as it was.
    """
    path = store.folder / FILE
    try:
        with store.writing():
            env = store.get_setting("env") or {}
            rules = stored_versions(env, "env").rules
            if rules == current_versions().rules:
                return None
            backup = backup_path(path, rules)
            copy_database(path, backup)
            reason = f"rules {rules} became {current_versions().rules}: matches and ratings are in {backup.name}"
            drop_battles(store, reason)
            store.set_setting("env", env_under_current_rules(env).signature())
            for role in Role:
                begin_anew(store, role, reason)
    except (sqlite3.Error, OSError) as error:
        raise FileError(f"{path}: cannot be converted: {error}") from None
    return backup


def copy_database(path: Path, backup: Path) -> None:
    """Copy a database, also one that this process has locked for writing, whole or not at all."""
    draft = backup.with_name(f".{backup.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        with closing(Database(path, "rw")) as reader:
            reader.execute("VACUUM INTO ?", str(draft))
        with open(draft, "rb") as written:
            os.fsync(written.fileno())
        draft.rename(backup)
        sync_folder(backup.parent)
    finally:
        draft.unlink(missing_ok=True)


def drop_battles(store: Store, reason: str) -> None:
    """Remove matches and ratings, let the scripted tiers be those of today, and record why."""
    for table in ("claims", "matches", "ratings"):
        store.execute(f"DELETE FROM {table}")
    replace_scripted(store)
    store.record_change("reset", reason)


def replace_scripted(store: Store) -> None:
    """Let the scripted tiers of today take the places of those of other rules, and add those that were none yet."""
    store.execute("PRAGMA defer_foreign_keys = ON")
    query = "SELECT id, name FROM entries WHERE name LIKE 'heuristic:%'"
    old = {tier_of(name): id for id, name in store.read("entries", ("id", "name"), query)}
    for tier in TIERS:
        new = scripted_entry(tier)
        if tier not in old:
            store.insert(new)
            continue
        store.execute("UPDATE entries SET id = ?, name = ? WHERE id = ?", new.id, new.name, old[tier])
        for table, column in (("entries", "parent"), ("changes", "entry")):
            store.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", new.id, old[tier])


def tier_of(name: str) -> str:
    """Tier of a scripted entry, of any rules."""
    return name.partition(":")[2].partition("@")[0]


def begin_anew(store: Store, role: Role, reason: str) -> None:
    """Reset a role: its checkpoints do not resume under other rules."""
    now = store.role(role.value)
    if now:
        after = {"generation": now.get("generation", 0) + 1, "turns": 0, "entry": "", "judged": {}}
        store.set_setting(f"role {role.value}", after)
        store.record_change("reset", f"{role.value}, generation {after['generation']}: {reason}")


def take_over_rows(store: Store, env: dict[str, Any]) -> dict[str, Any]:
    """Convert the rows of an exported league, as `take_over` converts a league.

    Args:
        store: a database of these rows.
        env: environment config of the file.

    Returns:
        The environment config under the rules of today.
    """
    rules, ours = stored_versions(env, "env").rules, current_versions().rules
    with store.writing():
        drop_battles(store, f"rules {rules} became {ours}: matches and ratings were dropped")
    return env_under_current_rules(env).signature()

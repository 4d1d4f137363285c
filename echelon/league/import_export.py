"""Exports a league to a JSON file and imports it. An imported file is untrusted and validated completely first.

Files are read and written row by row: whatever their size, a small part of them is in memory.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from echelon.league import log
from echelon.league.columns import RULES, check_values
from echelon.league.config import LeagueConfig
from echelon.league.export_rows import COLUMNS, SCHEMA, VERSION, stage, stored_rows
from echelon.league.records import scripted_id
from echelon.league.store import FILE, Store
from echelon.league.weight_store import FOLDER, WeightStore
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.config_json import as_json, battle_difference, from_json
from echelon.runtime import version
from echelon.runtime.files import FileError, as_file_error, open_file, replacing, writing_to
from echelon.runtime.json_tables import table_bytes

MAX_BYTES = 256 << 20
Watched = Callable[[BinaryIO], BinaryIO]


def write_league(store: Store, path: Path) -> None:
    """Write a league to a JSON file, and copies of its weights next to it. Checkpoints of roles are not exported.

    Raises:
        FileError: if the league holds what `read_league` refuses, the file would be larger than `MAX_BYTES`, its limit,
            `path` is the league's log, or something cannot be written; then nothing is written.
    """
    settings: dict[str, Any] = {"schema": SCHEMA, "version": VERSION, "written_by": version.VERSION}
    settings |= {"env": store.env.signature(), "rules": as_json(store.rules)}
    if path.resolve() == (store.folder / log.FILE).resolve():
        raise FileError(f"{path}: expected another name, got that of the league's log, which is not replaced")
    beside = WeightStore(path.parent)
    with replacing(path) as draft:
        with store.writing():
            write_rows(path, draft, settings, store)
        # Whoever reads it will do just this, so what the league holds is validated by it too.
        with staged(draft, str(store.path)) as copy:
            for _, digest in networks(copy):
                beside.add(store.weights.open(digest))


def write_rows(path: Path, draft: Path, settings: dict[str, Any], store: Store) -> None:
    """Write settings and the rows of a league to the draft of a JSON file."""
    with open(draft, "wb") as file:
        for piece in table_bytes(settings, {table: exported_rows(store, table) for table in COLUMNS}):
            if file.tell() + len(piece) > MAX_BYTES:
                raise FileError(f"{path}: a league must be at most {MAX_BYTES} bytes to be read again, got more")
            file.write(piece)


def exported_rows(store: Store, table: str) -> Iterator[dict[str, Any]]:
    """Rows of a table as they stand in a file."""
    for number, row in enumerate(stored_rows(store, table)):
        check_values(f"{store.path}: {table}[{number}]", row, RULES[table])
        if table == "entries":
            row["weights"] = None if row["id"] == scripted_id(row["name"]) else f"{FOLDER}/{row['id']}"
        yield row


def networks(store: Store) -> Iterator[tuple[int, str]]:
    """Row and id of each entry that has weights."""
    for number, row in enumerate(stored_rows(store, "entries")):
        if scripted_id(row["name"]) is None:
            yield number, row["id"]


@contextlib.contextmanager
def staged(path: Path, name: str) -> Iterator[Store]:
    """Context manager that yields a database, for as long, of the rows of an exported league, all of them validated.
    The database is made in a folder beside the file.
    """
    with open_file(path, MAX_BYTES) as file, writing_to(path):  # noqa: SIM117
        with tempfile.TemporaryDirectory(prefix=".league.", dir=path.parent) as folder:
            with closing(Store.build(folder, lambda store: stage(name, file, MAX_BYTES, store))) as store:
                yield store


def read_league(path: Path, folder: str | Path, watched: Watched = lambda file: file) -> Store:
    """Create a league from an exported file and the weights next to it.

    Args:
        path: the file, as written by `write_league`.
        watched: called with the open file, returns what is read in its place; a caller may show progress.
    """
    root = Path(folder)
    if (root / FILE).exists():
        raise FileError(f"{folder}: expected a folder without a league, found {FILE}")
    source, local_store = WeightStore(path.parent), WeightStore(root)
    new = [candidate for candidate in (local_store.folder, root, *root.absolute().parents) if not candidate.exists()]
    copied: list[Path] = []

    def fill(store: Store) -> None:
        settings = stage(path.name, watched(file), MAX_BYTES, store)
        with as_file_error(path.name):
            env, config = env_from_json(settings["env"]), from_json(LeagueConfig, settings["rules"], "rules")
        check_weights(path.name, store, env, source)
        for _, digest in networks(store):
            if not local_store.path(digest).exists():
                copied.append(local_store.path(digest))
            local_store.add(source.open(digest))
        store.set_config(env, config)

    with open_file(path, MAX_BYTES) as file:
        try:
            store = Store.build(folder, fill)
        except BaseException:
            if not (root / FILE).exists():
                take_back(copied, *new)
            raise
    log.write_imported(store, stored_rows(store, "matches"))
    return store


def check_weights(name: str, store: Store, env: EnvConfig, weights: WeightStore) -> None:
    for row, digest in networks(store):
        try:
            checkpoint = weights.open(digest)
            checkpoint.policy()
        except FileError as error:
            raise FileError(f"{name}: entries[{row}].weights: {error}") from None
        if difference := battle_difference(env.signature(), checkpoint.env.signature()):
            raise FileError(f"{name}: entries[{row}].weights: trained in another battle: {difference}")


def take_back(new: Sequence[Path], *folders: Path) -> None:
    """Remove new folders, and then of `folders` those that nothing else is in."""
    for path in new:
        shutil.rmtree(path, ignore_errors=True)
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()

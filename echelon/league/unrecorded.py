"""Matches that were fought and could not be recorded: a file beside the league holds them until they are."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from echelon.arena.proof import read_claims
from echelon.league import log
from echelon.league.columns import RULES
from echelon.league.records import MatchRecord, recipe_versions
from echelon.league.store import Store
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.config_json import battle_difference
from echelon.rules.versions import current_versions
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, as_file_error, json_bytes, open_file, write_whole
from echelon.runtime.json_checks import OBJECT, exactly, listed, record

SCHEMA, VERSION = "echelon-matches", 1
MAX_BYTES = 64 << 20
ROW = record({name: RULES["matches"][name] for name in MatchRecord._fields})
CHECK = record(
    {"schema": exactly(SCHEMA), "version": exactly(VERSION), "env": OBJECT, "matches": listed(ROW, 0, MAX_BYTES)}
)


def save_unrecorded(folder: Path, env: EnvConfig, matches: Sequence[MatchRecord]) -> str:
    """Save matches in a file in the folder of their league or, if that cannot be written, in that of temporary files.

    Returns:
        A line that tells where they are and which command records them, or that they are lost.
    """
    rows = [match._asdict() for match in matches]
    data = json_bytes({"schema": SCHEMA, "version": VERSION, "env": env.signature(), "matches": rows})
    for parent in (folder, Path(tempfile.gettempdir())):
        path = parent / f"unrecorded_{uuid.uuid4().hex[:12]}.json"
        try:
            write_whole(path, data)
        except FileError:
            continue
        return f"{len(rows)} battles that were fought are kept: `arena.py import {path} --league {folder}` records them"
    return f"{len(rows)} battles that were fought are lost, as no file can be written either: fight them again"


def is_unrecorded(path: Path) -> bool:
    """Whether a file is one of `save_unrecorded`, by its beginning."""
    with open_file(path, 1 << 40) as file:
        return f'"schema": "{SCHEMA}"'.encode() in file.read(100)


def record_file(path: Path, store: Store) -> tuple[int, int]:
    """Record the matches of a file in the open period of their league. What is recorded already stays as it is.

    Returns:
        The number of matches in the file, and of those that are new.

    Raises:
        FileError: the file is invalid, or of another league or rules; then none is recorded.
    """
    document = read_claims(path, CHECK, MAX_BYTES)
    matches = [MatchRecord(**row) for row in document["matches"]]
    ids = {entry.id for entry in store.entries()}
    with as_file_error(path.name):
        difference = battle_difference(store.env.signature(), env_from_json(document["env"]).signature())
        require(difference is None, "env", "the battle of the league", difference)
        for number, match in enumerate(matches):
            label = f"matches[{number}]"
            require({match.blue, match.red} <= ids, label, "of entries of the league", (match.blue, match.red))
            require(match.blue != match.red, label, "of two entries", match.blue)
            is_current = recipe_versions(match.recipe) == current_versions()
            require(is_current, f"{label}.recipe", "of the rules and maps of today", match.recipe)
    new = store.record(matches)
    if new > 0:
        log.write_imported(store, (match._asdict() for match in matches))
    return len(matches), new

"""The record of a language model's calls: a file of JSON lines with one call per line, read to resume and to verify."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from pathlib import Path
from typing import Any

from echelon.command.chat_client import ModelSettings, settings_of
from echelon.command.chat_prompt import prompt_hash
from echelon.runtime.files import FileError, append_whole, as_file_error, expect, parse_json, read_file, writing_to
from echelon.runtime.json_checks import (
    OBJECT,
    SHA256,
    check_schema,
    exactly,
    integer,
    listed,
    number,
    of_type,
    record,
    text,
)
from echelon.runtime.version import VERSION as ECHELON

SCHEMA, VERSION = "echelon-calls", 1
MOST_FILE = 1 << 32
HEADER = record(
    {
        "schema": exactly(SCHEMA),
        "version": exactly(VERSION),
        "settings": OBJECT,
        "prompt_hash": text(64),
        "echelon": text(100),
    }
)
ROW = record(
    {
        "prompt": SHA256,
        "battle": integer(0),
        "team": text(10),
        "time_s": number(0, 1e9),
        "reply": of_type(str),
        "prompt_tokens": integer(0),
        "completion_tokens": integer(0),
        "latency_s": number(0, 1e9),
        "late": integer(0, 1 << 20),
        "fault": text(200),
        "orders": listed(OBJECT, 0, 1 << 20),
        "refused": listed(of_type(str), 0, 1 << 20),
    }
)
"""Schema of a call. `prompt` is the sha256 of its messages; `late` is the delay of its orders, in decisions."""
OF_A_RESULT = (
    "base_url",
    "model",
    "report",
    "style",
    "history",
    "temperature",
    "max_tokens",
    "deadline_s",
    "timeout_s",
)
"""Settings that affect replies. The other settings, such as `retries`, may change when a match is resumed."""


def facts_of(settings: ModelSettings) -> dict[str, Any]:
    """Return the facts of a language model that results store: model, prompt hash, and the settings `OF_A_RESULT`."""
    values = dataclasses.asdict(settings)
    chosen = {name: values[name] for name in (*OF_A_RESULT, "fallback", "schema")}
    return {"model": settings.model, "prompt_hash": prompt_hash(settings), "settings": chosen}


def call_line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


class CallRecord:
    """Recorded calls, keyed by the hash of their prompt, optionally in a file.

    New calls are appended to an existing file, and its replies are reused for equal prompts. An incomplete last line,
    left by a killed program, is removed.

    Args:
        path: the file, or None to keep the calls in memory.
        settings: settings of the model.

    Raises:
        FileError: if the file is not a record of calls, or its model, prompt or server differs from `settings`.
    """

    def __init__(self, path: Path | None, settings: ModelSettings) -> None:
        self.path, self.settings = path, settings
        self.rows: dict[str, dict[str, Any]] = {}
        """Calls, keyed by the sha256 of their prompt."""
        self._writing = threading.Lock()
        if path is None:
            return
        if path.exists() and path.stat().st_size > 0:
            lines = complete_lines(path)
            if lines:
                same_model(path, lines[0], settings)
                self.rows = {row["prompt"]: row for row in rows_of(path, lines)}
                return
        header = {"schema": SCHEMA, "version": VERSION, "settings": dataclasses.asdict(settings)}
        append_whole(path, call_line({**header, "prompt_hash": prompt_hash(settings), "echelon": ECHELON}))

    def add(self, row: dict[str, Any]) -> None:
        """Store a call and write it immediately."""
        with self._writing:
            self.rows[row["prompt"]] = row
            if self.path is not None:
                append_whole(self.path, call_line(row), durable=False)


def complete_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, and truncate the file after its last line break."""
    data = read_file(path, MOST_FILE)
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with writing_to(path):
            os.truncate(path, len(whole))
    return whole.splitlines()


def rows_of(path: Path, lines: list[bytes]) -> list[dict[str, Any]]:
    rows = []
    for index, line in enumerate(lines[1:], 2):
        where = f"{path.name}: line {index}"
        row = parse_json(where, line)
        ROW(where, row)
        rows.append(row)
    return rows


def recorded_settings(path: Path) -> ModelSettings:
    """Return the settings in the header of a record of calls.

    Raises:
        FileError: if the file is not a record of calls.
    """
    lines = complete_lines(path)
    expect(bool(lines), path.name, "a record of calls, such as --calls writes", "an empty file")
    return header_of(path, lines[0])


def header_of(path: Path, line: bytes) -> ModelSettings:
    header = parse_json(f"{path.name}: line 1", line)
    check_schema(path.name, header, SCHEMA, VERSION)
    HEADER(path.name, header)
    with as_file_error(f"{path.name}: settings"):
        return settings_of(header["settings"])


def same_model(path: Path, line: bytes, settings: ModelSettings) -> None:
    """Raise `FileError` if the record's model, prompt or server differs from the settings."""
    recorded = header_of(path, line)
    for name in OF_A_RESULT:
        theirs, ours = getattr(recorded, name), getattr(settings, name)
        if theirs != ours:
            hint = "use another file to start a new record"
            raise FileError(f"{path.name}: {name} must be {ours!r} as now, got {theirs!r} in the record; {hint}")

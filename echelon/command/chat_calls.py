"""The record of a language model's calls: a file of JSON lines, one per call, read to resume and to verify matches."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from io import FileIO
from pathlib import Path
from typing import Any

from echelon.command.chat_client import ModelSettings, settings_of
from echelon.command.chat_prompt import prompt_hash
from echelon.runtime.files import (
    FileError,
    append_bytes,
    as_file_error,
    expect,
    locked_to_append,
    parse_json,
    read_file,
)
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
"""Schema of a call. `prompt` is the sha256 of its messages; `late` is the delay of its orders, in reports."""
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
    """Return the facts about a language model that results store: model, prompt hash, and settings (`OF_A_RESULT`)."""
    values = dataclasses.asdict(settings)
    chosen = {name: values[name] for name in (*OF_A_RESULT, "fallback", "schema")}
    return {"model": settings.model, "prompt_hash": prompt_hash(settings), "settings": chosen}


def call_line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


class CallRecord:
    """Recorded calls of a language model, keyed by the hash of their prompt; stored in a file or only in memory.

    New calls are appended to the file; a prompt equal to a recorded one gets the recorded reply. An incomplete last
    line, which a killed program may leave, is removed. If several processes share a file, all of them use the first
    recorded reply to a prompt, so each process's battles can be repeated from the file.

    Args:
        path: the file, or None to keep the calls in memory.
        settings: settings of the model.
        is_read_only: whether the file is never written to.

    Raises:
        FileError: if the file is not a record of calls, or if its model, prompt or server is not that in `settings`.
    """

    def __init__(self, path: Path | None, settings: ModelSettings, is_read_only: bool = False) -> None:
        self.path, self.settings = path, settings
        self.rows: dict[str, dict[str, Any]] = {}
        """Calls, keyed by the sha256 of their prompt."""
        self._writing = threading.Lock()
        self._bytes = self._lines = 0
        if path is None:
            return
        if is_read_only:
            self._parse_lines(path, read_file(path, MOST_FILE))
            expect(self._lines > 0, path.name, "a record of calls, such as --calls writes", "an empty file")
            return
        with locked_to_append(path) as file:
            self._read_new(path, file)
            if self._lines == 0:
                header = {"schema": SCHEMA, "version": VERSION, "settings": dataclasses.asdict(settings)}
                self._append(file, {**header, "prompt_hash": prompt_hash(settings), "echelon": ECHELON})

    def add(self, row: dict[str, Any]) -> None:
        """Store a call and write it immediately. If the same prompt is already recorded, the earlier call stays."""
        with self._writing:
            if self.path is not None:
                with locked_to_append(self.path) as file:
                    self._read_new(self.path, file)
                    if row["prompt"] not in self.rows:
                        self._append(file, row)
            self.rows.setdefault(row["prompt"], row)

    def _append(self, file: FileIO, row: dict[str, Any]) -> None:
        line = call_line(row)
        append_bytes(file, line)
        self._bytes, self._lines = self._bytes + len(line), self._lines + 1

    def _read_new(self, path: Path, file: FileIO) -> None:
        """Read the lines that other processes appended to the file, and remove an incomplete last line."""
        size = os.fstat(file.fileno()).st_size
        expect(self._bytes <= size <= MOST_FILE, path.name, f"{self._bytes} to {MOST_FILE} bytes", size)
        if size > self._bytes:
            file.seek(self._bytes)
            self._parse_lines(path, file.readall())
            file.truncate(self._bytes)

    def _parse_lines(self, path: Path, data: bytes) -> None:
        """Parse the new bytes `data` of the file, and store the calls in its complete lines."""
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self._lines += 1
            if self._lines == 1:
                same_model(path, line, self.settings)
                continue
            where = f"{path.name}: line {self._lines}"
            row = parse_json(where, line)
            ROW(where, row)
            self.rows.setdefault(row["prompt"], row)
        self._bytes += len(whole)


def header_of(path: Path, line: bytes) -> ModelSettings:
    header = parse_json(f"{path.name}: line 1", line)
    check_schema(path.name, header, SCHEMA, VERSION)
    HEADER(path.name, header)
    with as_file_error(f"{path.name}: settings"):
        return settings_of(header["settings"])


def same_model(path: Path, line: bytes, settings: ModelSettings) -> None:
    """Raise `FileError` if the record's model, prompt or server differs from that in the settings."""
    recorded = header_of(path, line)
    for name in OF_A_RESULT:
        theirs, ours = getattr(recorded, name), getattr(settings, name)
        if theirs != ours:
            hint = "use another file to start a new record"
            raise FileError(f"{path.name}: {name} must be {ours!r} as now, got {theirs!r} in the record; {hint}")

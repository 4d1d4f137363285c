"""The leaderboard of protocol 2: a JSON table of verified results with their provenance."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from echelon.arena.proof import read_claims
from echelon.arena.strangers.scores import BESIDE, FOCAL, GAP, PIECES, WORST, ends_of
from echelon.arena.strangers.verify import MOST_BYTES, NAME, Verification, verify
from echelon.runtime.errors import require
from echelon.runtime.files import json_bytes, read_file, write_whole
from echelon.runtime.json_checks import OBJECT, SHA256, exactly, integer, listed, one_of, record, text

SCHEMA, VERSION = "echelon-leaderboard", 1
SHOWN = (FOCAL, BESIDE, GAP, PIECES, WORST)
"""Scores in a row, each with its interval."""
LABEL = text(100)
ROOTED = re.compile(r"(?<![^\s='\":])/(?!/)[^\s'\"]+")
"""An absolute path in a command or a name."""
ROW = record(
    {
        "name": LABEL,
        "task": text(255),
        "fingerprint": text(16),
        "unit": one_of(("run", "seed")),
        "scores": OBJECT,
        "runs": listed(record({"policy": NAME, "id": NAME, "met": OBJECT, "provenance": OBJECT}), 1, 100),
        "versions": OBJECT,
        "command": text(),
        "result": SHA256,
        "verified": OBJECT,
    }
)
CHECK = record({"schema": exactly(SCHEMA), "version": integer(VERSION, VERSION), "rows": listed(ROW, 0, 10_000)})


def read_table(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a leaderboard; empty if the file does not exist."""
    rows: list[dict[str, Any]] = read_claims(path, CHECK)["rows"] if path.exists() else []
    return rows


def add_result(
    table: Path, result: str | os.PathLike[str], name: str, policies: Any = (), **how: Any
) -> tuple[dict[str, Any], Verification]:
    """Verify a result and add it to the table, sorted by task and score; return its row and the verification.

    Args:
        name: name of the row; by default that of the first policy.
        policies, how: arguments of `verify`.

    Raises:
        FileError: if the result is wrong, or the table is invalid.
        ConfigError: if the result does not count for its task, or is already in the table.
    """
    rows = read_table(table)
    verified = verify(result, policies, **how)
    require(
        verified.is_sealed,
        f"{result}",
        "a result by the task's protocol, of policies that were not trained on the task's test content",
        str(verified),
    )
    row = row_of(verified, name, hashlib.sha256(read_file(Path(result), MOST_BYTES)).hexdigest())
    name = row["name"]
    require(LABEL.holds(name), "--name", LABEL.limit, name)
    for entry in (entry for entry in rows if entry["task"] == row["task"]):
        is_new = entry["name"] != name and weights_of(entry) != weights_of(row)
        require(is_new, f"{result}", f"not yet in {table}", f"{entry['name']} at {entry['task']}")
    ranked = sorted([*rows, row], key=lambda each: (each["task"], -each["scores"][FOCAL]["value"]))
    write_whole(table, json_bytes({"schema": SCHEMA, "version": VERSION, "rows": ranked}))
    return row, verified


def weights_of(row: Mapping[str, Any]) -> list[str]:
    return sorted(run["id"] for run in row["runs"])


def without_places(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `runs` and the `command` of a result without the folders of the machine that made it.

    Absolute paths become relative to the runs' common folder, or are reduced to their last part.
    """
    parents = [os.path.dirname(run["policy"]) for run in result["runs"] if os.path.isabs(run["policy"])]
    home = os.path.commonpath(parents) if parents else os.sep

    def shorter(match: re.Match[str]) -> str:
        inside = os.path.relpath(match[0], home)
        return os.path.basename(inside) if home == os.sep or inside.startswith(os.pardir) else inside

    runs = [{**run, "policy": ROOTED.sub(shorter, run["policy"])} for run in result["runs"]]
    return {"runs": runs, "command": ROOTED.sub(shorter, result["command"])}


def row_of(verification: Verification, name: str, digest: str) -> dict[str, Any]:
    result = {**verification.record, **without_places(verification.record)}
    scores = result["scores"]
    return {
        "name": name or result["runs"][0]["policy"],
        **{field: result[field] for field in ("task", "fingerprint")},
        "unit": scores["unit"],
        "scores": {score: ends_of(scores[score]) for score in SHOWN if score in scores},
        "runs": [{field: run[field] for field in ("policy", "id", "met", "provenance")} for run in result["runs"]],
        **{field: result[field] for field in ("versions", "command")},
        "result": digest,
        "verified": {
            "battles": verification.battles,
            "replayed": verification.replayed,
            "bit_for_bit": verification.bit_for_bit,
        },
    }


def cells_of(row: Mapping[str, Any]) -> list[str]:
    """Format a row: name, number of runs, and each score with its interval."""
    scores = [row["scores"].get(name) for name in SHOWN]
    cells = [
        "" if score is None else f"{score['value']:.0%} ({score['low']:.0%} to {score['high']:.0%})" for score in scores
    ]
    return [row["name"], str(len(row["runs"])), *cells]


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["task", "policy", "runs", *(name.replace("_", " ") for name in SHOWN)]
    lines = [head, ["-"] * len(head), *([f"`{row['task']}`", *cells_of(row)] for row in rows)]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)

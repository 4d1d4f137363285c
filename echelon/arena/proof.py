"""Checks for all files that claim results: valid fields, the current rules, and equality with recomputed numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echelon.arena.match import SIDES
from echelon.env.outcome import Reason, Winner
from echelon.rules.config_json import first_difference
from echelon.rules.versions import current_versions, stored_versions
from echelon.runtime.files import MAX_JSON_BYTES, FileError, as_file_error, expect, parse_json, read_file
from echelon.runtime.json_checks import FLAG, Check, integer, listed, matching, number, one_of, record, text

VERSIONS = {
    **{name: text(100) for name in ("echelon", "torch", "device")},
    **{name: integer(1) for name in current_versions().as_json()},
    "precision": one_of(("fp32", "bf16", "fp16")),
    "compiled": FLAG,
}
"""Versions in a file, with their checks."""
OUTCOME = record(
    {
        "x_side": one_of(SIDES),
        "winner": one_of([winner.name.lower() for winner in Winner]),
        "reason": one_of([reason.name.lower() for reason in Reason]),
        "score": listed(number(0, 1e9), 2, 2),
        "decisions": integer(0),
        "state_hash": matching("[0-9a-f]{16}", "16 hexadecimal digits"),
    }
)
"""The result of a battle, as in `echelon.arena.match.outcomes_json`."""


def read_claims(path: Path, check: Check, limit: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Read the JSON object of an untrusted file; `check` validates the fields."""
    claims = parse_json(path.name, read_file(path, limit))
    check(path.name, claims)
    return dict(claims)


def require_same_rules(claimed: Mapping[str, Any], where: str) -> None:
    """Raise `FileError` if results were computed with other rules, or another map generator, than the current ones."""
    name, _, field = where.partition(": ")
    with as_file_error(name):
        versions = stored_versions(claimed, field)
    expect(versions == current_versions(), where, f"of {current_versions()}", versions)


def require_same(
    ours: Any, claimed: Any, where: str, ours_with: Mapping[str, Any], made_with: Mapping[str, Any]
) -> None:
    """Raise `FileError` if claimed numbers or battles differ from those computed here; the message names both
    machines.
    """
    difference = first_difference(ours, claimed, where)
    if difference:
        local, remote = (f"torch {versions['torch']} on {versions['device']}" for versions in (ours_with, made_with))
        raise FileError(f"{difference}; computed here with {local}, claimed with {remote}")

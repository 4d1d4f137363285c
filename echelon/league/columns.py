"""Types and ranges of the columns of a league, in its database and in its export, which strangers may have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.agents.tiers import TIERS
from echelon.league.database import CHANGES, KINDS
from echelon.league.ratings.glicko2 import DEVIATION
from echelon.league.records import scripted_id
from echelon.rules.versions import current_versions, stored_versions
from echelon.runtime.files import FileError, as_file_error, expect, parse_json
from echelon.runtime.json_checks import (
    OBJECT,
    SHA256,
    Check,
    integer,
    listed,
    matching,
    number,
    one_of,
    optional,
    row,
    table,
    text,
)

LONGEST_REASON = 1000
"""Maximum number of characters of a recorded reason."""
LONGEST_NAME = 100
MOST_PERIODS = 1 << 40
NUMBER = number(-1e9, 1e9)
Rules = Mapping[str, Check]
"""Of each column, what a value must be."""
SECONDS = number(0, 1e12)
"""A Unix time or a duration, in seconds."""
NAME = matching(
    f"(?!.{{{LONGEST_NAME + 1}}})(heuristic:({'|'.join(TIERS)})@[1-9][0-9]{{0,5}}|[a-z0-9]+(-[a-z0-9]+){{0,9}})",
    f"small letters and digits in words joined by -, or heuristic:TIER@RULES, of at most {LONGEST_NAME} letters",
)


RULES: dict[str, Rules] = {
    "entries": {
        "id": SHA256,
        "kind": one_of(KINDS),
        "name": NAME,
        "parent": optional(SHA256),
        "env": text(),
        "created": SECONDS,
    },
    "periods": {"number": integer(1, MOST_PERIODS), "opened": SECONDS, "closed": optional(SECONDS)},
    "matches": {
        "key": text(1000),
        "period": integer(1, MOST_PERIODS),
        "blue": SHA256,
        "red": SHA256,
        "seed": integer(0),
        "recipe": text(500),
        "winner": integer(0, 2),
        "reason": text(100),
        "decisions": integer(1),
        "duration_s": SECONDS,
        "stats": text(),
        "created": SECONDS,
        "state_hash": matching("[0-9a-f]{16}", "16 hexadecimal digits"),
    },
    "ratings": {
        "period": integer(1, MOST_PERIODS),
        "entry": SHA256,
        "rating": number(-1e5, 1e5),
        "deviation": number(1e-3, DEVIATION),
        "volatility": number(1e-6, 10),
    },
    "changes": {
        "number": integer(1),
        "period": integer(1, MOST_PERIODS),
        "entry": optional(SHA256),
        "change": one_of(CHANGES),
        "reason": text(LONGEST_REASON),
        "created": SECONDS,
    },
    "exploits": {
        "entry": SHA256,
        "response": SHA256,
        "agent_steps": integer(1),
        "battles": integer(1),
        "bound": number(-1, 1),
        "low": number(-1, 1),
        "high": number(-1, 1),
        "created": SECONDS,
    },
    "standings": {"games": integer(0), "score": number(0, 1 << 62)},
    "claims": {"owner": matching("[0-9a-f]{32}", "32 hexadecimal digits")},
    "role": {
        "generation": integer(0, 1 << 30),
        "turns": integer(0, 1 << 30),
        "entry": text(64),
        "judged": table(row(SECONDS, SECONDS), 1 << 20, SHA256),  # games and points, by id
    },
    "style": {
        **dict.fromkeys(("policy", "task", "fingerprint"), text(LONGEST_NAME)),
        **dict.fromkeys(("numbers", "response"), table(NUMBER, 10_000, text())),
        "seeds": listed(integer(0), 0, 1 << 20),
        "versions": OBJECT,
    },
}


def check_values(where: str, row: Mapping[str, Any], rules: Rules) -> None:
    """Check the values of one row that have a rule."""
    for field, value in row.items():
        if field in rules:
            rules[field](f"{where}.{field}", value)


def json_object(where: str, value: Any) -> dict[str, Any]:
    """The JSON object that a stored text is."""
    parsed = parse_json(where, value.encode()) if isinstance(value, str) else value
    expect(isinstance(parsed, dict), where, "a JSON object", parsed)
    return dict(parsed)


def check_identity(where: str, id: str, name: str, kind: str) -> None:
    """Check that an entry whose values hold is what its name says: a scripted tier with the id of its name, or another
    that is none.
    """
    expected_id = scripted_id(name)
    expect(expected_id in (None, id), f"{where}.id", f"{expected_id}, as of every {name}", id)
    kinds = ("scripted", "retired") if expected_id is not None else tuple(kind for kind in KINDS if kind != "scripted")
    expect(kind in kinds, f"{where}.kind", f"one of {kinds}, as its name tells", kind)


def check_rules(where: str, env: dict[str, Any]) -> None:
    """Refuse a league of other rules: its matches and ratings say nothing about these."""
    rules = current_versions().rules
    with as_file_error(where):
        file_rules = stored_versions(env, "env").rules
    if file_rules != rules:
        hint = "matches and ratings hold under their rules alone; `arena.py add` takes its weights/* into a new league"
        raise FileError(f"{where}: env.rules_version must be {rules}, got {file_rules}: {hint}")

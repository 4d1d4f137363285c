"""Types and ranges of the columns of a league, in its database and in its export, which strangers may have written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from echelon.agents.tiers import TIERS
from echelon.league.database import CHANGES, KINDS
from echelon.league.ratings.glicko2 import DEVIATION
from echelon.league.records import scripted_id
from echelon.rules.versions import current_versions, stored_versions
from echelon.runtime.errors import ConfigError, shown
from echelon.runtime.files import FileError, parse_json

LONGEST_REASON = 1000
"""Maximum number of characters of a recorded reason."""
LONGEST_NAME = 100
MOST_PERIODS = 1 << 40
DIGEST = re.compile(r"[0-9a-f]{64}")
NAMES = re.compile(f"heuristic:({'|'.join(TIERS)})@[1-9][0-9]{{0,5}}" + "|[a-z0-9]+(-[a-z0-9]+){0,9}")
Check = Callable[[Any], bool]
Rules = Mapping[str, tuple[str, Check]]
"""Of each column, what a value must be, in words and as a test."""


def number(low: float, high: float) -> tuple[str, Check]:
    """A number within limits; neither NaN nor a bool."""
    return f"a number {low:g}..{high:g}", lambda value: type(value) in (int, float) and low <= value <= high


def integer(low: int, high: int = 1 << 62) -> tuple[str, Check]:
    """An integer within limits."""
    return f"an integer {low}..{high}", lambda value: type(value) is int and low <= value <= high


def text(limit: int = 1 << 16) -> tuple[str, Check]:
    """A string of printable characters (no control characters) with limited length."""

    def holds(value: Any) -> bool:
        return isinstance(value, str) and len(value) <= limit and value.isprintable()

    return f"a text of at most {limit} printable letters", holds


def one_of(names: tuple[str, ...]) -> tuple[str, Check]:
    """One of these names."""
    return f"one of {names}", lambda value: isinstance(value, str) and value in names


SECONDS = number(0, 1e12)
"""A Unix time or a duration, in seconds."""
NAME: tuple[str, Check] = (
    f"small letters and digits in words joined by -, or heuristic:TIER@RULES, of at most {LONGEST_NAME} letters",
    lambda value: isinstance(value, str) and len(value) <= LONGEST_NAME and NAMES.fullmatch(value) is not None,
)
SHA256: tuple[str, Check] = ("a sha256", lambda value: isinstance(value, str) and DIGEST.fullmatch(value) is not None)


STATE_HASH: tuple[str, Check] = (
    "16 hexadecimal digits",
    lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16}", value) is not None,
)


def optional(rule: tuple[str, Check]) -> tuple[str, Check]:
    """A rule that also accepts null."""
    return f"{rule[0]} or null", lambda value: value is None or rule[1](value)


def is_judged(value: Any) -> bool:
    amount = number(0, 1e12)[1]

    def is_result(row: Any) -> bool:
        return isinstance(row, list) and len(row) == 2 and all(map(amount, row))

    return isinstance(value, dict) and all(SHA256[1](who) and is_result(row) for who, row in value.items())


OWNER: tuple[str, Check] = (
    "32 hexadecimal digits",
    lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{32}", value) is not None,
)
JUDGED: tuple[str, Check] = ("ids, each with a list of games and points", is_judged)
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
        "state_hash": STATE_HASH,
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
    "standings": {"games": integer(0), "score": number(0, 1 << 62)},
    "claims": {"owner": OWNER},
    "role": {"generation": integer(0, 1 << 30), "turns": integer(0, 1 << 30), "entry": text(64), "judged": JUDGED},
}


def check_values(where: str, row: Mapping[str, Any], rules: Rules) -> None:
    """Check the values of one row that have a rule."""
    for field, value in row.items():
        if field in rules:
            limit, holds = rules[field]
            if not holds(value):
                raise FileError(f"{where}.{field} must be {limit}, got {shown(value)}")


def check_row(where: str, row: Any, rules: Rules) -> None:
    """Check that a row has a value of every rule, and no other."""
    if not isinstance(row, dict) or row.keys() != rules.keys():
        got = list(row) if isinstance(row, dict) else row
        raise FileError(f"{where} must hold {', '.join(rules)}, got {shown(got)}")
    check_values(where, row, rules)


def json_object(where: str, value: Any) -> dict[str, Any]:
    """The JSON object that a stored text is."""
    found = parse_json(where, value.encode()) if isinstance(value, str) else value
    if not isinstance(found, dict):
        raise FileError(f"{where} must be a JSON object, got {shown(found)}")
    return found


def check_identity(where: str, id: str, name: str, kind: str) -> None:
    """Check that an entry whose values hold is what its name says: a scripted tier with the id of its name, or another
    that is none.
    """
    own = scripted_id(name)
    if own is not None and id != own:
        raise FileError(f"{where}.id must be {own}, as of every {name}, got {id}")
    kinds = ("scripted", "retired") if own is not None else tuple(kind for kind in KINDS if kind != "scripted")
    if kind not in kinds:
        raise FileError(f"{where}.kind must be one of {kinds}, as its name tells, got {kind!r}")


def check_rules(where: str, env: dict[str, Any]) -> None:
    """Refuse a league of other rules: its matches and ratings say nothing about these."""
    ours = current_versions().rules
    try:
        theirs = stored_versions(env, "env").rules
    except ConfigError as error:
        raise FileError(f"{where}: {error}") from None
    if theirs != ours:
        hint = "matches and ratings hold under their rules alone; `arena.py add` takes its weights/* into a new league"
        raise FileError(f"{where}: env.rules_version must be {ours}, got {theirs}: {hint}")

"""Checks of JSON values from a stranger's file, put together from small ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from echelon.runtime.errors import quoted
from echelon.runtime.files import FileError, expect

Check = Callable[[str, Any], None]
"""Raises `FileError`, in which its first argument says where the value stands, unless the value holds."""


@dataclass(frozen=True)
class Rule:
    """What a value must be, in words and as a test; it is a `Check`."""

    limit: str
    holds: Callable[[Any], bool]

    def __call__(self, where: str, value: Any) -> None:
        expect(self.holds(value), where, self.limit, value)


def number(low: float, high: float) -> Rule:
    """A number within limits, neither NaN nor a bool."""
    return Rule(f"a number {low:g}..{high:g}", lambda value: type(value) in (int, float) and low <= value <= high)


def integer(low: int, high: int = 1 << 62) -> Rule:
    """An integer within limits."""
    return Rule(f"an integer {low}..{high}", lambda value: type(value) is int and low <= value <= high)


def text(longest: int = 1 << 16) -> Rule:
    """Printable letters, at most so many."""
    limit = f"a text of at most {longest} printable letters"
    return Rule(limit, lambda value: isinstance(value, str) and len(value) <= longest and value.isprintable())


def matching(pattern: str, limit: str) -> Rule:
    """A text of a form."""
    regex = re.compile(pattern)
    return Rule(limit, lambda value: isinstance(value, str) and regex.fullmatch(value) is not None)


def one_of(values: Collection[Any]) -> Rule:
    """One of these words."""
    return Rule(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


def optional(rule: Rule) -> Rule:
    """A rule that also accepts null."""
    return Rule(f"{rule.limit} or null", lambda value: value is None or rule.holds(value))


def exactly(expected: Any) -> Rule:
    """This JSON value, numbers by their value, and no other."""
    return Rule(quoted(expected), lambda value: value == expected and type(value) in (type(expected), int))


def of_type(kind: type) -> Rule:
    """A JSON value that Python reads as one of this type itself."""
    return Rule(f"a {kind.__name__}", lambda value: type(value) is kind)


FLAG = Rule("true or false", lambda value: type(value) is bool)
OBJECT = Rule("an object", lambda value: isinstance(value, dict))
SHA256 = matching("[0-9a-f]{64}", "a sha256")


def listed(entry: Check, least: int, most: int) -> Check:
    """A list of so many entries, each of which holds."""

    def check(where: str, value: Any) -> None:
        count = f"{least}" if least == most else f"{least}..{most}"
        expect(isinstance(value, list) and least <= len(value) <= most, where, f"a list of {count}", value)
        for i, item in enumerate(value):
            entry(f"{where}[{i}]", item)

    return check


def row(*entries: Check) -> Check:
    """A list with an entry for each of the checks."""

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, list) and len(value) == len(entries), where, f"a list of {len(entries)}", value)
        for i, (entry, item) in enumerate(zip(entries, value, strict=True)):
            entry(f"{where}[{i}]", item)

    return check


def table(entry: Check, most: int, name: Check) -> Check:
    """An object of at most so many entries, each of which holds, by names that hold."""

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, dict) and len(value) <= most, where, f"an object of at most {most}", value)
        for key, item in value.items():
            name(f"a name of {where}", key)
            entry(f"{where}.{key}", item)

    return check


def record(fields: Mapping[str, Check], later: Mapping[str, Check] | None = None, is_open: bool = False) -> Check:
    """An object of these fields, each of which holds, and no others.

    Args:
        later: fields that files of earlier versions lack.
        is_open: whether there may be others, of which nothing is asked.
    """
    rules = {**fields, **(later or {})}

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, dict), where, "an object", value)
        for name in fields:
            if name not in value:
                raise FileError(f"{where}.{name} is missing")
        for name in value:
            if name not in rules and not is_open:
                raise FileError(f"{where}.{name} must be absent: this version of Echelon knows no such entry")
        for name in filter(rules.__contains__, value):
            rules[name](f"{where}.{name}", value[name])

    return check


def check_schema(name: str, claims: Any, schema: str, version: int) -> None:
    """Refuse what a file says unless it is a file of this schema and version: all else may be otherwise in others."""
    OBJECT(f"{name}: claims", claims)
    for key, expected in (("schema", schema), ("version", version)):
        if not exactly(expected).holds(claims.get(key)):
            kind = schema.removeprefix("echelon-")
            is_other = key == "version" and type(claims.get(key)) is int
            hint = f"a {kind} of another version is not read" if is_other else f"is this a {kind}?"
            raise FileError(f"{name}: {key} must be {expected!r}, got {quoted(claims.get(key))}: {hint}")

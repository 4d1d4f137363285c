"""Composable checks of JSON values from untrusted files."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from echelon.runtime.errors import quoted
from echelon.runtime.files import FileError, expect

Check = Callable[[str, Any], None]
"""Called with a location and a value; raises `FileError` with the location if the value is invalid."""


@dataclass(frozen=True)
class Rule:
    """A `Check` with a description of the valid values and a predicate."""

    limit: str
    holds: Callable[[Any], bool]

    def __call__(self, where: str, value: Any) -> None:
        expect(self.holds(value), where, self.limit, value)


def number(low: float, high: float) -> Rule:
    """Return a rule for a number within limits. NaN and bool are invalid."""
    return Rule(f"a number {low:g}..{high:g}", lambda value: type(value) in (int, float) and low <= value <= high)


def integer(low: int, high: int = 1 << 62) -> Rule:
    """Return a rule for an integer within limits."""
    return Rule(f"an integer {low}..{high}", lambda value: type(value) is int and low <= value <= high)


def text(longest: int = 1 << 16) -> Rule:
    """Return a rule for a string of at most `longest` printable characters."""
    limit = f"a text of at most {longest} printable letters"
    return Rule(limit, lambda value: isinstance(value, str) and len(value) <= longest and value.isprintable())


def matching(pattern: str, limit: str) -> Rule:
    """Return a rule for a string that matches a regular expression, described by `limit`."""
    regex = re.compile(pattern)
    return Rule(limit, lambda value: isinstance(value, str) and regex.fullmatch(value) is not None)


def one_of(values: Collection[Any]) -> Rule:
    """Return a rule for one of several strings."""
    return Rule(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


def optional(rule: Rule) -> Rule:
    """Return a rule that also accepts null."""
    return Rule(f"{rule.limit} or null", lambda value: value is None or rule.holds(value))


def exactly(expected: Any) -> Rule:
    """Return a rule for exactly one JSON value. An integer and a float of the same value count as equal."""
    return Rule(quoted(expected), lambda value: value == expected and type(value) in (type(expected), int))


def of_type(kind: type) -> Rule:
    """Return a rule for a JSON value whose Python type is exactly `kind`."""
    return Rule(f"a {kind.__name__}", lambda value: type(value) is kind)


FLAG = Rule("true or false", lambda value: type(value) is bool)
OBJECT = Rule("an object", lambda value: isinstance(value, dict))
SHA256 = matching("[0-9a-f]{64}", "a sha256")


def listed(entry: Check, least: int, most: int) -> Check:
    """Return a check of a list with `least` to `most` entries, each of which passes the check `entry`."""

    def check(where: str, value: Any) -> None:
        count = f"{least}" if least == most else f"{least}..{most}"
        expect(isinstance(value, list) and least <= len(value) <= most, where, f"a list of {count}", value)
        for i, item in enumerate(value):
            entry(f"{where}[{i}]", item)

    return check


def row(*entries: Check) -> Check:
    """Return a check of a list whose k-th entry passes the k-th of `entries`."""

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, list) and len(value) == len(entries), where, f"a list of {len(entries)}", value)
        for i, (entry, item) in enumerate(zip(entries, value, strict=True)):
            entry(f"{where}[{i}]", item)

    return check


def table(entry: Check, most: int, name: Check) -> Check:
    """Return a check of an object with at most `most` entries, whose values pass `entry` and whose keys pass `name`."""

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, dict) and len(value) <= most, where, f"an object of at most {most}", value)
        for key, item in value.items():
            name(f"a name of {where}", key)
            entry(f"{where}.{key}", item)

    return check


def record(fields: Mapping[str, Check], later: Mapping[str, Check] | None = None, is_open: bool = False) -> Check:
    """Return a check of an object with the given fields.

    Args:
        fields: required fields and their checks.
        later: optional fields, which files of earlier versions lack.
        is_open: whether other fields are allowed. They are not checked.
    """
    rules = {**fields, **(later or {})}

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, dict), where, "an object", value)
        for name in fields:
            if name not in value:
                raise FileError(f"{where}.{name} is missing")
        for name in value:
            if name not in rules and not is_open:
                raise FileError(f"{where}.{name} must be absent: this version of Echelon has no such entry")
        for name in filter(rules.__contains__, value):
            rules[name](f"{where}.{name}", value[name])

    return check


def check_schema(name: str, metadata: Any, schema: str, version: int) -> None:
    """Raise `FileError` unless the metadata of a file has the expected schema and version."""
    OBJECT(f"{name}: metadata", metadata)
    for key, expected in (("schema", schema), ("version", version)):
        if not exactly(expected).holds(metadata.get(key)):
            kind = schema.removeprefix("echelon-")
            is_other = key == "version" and type(metadata.get(key)) is int
            hint = f"other versions of a {kind} are not supported" if is_other else f"is this a {kind}?"
            raise FileError(f"{name}: {key} must be {expected!r}, got {quoted(metadata.get(key))}: {hint}")

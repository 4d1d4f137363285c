"""Checks of JSON values from a stranger's file, put together from small ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from echelon.runtime.errors import shown
from echelon.runtime.files import FileError

Check = Callable[[str, Any], None]
"""Raises `FileError`, in which its first argument says where the value stands, unless the value holds."""


def expect(holds: bool, where: str, limit: str, value: object) -> None:
    """Raise `FileError` unless `holds`: where, what was expected, what came."""
    if not holds:
        raise FileError(f"{where} must be {limit}, got {shown(value)}")


def number(low: float, high: float) -> Check:
    """A number within limits, neither NaN nor a bool."""

    def check(where: str, value: Any) -> None:
        expect(type(value) in (int, float) and low <= value <= high, where, f"a number {low:g}..{high:g}", value)

    return check


def integer(low: int, high: int) -> Check:
    """An integer within limits."""

    def check(where: str, value: Any) -> None:
        expect(type(value) is int and low <= value <= high, where, f"an integer {low}..{high}", value)

    return check


def text(longest: int) -> Check:
    """Printable letters, at most so many."""

    def check(where: str, value: Any) -> None:
        holds = isinstance(value, str) and len(value) <= longest and value.isprintable()
        expect(holds, where, f"a text of at most {longest} printable letters", value)

    return check


def one_of(values: Collection[Any]) -> Check:
    """One of these words."""

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, str) and value in values, where, f"one of {', '.join(values)}", value)

    return check


def flag(where: str, value: Any) -> None:
    expect(type(value) is bool, where, "true or false", value)


def exactly(expected: Any) -> Check:
    """This JSON value, numbers by their value, and no other."""

    def check(where: str, value: Any) -> None:
        expect(value == expected and type(value) in (type(expected), int), where, shown(expected), value)

    return check


def listed(entry: Check, least: int, most: int) -> Check:
    """A list of so many entries, each of which holds."""

    def check(where: str, value: Any) -> None:
        count = f"{least}" if least == most else f"{least}..{most}"
        expect(isinstance(value, list) and least <= len(value) <= most, where, f"a list of {count}", value)
        for i, one in enumerate(value):
            entry(f"{where}[{i}]", one)

    return check


def row(*entries: Check) -> Check:
    """A list with an entry for each of the checks."""

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, list) and len(value) == len(entries), where, f"a list of {len(entries)}", value)
        for i, (entry, one) in enumerate(zip(entries, value, strict=True)):
            entry(f"{where}[{i}]", one)

    return check


def table(entry: Check, most: int, name: Check) -> Check:
    """An object of at most so many entries, each of which holds, by names that hold."""

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, dict) and len(value) <= most, where, f"an object of at most {most}", value)
        for key, one in value.items():
            name(f"a name of {where}", key)
            entry(f"{where}.{key}", one)

    return check


def record(fields: Mapping[str, Check]) -> Check:
    """An object of these fields and no others, each of which holds."""

    def check(where: str, value: Any) -> None:
        expect(isinstance(value, dict), where, "an object", value)
        for name in [name for name in fields if name not in value]:
            raise FileError(f"{where}.{name} is missing")
        for name in [name for name in value if name not in fields]:
            raise FileError(f"{where}.{name} must be absent: this version of Echelon knows no such entry")
        for name, holds in fields.items():
            holds(f"{where}.{name}", value[name])

    return check

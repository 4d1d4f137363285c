"""A config dataclass as plain JSON values and back, and where two of them differ."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from echelon.rules.versions import completed, without_added
from echelon.runtime.errors import require


def from_json(kind: Any, values: Any, where: str, nested: dict[str, Any] | None = None) -> Any:
    """A config dataclass from what `as_json` made of it."""
    nested = nested or {}
    require(isinstance(values, dict), where, "an object", values)
    default = kind()
    names = [f.name for f in dataclasses.fields(kind) if f.name not in nested]
    values = {name: value for name, value in completed(kind, values).items() if name not in nested}
    for name in values:
        require(name in names, f"{where}.{name}", "absent: this version of Echelon has no such setting", values[name])
    ready: dict[str, Any] = {}
    for name in names:
        expected, value = type(getattr(default, name)), values.get(name)
        if expected is tuple and isinstance(value, list):
            value = tuple(value)
        if expected is float and type(value) is int and abs(value) <= 2**53:
            value = float(value)
        if expected is type(None) and isinstance(value, str):
            expected = str  # a word, or none
        require(type(value) is expected, f"{where}.{name}", f"a {expected.__name__}", value)
        ready[name] = value
    return kind(**ready, **nested)


def first_difference(ours: Any, theirs: Any, where: str) -> str | None:
    """The dotted name of the first setting in which two JSON descriptions differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            difference = first_difference(ours.get(name), theirs.get(name), f"{where}.{name}")
            if difference:
                return difference
        return None
    are_rows = all(isinstance(rows, list) and rows and isinstance(rows[0], dict) for rows in (ours, theirs))
    if are_rows and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return next((difference for i, pair in pairs if (difference := first_difference(*pair, f"{where}[{i}]"))), None)
    if are_rows or (where.endswith(".positions") and ours != theirs):
        return f"{where} are {len(ours or ())} here and {len(theirs or ())} there"
    return None if ours == theirs else f"{where} is {ours!r} here and {theirs!r} there"


def battle_difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """`first_difference` of two `EnvConfig.signature`, but for the reward: how battles are paid is one's own affair."""
    return first_difference({**ours, "reward": None}, {**theirs, "reward": None}, "env")


def as_json(config: Any, whole: bool = False) -> dict[str, Any]:
    """A config dataclass as nested dicts, lists and numbers, ready for `json.dump`; only if `whole` with settings that
    `versions.ADDED` leaves out."""

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            values = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return values if whole else without_added(type(value), values)
        if isinstance(value, Mapping):
            return {name: plain(entry) for name, entry in value.items()}
        if isinstance(value, float) and math.isinf(value):
            return None  # JSON has no infinity.
        return [plain(entry) for entry in value] if isinstance(value, tuple) else value

    return plain(config)

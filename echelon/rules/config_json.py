"""A config dataclass as plain JSON values and back, and where two of them differ."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from echelon.rules.versions import completed, without_added
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import hints_of

UNIONS = (Union, UnionType)


def from_json(kind: Any, values: Any, where: str, over: Any = None, strict: bool = True) -> Any:
    """A dataclass, with those that it holds, from what `as_json` made of it, or from what somebody wrote.

    Args:
        where: what errors name first: the file, or the place in it.
        over: what it is where `values` leave a field out.
        strict: whether `values` hold every field where there is no `over`, but those of `versions.ADDED`; else one
            that is left out has its default, as in an entry of a list always.

    Raises:
        ConfigError: naming the field that is unknown, missing, of another type or outside its limits.
    """
    require(isinstance(values, dict), where, "an object", values)
    strict = strict and over is None
    fields, hints = {field.name: field for field in dataclasses.fields(kind)}, hints_of(kind)
    result = {} if over is None else {name: getattr(over, name) for name in fields}
    limit = "absent: this version of Echelon has no such setting" if strict else f"one of {', '.join(fields)}"
    for name, value in (completed(kind, values) if strict else values).items():
        require(name in fields, f"{where}.{name}", limit, value if strict else name)
        if value is None and fields[name].default == math.inf:
            value = math.inf  # JSON has no infinity.
        result[name] = typed(hints[name], value, f"{where}.{name}", result.get(name), strict)
    needed = [name for name, f in fields.items() if strict or (f.default is f.default_factory is dataclasses.MISSING)]
    missing = [name for name in needed if name not in result]
    require(not missing, where, f"whole: this {kind.__name__} lacks {', '.join(missing)}", values)
    return kind(**result)


def typed(hint: Any, value: Any, where: str, over: Any = None, strict: bool = False) -> Any:
    """A value as a type hint says: a number, a word, a dataclass, or several, listed or by name; of rows by name those
    of `over` stay."""
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if dataclasses.is_dataclass(kind):
        return from_json(kind, value, where, over, strict)
    if kind is tuple:
        require(isinstance(value, list), where, "a list", value)
        return tuple(listed(arguments[0], entry, where, i) for i, entry in enumerate(value))
    if kind is Mapping:
        is_table = dataclasses.is_dataclass(arguments[1])
        words = "rows" if is_table else "words" if arguments[1] is str else "numbers"
        require(isinstance(value, dict), where, f"an object of {words} by name", value)
        rows = dict(over or {}) if is_table else {}
        given = {name: typed(arguments[1], v, f"{where}.{name}", rows.get(name), strict) for name, v in value.items()}
        return rows | given
    if kind is float and type(value) is int and abs(value) <= 2**53:
        value = float(value)
    choices = [type(word) for word in arguments] if kind is Literal else arguments if kind in UNIONS else [kind]
    require(type(value) in choices, where, f"a {choices[0].__name__}", value)
    return value


def listed(hint: Any, value: Any, where: str, index: int) -> Any:
    """An entry of a list; what is wrong with an object there is told with its place."""
    if not dataclasses.is_dataclass(hint):
        return typed(hint, value, where)
    spot = f"{where}[{index}]"
    try:
        return typed(hint, value, spot)
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith(spot) else f"{spot}: {error}") from None


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


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested JSON settings by dotted names; lists are values."""
    flattened: dict[str, Any] = {}
    for name, value in settings.items():
        flattened |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flattened

"""Convert config dataclasses to plain JSON values and back, and compare two of them."""

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
    """Build a dataclass, including nested ones, from JSON values.

    Args:
        kind: the dataclass.
        values: an object of fields, as returned by `as_json` or written by a user.
        where: prefix of field names in errors, such as the name of the file.
        over: an instance that supplies the missing fields.
        strict: without `over`, require every field except those of `versions.ADDED`. If `strict` is False, missing
            fields get their defaults. Entries of lists may always lack fields.

    Raises:
        ConfigError: if a field is unknown, missing, of the wrong type or outside its limits.
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
    require(not missing, where, f"complete: this {kind.__name__} lacks {', '.join(missing)}", values)
    return kind(**result)


def typed(hint: Any, value: Any, where: str, over: Any = None, strict: bool = False) -> Any:
    """Convert a JSON value to the type that a type hint names: a number, a string, a dataclass, a tuple or a mapping.

    A mapping of dataclasses also keeps the rows of `over` that `value` does not contain.
    """
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if dataclasses.is_dataclass(kind):
        return from_json(kind, value, where, over, strict)
    if kind is tuple:
        require(isinstance(value, list), where, "a list", value)
        return tuple(listed(arguments[0], entry, where, i) for i, entry in enumerate(value))
    if kind is Mapping:
        is_table = dataclasses.is_dataclass(arguments[1])
        words = "rows" if is_table else "strings" if arguments[1] is str else "numbers"
        require(isinstance(value, dict), where, f"an object of {words} keyed by name", value)
        rows = dict(over or {}) if is_table else {}
        given = {name: typed(arguments[1], v, f"{where}.{name}", rows.get(name), strict) for name, v in value.items()}
        return rows | given
    if kind is float and type(value) is int and abs(value) <= 2**53:
        value = float(value)
    choices = [type(word) for word in arguments] if kind is Literal else arguments if kind in UNIONS else [kind]
    require(type(value) in choices, where, f"a {choices[0].__name__}", value)
    return value


def listed(hint: Any, value: Any, where: str, index: int) -> Any:
    """Convert one entry of a list. Errors contain the index of the entry."""
    if not dataclasses.is_dataclass(hint):
        return typed(hint, value, where)
    spot = f"{where}[{index}]"
    try:
        return typed(hint, value, spot)
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith(spot) else f"{spot}: {error}") from None


def first_difference(ours: Any, theirs: Any, where: str) -> str | None:
    """Return a sentence about the first setting in which two JSON descriptions differ, or None if they are equal."""
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
    """Return the `first_difference` of two results of `EnvConfig.signature`, without the reward, which does not affect
    battles."""
    return first_difference({**ours, "reward": None}, {**theirs, "reward": None}, "env")


def as_json(config: Any, whole: bool = False) -> dict[str, Any]:
    """Return a config dataclass as nested dicts, lists and scalars for `json.dump`.

    A setting whose value equals the one in `versions.ADDED` is omitted, unless `whole` is True.
    """

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
    """Flatten nested JSON settings to a dict keyed by dotted name. Lists are values."""
    flattened: dict[str, Any] = {}
    for name, value in settings.items():
        flattened |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flattened

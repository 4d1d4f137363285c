"""Check config dataclasses: fields must have their declared types, and numbers must be finite and in their limits."""

import contextlib
import dataclasses
import functools
import inspect
import math
import numbers
import operator
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from echelon.runtime.errors import require


class Limits(NamedTuple):
    """Lowest and highest value of a setting."""

    low: float
    high: float
    unit: str = ""
    """Text after the limits in errors: a unit, or the reason for the limits."""

    def __str__(self) -> str:
        low, high = (f"{limit:g}" if isinstance(limit, float) else str(limit) for limit in (self.low, self.high))
        return f"{low}..{high}{self.unit and ' '}{self.unit}"


ANY = Limits(-1e12, 1e12)
"""Limits of weights and factors. The product of three of them fits into float32, whose maximum is 3e38."""
SHARE = Limits(0, 1)
MANY = Limits(1, 10**12)
"""Limits of counts that allocate nothing: iterations, battles, games."""
SEED = Limits(0, 2**63 - 1)
MOST_ENTRIES = 1000
"""Maximum number of entries of a tuple. A class may raise it for its instances by the attribute `most_entries`."""
LONGEST_TEXT, LONGEST_NAME = 4096, 255
"""Maximum characters of a path, and maximum bytes of a name in it, on Linux."""


def check_settings(config: Any, limits: Mapping[str, Limits] = MappingProxyType({})) -> None:
    """Check the types and numbers of a config dataclass.

    NumPy scalars are converted to Python scalars, and lists to tuples, so that configs can be compared and written as
    JSON. A number without limits must be finite and fit into 64 bits.

    Args:
        config: the config.
        limits: limits keyed by field, in addition to limits in `Annotated` types. The limits of a tuple apply to each
            of its entries.

    Raises:
        ConfigError: if a field has the wrong type, or a number is outside its limits.
    """
    kind: Any = type(config)
    limits = {**limits_of(kind), **limits}
    for name, hint in hints_of(kind).items():
        where, value = f"{kind.__name__}.{name}", getattr(config, name)
        converted = typed(hint, value, where)
        if converted is not value:
            object.__setattr__(config, name, converted)
        for number in converted if isinstance(converted, tuple) else (converted,):
            if type(number) in (int, float):
                check_number(where, number, limits.get(name))


class Settings:
    """Base of frozen config dataclasses that call `check_settings` when they are created."""

    def __post_init__(self) -> None:
        check_settings(self)


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Return the type hints of the fields of a dataclass, keyed by field."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@functools.cache
def limits_of(kind: Any) -> dict[str, Limits]:
    """Return the `Limits` in the `Annotated` types of a dataclass, keyed by field."""
    hints = get_type_hints(kind, include_extras=True)
    noted = ((name, annotation) for name, hint in hints.items() for annotation in getattr(hint, "__metadata__", ()))
    return {name: annotation for name, annotation in noted if isinstance(annotation, Limits)}


def typed(hint: Any, value: Any, where: str) -> Any:
    """Convert a value to its declared type. For `float` and `int`, every number is accepted that can be converted
    exactly."""
    if get_origin(hint) is Literal:
        require(value in get_args(hint), where, f"one of {', '.join(map(repr, get_args(hint)))}", value)
    elif get_origin(hint) is tuple and get_args(hint)[1:] == (...,):
        require(isinstance(value, tuple | list), where, "a tuple", value)
        most = getattr(get_args(hint)[0], "most_entries", MOST_ENTRIES)
        require(len(value) <= most, where, f"at most {most} entries", len(value))
        entries = tuple(typed(get_args(hint)[0], item, where) for item in value)
        is_same = isinstance(value, tuple) and all(item is old for item, old in zip(entries, value, strict=True))
        return value if is_same else entries
    elif hint is int:
        return whole(where, value)
    elif hint is float:
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        require(is_number, where, "a number", value)
        return value if type(value) in (int, float) else float(value)
    elif isinstance(hint, type) and get_origin(hint) is None:  # Python 3.10 treats `Mapping[str, float]` as a type
        if hint is str:
            value = path_text(value)
        require(isinstance(value, hint), where, f"a {hint.__name__}", value)
        if hint is str:
            check_text(where, value)
    return value


def path_text(value: Any) -> Any:
    """Convert a `pathlib.Path` to a string with a path separator, so that it is never taken for a name. Other values
    are returned unchanged."""
    if not isinstance(value, os.PathLike):
        return value
    text = os.fsdecode(value)
    return text if os.sep in text else os.path.join(os.curdir, text)


def check_text(where: str, text: str) -> None:
    """Raise `ConfigError` for a string with NUL, or too long for a path. Most strings of configs are paths."""
    require("\0" not in text, where, "without NUL bytes", text)
    longest = max(len(os.fsencode(name)) for name in text.split("/")) if text.isprintable() else len(text)
    limit = f"at most {LONGEST_TEXT} letters, {LONGEST_NAME} bytes between two slashes"
    require(len(text) <= LONGEST_TEXT and longest <= LONGEST_NAME, where, limit, text)


def check_function(where: str, function: Any, arguments: str) -> None:
    """Raise `ConfigError` unless `function` accepts the comma-separated `arguments`, as far as Python can check it."""
    is_valid = callable(function)
    with contextlib.suppress(ValueError):  # Some built-in functions have no signature.
        try:
            _ = is_valid and inspect.signature(function).bind(*arguments.split(","))
        except TypeError:
            is_valid = False
    require(is_valid, where, f"a function of ({arguments})", function)


def whole(where: str, value: Any) -> int:
    """Convert an integer of Python or NumPy, or a tensor with one integer, to a Python integer."""
    is_flag = isinstance(value, bool) or str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool"
    try:
        integer = None if is_flag else operator.index(value)
    except (TypeError, RuntimeError):  # torch raises these errors for several elements, or none
        integer = None
    require(integer is not None, where, "an integer", value)
    assert integer is not None
    return integer


def check_number(where: str, number: float, limits: Limits | None = None) -> None:
    """Raise `ConfigError` for a number that is not finite or is outside its limits."""
    if isinstance(number, float):
        require(math.isfinite(number), where, "a finite number", number)
    elif limits is None:
        require(-(2**63) <= number < 2**63, where, "an integer of 64 bits", number)
    if limits is not None:
        require(limits.low <= number <= limits.high, where, str(limits), number)


def variable(name: str, values: Sequence[str]) -> str:
    """Return the value of an environment variable, the first of `values` if it is unset or empty.

    Raises:
        ConfigError: if the value is not in `values`.
    """
    value = os.environ.get(name, "") or values[0]
    require(value in values, name, f"one of {', '.join(values)}", value)
    return value

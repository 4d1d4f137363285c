"""Settings of a dataclass: every field of the type that it declares, every number finite and within its limits."""

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
    """What the error says behind the two: a unit, or why they are what they are."""

    def __str__(self) -> str:
        low, high = (f"{limit:g}" if isinstance(limit, float) else str(limit) for limit in (self.low, self.high))
        return f"{low}..{high}{self.unit and ' '}{self.unit}"


ANY = Limits(-1e12, 1e12)
"""A weight, a factor, a schedule: float32, which holds 3e38, takes the product of three of them."""
SHARE = Limits(0, 1)
MANY = Limits(1, 10**12)
"""A count of what costs nothing until it is there: iterations, battles, games."""
SEED = Limits(0, 2**63 - 1)
MOST_ENTRIES = 1000
"""Entries of a tuple. A class that may be listed more often says so by its attribute `most_entries`."""
LONGEST_TEXT, LONGEST_NAME = 4096, 255
"""Letters of a path, and bytes of one name in it, that Linux takes."""


def check_settings(config: Any, limits: Mapping[str, Limits] = MappingProxyType({})) -> None:
    """Refuse a config dataclass with a field of another type than it declares, or a number that is out of its limits.

    NumPy's scalars become Python's, and lists tuples, so that the config can be compared and written as JSON.

    Args:
        limits: of its numbers, by field, beside those that a field is `Annotated` with. Of a tuple they are those of
            each entry. A number without limits must be finite, and fit into 64 bits.
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
    """Base of a frozen config dataclass that is checked by `check_settings` as it is made."""

    def __post_init__(self) -> None:
        check_settings(self)


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@functools.cache
def limits_of(kind: Any) -> dict[str, Limits]:
    """The limits that fields of a dataclass are `Annotated` with, by field."""
    hints = get_type_hints(kind, include_extras=True)
    noted = ((name, annotation) for name, hint in hints.items() for annotation in getattr(hint, "__metadata__", ()))
    return {name: annotation for name, annotation in noted if isinstance(annotation, Limits)}


def typed(hint: Any, value: Any, where: str) -> Any:
    """A value of the declared type; of `float` and `int` any number that loses nothing as one."""
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
    elif isinstance(hint, type) and get_origin(hint) is None:  # Python 3.10 calls `Mapping[str, float]` a type
        if hint is str:
            value = path_text(value)
        require(isinstance(value, hint), where, f"a {hint.__name__}", value)
        if hint is str:
            check_text(where, value)
    return value


def path_text(value: Any) -> Any:
    """A `pathlib.Path` as the text that means its file wherever names are taken too; anything else as it is."""
    if not isinstance(value, os.PathLike):
        return value
    text = os.fsdecode(value)
    return text if os.sep in text else os.path.join(os.curdir, text)


def check_text(where: str, text: str) -> None:
    """Refuse a text that no system takes as a path, which most texts are: with a NUL, or longer than names may be."""
    require("\0" not in text, where, "without NUL bytes", text)
    longest = max(len(os.fsencode(name)) for name in text.split("/")) if text.isprintable() else len(text)
    limit = f"at most {LONGEST_TEXT} letters, {LONGEST_NAME} bytes between two slashes"
    require(len(text) <= LONGEST_TEXT and longest <= LONGEST_NAME, where, limit, text)


def check_function(where: str, function: Any, arguments: str) -> None:
    """Refuse what cannot be called with so many arguments, as far as Python can tell without a call."""
    is_valid = callable(function)
    with contextlib.suppress(ValueError):  # of a builtin that does not tell
        try:
            _ = is_valid and inspect.signature(function).bind(*arguments.split(","))
        except TypeError:
            is_valid = False
    require(is_valid, where, f"a function of ({arguments})", function)


def whole(where: str, value: Any) -> int:
    """An integer of Python's, from one of NumPy's or a tensor of one integer too."""
    is_flag = isinstance(value, bool) or str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool"
    try:
        integer = None if is_flag else operator.index(value)
    except (TypeError, RuntimeError):  # of torch, for a tensor of several numbers or of none that can be read
        integer = None
    require(integer is not None, where, "an integer", value)
    assert integer is not None
    return integer


def check_number(where: str, number: float, limits: Limits | None = None) -> None:
    """Refuse a number that is not finite, or out of its limits."""
    if isinstance(number, float):
        require(math.isfinite(number), where, "a finite number", number)
    elif limits is None:
        require(-(2**63) <= number < 2**63, where, "an integer of 64 bits", number)
    if limits is not None:
        require(limits.low <= number <= limits.high, where, str(limits), number)


def variable(name: str, values: Sequence[str]) -> str:
    """The value of an environment variable, the first of `values` where it is not set or empty."""
    value = os.environ.get(name, "") or values[0]
    require(value in values, name, f"one of {', '.join(values)}", value)
    return value

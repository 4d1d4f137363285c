"""Errors for invalid input, and the formatting of values in messages."""

import reprlib
from dataclasses import MISSING, fields
from typing import Any

LONGEST_LINE = 1000
"""Maximum number of characters of an error, and of a line that a program prints."""
LONGEST_VALUE = 200
"""Maximum number of characters of a value in an error."""
LONGEST_NUMBER = 40
"""Maximum number of digits of an integer in an error."""
GAP = " ... "


def one_line(text: object, longest: int = LONGEST_LINE) -> str:
    """Return text as one printable line of at most `longest` characters, shortened in the middle.

    Line breaks, escape codes and marks that change the writing direction are escaped as in a Python string.
    """
    line = cut(str(text), longest)
    if line.isprintable():
        return line
    return cut("".join(c if c.isprintable() else repr(c)[1:-1] for c in line), longest)


def cut(text: str, longest: int) -> str:
    """Shorten a text to its first two thirds and its end, which contains the hint of an error."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return text[: longest - end - len(GAP)] + GAP + text[-end:]


def missing_package(user: str, package: str | None, extra: str) -> str:
    """Return the error message for a missing package that `user` needs and that an extra of Echelon installs."""
    return f"{user} needs {package}, which is not installed: pip install 'echelon-marl[{extra}]'"


class Shown(reprlib.Repr):
    """A `repr` for values that may be long, deeply nested, or integers too long for Python to print."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = 40
        self.maxstring = self.maxother = LONGEST_VALUE

    def repr_int(self, x: int, level: int) -> str:
        return f"an integer of {x.bit_length()} bits" if abs(x) >= 10**LONGEST_NUMBER else repr(x)


def quoted(value: object) -> str:
    """Return a value as text for an error message."""
    return cut(Shown().repr(value), LONGEST_VALUE)


class ConfigError(ValueError):
    """An invalid setting. The message is one line with the field, the expected values and the actual value."""

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(message))


def require(holds: bool, field_name: str, limit: str, value: object, error: type[ValueError] = ConfigError) -> None:
    """Raise an error unless `holds` is True.

    Args:
        holds: the condition.
        field_name: name of the field, at the start of the message.
        limit: the expected values, which follow "must be".
        value: the actual value.
        error: class of the error.

    Raises:
        ConfigError: by default, with the message `field_name must be limit, got value`.
    """
    if not holds:
        raise error(f"{field_name} must be {limit}, got {quoted(value)}")


def rounded(value: float, digits: int) -> float:
    """Round `value` to `digits` decimals. A result of zero has no sign."""
    return round(value, digits) + 0.0


def short_repr(self: Any) -> str:
    """Return a dataclass as code that recreates it, such as `RulesConfig(dt_s=0.1)`, without default fields."""
    arguments = []
    for field in fields(self):
        value = getattr(self, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING or value != default:
            arguments.append(f"{field.name}={value!r}")
    return f"{type(self).__name__}({', '.join(arguments)})"

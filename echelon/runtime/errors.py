"""What is raised where input cannot be used, and how values are shown."""

import reprlib
from dataclasses import MISSING, fields
from typing import Any

LONGEST_LINE = 1000
"""Letters of an error, and of a line that a program prints."""
LONGEST_VALUE = 200
"""Letters of a value in an error."""
LONGEST_NUMBER = 40
"""Digits of an integer in an error."""
GAP = " ... "


def one_line(text: object, longest: int = LONGEST_LINE) -> str:
    """Text as a terminal may show it: at most `longest` letters, cut in its middle, of which every one is printable.

    Line breaks, escape codes and marks that turn the direction of writing are shown as Python writes them in a string.
    """
    line = cut(str(text), longest)
    if line.isprintable():
        return line
    return cut("".join(c if c.isprintable() else repr(c)[1:-1] for c in line), longest)


def cut(text: str, longest: int) -> str:
    """The first two thirds and the end of a text that is too long: an error tells at its end what to do."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return text[: longest - end - len(GAP)] + GAP + text[-end:]


class Shown(reprlib.Repr):
    """`repr` of a value that may be long, deeply nested, or an integer that Python refuses to write out."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = 40
        self.maxstring = self.maxother = LONGEST_VALUE

    def repr_int(self, x: int, level: int) -> str:
        return f"an integer of {x.bit_length()} bits" if abs(x) >= 10**LONGEST_NUMBER else repr(x)


def quoted(value: object) -> str:
    """A value as errors show it."""
    return cut(Shown().repr(value), LONGEST_VALUE)


class ConfigError(ValueError):
    """A setting outside its limits. The message, one line, names the field, the limit and the value."""

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(message))


def require(holds: bool, field_name: str, limit: str, value: object, error: type[ValueError] = ConfigError) -> None:
    """Raise `error` in one line unless `holds`."""
    if not holds:
        raise error(f"{field_name} must be {limit}, got {quoted(value)}")


def rounded(value: float, digits: int) -> float:
    """`value` with so many digits behind the point; none that rounds to zero has a sign."""
    return round(value, digits) + 0.0


def short_repr(self: Any) -> str:
    """A dataclass as code that makes it again: `RulesConfig(dt_s=0.1)`, without the fields that have their defaults."""
    arguments = []
    for field in fields(self):
        value = getattr(self, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING or value != default:
            arguments.append(f"{field.name}={value!r}")
    return f"{type(self).__name__}({', '.join(arguments)})"

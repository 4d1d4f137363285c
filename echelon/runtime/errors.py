"""What is raised where input cannot be used."""

from __future__ import annotations

import dataclasses
import math
from typing import Any


class ConfigError(ValueError):
    """A setting outside its limits. The message names the field, the limit and the value."""


def require_finite(config: Any) -> None:
    """Refuse a config dataclass one of whose numbers is NaN or infinite."""
    for field_ in dataclasses.fields(config):
        value = getattr(config, field_.name)
        if isinstance(value, float):
            require(math.isfinite(value), f"{type(config).__name__}.{field_.name}", "a finite number", value)


def require(holds: bool, field_name: str, limit: str, value: object) -> None:
    """Raise `ConfigError` in one line unless `holds`."""
    if not holds:
        raise ConfigError(f"{field_name} must be {limit}, got {value!r}")

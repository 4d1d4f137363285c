"""How dataclasses with many defaults are shown: by what differs from them."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any


def short_repr(self: Any) -> str:
    """A dataclass as code that makes it again: `RulesConfig(dt_s=0.1)`, without the fields that have their defaults."""
    shown = []
    for one in fields(self):
        value = getattr(self, one.name)
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if default is MISSING or value != default:
            shown.append(f"{one.name}={value!r}")
    return f"{type(self).__name__}({', '.join(shown)})"

"""Names of version 0.1.0, which will go: `Seat` and `drawers` are `GroupPolicy` and `memory_spec` now."""

from __future__ import annotations

import warnings
from typing import Any

from echelon.env import group_policy

RENAMED = {"Seat": "GroupPolicy", "drawers": "memory_spec", "TeamPolicy": "TeamPolicy", "team_view": "team_view"}


def __getattr__(name: str) -> Any:
    """What `name` is called now, with a DeprecationWarning."""
    if name not in RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message = f"echelon.agents.seat.{name} is echelon.env.group_policy.{RENAMED[name]} now"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(group_policy, RENAMED[name])

"""Adapters for other frameworks, one module each, with the framework's own names and shapes.

Each module imports its framework, which an extra of the same name installs; no other module of the package does.
"""

from __future__ import annotations

from typing import Any

from echelon.runtime.errors import missing_package, require


def missing(extra: str, error: ModuleNotFoundError, module: str = "") -> ModuleNotFoundError:
    """Build the one-line error for a missing package of the module `echelon.integrations.{extra}`."""
    name, module = str(error.name).partition(".")[0], module or f"echelon.integrations.{extra}"
    return ModuleNotFoundError(missing_package(module, name, extra), name=name)


def require_no_options(options: Any) -> None:
    """Raise `ConfigError` if `reset` receives options, because it has none."""
    require(not options, "options", "empty: reset takes only a seed, and the config defines the battle", options)

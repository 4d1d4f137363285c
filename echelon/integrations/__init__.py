"""Adapters for other frameworks, one module per framework, with the framework's own names and shapes.

Each module imports its framework, which the extra of the same name installs; no other module of the package imports it.
"""

from __future__ import annotations

from typing import Any

from echelon.runtime.errors import missing_package, require


def missing(extra: str, error: ModuleNotFoundError, module: str = "") -> ModuleNotFoundError:
    """Return the one-line error for a package that `echelon.integrations.{extra}` needs and that is missing."""
    name, module = str(error.name).partition(".")[0], module or f"echelon.integrations.{extra}"
    return ModuleNotFoundError(missing_package(module, name, extra), name=name)


def require_no_options(options: Any) -> None:
    """Raise `ConfigError` if `reset` receives options, because `reset` of these environments supports none."""
    require(not options, "options", "empty: reset takes only a seed, and the config defines the battle", options)

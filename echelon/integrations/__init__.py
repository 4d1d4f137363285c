"""Echelon for the users of other frameworks: a module each, with the framework's own names and shapes.

A module imports its framework, which an extra of the same name installs, so nothing else of the package imports one.
"""

from __future__ import annotations

from typing import Any

from echelon.runtime.errors import require


def missing(extra: str, error: ModuleNotFoundError, module: str = "") -> ModuleNotFoundError:
    """The error, in one line, of a module, `echelon.integrations.{extra}`, where `error` says that it lacks."""
    name, module = str(error.name).partition(".")[0], module or f"echelon.integrations.{extra}"
    message = f"{module} needs {name}, which is not installed: pip install 'echelon-marl[{extra}]'"
    return ModuleNotFoundError(message, name=name)


def require_no_options(options: Any) -> None:
    """Raise `ConfigError` where `reset` is given options: it has none."""
    require(not options, "options", "empty: reset takes a seed, and a battle is set by its config", options)

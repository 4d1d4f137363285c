"""Callbacks that a user names on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from echelon.learn.callbacks.base import Callback
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.imports import import_object


def load_callbacks(names: Sequence[str]) -> list[Callback]:
    """Build the callbacks `package.module:Callback`, which are called without arguments."""
    return [build(name) for name in names]


def build(name: str) -> Callback:
    """The callback of one name; an error of the user's own code is told in one line."""
    kind = import_object(name)
    try:
        callback = kind()
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"--callbacks {name} must be callable without arguments, got {why:.300}") from error
    limit = "a subclass of echelon.learn.callbacks.base.Callback"
    require(isinstance(callback, Callback), f"--callbacks {name}", limit, type(callback).__name__)
    built: Callback = callback
    return built

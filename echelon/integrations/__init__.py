"""Echelon for the users of other frameworks: a module each, with the framework's own names and shapes.

A module imports its framework, which an extra of the same name installs, so nothing else of the package imports one.
"""

from __future__ import annotations


def missing(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error, in one line, of `echelon.integrations.{extra}` where `error` says that a module is not there."""
    name = str(error.name).partition(".")[0]
    told = f"echelon.integrations.{extra} needs {name}, which is not installed: pip install 'echelon[{extra}]'"
    return ModuleNotFoundError(told, name=name)

"""Imports what a user names as `package.module:name`, from the command line or from a program, never from a file."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError

OBJECT_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""The form `package.module:name`."""


def import_module(module_name: str, name: str) -> ModuleType:
    """Import `package.module`; the current folder is searched last. It runs the code of the module.

    Args:
        name: as the user named it, for the error.

    Raises:
        FileError: there is no such module.
    """
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            # The module is there, but what it imports is not.
            raise
        raise FileError(f"{name}: no module {module_name} in {Path.cwd()} or on Python's path") from None


def import_object(name: str) -> Callable[..., Any]:
    """Import the class or function `package.module:name`; the current folder is searched last.

    It runs the code of the module, so that nothing read from a checkpoint, a league or a replay may be passed here.

    Raises:
        FileError: there is no such module.
        ConfigError: the name has another form, or the module has no such class or function.
    """
    require(OBJECT_NAME.fullmatch(name) is not None, "an imported name", "of the form package.module:name", name)
    module_name, _, attribute = name.partition(":")
    module = import_module(module_name, name)
    found = getattr(module, attribute, None)
    if not callable(found):
        raise ConfigError(f"{name}: {module_name} must have a class or function {attribute}, got {found!r}")
    imported: Callable[..., Any] = found
    return imported

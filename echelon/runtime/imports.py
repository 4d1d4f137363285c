"""Import objects given as `package.module:name` by a command line or a program, never by a file."""

import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError

OBJECT_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""The form `package.module:name`."""
PACKAGE = Path(__file__).parents[1]


def import_module(module_name: str, name: str) -> ModuleType:
    """Import `package.module`, which runs its code. The current folder is searched last.

    Args:
        module_name: the module.
        name: prefix of errors.

    Raises:
        FileError: if there is no such module.
        ConfigError: if the module exits the program.
    """
    folder = ""
    with suppress(FileNotFoundError):  # The current folder may have been deleted.
        folder = str(Path.cwd())
    if folder and folder not in sys.path:
        sys.path.append(folder)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            # The module exists, but it imports another module that does not.
            raise
        raise FileError(f"{name}: no module {module_name} in {folder} or on Python's path") from None
    except SystemExit as stop:
        raise ConfigError(
            f"{name}: module {module_name} must not exit the program when it is imported, got {stop!r}"
        ) from stop


def import_object(name: str) -> Callable[..., Any]:
    """Import the class or function `package.module:name`. The current folder is searched last.

    The import runs the code of the module, so never pass a name from a checkpoint, a league or a replay.
    """
    require(OBJECT_NAME.fullmatch(name) is not None, "an imported name", "of the form package.module:name", name)
    module_name, _, attribute = name.partition(":")
    module = import_module(module_name, name)
    value = getattr(module, attribute, None)
    if not callable(value):
        raise ConfigError(f"{name}: {module_name} must have a class or function {attribute}, got {value!r}")
    return value


def is_redefined(old: Any, new: Any) -> bool:
    """Return True if two functions or classes are the same definition, executed twice. Lambdas need equal code."""
    if old is new:
        return True
    names = [(getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)) for obj in (old, new)]
    is_named = None not in names[0] and "<lambda>" not in str(names[0][1])
    return names[0] == names[1] and (is_named or getattr(old, "__code__", 0) == getattr(new, "__code__", 1))


@contextmanager
def in_one_line(expected: str, passed: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Context manager that converts an error of the user's code to a one-line `ConfigError`.

    The line starts with `expected` and contains the location of the error. Errors whose type is in `passed` are
    re-raised unchanged.
    """
    try:
        yield
    except passed:
        raise
    except (Exception, SystemExit) as error:
        # Find the frames in the user's files, which are neither in this package nor in an installed one.
        names = ((frame, frame.filename) for frame in traceback.extract_tb(error.__traceback__))
        frames = [f for f, name in names if PACKAGE not in Path(name).parents and "site-packages" not in name]
        line = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        message = " ".join(str(error).split())
        raise ConfigError(f"{expected}, got {type(error).__name__}: {message:.300}{line}") from error


_allowed_modules: set[str] = set()


def allow_module(module: str) -> None:
    """Allow files to use classes of `package.module`, which is imported when such a file is read (`--allow-module`)."""
    _allowed_modules.add(module)


def allowed_modules() -> tuple[str, ...]:
    """Return the modules passed to `allow_module`, sorted."""
    return tuple(sorted(_allowed_modules))

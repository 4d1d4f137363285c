"""Cache of the loops that numba compiles, in the first folder that this user can write to."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

logger = logging.getLogger(__name__)


def hash_of(files: Sequence[Path]) -> str:
    """Return 16 hexadecimal digits of the sha256 of several files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


PACKAGE = Path(__file__).parents[1]
SHARED = [PACKAGE / "runtime" / name for name in ("device_loops.py", "exact.py", "geometry.py", "jit.py", "noise.py")]
REGISTRY = PACKAGE / "env" / "observation" / "streams" / "registry.py"
"""The source of generated loops over all streams."""
ELSEWHERE = [PACKAGE / name for name in ("sim/formulas.py", "world/paths.py")]
SOURCES = sorted([*PACKAGE.glob("*/loops/**/*.py"), *ELSEWHERE, REGISTRY, *SHARED])
"""All source files of compiled code."""
NAME = f"loops_{hash_of(SOURCES)}"
"""Name of the cache folder. numba detects changes only in the file of a loop, not in files that it inlines from. So the
name contains a hash of all sources."""
NOWHERE = (
    "no folder for compiled loops is writable, so every process compiles them, for about a minute: set "
    "NUMBA_CACHE_DIR to a writable folder"
)


def parents() -> Iterator[Path]:
    """Yield possible parents of the cache folder, in order of preference.

    The candidates are the folder set for numba, the package's folder, the user's cache folder and the folder for
    temporary files.
    """
    import numba

    configured = cast(Any, numba.config).CACHE_DIR
    if configured:
        yield Path(configured)
    yield PACKAGE / "__pycache__"
    if os.environ.get("XDG_CACHE_HOME"):
        yield Path(os.environ["XDG_CACHE_HOME"]) / "echelon"
    elif (home := Path(os.path.expanduser("~"))).is_absolute() and home.is_dir():
        yield home / ".cache" / "echelon"
    private = private_folder()
    if private is not None:
        yield private


def private_folder() -> Path | None:
    """Return a folder for temporary files that only this user can access; None if there is none.

    Other users must not write to the folder, because the compiled loops in it are executed.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"echelon-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if is_private else None


def is_writable(folder: Path) -> bool:
    """Return True if a folder and its subfolders are writable. Creates the folder if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (folder, *(inner for inner in folder.iterdir() if inner.is_dir())):
            tempfile.TemporaryFile(dir=path).close()
    except OSError:
        return False
    return True


@functools.cache
def cache_folder() -> Path | None:
    """Return the folder of compiled loops; if no folder is writable, log a line and return None."""
    read_only: list[Path] = []
    for folder in (parent / NAME for parent in parents()):
        if is_writable(folder):
            copy_loops(read_only, folder)
            return folder
        read_only.append(folder)
    logger.warning(NOWHERE)
    return None


def copy_loops(sources: Sequence[Path], folder: Path) -> None:
    """Copy compiled loops from read-only folders, such as those of a container image, which numba cannot use."""
    with contextlib.suppress(OSError):
        for file in sorted(file for source in sources for file in source.glob("*/*.nb[ci]")):
            target = folder / file.parent.name / file.name
            if not target.exists():
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, target)


def is_cached(loop: str) -> bool:
    """Return True if a compiled loop of this name is in the cache, perhaps for another processor type."""
    folder = cache_folder()
    return folder is not None and any(folder.glob(f"**/*{loop}*.nbc"))


def compile_and_keep(loop: Any, **options: Any) -> Any:
    """Return a loop that numba compiles at its first call and caches in `cache_folder`, if there is one."""
    import numba

    folder, settings = cache_folder(), cast(Any, numba.config)
    if folder is None:
        return numba.njit(**options)(loop)
    previous, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)  # read by `njit`
    try:
        compiled = numba.njit(cache=True, **options)(loop)
    finally:
        settings.CACHE_DIR = previous
    # If numba's compilation is disabled, `compiled` is the plain Python function, which has no cache.
    cache = getattr(compiled, "_cache", None)
    if cache is not None:
        cache.load_overload, cache.save_overload = tolerant(cache, "load_overload"), tolerant(cache, "save_overload")
    return compiled


def tolerant(cache: Any, name: str) -> Any:
    """Wrap a method of numba's cache to return None on a full disk or an invalid file, so that numba compiles the loop
    again."""
    method = getattr(cache, name)

    @functools.wraps(method)
    def attempt(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except OSError:
            pass
        except Exception:  # A corrupt cache file may raise any error.
            with contextlib.suppress(OSError):
                cache.flush()
        return None

    return attempt

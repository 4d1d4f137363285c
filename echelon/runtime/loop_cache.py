"""Where loops that numba compiled are kept: in the first folder that this user can write to, and else nowhere."""

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
    """16 hexadecimal digits of the contents of some files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


PACKAGE = Path(__file__).parents[1]
SHARED = [PACKAGE / "runtime" / name for name in ("device_loops.py", "exact.py", "geometry.py", "jit.py", "noise.py")]
REGISTRY = PACKAGE / "env" / "observation" / "streams" / "registry.py"
"""Loops over all streams are written from it."""
ELSEWHERE = [PACKAGE / name for name in ("sim/formulas.py", "world/paths.py")]
SOURCES = sorted([*PACKAGE.glob("*/loops/**/*.py"), *ELSEWHERE, REGISTRY, *SHARED])
"""Every file that compiled code may come from."""
NAME = f"loops_{hash_of(SOURCES)}"
"""Folder of the loops of these sources. numba looks for changes in a loop's own file alone, and would go on with what
it once inlined from another one; another hash is another folder."""
NOWHERE = (
    "no folder for compiled loops can be written to, so every process compiles them, for about a minute: set "
    "NUMBA_CACHE_DIR to one that can"
)


def parents() -> Iterator[Path]:
    """Where the folder of the loops may be, the preferred place first: numba's setting, the package, the caches of the
    user, the folder for temporary files."""
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
    """A folder among the temporary files that this user alone can enter; None if it cannot be made, or is another
    user's. Who can write there chooses what code runs, since a kept loop is one."""
    try:
        folder = Path(tempfile.gettempdir()) / f"echelon-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if is_private else None


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made if it is not there, and in the folders in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (folder, *(inner for inner in folder.iterdir() if inner.is_dir())):
            tempfile.TemporaryFile(dir=path).close()
    except OSError:
        return False
    return True


@functools.cache
def cache_folder() -> Path | None:
    """The folder of compiled loops; None, said in one line, where none can be written to."""
    read_only: list[Path] = []
    for folder in (parent / NAME for parent in parents()):
        if is_writable(folder):
            copy_loops(read_only, folder)
            return folder
        read_only.append(folder)
    logger.warning(NOWHERE)
    return None


def copy_loops(sources: Sequence[Path], folder: Path) -> None:
    """Take over what was compiled where one may only read, such as in a container's image: numba reads a folder only if
    it can write there."""
    with contextlib.suppress(OSError):
        for file in sorted(file for source in sources for file in source.glob("*/*.nb[ci]")):
            target = folder / file.parent.name / file.name
            if not target.exists():
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, target)


def is_cached(loop: str) -> bool:
    """Whether a compiled loop of this name is on disk. Another kind of processor may have left it there."""
    folder = cache_folder()
    return folder is not None and any(folder.glob(f"**/*{loop}*.nbc"))


def compile_and_keep(loop: Any, **options: Any) -> Any:
    """A loop that numba compiles at its first call and keeps in `cache_folder`, if there is one."""
    import numba

    folder, settings = cache_folder(), cast(Any, numba.config)
    if folder is None:
        return numba.njit(**options)(loop)
    previous, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)  # read as a function is decorated
    try:
        compiled = numba.njit(cache=True, **options)(loop)
    finally:
        settings.CACHE_DIR = previous
    # Where numba is told not to compile, this is the loop itself.
    cache = getattr(compiled, "_cache", None)
    if cache is not None:
        cache.load_overload, cache.save_overload = tolerant(cache, "load_overload"), tolerant(cache, "save_overload")
    return compiled


def tolerant(cache: Any, name: str) -> Any:
    """A method of numba's cache that returns None where the disk is full, the folder was cleaned up, or a file was cut
    short: the loop is compiled all the same."""
    method = getattr(cache, name)

    @functools.wraps(method)
    def attempt(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except OSError:
            pass
        except Exception:  # whatever a spoiled file raises where it is read
            with contextlib.suppress(OSError):
                cache.flush()
        return None

    return attempt

"""Files from strangers, read with care, and files of ours, written whole or not at all.

Nothing that is read is ever executed: tensors are safetensors, everything else is JSON.
"""

import contextlib
import errno
import fcntl
import functools
import json
import logging
import math
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from echelon.runtime.errors import ConfigError, one_line, require

MAX_HEADER_BYTES = 1 << 20
MAX_JSON_BYTES = 4 << 20
"""Of settings: a catalog, or what a file claims."""
MAX_FILE_BYTES = 1 << 30
LONGEST_INTEGER = len(str(-(2**63)))
"""Characters of an integer of 64 bits."""
MAX_DEPTH = 64
"""Levels of objects and lists in each other."""

DATABASE = b"SQLite format 3\0"
"""How a file of SQLite begins."""


class FileError(ValueError):
    """A file that cannot be trusted, read or written. One line: which file, what was expected, what came."""

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(message))


expect = functools.partial(require, error=FileError)
"""Raise `FileError` in one line unless a condition holds, as `require`: where, what was expected, what came."""


@contextlib.contextmanager
def as_file_error(where: object) -> Iterator[None]:
    """Context manager in which a setting that cannot be used is an error of the file that it stands in."""
    try:
        yield
    except ConfigError as error:
        raise FileError(f"{where}: {error}") from None


def open_file(path: Path, limit: int) -> BinaryIO:
    """A regular file of at most `limit` bytes, opened for reading."""
    try:
        # A pipe would let the reader wait for ever, a link would lead it elsewhere.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"{path.name}: cannot be read: {reason}") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        os.close(handle)
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{path.name}: expected a regular file")
        raise FileError(f"{path.name}: expected at most {limit} bytes, got {status.st_size}")
    return open(handle, "rb")


def read_file(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """A regular file of at most `limit` bytes, read once."""
    with open_file(path, limit) as file:
        return file.read(limit + 1)


class StrictDecoder(json.JSONDecoder):
    """Decodes JSON without duplicate keys, of integers of 64 bits; numbers are finite unless the caller says which of
    them are not.

    Args:
        where: what errors name first: the file, or the place in it.
        only_finite: whether NaN and infinities are refused.
    """

    def __init__(self, where: str, only_finite: bool = True) -> None:
        self.where, self.only_finite = where, only_finite
        super().__init__(
            object_pairs_hook=self._unique,
            parse_float=self._finite,
            parse_constant=self._finite,
            parse_int=self._whole,
        )

    def _unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise FileError(f"{self.where}: key {twice!r} stands there twice, expected once")
        return result

    def _finite(self, text: str) -> float:
        value = float(text)
        if self.only_finite and not math.isfinite(value):
            raise FileError(f"{self.where}: expected finite numbers, got {text}")
        return value

    def _whole(self, text: str) -> int:
        if len(text) > LONGEST_INTEGER or not -(2**63) <= int(text) < 2**63:
            limit = "expected integers of 64 bits"
            raise FileError(f"{self.where}: {limit}, got one of {len(text)} characters: {text:.24}")
        return int(text)


def parse_json(name: str, data: bytes) -> Any:
    """A JSON document as `StrictDecoder` takes it."""
    try:
        document = json.loads(data, cls=StrictDecoder, where=name)
    except FileError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name}: not valid JSON: {error}") from None
    check_depth(name, document)
    return document


def check_depth(name: str, document: Any) -> None:
    """Refuse JSON nested so deeply that code which calls itself for each level could not go through it."""
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(MAX_DEPTH):
        nested = (value.values() if isinstance(value, dict) else value for value in level)
        level = [value for values in nested for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise FileError(f"{name}: expected JSON nested at most {MAX_DEPTH} levels deep, got more")


def json_bytes(document: Any) -> bytes:
    """A JSON document as the bytes of a file: indented by one space, ASCII only, with a final newline."""
    return (json.dumps(document, indent=1) + "\n").encode()


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Context manager in which what the system refuses is an error of one line that names `path`."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Context manager that yields a draft to write, beside `path`, and renames it into its place: whoever finds a file
    there finds all of it, the one of before or the new one.

    Raises:
        FileError: it cannot be written, or the file of before is a database, which holds a league; then that file is
            as it was, and no draft stays behind.
    """
    temporary = path.parent / f".{path.name}.{os.getpid()}"
    check_no_database(path)
    with writing_to(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            temporary.rename(path)
            sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a file of this content, as `atomic_write` does."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON values, a line each, as `atomic_write` does."""
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


@contextlib.contextmanager
def new_folder(path: Path, draft: Path) -> Iterator[Path]:
    """Context manager that fills the folder `draft`, beside `path`, and renames it: whoever finds it finds all of it.

    Raises:
        FileError: it cannot be written, or there is something at `path` already; then no draft stays behind.
    """
    try:
        with writing_to(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
        yield draft
        with writing_to(path):
            sync_folder(draft)
            draft.rename(path)
            sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def append_whole(path: Path, data: bytes, durable: bool = True) -> None:
    """Append to a file all of `data` or nothing; several processes may append to one file.

    Args:
        durable: whether it is on the disk when this returns.
    """
    with writing_to(path), open_to_append(path) as file:
        # Without locks, which some file systems lack, only a failed write of two processes at once could cut too much.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        length = os.fstat(file.fileno()).st_size
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(file.fileno())
        except BaseException:
            os.ftruncate(file.fileno(), length)
            raise


def open_to_append(path: Path) -> BinaryIO:
    """A regular file opened for appending, made if it is not there. A pipe would let the writer wait for ever, a link
    would lead it elsewhere."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileError(f"{path}: expected a regular file")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return open(os.open(path, flags, 0o644), "ab", buffering=0)


def check_writable(*paths: Path | None) -> None:
    """Refuse a path that no file could be written to, before the work that would be lost. None is no file."""
    for path in filter(None, paths):
        with writing_to(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            probe = path.parent / f".{path.name}.{os.getpid()}"
            probe.touch()
            probe.unlink()
        if path.is_dir():
            raise FileError(f"{path}: expected the name of a file, got a folder")
        check_no_database(path)


def check_no_database(path: Path) -> None:
    """Refuse a path where a database is, which nothing is written over: it may hold years of battles."""
    with contextlib.suppress(OSError):
        if path.is_file() and read_start(path, len(DATABASE)) == DATABASE:
            raise FileError(f"{path}: expected another name, got that of a database, which is not replaced")


def read_start(path: Path, count: int) -> bytes:
    """The first bytes of a file."""
    with open(path, "rb") as file:
        return file.read(count)


def write_through(path: Path, data: bytes) -> None:
    with writing_to(path), open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Lock a folder for this process by a file in it, which is there for as long.

    By `flock`, which the system lets go of however a process ends. On a file system that has none, it counts whether
    the process that the file names still lives on this machine.
    """
    with lock(path) as file:
        try:
            with writing_to(path):
                file.seek(0)
                file.truncate()
                file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            yield
        finally:
            path.unlink(missing_ok=True)


def lock(path: Path) -> BinaryIO:
    """The file of `file_lock`, locked; it is unlocked when it is closed."""
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error.strerror}") from None
        file = open(handle, "r+b", buffering=0)  # noqa: SIM115
        holder = file.read(200).decode(errors="replace").strip()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except BlockingIOError:
            is_free = False
        except OSError:
            is_free = not lock_owner_alive(holder)
        if not is_free:
            file.close()
            limit = "expected no other process at work there"
            raise FileError(f"{path.parent}: {limit}, got {holder or 'one'}: let it end first")
        # Whoever held it until now may have removed the file that was opened here.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return file
        file.close()


def lock_owner_alive(holder: str) -> bool:
    """Whether the process that `hold` wrote down runs on this machine; another machine's is taken to."""
    fields = holder.split()
    if len(fields) != 4 or not fields[1].isdigit():
        return False
    if fields[3] != socket.gethostname():
        return True
    try:
        os.kill(int(fields[1]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def beside(file: Path, name: str) -> Path:
    """Where a file about another one goes by default: next to it, or into the working folder if that is read-only."""
    return file.with_name(name) if os.access(file.parent, os.W_OK) else Path(name)


MOUNTS = Path("/proc/mounts")
NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "pvfs2"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "panfs"),
}
"""Types of file systems, as the table of mounts names them."""
logger = logging.getLogger(__name__)


def network_type(path: Path, table: str) -> str | None:
    """The type of the network file system that a path is on, None for a local one.

    Args:
        table: the table of mounts, a line each of device, mount point and type, the later over the earlier.
    """
    place, best, found = path.absolute(), -1, ""
    for line in table.splitlines():
        device, point, kind = (*line.split()[:3], "", "", "")[:3]
        # A space in a name is \040.
        mounted = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point))
        if device and place.is_relative_to(mounted) and len(mounted.parts) >= best:
            best, found = len(mounted.parts), kind
    return found if found in NETWORK else None


@functools.cache
def warn_of_network(folder: Path) -> None:
    """Log, once, that a folder with a database is on a network file system, and name a local folder to use."""
    try:
        table = MOUNTS.read_text(errors="replace")
    except OSError:
        return
    kind = network_type(folder.resolve(), table)
    if kind is None:
        return
    places = (Path.home(), Path("/var/tmp"), Path(tempfile.gettempdir()))
    local = next((place for place in places if network_type(place.resolve(), table) is None), places[-1])
    logger.warning(
        "%s: on a network file system (%s), where a database may be spoiled: keep it in a local folder, such as %s",
        *(folder, kind, local / folder.resolve().name),
    )

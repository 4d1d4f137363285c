"""Read untrusted files safely, and write files atomically.

Files cannot execute code: tensors are stored as safetensors, and everything else as JSON.
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
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from echelon.runtime.errors import ConfigError, one_line, require

MAX_HEADER_BYTES = 1 << 20
MAX_JSON_BYTES = 4 << 20
"""Maximum size of a JSON file with settings or metadata, and of the JSON outside the tables of a large file."""
MAX_FILE_BYTES = 1 << 30
LONGEST_INTEGER = len(str(-(2**63)))
"""Maximum number of characters of a 64-bit integer."""
MAX_DEPTH = 64
"""Maximum nesting depth of JSON objects and lists."""

DATABASE = b"SQLite format 3\0"
"""First bytes of an SQLite file."""


class FileError(ValueError):
    """A file is invalid, or it cannot be read or written. The message is one line with the file, the expected and the
    actual content."""

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(message))


expect = functools.partial(require, error=FileError)
"""`require` with `FileError` in place of `ConfigError`."""


@contextlib.contextmanager
def as_file_error(where: object) -> Iterator[None]:
    """Context manager that converts a `ConfigError` to a `FileError` about the file that contains the setting."""
    try:
        yield
    except ConfigError as error:
        raise FileError(f"{where}: {error}") from None


def open_file(path: Path, limit: int) -> BinaryIO:
    """Open a regular file of at most `limit` bytes for reading.

    Raises:
        FileError: if the file cannot be read, is not a regular file, or is too large.
    """
    try:
        # These flags refuse symbolic links, and prevent that opening a pipe blocks for ever.
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
    """Return the bytes of a regular file of at most `limit` bytes. Raises as `open_file`."""
    with open_file(path, limit) as file:
        return file.read(limit + 1)


class StrictDecoder(json.JSONDecoder):
    """A JSON decoder that rejects duplicate keys, integers above 64 bits, and by default NaN and infinity.

    Args:
        where: prefix of errors, such as the name of the file.
        only_finite: whether NaN and infinity are errors.
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
            raise FileError(f"{self.where}: duplicate key {twice!r}")
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
    """Parse a JSON document with `StrictDecoder`.

    Args:
        name: name of the file, for errors.
        data: content of the file.

    Raises:
        FileError: if the document is not valid JSON, has duplicate keys, invalid numbers, or is nested too deeply.
    """
    try:
        document = json.loads(data, cls=StrictDecoder, where=name)
    except FileError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name}: not valid JSON: {error}") from None
    check_depth(name, document)
    return document


def check_depth(name: str, document: Any) -> None:
    """Raise `FileError` for JSON nested deeper than `MAX_DEPTH`, which recursive code could not process."""
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(MAX_DEPTH):
        nested = (value.values() if isinstance(value, dict) else value for value in level)
        level = [value for values in nested for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise FileError(f"{name}: expected JSON nested at most {MAX_DEPTH} levels deep, got more")


def json_bytes(document: Any) -> bytes:
    """Encode a JSON document: indented by one space, ASCII only, with a final newline."""
    return (json.dumps(document, indent=1) + "\n").encode()


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Context manager that converts an `OSError` to a one-line `FileError` with `path`."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Context manager for an atomic write: it yields a temporary path next to `path` and renames it to `path`.

    Readers see either the complete old file or the complete new one.

    Raises:
        FileError: if the file cannot be written, or the old file is a database. After the error, the old file is
            unchanged and the temporary file is deleted.
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
    """Write `data` to a file atomically; see `atomic_write`."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file with one JSON value per line, atomically; see `atomic_write`."""
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


@contextlib.contextmanager
def new_folder(path: Path, draft: Path) -> Iterator[Path]:
    """Context manager that yields the new folder `draft`, next to `path`, and renames it to `path` when it is complete.

    Raises:
        FileError: if the folder cannot be written, or `path` exists. `draft` is then deleted.
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
    """Append all of `data` to a file, or nothing. Several processes may append to the same file.

    Args:
        path: the file, which is created if it does not exist.
        data: the bytes to append.
        durable: whether to wait until the data is on disk.

    Raises:
        FileError: if the file cannot be written.
    """
    with locked_to_append(path) as file:
        append_bytes(file, data)
        if durable:
            os.fsync(file.fileno())


@contextlib.contextmanager
def locked_to_append(path: Path) -> Iterator[FileIO]:
    """Context manager that opens a file for reading and appending, and keeps other processes from appending to it.

    After an error the file has its old length. The file is created if it does not exist.

    Raises:
        FileError: if the file cannot be written.
    """
    with writing_to(path), open_to_append(path) as file:
        # Some file systems have no locks. Data is then lost only if two processes write at the same time and both fail.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        length = os.fstat(file.fileno()).st_size
        try:
            yield file
        except BaseException:
            os.ftruncate(file.fileno(), length)
            raise


def append_bytes(file: FileIO, data: bytes) -> None:
    """Write all of `data`. Raises `OSError` if the disk is full."""
    if file.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def open_to_append(path: Path) -> FileIO:
    """Open a regular file for appending, and create it if needed. Pipes, which could block, and links are rejected."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileError(f"{path}: expected a regular file")
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return open(os.open(path, flags, 0o644), "a+b", buffering=0)


def check_writable(*paths: Path | None) -> None:
    """Raise `FileError` for paths that cannot be written. Call this function before long work, so that the result is
    not lost.

    Paths that are None are ignored.
    """
    for path in filter(None, paths):
        with writing_to(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            probe = path.parent / f".{path.name}.{os.getpid()}"
            probe.touch()
            probe.unlink()
        if path.is_dir():
            raise FileError(f"{path}: expected a file name, got a folder")
        check_no_database(path)


def check_no_database(path: Path) -> None:
    """Raise `FileError` if `path` is a database. Databases are never overwritten, because they may contain a league."""
    with contextlib.suppress(OSError):
        if path.is_file() and read_start(path, len(DATABASE)) == DATABASE:
            raise FileError(f"{path}: expected another name, got a database, which is never overwritten")


def read_start(path: Path, count: int) -> bytes:
    """Return the first `count` bytes of a file."""
    with open(path, "rb") as file:
        return file.read(count)


def write_through(path: Path, data: bytes) -> None:
    """Write a file and wait until its data is on disk."""
    with writing_to(path), open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the file names in a folder are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Context manager that locks a folder for this process with a lock file in the folder.

    The lock uses `flock`, which the system releases whenever the process ends. On file systems without `flock`, the
    lock is valid while the process named in the lock file runs on this machine.

    Raises:
        FileError: if another process has the lock, or the file cannot be written.
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
    """Open and lock the lock file of a folder, which `file_lock` names. Closing the file unlocks the folder."""
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
            limit = "expected no other process that uses the folder"
            raise FileError(f"{path.parent}: {limit}, got {holder or 'one'}: wait until it ends")
        # The previous owner may have deleted the lock file after this process opened it.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return file
        file.close()


def lock_owner_alive(holder: str) -> bool:
    """Return True if the lock's owner is running. Owners on other machines count as running."""
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
    """Return the path of a file next to `file`, or in the working folder if the folder of `file` is read-only."""
    return file.with_name(name) if os.access(file.parent, os.W_OK) else Path(name)


MOUNTS = Path("/proc/mounts")
NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "pvfs2"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "panfs"),
}
"""Types of network file systems in the mount table."""
logger = logging.getLogger(__name__)


def network_type(path: Path, table: str) -> str | None:
    """Return the type of the network file system that contains a path, None for a local file system.

    Args:
        path: the path.
        table: the mount table, one line per mount with device, mount point and type. Mounts in later lines hide those
            in earlier lines.
    """
    place, best, found = path.absolute(), -1, ""
    for line in table.splitlines():
        device, point, kind = (*line.split()[:3], "", "", "")[:3]
        # The mount table writes special characters in octal, such as a space as \040.
        mounted = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point))
        if device and place.is_relative_to(mounted) and len(mounted.parts) >= best:
            best, found = len(mounted.parts), kind
    return found if found in NETWORK else None


@functools.cache
def warn_of_network(folder: Path) -> None:
    """Log once that a folder with a database is on a network file system, and suggest a local folder."""
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
        "%s: on a network file system (%s), where a database may be corrupted: use a local folder, such as %s",
        *(folder, kind, local / folder.resolve().name),
    )

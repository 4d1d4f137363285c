"""Files from strangers, read with care, and files of ours, written whole or not at all.

Nothing that is read is ever executed: tensors are safetensors, everything else is JSON.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
from torch import Tensor

MAX_HEADER_BYTES = 1 << 20
MAX_FILE_BYTES = 1 << 30
MAX_TENSORS = 4096


class FileError(ValueError):
    """A file that cannot be trusted, read or written. One line: which file, what was expected, what came."""


def open_file(path: Path, limit: int) -> BinaryIO:
    """A regular file of at most `limit` bytes, opened for reading."""
    try:
        # A pipe would let the reader wait for ever, a link would lead it elsewhere.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise FileError(f"{path.name}: cannot be read: {error.strerror}") from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
        os.close(handle)
        if not stat.S_ISREG(found.st_mode):
            raise FileError(f"{path.name}: expected a regular file")
        raise FileError(f"{path.name}: expected at most {limit} bytes, got {found.st_size}")
    return open(handle, "rb")


def read_file(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """A regular file of at most `limit` bytes, read once."""
    with open_file(path, limit) as file:
        return file.read(limit + 1)


def read_tensors(path: Path, sha256: str, limit: int = MAX_FILE_BYTES) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file whose hash is known, read once.

    Its header is checked before the rest is read: a file that is long without a tensor to show for it costs nothing.

    Args:
        limit: bytes it may have.

    Raises:
        FileError: naming the file, what was expected and what came.
    """
    name = path.name
    with open_file(path, limit) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(8)
        head += file.read(min(int.from_bytes(head, "little"), MAX_HEADER_BYTES))
        header = parse_header(name, head, size)
        data = head + file.read(size - len(head))
    got = hashlib.sha256(data).hexdigest()
    if got != sha256:
        raise FileError(f"{name}: sha256 mismatch: expected {sha256}, got {got}")
    return load_tensors(name, data), header.get("__metadata__", {})


def parse_json(name: str, data: bytes, only_finite: bool = True) -> Any:
    """JSON without duplicate keys; numbers are finite unless the caller says which of them are not."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise FileError(f"{name}: key {key!r} stands there twice, expected once")
            found[key] = value
        return found

    def finite(text: str) -> float:
        if only_finite and not math.isfinite(float(text)):
            raise FileError(f"{name}: expected finite numbers, got {text}")
        return float(text)

    try:
        return json.loads(data, object_pairs_hook=unique, parse_float=finite, parse_constant=finite)
    except FileError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name}: not valid JSON: {error}") from None


def json_bytes(document: Any) -> bytes:
    """A JSON document as the bytes of a file: indented by one space, ASCII only, with a final newline."""
    return (json.dumps(document, indent=1) + "\n").encode()


def parse_tensors(name: str, data: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file; its header is checked before the library sees it."""
    header = parse_header(name, data, len(data))
    return load_tensors(name, data), header.get("__metadata__", {})


def load_tensors(name: str, data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file whose header was checked."""
    try:
        return safetensors.torch.load(data)
    except Exception as error:
        raise FileError(f"{name}: not a safetensors file: {error}") from None


def parse_header(name: str, data: bytes, file_bytes: int) -> dict[str, Any]:
    """The safetensors header that `data` begins with; refused where it is too long, ambiguous, or lists too many
    tensors or others than fill the `file_bytes` of its file."""
    size = int.from_bytes(data[:8], "little")
    if file_bytes < 8 or size > file_bytes - 8:
        raise FileError(f"{name}: truncated: header of {size} bytes in a file of {file_bytes}")
    if size > MAX_HEADER_BYTES:
        raise FileError(f"{name}: header must be at most {MAX_HEADER_BYTES} bytes, got {size}")
    header = parse_json(name, data[8 : 8 + size])
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise FileError(f"{name}: header must list at most {MAX_TENSORS} tensors")
    expected = file_bytes - 8 - size
    got = max((end_of(entry) for key, entry in header.items() if key != "__metadata__"), default=0)
    if got != expected:
        raise FileError(f"{name}: not a safetensors file: tensors must fill {expected} bytes, got {got}")
    return header


def end_of(entry: Any) -> int:
    """Where a tensor that a header lists ends among the bytes; -1 if it does not say."""
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    is_pair = isinstance(offsets, list) and len(offsets) == 2 and type(offsets[1]) is int
    return offsets[1] if isinstance(offsets, list) and is_pair else -1


def check_tensors(name: str, got: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """The same names, shapes and dtypes as `expected`, whose values do not matter, and finite numbers."""
    for key in sorted(expected.keys() - got.keys()):
        raise FileError(f"{name}: tensor {key} is missing, expected shape {tuple(expected[key].shape)}")
    for key in sorted(got.keys() - expected.keys()):
        raise FileError(f"{name}: unexpected tensor {key} of shape {tuple(got[key].shape)}")
    for key, want in expected.items():
        have = got[key]
        if have.shape != want.shape or have.dtype != want.dtype:
            shapes = f"expected {want.dtype} {tuple(want.shape)}, got {have.dtype} {tuple(have.shape)}"
            raise FileError(f"{name}: tensor {key}: {shapes}")
        check_finite(name, key, have)


def check_finite(name: str, key: str, tensor: Tensor) -> None:
    """No NaN and no infinity."""
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise FileError(f"{name}: tensor {key}: expected finite values, got NaN or infinity")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place and rename it into it: whoever finds it finds all of it."""
    draft = path.parent / f".{path.name}.{os.getpid()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_through(draft, data)
        draft.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise FileError(f"{path}: cannot be written: {error.strerror}") from None


def check_writable(path: Path) -> None:
    """Refuse a path that no file could be written to, before the work that would be lost."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = path.parent / f".{path.name}.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from None
    if path.is_dir():
        raise FileError(f"{path}: expected the name of a file, got a folder")


def write_through(path: Path, data: bytes) -> None:
    """Write a file down to the disk."""
    with open(path, "wb") as file:
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
def held(path: Path) -> Iterator[None]:
    """Lock a folder for this process by a file in it, which is there for as long.

    By `flock`, which the system lets go of however a process ends. On a file system that has none, it counts whether
    the process that the file names still lives on this machine.

    Raises:
        FileError: another process holds it; it is named.
    """
    with lock(path) as file:
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def lock(path: Path) -> BinaryIO:
    """The file of `held`, locked; it is unlocked when it is closed."""
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
            is_free = not lives(holder)
        if not is_free:
            file.close()
            limit = "expected no other process at work there"
            raise FileError(f"{path.parent}: {limit}, got {holder or 'one'}: let it end first")
        # Whoever held it until now may have removed the file that was opened here.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return file
        file.close()


def lives(holder: str) -> bool:
    """Whether the process that `hold` wrote down runs on this machine; another machine's is taken to."""
    words = holder.split()
    if len(words) != 4 or not words[1].isdigit():
        return False
    if words[3] != socket.gethostname():
        return True
    try:
        os.kill(int(words[1]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

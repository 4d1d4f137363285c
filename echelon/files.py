"""Files from strangers, read with care, and files of ours, written whole or not at all.

Nothing that is read is ever executed: tensors are safetensors, everything else is JSON.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

MAX_HEADER_BYTES = 1 << 20
MAX_FILE_BYTES = 1 << 30
MAX_TENSORS = 4096


class FileError(ValueError):
    """A file that cannot be trusted, read or written. One line: which file, what was expected, what came."""


def read_file(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """A regular file of at most `limit` bytes, read once."""
    try:
        # A pipe would let the reader wait for ever, a link would lead it elsewhere.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise FileError(f"{path.name}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileError(f"{path.name}: expected a regular file")
    with open(handle, "rb") as file:
        size = os.fstat(handle).st_size
        if size > limit:
            raise FileError(f"{path.name}: expected at most {limit} bytes, got {size}")
        return file.read(limit + 1)


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


def parse_tensors(name: str, data: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file; its header is checked before the library sees it."""
    header = parse_header(name, data)
    try:
        return safetensors.torch.load(data), header.get("__metadata__", {})
    except Exception as error:
        raise FileError(f"{name}: not a safetensors file: {error}") from None


def parse_header(name: str, data: bytes) -> dict[str, Any]:
    """A safetensors header; refused where it is too long, ambiguous or lists too many tensors."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise FileError(f"{name}: truncated: header of {size} bytes in a file of {len(data)}")
    if size > MAX_HEADER_BYTES:
        raise FileError(f"{name}: header must be at most {MAX_HEADER_BYTES} bytes, got {size}")
    header = parse_json(name, data[8 : 8 + size])
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise FileError(f"{name}: header must list at most {MAX_TENSORS} tensors")
    return header


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

"""Untrusted safetensors files, whose header is checked before the rest is read.

The components of a run store their state in safetensors files, as tensors and JSON values.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import safetensors.torch
from torch import Tensor

from echelon.runtime.errors import ConfigError
from echelon.runtime.files import MAX_FILE_BYTES, MAX_HEADER_BYTES, FileError, expect, open_file, parse_json
from echelon.runtime.json_checks import Check, integer, listed, of_type, one_of, record, row

MAX_TENSORS = 4096
BYTES = {
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64"), 8),
}
"""Bytes of a number, keyed by dtype name of safetensors."""
ENTRY = record(
    {
        "dtype": one_of(BYTES),
        "shape": listed(integer(0, 2**40), 0, 64),
        "data_offsets": row(integer(0), integer(0)),
    }
)
"""Check of a tensor's entry in a header."""


@dataclass(frozen=True)
class Header:
    """The header of a safetensors file."""

    tensors: dict[str, tuple[str, tuple[int, ...]]]
    """Dtype name of safetensors and shape of each tensor, keyed by tensor name."""
    metadata: dict[str, str]

    @property
    def bytes(self) -> int:
        return sum(BYTES[kind] * math.prod(shape) for kind, shape in self.tensors.values())


def read_tensors(
    path: Path,
    sha256: str | None = None,
    limit: int = MAX_FILE_BYTES,
    check: Callable[[Header], None] = lambda header: None,
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and the metadata of a safetensors file.

    The header is checked before the rest is read, so a large file without matching tensors uses no memory.

    Args:
        path: the file.
        sha256: expected hash, None if unknown.
        limit: maximum size of the file, bytes.
        check: called with the header before the rest is read; raises an error to reject the file.

    Raises:
        FileError: if the file cannot be read or is invalid, or its hash differs.
    """
    name = path.name
    with open_file(path, limit) as file:
        header, head, rest = read_header(name, file)
        check(header)
        data = head + file.read(rest)
    digest = sha256 and hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise FileError(f"{name}: sha256 mismatch: expected {sha256}, got {digest}")
    try:
        return safetensors.torch.load(data), header.metadata
    except Exception as error:
        raise FileError(f"{name}: not a safetensors file: {error}") from None


def read_header(name: str, file: BinaryIO) -> tuple[Header, bytes, int]:
    """Read the header of a safetensors file. Returns the header, its bytes, and the number of bytes that follow."""
    size, head = os.fstat(file.fileno()).st_size, file.read(8)
    head += file.read(min(int.from_bytes(head, "little"), MAX_HEADER_BYTES))
    return parse_header(name, head, size), head, size - len(head)


def parse_header(name: str, data: bytes, file_bytes: int) -> Header:
    """Parse the safetensors header at the start of `data`.

    Raises:
        FileError: if the header is too long or ambiguous, lists too many tensors, or its tensors do not fill the
            `file_bytes` of the file.
    """
    size = int.from_bytes(data[:8], "little")
    if file_bytes < 8 or size > file_bytes - 8:
        raise FileError(f"{name}: truncated: header of {size} bytes in a file of {file_bytes}")
    expect(size <= MAX_HEADER_BYTES, f"{name}: header", f"at most {MAX_HEADER_BYTES} bytes", size)
    header = parse_json(name, data[8 : 8 + size])
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise FileError(f"{name}: header must list at most {MAX_TENSORS} tensors")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FileError(f"{name}: header must have metadata as strings keyed by name")
    for key, entry in header.items():
        ENTRY(f"{name}: not a safetensors file: tensor {key}", entry)
    parsed = Header({key: (entry["dtype"], tuple(entry["shape"])) for key, entry in header.items()}, metadata)
    expected = file_bytes - 8 - size
    # Check the total size here; safetensors checks the offsets of each tensor.
    for filled in (max((entry["data_offsets"][1] for entry in header.values()), default=0), parsed.bytes):
        if filled != expected:
            raise FileError(f"{name}: not a safetensors file: tensors must fill {expected} bytes, got {filled}")
    return parsed


def check_tensors(name: str, got: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise `FileError` unless `got` has the names, shapes and dtypes of `expected`, and only finite values."""
    for key in sorted(expected.keys() - got.keys()):
        raise FileError(f"{name}: tensor {key} is missing, expected shape {tuple(expected[key].shape)}")
    for key in sorted(got.keys() - expected.keys()):
        raise FileError(f"{name}: unexpected tensor {key} of shape {tuple(got[key].shape)}")
    for key, reference in expected.items():
        tensor = got[key]
        if tensor.shape != reference.shape or tensor.dtype != reference.dtype:
            shapes = f"expected {reference.dtype} {tuple(reference.shape)}, got {tensor.dtype} {tuple(tensor.shape)}"
            raise FileError(f"{name}: tensor {key}: {shapes}")
        check_finite(name, key, tensor)


def check_finite(name: str, key: str, tensor: Tensor) -> None:
    """Raise `FileError` if a tensor contains NaN or infinity."""
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise FileError(f"{name}: tensor {key}: expected finite values, got NaN or infinity")


FACTS = "facts"
"""Key of the safetensors metadata with the `facts` of all components, as JSON."""


@dataclass(frozen=True)
class StateDict:
    """State of one component of a run: named tensors, and plain JSON values (`facts`)."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON values, keyed by name."""
    name: str = "state"
    """Name of the component, for error messages."""

    def fact(self, key: str, what: type | Check) -> Any:
        """Return the JSON value at `key`, checked by type or by a check of `json_checks`. Raises `FileError`."""
        value, check = self.facts.get(key), of_type(what) if isinstance(what, type) else what
        check(f"{self.name}.{key}", value)
        return value

    def row(self, key: str, entry: Check, length: int) -> list[Any]:
        """Return the list at `key`, which must have `length` entries that pass the check `entry`. Raises
        `FileError`."""
        return list(self.fact(key, listed(entry, length, length)))

    def check(self, expected: Mapping[str, Tensor]) -> None:
        """Check the names, shapes and dtypes of the tensors against `expected`, and that the values are finite."""
        check_tensors(self.name, self.tensors, expected)


class Stateful(Protocol):
    """A component whose state is saved in and restored from a checkpoint."""

    def state_dict(self) -> StateDict:
        """Return the current state."""

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the state from a checkpoint."""


def pack(parts: Mapping[str, StateDict]) -> bytes:
    """Serialise components, keyed by name, to one safetensors file with tensors named `component.tensor`."""
    tensors = {
        # Copy each tensor, because safetensors refuses tensors that share storage.
        f"{owner}.{key}": value.detach().to("cpu", copy=True).contiguous()
        for owner, state in parts.items()
        for key, value in state.tensors.items()
    }
    facts: dict[str, str] = {}
    for owner, state in parts.items():
        try:
            facts[owner] = json.dumps(dict(state.facts), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{owner}: facts of a state must be JSON of finite numbers, got {error}") from None
    joined = ", ".join(f"{json.dumps(owner)}: {text}" for owner, text in facts.items())
    return safetensors.torch.save(tensors, {FACTS: f"{{{joined}}}"})


def unpack(name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> dict[str, StateDict]:
    """Inverse of `pack`, from the tensors and metadata of the file `name`."""
    facts = parse_json(name, metadata.get(FACTS, "null").encode())
    is_valid = isinstance(facts, dict) and all(isinstance(value, dict) for value in facts.values())
    expect(is_valid, f"{name}: metadata {FACTS!r}", "an object of objects", facts)
    states: dict[str, dict[str, Tensor]] = {owner: {} for owner in facts}
    for key, value in tensors.items():
        owner, _, rest = key.partition(".")
        if owner not in states:
            raise FileError(f"{name}: unexpected tensor {key} of shape {tuple(value.shape)}")
        states[owner][rest] = value
    return {owner: StateDict(entries, facts[owner], f"{name}: {owner}") for owner, entries in states.items()}

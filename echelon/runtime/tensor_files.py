"""Tensors from strangers: safetensors files, whose header is checked before anything else of them is read.

Components of a run keep their state in such files, as tensors and JSON values.
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
"""Of a number, by type as safetensors calls it."""
ENTRY = record(
    {
        "dtype": one_of(BYTES),
        "shape": listed(integer(0, 2**40), 0, 64),
        "data_offsets": row(integer(0), integer(0)),
    }
)
"""What a header says of a tensor."""


@dataclass(frozen=True)
class Header:
    """What a safetensors file says of itself."""

    tensors: dict[str, tuple[str, tuple[int, ...]]]
    """Type, as safetensors calls it, and shape of each tensor."""
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
    """The tensors and the metadata of a safetensors file, read once.

    Its header is checked before the rest is read: a file that is long without a tensor to show for it costs nothing.

    Args:
        sha256: its hash, if that is known.
        limit: bytes it may have.
        check: refuses a header by an error before anything else is read.
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
    """The header of a safetensors file, the bytes that it is, and how many follow."""
    size, head = os.fstat(file.fileno()).st_size, file.read(8)
    head += file.read(min(int.from_bytes(head, "little"), MAX_HEADER_BYTES))
    return parse_header(name, head, size), head, size - len(head)


def parse_header(name: str, data: bytes, file_bytes: int) -> Header:
    """The safetensors header that `data` begins with; refused where it is too long, ambiguous, or lists too many
    tensors or others than fill the `file_bytes` of its file."""
    size = int.from_bytes(data[:8], "little")
    if file_bytes < 8 or size > file_bytes - 8:
        raise FileError(f"{name}: truncated: header of {size} bytes in a file of {file_bytes}")
    expect(size <= MAX_HEADER_BYTES, f"{name}: header", f"at most {MAX_HEADER_BYTES} bytes", size)
    header = parse_json(name, data[8 : 8 + size])
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise FileError(f"{name}: header must list at most {MAX_TENSORS} tensors")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FileError(f"{name}: header must hold metadata as text by name")
    for key, entry in header.items():
        ENTRY(f"{name}: not a safetensors file: tensor {key}", entry)
    parsed = Header({key: (entry["dtype"], tuple(entry["shape"])) for key, entry in header.items()}, metadata)
    expected = file_bytes - 8 - size
    # Where the bytes of each lie, safetensors checks.
    for filled in (max((entry["data_offsets"][1] for entry in header.values()), default=0), parsed.bytes):
        if filled != expected:
            raise FileError(f"{name}: not a safetensors file: tensors must fill {expected} bytes, got {filled}")
    return parsed


def check_tensors(name: str, got: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """The same names, shapes and dtypes as `expected`, whose values do not matter, and finite numbers."""
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
    """No NaN and no infinity."""
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise FileError(f"{name}: tensor {key}: expected finite values, got NaN or infinity")


FACTS = "facts"
"""Key of the safetensors metadata that holds the `facts` of all components, as JSON."""


@dataclass(frozen=True)
class StateDict:
    """State of one component of a run: named tensors, and plain JSON values (`facts`)."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON values by key."""
    name: str = "state"
    """Name of the component, for error messages."""

    def fact(self, key: str, what: type | Check) -> Any:
        """The JSON value at `key`, of a type or such that a check of `json_checks` holds."""
        value, check = self.facts.get(key), of_type(what) if isinstance(what, type) else what
        check(f"{self.name}.{key}", value)
        return value

    def row(self, key: str, entry: Check, length: int) -> list[Any]:
        """The list of so many entries at `key`."""
        return list(self.fact(key, listed(entry, length, length)))

    def check(self, expected: Mapping[str, Tensor]) -> None:
        """Check names, shapes and dtypes of the tensors against `expected`, and that they are finite."""
        check_tensors(self.name, self.tensors, expected)


class Stateful(Protocol):
    """A component whose state is saved in and restored from a checkpoint."""

    def state_dict(self) -> StateDict:
        """Current state."""

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the state from a checkpoint."""


def pack(parts: Mapping[str, StateDict]) -> bytes:
    """Serialise components by name to one safetensors file, with tensors named `component.tensor`."""
    tensors = {
        # Copies, because safetensors refuses tensors that share storage.
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

"""Tensors from strangers: safetensors files, whose header is checked before anything else of them is read."""

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import safetensors.torch
from torch import Tensor

from echelon.runtime.files import MAX_FILE_BYTES, MAX_HEADER_BYTES, FileError, expect, open_file, parse_json
from echelon.runtime.json_checks import integer, listed, one_of, record, row

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

"""Forged replay files: changed content with matching hashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from echelon.replay import file
from echelon.replay.file import signed

Tensors = dict[str, np.ndarray]
Change = Callable[[Tensors, dict[str, Any]], None]


def taken_apart(data: bytes) -> tuple[Tensors, dict[str, Any]]:
    """Return the tensors and the metadata of a replay file, unchecked."""
    size = int.from_bytes(data[:8], "little")
    return safetensors.numpy.load(data), json.loads(json.loads(data[8 : 8 + size])["__metadata__"][file.METADATA])


def forged(tensors: Tensors, metadata: dict[str, Any], text: str | None = None) -> bytes:
    """Return a replay file with valid hashes; `text` replaces the metadata if given."""
    metadata = signed({**metadata, "sha256": file.digest(tensors)}) if text is None else metadata
    return safetensors.numpy.save(tensors, {file.METADATA: json.dumps(metadata) if text is None else text})


def rewrite(path: Path, change: Change) -> None:
    """Change the tensors or the metadata of a replay file; a `text` is written as it is."""
    tensors, metadata = taken_apart(path.read_bytes())
    change(tensors, metadata)
    path.write_bytes(forged(tensors, metadata, metadata.get("text")))

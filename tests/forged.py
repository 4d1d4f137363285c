"""Replay files as a forger would change them: with the hashes that go with what they say now."""

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
    """The tensors and the claims of a replay file, unchecked."""
    size = int.from_bytes(data[:8], "little")
    return safetensors.numpy.load(data), json.loads(json.loads(data[8 : 8 + size])["__metadata__"][file.CLAIMS])


def forged(tensors: Tensors, claims: dict[str, Any], text: str | None = None) -> bytes:
    """A replay file of these, rightly hashed; of `text` in the place of claims if that is given."""
    claims = signed({**claims, "sha256": file.digest(tensors)}) if text is None else claims
    return safetensors.numpy.save(tensors, {file.CLAIMS: json.dumps(claims) if text is None else text})


def rewrite(path: Path, change: Change) -> None:
    """Change the tensors or the claims of a replay file; claims that are a `text` stand there as that."""
    tensors, claims = taken_apart(path.read_bytes())
    change(tensors, claims)
    path.write_bytes(forged(tensors, claims, claims.get("text")))

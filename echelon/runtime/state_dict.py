"""State of a run that a checkpoint saves: tensors and JSON values, part by part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import safetensors.torch
from torch import Tensor

from echelon.runtime.files import FileError, check_tensors, parse_json

FACTS = "facts"
"""The entry of a file's metadata that holds the facts of all parts, as JSON."""


@dataclass(frozen=True)
class StateDict:
    """State of one part of a run: named tensors, and facts as JSON values."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON values."""
    name: str = "state"
    """Of the part, for messages."""

    def fact(self, key: str, kind: type) -> Any:
        """A fact of the type it must have.

        Raises:
            FileError: it is missing or another.
        """
        value = self.facts.get(key)
        if type(value) is not kind:
            raise FileError(f"{self.name}.{key} must be a {kind.__name__}, got {value!r}")
        return value

    def whole(self, key: str, low: int, high: int) -> int:
        """A fact that is a whole number, `low..high`."""
        value = self.fact(key, int)
        if not low <= value <= high:
            raise FileError(f"{self.name}.{key} must be {low}..{high}, got {value}")
        return int(value)

    def row(self, key: str, kind: type, length: int | None = None) -> list[Any]:
        """A fact that is a list of one type, of so many entries."""
        values = self.fact(key, list)
        if (length is not None and len(values) != length) or any(type(value) is not kind for value in values):
            some = "" if length is None else f"{length} "
            raise FileError(f"{self.name}.{key} must be a list of {some}{kind.__name__}, got {values!r}")
        return list(values)

    def check(self, expected: Mapping[str, Tensor]) -> None:
        """The tensors are called and shaped as these are, and finite."""
        check_tensors(self.name, self.tensors, expected)


class Stateful(Protocol):
    """A part of a run whose state is saved and restored."""

    def state_dict(self) -> StateDict:
        """The state as it is now."""
        ...

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Be as it was.

        Raises:
            FileError: the state is not of such a part.
        """
        ...


def pack(parts: Mapping[str, StateDict]) -> bytes:
    """Parts by name as one safetensors file, their tensors called `part.tensor`."""
    tensors = {
        # Copies: views of one tensor would be refused.
        f"{part}.{key}": value.detach().to("cpu", copy=True).contiguous()
        for part, state in parts.items()
        for key, value in state.tensors.items()
    }
    facts = json.dumps({part: dict(state.facts) for part, state in parts.items()})
    return safetensors.torch.save(tensors, {FACTS: facts})


def unpack(name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> dict[str, StateDict]:
    """What `pack` wrote into the file `name`."""
    facts = parse_json(name, metadata.get(FACTS, "null").encode())
    if not isinstance(facts, dict) or not all(isinstance(value, dict) for value in facts.values()):
        raise FileError(f"{name}: metadata {FACTS!r} must be an object of objects, got {facts!r:.80}")
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in facts}
    for key, value in tensors.items():
        part, _, rest = key.partition(".")
        if part not in parts:
            raise FileError(f"{name}: unexpected tensor {key} of shape {tuple(value.shape)}")
        parts[part][rest] = value
    return {part: StateDict(found, facts[part], f"{name}: {part}") for part, found in parts.items()}

"""State of the components of a run, as tensors and JSON values that a checkpoint stores."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import safetensors.torch
from torch import Tensor

from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError, expect, parse_json
from echelon.runtime.json_checks import Check, listed, of_type
from echelon.runtime.tensor_files import check_tensors

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

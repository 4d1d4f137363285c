"""States as records and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.sim.kernels.dispatch import array
from echelon.sim.loops.records import BATTLE, CLOUD, MECH, PAINT, SHOT, TALLY
from echelon.state import State

PARTS = {"battles": BATTLE, "mechs": MECH, "tally": TALLY, "paint": PAINT, "shots": SHOT, "clouds": CLOUD}
"""The parts of a state that loops write to, and their records."""
Parts = dict[str, dict[str, Any]]
"""Fields of the records of each part, by name."""


def fields_of(state: State) -> Parts:
    """The fields of a state that records hold, as arrays `[B, ...]`."""
    whole = {"battles": state, **{part: getattr(state, part) for part in ("mechs", "tally", "shots", "clouds")}}
    found: Parts = {
        part: {
            name: array(getattr(source, name))
            for name in PARTS[part].names or ()
            if name in type(source).__dataclass_fields__
        }
        for part, source in whole.items()
    }
    found["paint"] = {"left": array(state.mechs.paint), "by": array(state.mechs.painter)}
    return found


def empty_like(fields: Parts) -> Parts:
    """Room for fields of the same shapes and types."""
    return {part: {name: np.empty_like(values) for name, values in own.items()} for part, own in fields.items()}


def pack(fields: Parts, span: slice) -> dict[str, Any]:
    """Records of the battles `span`, by part. What is in no field is zero; some fields have more room than is used."""
    records = {}
    for part, kind in PARTS.items():
        axes = 1 if part == "battles" else 3 if part == "paint" else 2
        shape = next(iter(fields[part].values()))[span].shape[:axes]
        records[part] = np.zeros(shape, kind)
        for name, values in fields[part].items():
            records[part][name][..., : values.shape[-1]] = values[span]
    return records


def unpack(records: dict[str, Any], fields: Parts, span: slice) -> None:
    """Write records to the fields of the battles `span`."""
    for part, own in fields.items():
        for name, values in own.items():
            values[span] = records[part][name][..., : values.shape[-1]]


def state_of(fields: Parts, state: State, **others: Tensor) -> State:
    """`state` with these fields, and `others`."""
    found = {part: {name: torch.from_numpy(values) for name, values in own.items()} for part, own in fields.items()}
    return state.replace(
        mechs=state.mechs.replace(**found["mechs"], paint=found["paint"]["left"], painter=found["paint"]["by"]),
        **{part: getattr(state, part).replace(**found[part]) for part in ("tally", "shots", "clouds")},
        **found["battles"],
        **others,
    )

"""Copy a battle from tensors to records and back. The records of one battle fit into a processor's cache."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from echelon.runtime.jit import array, device_function, tensor
from echelon.sim.loops.lanes import Lane, first, stride
from echelon.sim.loops.records import BATTLE, CLOUD, MECH, PAINT, SHOT, TALLY
from echelon.state import Clouds, Mechs, Shots, State, Tally

PARTS = {"battles": BATTLE, "mechs": MECH, "tally": TALLY, "paint": PAINT, "shots": SHOT, "clouds": CLOUD}
"""The parts of a state that loops write, with their record types."""
SOURCES: dict[str, Any] = {"battles": State, "mechs": Mechs, "tally": Tally, "shots": Shots, "clouds": Clouds}
"""The tensor class of each part. `paint` is not listed: it consists of two fields of `Mechs`."""
FIELDS = {
    part: [name for name in PARTS[part].names or () if name in source.__dataclass_fields__]
    for part, source in SOURCES.items()
} | {"paint": ["left", "by"]}
"""For each part, the record fields that are also fields of a state."""
Parts = tuple[tuple[Any, ...], ...]
"""Arrays of a state's fields, `[B, rows, ...]` each, by part and field, in the order of `PARTS` and `FIELDS`."""


class Records(NamedTuple):
    """The records of one battle."""

    battles: Any
    """[1] BATTLE."""
    mechs: Any
    """[N] MECH."""
    tally: Any
    """[N] TALLY."""
    paint: Any
    """[N, P] PAINT."""
    shots: Any
    """[S] SHOT."""
    clouds: Any
    """[C] CLOUD."""


def leaves_of_parts(state: State) -> list[Tensor]:
    """Return the tensors of a state that records store, in the order of `PARTS` and `FIELDS`."""
    # Read fields as dict items, because attribute access takes a microsecond per field.
    whole = dict(state.items())
    parts = {part: dict(whole[part].items()) for part in ("mechs", "tally", "shots", "clouds")}
    # `painter` is an attribute here, because no file but the catalog may contain a weapon's name as a string.
    parts |= {"battles": whole, "paint": {"left": parts["mechs"]["paint"], "by": state.mechs.painter}}
    return [parts[part][name] for part in PARTS for name in FIELDS[part]]


def fields_of(state: State) -> Parts:
    """Return the fields of a state that records store, as arrays."""
    leaves = iter(leaves_of_parts(state))
    parts = {part: [next(leaves) for _ in FIELDS[part]] for part in PARTS}
    parts["battles"] = [values.unsqueeze(1) for values in parts["battles"]]
    parts["paint"] = [values.flatten(1) for values in parts["paint"]]
    return tuple(tuple(array(values) for values in part) for part in parts.values())


def as_in_state(fields: Parts, packs: int) -> list[Any]:
    """Return views of the arrays `fields`, in their order, with the shapes of a state; `packs` is the number P."""
    battles, *others = fields
    shaped = [values.reshape(values.shape[0], *values.shape[2:]) for values in battles]
    for part, arrays in zip(list(PARTS)[1:], others, strict=True):
        for values in arrays:
            is_paint = part == "paint"
            shaped.append(values.reshape(values.shape[0], values.shape[1] // packs, packs) if is_paint else values)
    return shaped


def state_with(leaves: Sequence[Tensor], state: State, **others: Tensor) -> State:
    """Return `state` with other tensors: those of `leaves_of_parts`, and `others` by name."""
    tensors = iter(leaves)
    parts = {part: {name: next(tensors) for name in FIELDS[part]} for part in PARTS}
    paint = parts.pop("paint")
    parts["mechs"].update(paint=paint["left"], painter=paint["by"])
    battles = parts.pop("battles")
    nested = {part: getattr(state, part).with_valid(changes) for part, changes in parts.items()}
    return state.with_valid({**nested, **battles, **others})


def state_of(fields: Parts, state: State) -> State:
    """Return `state` with the given fields replaced."""
    return state_with([tensor(values) for values in as_in_state(fields, state.mechs.paint.shape[2])], state)


def shapes_of(fields: Parts) -> list[tuple[int, ...]]:
    """Return for each part of a state the shape of the records of one battle, given the fields of B battles."""
    shapes = [tuple(part[0].shape[1:2]) for part in fields]
    mechs = shapes[1][0]
    shapes[3] = (mechs, shapes[3][0] // mechs)
    return shapes


def empty_records(fields: Parts) -> Records:
    """Allocate the records of one battle in one buffer, given the fields of B battles."""
    arrays = [np.empty(shape, kind) for kind, shape in zip(PARTS.values(), shapes_of(fields), strict=True)]
    ends = list(itertools.accumulate(-(-part.nbytes // 8) for part in arrays))
    buffer = np.zeros(ends[-1], np.int64)
    records = [
        np.ndarray(part.shape, part.dtype, buffer, 8 * start) for part, start in zip(arrays, [0, *ends], strict=False)
    ]
    return Records(*records)


def copy_function(part: str, reads: bool) -> Callable[..., None]:
    """Return a loop `copy(b, fields, records, lane)` that copies the fields of battle b to records, or back.

    In numba, only constant names can access record fields, so the generated source has a line for each field. An array
    in a record may be longer than in a state.
    """
    rows = "range(first(lane), records.shape[0], stride(lane))"
    lines = ["def copy(b, fields, records, lane):", f" for row in {rows}:", "  record = records[row]"]
    for index, name in enumerate(FIELDS[part]):
        inner, indices = ("[k]", "b, row, k") if PARTS[part][name].shape else ("", "b, row")
        if inner:
            lines.append(f"  for k in range(fields[{index}].shape[2]):")
        field, cell = f"fields[{index}][{indices}]", f"record.{name}{inner}"
        lines.append(f"   {cell} = {field}" if reads else f"   {field} = {cell}")
        if not inner:
            lines[-1] = lines[-1][1:]
    names: dict[str, Any] = {"__name__": __name__, "first": first, "stride": stride}
    exec("\n".join(lines), names)
    return device_function(names["copy"])


def row_picker(kind: Any) -> Callable[..., Any]:
    """Return a loop `pick(fields, row)` that indexes each array of a NamedTuple of type `kind` with `row`."""
    names: dict[str, Any] = {"__name__": __name__, "kind": kind}
    exec(f"def pick(fields, row): return kind({', '.join(f'fields.{name}[row]' for name in kind._fields)})", names)
    return device_function(names["pick"])


def move_function(reads: bool) -> Callable[..., Any]:
    """Return a loop `move(b, fields, records, lane)` that copies all parts of battle b, each as in `copy_function`."""
    # Use one variable per copy function, because numba can call a function only if it is a constant.
    battles, mechs, tally, paint, shots, clouds = (copy_function(part, reads) for part in PARTS)

    @device_function
    def move(b: int, fields: Any, records: Records, lane: Lane) -> None:
        battles(b, fields[0], records.battles, lane)
        mechs(b, fields[1], records.mechs, lane)
        tally(b, fields[2], records.tally, lane)
        paint(b, fields[3], records.paint.reshape(records.paint.size), lane)
        shots(b, fields[4], records.shots, lane)
        clouds(b, fields[5], records.clouds, lane)

    return move  # type: ignore[no-any-return]


read, write = move_function(True), move_function(False)
"""`read` copies the fields of battle b to records; `write` copies records to the fields of battle b."""

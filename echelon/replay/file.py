"""Replays as one file: safetensors, with what is said of the battles as JSON in its metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.numpy

from echelon.replay.arrays import NAMES, OBSERVATION, Sizes, check_numbers, check_shapes
from echelon.replay.battle import OPTIONAL, Battle, Replay
from echelon.replay.claims import SCHEMA, VERSION, check_claims, signed
from echelon.runtime import version
from echelon.runtime.errors import shown
from echelon.runtime.files import FileError, parse_json, write_whole
from echelon.runtime.tensor_files import Header, read_tensors

T = TypeVar("T")
CLAIMS = "claims"
"""The entry of the metadata that says everything but the numbers, as JSON."""


def save(replay: Replay, path: Path) -> None:
    """Write a replay, whole or not at all."""
    tensors = {
        f"{b}/{name}": np.ascontiguousarray(array)
        for b, battle in enumerate(replay.battles)
        for name, array in arrays_of(battle).items()
    }
    claims = {
        "schema": SCHEMA,
        "version": VERSION,
        "written_by": version.VERSION,
        "sha256": digest(tensors),
        "replay": replay.about,
        "battles": [battle.about for battle in replay.battles],
    }
    # One entry, because safetensors writes several in any order.
    write_whole(path, safetensors.numpy.save(tensors, {CLAIMS: json.dumps(signed(claims))}))


def arrays_of(battle: Battle) -> dict[str, np.ndarray]:
    """Every array of a battle by name, as a file keeps it."""
    kept = {name: getattr(battle, name) for name in NAMES}
    kept |= {name: array for name in OPTIONAL if (array := getattr(battle, name)) is not None}
    return {**kept, **{f"{OBSERVATION}{name}": array for name, array in battle.observations.items()}}


def digest(tensors: dict[str, np.ndarray]) -> str:
    """sha256 over the tensors in the order of their names."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        found.update(tensors[name].tobytes())
    return found.hexdigest()


def read(path: Path) -> Replay:
    """Read a replay and check all of it: first what it says and the shapes of its arrays, then their numbers."""
    name, told = path.name, list[tuple[dict[str, Any], list[Sizes]]]()
    # Checked before the body is read.
    tensors, _ = read_tensors(path, check=lambda header: told.append(contents_of(name, header)))
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
    ((claims, all_sizes),), found = told, digest(arrays)
    if found != claims["sha256"]:
        raise FileError(f"{name}: sha256 mismatch: expected {shown(claims['sha256'])}, got {found}")
    battles = []
    for number, sizes in enumerate(all_sizes):
        own = of_battle(number, arrays)
        check_numbers(f"{name}: battle {number}", own, sizes)
        streams = {key.removeprefix(OBSERVATION): own[key] for key in own if key.startswith(OBSERVATION)}
        about = claims["battles"][number]
        kept = {key: own[key] for key in (*NAMES, *OPTIONAL) if key in own}
        battles.append(Battle(about, **kept, observations=streams))
    return Replay(claims["replay"], battles)


def contents_of(name: str, header: Header) -> tuple[dict[str, Any], list[Sizes]]:
    """What the header of a replay file says, and the sizes of each battle: it holds the arrays of the battles that its
    claims name and no others."""
    claims = parse_json(name, header.metadata.get(CLAIMS, "{}").encode())
    config = check_claims(name, claims)
    count, ego = len(claims["battles"]), sum(feature[1] for feature in claims["replay"]["ego"])
    known = {str(number) for number in range(count)}
    for key in header.tensors:
        if key.partition("/")[0] not in known:
            raise FileError(f"{name}: tensor {key} must be one of {count} battles'")
    each = [of_battle(number, header.tensors) for number in range(count)]
    return claims, [check_shapes(f"{name}: battle {number}", own, config, ego) for number, own in enumerate(each)]


def of_battle(number: int, values: Mapping[str, T]) -> dict[str, T]:
    start = f"{number}/"
    return {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}

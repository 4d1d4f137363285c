"""Replays as one file: safetensors, with what is said of the battles as JSON in its metadata."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from echelon.replay.battle import TABLES, Battle, Replay
from echelon.runtime import version
from echelon.runtime.files import FileError, parse_json, parse_tensors, read_file, write_whole

SCHEMA, VERSION = "echelon-replay", 1
CLAIMS = "claims"
"""The entry of the metadata that says everything but the numbers, as JSON."""
ARRAYS = tuple(field.name for field in fields(Battle) if field.name not in ("about", "observations"))
"""Arrays of a battle; battle b keeps its array `pos` as the tensor `b/pos`."""
OBSERVATION = "observation_"
KINDS = {
    "yaw": ("int16", 2),
    "pos": ("int16", 3),
    "hp": ("int16", 2),
    "leg_hp": ("int16", 2),
    "heat": ("uint16", 2),
    "stability": ("int16", 2),
    "facts": ("uint16", 2),
    "paint": ("uint8", 2),
    "focus": ("int8", 2),
    "contacts": ("int8", 3),
    "contact_facts": ("uint8", 3),
    "lines": ("uint8", 3),
    "ego": ("uint8", 3),
    "messages": ("int8", 3),
    "score": ("int32", 2),
    "control": ("uint8", 2),
    "waypoints": ("int16", 2),
    **{name: ("int32", 2) for name in TABLES},
}
"""Type and rank of every array."""
PER_MECH = tuple(name for name in KINDS if name not in (*TABLES, "waypoints", "score", "control"))
"""Arrays with a column for each mech."""


def save(replay: Replay, path: Path) -> None:
    """Write a replay, whole or not at all.

    Raises:
        FileError: it cannot be written there.
    """
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
    write_whole(path, safetensors.numpy.save(tensors, {CLAIMS: json.dumps(claims)}))


def arrays_of(battle: Battle) -> dict[str, np.ndarray]:
    """Every array of a battle by name."""
    shown = {f"{OBSERVATION}{name}": array for name, array in battle.observations.items()}
    return {**{name: getattr(battle, name) for name in ARRAYS}, **shown}


def digest(tensors: dict[str, np.ndarray]) -> str:
    """sha256 over the tensors in the order of their names."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        found.update(tensors[name].tobytes())
    return found.hexdigest()


def read(path: Path) -> Replay:
    """Read a replay and check all of it.

    Raises:
        FileError: naming the file, what was expected and what came.
    """
    name = path.name
    tensors, metadata = parse_tensors(name, read_file(path))
    claims = parse_json(name, metadata.get(CLAIMS, "{}").encode())
    if not isinstance(claims, dict):
        raise FileError(f"{name}: {CLAIMS} must be an object, got {type(claims).__name__}")
    for key, expected in (("schema", SCHEMA), ("version", VERSION)):
        if claims.get(key) != expected:
            raise FileError(f"{name}: {key} must be {expected!r}, got {claims.get(key)!r}: is this a replay?")
    for key, kind in (("replay", dict), ("battles", list)):
        if not isinstance(claims.get(key), kind):
            raise FileError(f"{name}: {key} must be a {kind.__name__}, got {type(claims.get(key)).__name__}")
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
    found = digest(arrays)
    if found != claims.get("sha256"):
        raise FileError(f"{name}: sha256 mismatch: expected {claims.get('sha256')}, got {found}")
    return Replay(claims["replay"], [battle(name, b, about, arrays) for b, about in enumerate(claims["battles"])])


def battle(name: str, number: int, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Battle:
    """One battle of a file, its arrays of the types, ranks and lengths they must have."""
    own = {key.partition("/")[2]: array for key, array in arrays.items() if key.partition("/")[0] == str(number)}
    for key, (kind, rank) in KINDS.items():
        array = own.get(key)
        if array is None or array.dtype != kind or array.ndim != rank:
            got = "none" if array is None else f"{array.dtype} of {array.ndim}"
            raise FileError(f"{name}: battle {number}: {key} must be {kind} of {rank} dimensions, got {got}")
        columns = TABLES.get(key)
        if columns and array.shape[1] != len(columns):
            raise FileError(f"{name}: battle {number}: {key} must have {len(columns)} columns, got {array.shape[1]}")
        if key != "waypoints" and not columns and len(array) != len(own["yaw"]):
            raise FileError(f"{name}: battle {number}: {key} must have {len(own['yaw'])} moments, got {len(array)}")
    mechs = own["yaw"].shape[1]
    for key in PER_MECH:
        if own[key].shape[1] != mechs:
            raise FileError(f"{name}: battle {number}: {key} must be of {mechs} mechs, got {own[key].shape[1]}")
    streams = {key.removeprefix(OBSERVATION): own[key] for key in own if key.startswith(OBSERVATION)}
    return Battle(about, **{key: own[key] for key in ARRAYS}, observations=streams)

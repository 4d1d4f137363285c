"""Export of a battle as binary glTF 2.0: terrain, mechs and shots, animated. +y is up, and one voxel is a metre."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from echelon.runtime.errors import one_line
from echelon.runtime.files import write_whole
from echelon.runtime.version import VERSION
from echelon.viewer.exporters.course import TEAM_COLOURS, BattleTimeline, place
from echelon.viewer.exporters.ground_mesh import ground_meshes
from echelon.viewer.topdown import COLOURS

FLOAT, UINT = 5126, 5125
ARRAY_BUFFER, ELEMENT_BUFFER = 34962, 34963
SHOT_VOX = 0.5
"""Side of the box of a shot."""
Track = tuple[int, str, np.ndarray, str]
"""Accessor of the times, animated property of a node, values `[times, 3 or 4]` float32, and interpolation."""
KINDS = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}
MAGIC, JSON_CHUNK, BINARY_CHUNK = 0x46546C67, 0x4E4F534A, 0x004E4942


class Document:
    """Collects the JSON part and the binary buffer of a glTF file."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.lists: dict[str, list[Any]] = {}

    def add(self, name: str, entry: dict[str, Any]) -> int:
        """Append an entry to one of the lists in the file's JSON; return its index."""
        entries = self.lists.setdefault(name, [])
        entries.append(entry)
        return len(entries) - 1

    def accessor(self, values: np.ndarray, target: int = 0, bounded: bool = True) -> int:
        """Store an array of float32 or uint32 in the buffer; return the index of its accessor.

        Args:
            values: array of shape `[rows]` or `[rows, 3 or 4]`.
            target: glTF's buffer target of a mesh's array; 0 for animations.
            bounded: whether to store the smallest and the largest value, which glTF requires for positions and for
                times of animations.
        """
        data = np.ascontiguousarray(values)
        view = {"buffer": 0, "byteOffset": len(self.buffer), "byteLength": data.nbytes}
        self.buffer += data.tobytes()
        columns = data.reshape(len(data), -1)
        kind = UINT if data.dtype == np.uint32 else FLOAT
        entry = {
            "bufferView": self.add("bufferViews", view | ({"target": target} if target else {})),
            "componentType": kind,
            "count": len(data),
            "type": KINDS[columns.shape[1]],
        }
        if bounded:
            entry |= {"min": columns.min(0).tolist(), "max": columns.max(0).tolist()}
        return self.add("accessors", entry)

    def times(self, seconds: Sequence[Decimal]) -> int:
        """Store exact times rounded to float32; return the index of their accessor."""
        return self.accessor(np.array([float(second) for second in seconds], np.float32))

    def mesh(self, name: str, corners: np.ndarray, triangles: np.ndarray, rgb: tuple[int, int, int]) -> int:
        """Store a mesh of one colour (sRGB, 0..255); return the mesh's index."""
        linear = [*((np.array(rgb) / 255) ** 2.2).tolist(), 1.0]
        surface = {"baseColorFactor": linear, "metallicFactor": 0.0, "roughnessFactor": 0.9}
        primitive = {
            "attributes": {"POSITION": self.accessor(upright(corners), ARRAY_BUFFER)},
            "indices": self.accessor(triangles.reshape(-1).astype(np.uint32), ELEMENT_BUFFER),
            "material": self.add("materials", {"name": name, "pbrMetallicRoughness": surface}),
        }
        return self.add("meshes", {"name": name, "primitives": [primitive]})

    def as_bytes(self, extras: dict[str, Any]) -> bytes:
        """Return the bytes of the file: a header, the JSON and the buffer."""
        asset = {"version": "2.0", "generator": f"Echelon {VERSION}", "extras": extras}
        lists = self.lists | {"buffers": [{"byteLength": len(self.buffer)}]}
        text = json.dumps({"asset": asset, "scene": 0, **lists}, separators=(",", ":")).encode()
        chunks = ((JSON_CHUNK, text + b" " * (-len(text) % 4)), (BINARY_CHUNK, bytes(self.buffer)))
        body = b"".join(struct.pack("<II", len(data), kind) + data for kind, data in chunks)
        return struct.pack("<III", MAGIC, 2, 12 + len(body)) + body


def write(course: BattleTimeline, path: Path) -> None:
    """Write the terrain at the start of the battle, and the animated mechs and shots.

    The terrain does not change, so destroyed voxels stay visible.

    Raises:
        FileError: if the file cannot be written.
    """
    document = Document()
    nodes = []
    for material, corners, triangles in ground_meshes(course.ground):
        name = course.about["materials"][material]
        nodes.append(
            document.add("nodes", {"name": name, "mesh": document.mesh(name, corners, triangles, COLOURS[name])})
        )
    boxes = {team: document.mesh(team, *mech_box(), rgb) for team, rgb in TEAM_COLOURS.items()}
    animation: dict[str, list[Any]] = {"channels": [], "samplers": []}
    moments = document.times([course.seconds(k) for k in course.moments])
    bodies = [
        (f"{course.name(n)} {mech['hull']}", mech["team"], [(moments, *track) for track in mech_tracks(course, n)])
        for n, mech in enumerate(course.mechs)
    ]
    for name, team, tracks in (*bodies, *shot_tracks(document, course)):
        node: dict[str, Any] = {"name": name, "mesh": boxes[team]}
        nodes.append(document.add("nodes", node | {moved: values[0].tolist() for _, moved, values, _ in tracks}))
        for times, moved, values, interpolation in tracks:
            output = document.accessor(values, bounded=False)
            animation["samplers"].append({"input": times, "output": output, "interpolation": interpolation})
            target = {"node": nodes[-1], "path": moved}
            animation["channels"].append({"sampler": len(animation["samplers"]) - 1, "target": target})
    document.add("scenes", {"nodes": nodes})
    document.add("animations", {"name": "battle", **animation})
    about = course.battle.about
    extras = {"blue": one_line(about["blue"]), "red": one_line(about["red"]), "outcome": course.outcome()}
    write_whole(path, document.as_bytes(extras))


def mech_tracks(course: BattleTimeline, n: int) -> list[tuple[str, np.ndarray, str]]:
    """Return the animated values of a mech, `[T + 1, 3 or 4]` float32: position, rotation and scale.

    The rotation is a quaternion x, y, z, w; the scale is 0 after the mech's death.
    """
    half = course.yaws[:, n] / 2
    zeros = np.zeros_like(half)
    rotation = np.stack((zeros, np.sin(half), zeros, np.cos(half)), -1).astype(np.float32)
    x, y, z = course.mechs[n]["size"]
    size = np.array((x, z, y), np.float32) * course.alive[:, n, None]
    return [
        ("translation", upright(course.positions[:, n]), "LINEAR"),
        ("rotation", rotation, "LINEAR"),
        ("scale", size.astype(np.float32), "STEP"),
    ]


def shot_tracks(document: Document, course: BattleTimeline) -> Iterator[tuple[str, str, list[Track]]]:
    """Yield the name, the team and the animated values of each shot in flight and of each beam.

    A beam moves from its muzzle to its end within one substep. The scale of a shot is 0 before its start and from its
    end on.
    """
    shots = [
        (f"shot {each.number} {each.weapon}", each.row["shooter"], each.start, each.end, each.points)
        for each in course.flights()
    ]
    for number, row in enumerate(course.rows("beams")):
        ends = np.array([place(row, "0"), place(row, "1")])
        shots.append(
            (f"beam {number} {course.weapon(row['weapon'])}", row["shooter"], row["tick"], row["tick"] + 1, ends)
        )
    for name, shooter, start, end, points in shots:
        begin_s, length_s = course.seconds(start), course.seconds(end) - course.seconds(start)
        places = [begin_s + length_s * k / max(len(points) - 1, 1) for k in range(len(points))]
        changes = sorted({0, start, end})
        sizes = np.array([[SHOT_VOX * (start <= change < end)] * 3 for change in changes], np.float32)
        tracks: list[Track] = [
            (document.times(places), "translation", upright(points), "LINEAR"),
            (document.times([course.seconds(change) for change in changes]), "scale", sizes, "STEP"),
        ]
        yield name, course.mechs[shooter]["team"], tracks


def mech_box() -> tuple[np.ndarray, np.ndarray]:
    """Return corners and triangles of a mech's shape: a cube of size 1 around the origin, and a smaller one at +x."""
    _, corners, triangles = next(ground_meshes(np.array([[[0]], [[1]]], np.uint8)))
    body = corners - np.array((0.5, 0.5, 1.5), np.float32)
    nose = body * 0.3 + np.array((0.6, 0.0, 0.15), np.float32)
    return np.concatenate((body, nose)).astype(np.float32), np.concatenate((triangles, triangles + len(body)))


def upright(positions: np.ndarray) -> np.ndarray:
    """Convert positions `[..., 3]` from z up to y up, as float32: x, y, z become x, z, -y."""
    x, y, z = np.moveaxis(np.asarray(positions, np.float32), -1, 0)
    return np.stack((x, z, 0.0 - y), -1)

"""Importer of MagicaVoxel's scenes (`.vox`, versions 150 and 200).

This is own code, because no reader library is right: py-vox-io rejects scenes and shifts palettes by one, midvoxio
misplaces models of a scene (`benchmarks/README.md`). Several models without a scene are the frames of an animation.
Colour index i is entry i - 1 of a palette in a file, but entry i of the default palette.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from echelon.rules.catalog import Material
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, expect
from echelon.scenarios.importers.ground import MATERIALS, MOST_VOXELS, REPAIR, Ground, ReadOptions

MOST_CHUNKS = 1 << 17
"""Chunks of a file."""
MOST_DESCRIBED = 1 << 23
"""Bytes of the chunks that hold no voxels."""
MOST_NODES = 1 << 16
"""Nodes of a scene, a node counted as often as the scene shows it."""
DEEPEST = 64
"""Levels of nodes in each other."""
WIDEST = 1 << 14
"""Voxels between the ends of a scene."""
MADE_OF = {"_glass": "glass", "_metal": "reinforced"}
"""Material by the type of a colour's MATL chunk; all other types are ordinary colours."""
SHOWN_COLOURS = 8

Attributes = dict[str, str]


class ByteReader:
    """Reads numbers and texts from the bytes of a chunk, in order.

    Raises:
        FileError: if a read needs more bytes than are left.
    """

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data, self.at = name, data, 0

    def take(self, count: int) -> bytes:
        left = len(self.data) - self.at
        if not 0 <= count <= left:
            raise FileError(f"{self.name}: expected {count} more bytes at byte {self.at}, got {left}: truncated?")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        return int(struct.unpack("<i", self.take(4))[0])

    def numbers(self) -> list[int]:
        """Read a count, and then as many numbers."""
        count = self.number()
        return np.frombuffer(self.take(4 * count), "<i4").tolist()

    def attributes(self) -> Attributes:
        """A dictionary of texts."""
        count, found = self.number(), {}
        expect(0 <= count <= MOST_NODES, f"{self.name}: number of entries of a dictionary", f"0..{MOST_NODES}", count)
        for _ in range(count):
            key = self.take(self.number())
            found[key.decode("utf-8", "replace")] = self.take(self.number()).decode("utf-8", "replace")
        return found


class SceneNode(NamedTuple):
    """A node of the scene graph, with its child nodes or the number of its model."""

    kind: str
    attributes: Attributes
    children: list[int]
    """Numbers of nodes; of a shape the number of its first model."""
    layer: int = -1
    frame: Attributes = {}  # noqa: RUF012 (never written to)
    """Of a transform: its first frame."""


class Placement(NamedTuple):
    """A rotation matrix `[3, 3]` with entries 0, 1 and -1, and a translation `[3]`, both int64."""

    rotation: np.ndarray
    translation: np.ndarray

    def after(self, inner: Placement) -> Placement:
        """Return the placement that applies `inner` first, then this placement."""
        return Placement(self.rotation @ inner.rotation, self.rotation @ inner.translation + self.translation)


@dataclass
class VoxScene:
    """The chunks of a file."""

    name: str
    sizes: list[tuple[int, ...]] = field(default_factory=list)
    models: list[np.ndarray] = field(default_factory=list)
    """`[K, 4]` uint8 x, y, z, index of each model."""
    corners: list[np.ndarray] = field(default_factory=list)
    """`[2, 3]` int64: the lowest and the highest x, y, z of the voxels of each model."""
    nodes: dict[int, SceneNode] = field(default_factory=dict)
    hidden_layers: set[int] = field(default_factory=set)
    palette: list[str] = field(default_factory=lambda: default_palette())
    """Colour by index, six hexadecimal digits."""
    types: dict[int, str] = field(default_factory=dict)
    """Type of a colour's material by index."""


def read(path: Path, data: bytes, options: ReadOptions) -> Ground:
    """Return the ground of a file's scene, in the first frame of an animation.

    Raises:
        FileError: if the file is truncated, of another version, too large, or inconsistent with its chunks.
    """
    name = path.name
    scene = parse(name, data)
    shown = [(model, placement) for model, placement in shown_models(scene) if len(scene.models[model]) > 0]
    expect(len(shown) > 0, f"{name}: scene", "of at least one visible voxel", "none")
    low, high = bounds_of(scene, shown)
    size = (high - low + 1).tolist()
    expect(max(size) <= WIDEST, f"{name}: scene", f"at most {WIDEST} voxels wide", size)
    options.expect_fits(name, size, has_columns=False)
    places = np.concatenate([placed_voxels(scene, model, placement, low) for model, placement in shown])
    indices = np.concatenate([scene.models[model][:, 3] for model, _ in shown])
    notes = (colours(scene, indices), *([] if len(scene.models) == 1 else [f"models {len(scene.models)}"]))
    return Ground(name, tuple(size), places, materials_of(scene, options)[indices], notes=notes)


def parse(name: str, data: bytes) -> VoxScene:
    """Parse the chunks of a file into a scene."""
    reader = ByteReader(name, data)
    expect(data[:4] == b"VOX ", name, "a file of MagicaVoxel, which begins with 'VOX '", data[:4])
    reader.take(4)
    version = reader.number()
    expect(version in (150, 200), f"{name}: version", "150 or 200", version)
    expect(reader.take(4) == b"MAIN", f"{name}: first chunk", "MAIN", data[8:12])
    reader.take(8)
    scene = VoxScene(name)
    total = chunks = described = 0
    while reader.at < len(data):
        chunks += 1
        expect(chunks <= MOST_CHUNKS, f"{name}: chunks", f"at most {MOST_CHUNKS:,}", "more")
        kind, length, children = reader.take(4), reader.number(), reader.number()
        content = ByteReader(f"{name}: chunk {kind!r}", reader.take(length))
        reader.take(children)
        if kind == b"XYZI":
            total += max(length // 4, 0)
            expect(total <= MOST_VOXELS, f"{name}: voxels", f"at most {MOST_VOXELS:,}", total)
        else:
            described += length
            expect(
                described <= MOST_DESCRIBED, f"{name}: bytes of other chunks", f"at most {MOST_DESCRIBED:,}", described
            )
        add_chunk(scene, kind, content)
    expect(len(scene.models) > 0, f"{name}: models", "at least one", 0)
    expect(len(scene.models) == len(scene.sizes), f"{name}: chunks SIZE", f"{len(scene.models)}", len(scene.sizes))
    for size, model in zip(scene.sizes, scene.models, strict=True):
        places = model[:, :3]
        low, high = places.min(0, initial=255), places.max(0, initial=0)
        inside = len(model) == 0 or bool((high < np.array(size)).all())
        expect(inside, f"{name}: voxels", f"within the size {size} of their model", high)
        scene.corners.append(np.stack((low, high)).astype(np.int64))
    return scene


def add_chunk(scene: VoxScene, kind: bytes, content: ByteReader) -> None:
    """Add a chunk to a scene. Chunks of unused kinds (cameras, rendering, notes) are ignored."""
    if kind == b"SIZE":
        size = tuple(content.number() for _ in range(3))
        expect(all(0 <= side <= 256 for side in size), f"{content.name}: size", "0..256 a side", size)
        scene.sizes.append(size)
    elif kind == b"XYZI":
        count = content.number()
        scene.models.append(np.frombuffer(content.take(4 * count), np.uint8).reshape(-1, 4))
    elif kind == b"RGBA":
        entries = np.frombuffer(content.take(1024), np.uint8).reshape(256, 4)
        # Entry i - 1 is the colour of index i; the last entry is unused.
        scene.palette = ["", *(entry[:3].tobytes().hex() for entry in entries[:255])]
    elif kind == b"MATL":
        index, attributes = content.number(), content.attributes()
        scene.types[index % 256] = attributes.get("_type", "")
    elif kind == b"LAYR":
        layer, attributes = content.number(), content.attributes()
        scene.hidden_layers |= {layer} if is_hidden(attributes) else set()
    elif kind in (b"nTRN", b"nGRP", b"nSHP"):
        number = content.number()
        expect(len(scene.nodes) < MOST_NODES, f"{scene.name}: nodes", f"at most {MOST_NODES}", len(scene.nodes))
        scene.nodes[number] = node_of(kind.decode(), content)


def node_of(kind: str, content: ByteReader) -> SceneNode:
    """Parse a scene node from the content of its chunk, after the node's number.

    If the chunk has several frames or models, the first one is used.
    """
    attributes = content.attributes()
    if kind == "nGRP":
        return SceneNode(kind, attributes, content.numbers())
    if kind == "nSHP":
        expect(content.number() > 0, f"{content.name}: models", "at least one", 0)
        return SceneNode(kind, attributes, [content.number()])
    child, _, layer, frames = (content.number() for _ in range(4))
    return SceneNode(kind, attributes, [child], layer, content.attributes() if frames > 0 else {})


def is_hidden(attributes: Attributes) -> bool:
    return attributes.get("_hidden", "0") == "1"


def shown_models(scene: VoxScene) -> Iterator[tuple[int, Placement]]:
    """Yield the number of each visible model, and its placement in the scene.

    If the file has no scene, yield the first model; the other models are frames of an animation.

    Raises:
        FileError: if a node is missing, nodes form a cycle, or there are too many nodes or voxels.
    """
    still = Placement(np.eye(3, dtype=np.int64), np.zeros(3, np.int64))
    if not scene.nodes:
        yield 0, still
        return
    name, seen, voxels = scene.name, 0, 0
    waiting = [(min(scene.nodes), still, 0)]
    while waiting:
        number, placement, depth = waiting.pop()
        expect(number in scene.nodes, f"{name}: node", "one of the scene", number)
        expect(depth <= DEEPEST, f"{name}: nodes", f"at most {DEEPEST} levels deep, in no circle", depth)
        seen += 1
        expect(seen <= MOST_NODES, f"{name}: nodes shown", f"at most {MOST_NODES}", seen)
        node = scene.nodes[number]
        if is_hidden(node.attributes) or node.layer in scene.hidden_layers:
            continue
        if node.kind == "nSHP":
            model = node.children[0]
            expect(0 <= model < len(scene.models), f"{name}: model", f"0..{len(scene.models) - 1}", model)
            voxels += len(scene.models[model])
            hint = f"at most {MOST_VOXELS:,}: {REPAIR} no file that is so large"
            expect(voxels <= MOST_VOXELS, f"{name}: voxels of the scene", hint, voxels)
            yield model, placement
            continue
        inner = placement.after(placement_of(node.frame, name)) if node.kind == "nTRN" else placement
        # The last one waiting is taken first, so the order of the file is kept: later models cover earlier ones.
        waiting += [(child, inner, depth + 1) for child in reversed(node.children)]


def placement_of(frame: Attributes, name: str) -> Placement:
    """Return the rotation and translation in a transform's frame."""
    text = frame.get("_t", "0 0 0")
    expect(re.fullmatch(r"-?\d{1,9} -?\d{1,9} -?\d{1,9}", text) is not None, f"{name}: _t", "three integers", text)
    translation = np.array([int(word) for word in text.split()], np.int64)
    word = frame.get("_r", "4")  # row 0 has its 1 in column 0, row 1 in column 1
    expect(re.fullmatch(r"\d{1,3}", word) is not None, f"{name}: _r", "a byte", word)
    bits = int(word)
    columns = [bits & 3, bits >> 2 & 3]
    expect(sorted(columns) in ([0, 1], [0, 2], [1, 2]), f"{name}: _r", "a rotation", bits)
    rotation = np.zeros((3, 3), np.int64)
    for row, column in enumerate([*columns, 3 - sum(columns)]):
        rotation[row, column] = -1 if bits >> (4 + row) & 1 else 1
    return Placement(rotation, translation)


def placed(places: np.ndarray, size: np.ndarray, placement: Placement) -> np.ndarray:
    """Return the scene positions of voxels at `places [K, 3]` of models: floor(R (v + 1/2 - floor(size / 2)) + t).

    `size` is that of the model, `[3]`, or of each voxel's model, `[K, 3]`.
    """
    doubled = 2 * (places - size // 2) + 1
    return (np.einsum("...ij,...j->...i", placement.rotation, doubled) + 2 * placement.translation) // 2


def bounds_of(scene: VoxScene, shown: list[tuple[int, Placement]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest position `[3]` of a scene's voxels, from the corners of its models."""
    models = [model for model, _ in shown]
    corners = np.stack([scene.corners[model] for model in models]).transpose(1, 0, 2)
    rotations, translations = (np.stack(parts) for parts in zip(*(each for _, each in shown), strict=True))
    ends = placed(corners, np.array(scene.sizes)[models], Placement(rotations, translations))
    return ends.min((0, 1)), ends.max((0, 1))


def placed_voxels(scene: VoxScene, model: int, placement: Placement, low: np.ndarray) -> np.ndarray:
    """Return the positions of a model's voxels in the scene, `[K, 3]` int32, relative to `low`.

    A rotation here only permutes and mirrors the axes, so one position gives the offset for all voxels.
    """
    axes, signs = abs(placement.rotation).argmax(1), placement.rotation.sum(1)
    offset = placed(np.zeros(3, np.int64), np.array(scene.sizes[model]), placement) - low
    return scene.models[model][:, axes].astype(np.int32) * signs.astype(np.int32) + offset.astype(np.int32)


def materials_of(scene: VoxScene, options: ReadOptions) -> np.ndarray:
    """Return the material of each colour index, `[256]` uint8.

    Materials in `options`, by index or colour, take precedence over the material types in the file.

    Raises:
        ConfigError: ConfigError: if a key in `options` is neither an index nor a colour of the palette.
    """
    table = np.full(256, MATERIALS[options.material], np.uint8)
    for index, kind in scene.types.items():
        if kind in MADE_OF:
            table[index] = MATERIALS[MADE_OF[kind]]
    for key, (material, _) in options.materials.items():
        colour = key.removeprefix("#").lower()
        by_colour = [index for index, each in enumerate(scene.palette) if each == colour and index > 0]
        is_index = re.fullmatch(r"\d{1,3}", key) is not None and 1 <= int(key) <= 255
        require(is_index or bool(by_colour), "--material", f"by an index 1..255 or a colour of {scene.name}", key)
        table[by_colour or int(key)] = MATERIALS[material]
    table[0] = Material.AIR
    return table


def colours(scene: VoxScene, indices: np.ndarray) -> str:
    """Return the most frequent colours of a scene, in words."""
    counts = Counter(dict(enumerate(np.bincount(indices, minlength=256).tolist())))
    entries = [f"{i} #{scene.palette[i]} {n:,}" for i, n in counts.most_common(SHOWN_COLOURS) if n > 0]
    return f"colours {', '.join(entries)}"


def default_palette() -> list[str]:
    """Return the palette for a file that has none: entry i is the colour of index i.

    The palette is a colour cube with six shades per channel, then four ramps of ten shades.
    """
    shades = ("ff", "cc", "99", "66", "33", "00")
    cube = [red + green + blue for red in shades for green in shades for blue in shades][:-1]
    ramp = ("ee", "dd", "bb", "aa", "88", "77", "55", "44", "22", "11")
    ramps = [words.replace("x", shade) for words in ("x0000", "00x00", "0000x", "xxx") for shade in ramp]
    return ["000000", *cube, *ramps]

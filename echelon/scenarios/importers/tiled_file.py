"""Readers of Tiled's files (`.tmx`, `.tsx`, `.tmj`, `.tsj`).

XML files are converted to the structure of Tiled's JSON files.
"""

from __future__ import annotations

import base64
import binascii
import re
import warnings
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from echelon.runtime.files import FileError, expect, parse_json, read_file
from echelon.scenarios.importers.ground import MOST_CELLS

MOST_BYTES = 1 << 24
"""Maximum size of a map with its tilesets in bytes. Parsed text takes many times this memory."""
MOST_TILESETS = 256
MOST_VALUES = 1 << 17
"""XML elements, or JSON objects and lists, of a map or a tileset."""
LAYERS = {"layer": "tilelayer", "objectgroup": "objectgroup", "group": "group", "imagelayer": "imagelayer"}
"""Type of a layer in JSON by its XML element."""
TILE_BITS = 0x0FFFFFFF
"""Mask of a tile's number. The four higher bits are flips and rotations."""
Values = dict[str, Any]


def read_document(name: str, data: bytes, is_xml: bool) -> Values:
    """Parse the document of a map or a tileset.

    Raises:
        FileError: if the file is invalid, declares XML entities, or is too large.
    """
    expect(len(data) <= MOST_BYTES, f"{name}: bytes", f"at most {MOST_BYTES:,}", len(data))
    count = data.count(b"<") - data.count(b"</") if is_xml else data.count(b"{") + data.count(b"[")
    kind = "XML elements" if is_xml else "objects and lists"
    expect(count <= MOST_VALUES, f"{name}: {kind}", f"at most {MOST_VALUES:,}: save tiles as CSV or Base64", count)
    if not is_xml:
        document = parse_json(name, data)
        expect(isinstance(document, dict), name, "an object", document)
        return dict(document)
    try:
        text = data.decode("utf-8-sig")
        if "<!ENTITY" in text:
            raise FileError(f"{name}: XML must declare no entities, got <!ENTITY")
        return map_values(name, ET.fromstring(text))
    except (ET.ParseError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{name}: not valid XML in UTF-8: {error}") from None


def map_values(name: str, root: ET.Element) -> Values:
    """Convert a `map` or `tileset` element to the structure of Tiled's JSON."""
    expect(root.tag in ("map", "tileset"), f"{name}: first element", "map or tileset", root.tag)
    if root.tag == "tileset":
        return tileset_values(root)
    layers = [layer_values(each, 0, name) for each in root if each.tag in LAYERS]
    tilesets = [tileset_values(each) for each in root.iter("tileset")]
    return {**numbers_of(root.attrib), "layers": layers, "tilesets": tilesets}


def tileset_values(element: ET.Element) -> Values:
    tiles = [{**numbers_of(tile.attrib), **properties_of(tile)} for tile in element.findall("tile")]
    return {**numbers_of(element.attrib), "tiles": tiles}


def layer_values(element: ET.Element, depth: int, name: str) -> Values:
    """Convert a layer. The result for a group contains the layers of the group."""
    expect(depth <= 32, f"{name}: groups of layers", "at most 32 levels deep", depth)
    values: Values = {**numbers_of(element.attrib), "type": LAYERS[element.tag], **properties_of(element)}
    values["class"] = element.attrib.get("class", "")
    if element.tag == "group":
        values["layers"] = [layer_values(each, depth + 1, name) for each in element if each.tag in LAYERS]
    elif element.tag == "objectgroup":
        values["objects"] = [object_values(each) for each in element.findall("object")]
    elif (data := element.find("data")) is not None:
        values |= {key: data.attrib[key] for key in ("encoding", "compression") if key in data.attrib}
        chunks = data.findall("chunk")
        if chunks:
            values["chunks"] = [{**numbers_of(each.attrib), "data": tile_data(each, values)} for each in chunks]
        else:
            values["data"] = tile_data(data, values)
    return values


def tile_data(element: ET.Element, layer: Values) -> Any:
    """Return the tiles of an XML element: encoded text, or a list of the numbers in its `tile` elements."""
    if "encoding" in layer:
        return element.text or ""
    return [numbers_of(tile.attrib).get("gid", 0) for tile in element.findall("tile")]


def object_values(element: ET.Element) -> Values:
    shapes = {each.tag: True for each in element if each.tag in ("ellipse", "point", "polygon", "polyline", "text")}
    return {**numbers_of(element.attrib), **shapes, **properties_of(element)}


def properties_of(element: ET.Element) -> Values:
    """Return the properties of an XML element. Each value has the type that the file declares for it."""
    found = []
    for each in element.findall("properties/property"):
        kind, text = each.attrib.get("type", "string"), each.attrib.get("value", each.text or "")
        value: Any = text
        if kind == "bool":
            value = text == "true"
        elif kind in ("int", "float"):
            value = number(text)
        found.append({"name": each.attrib.get("name", ""), "value": value})
    return {"properties": found}


def number(text: str) -> Any:
    """Return text as a number, or unchanged if it is not a number."""
    if re.fullmatch(r"-?\d{1,15}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"-?\d{1,15}\.\d{1,15}", text, re.ASCII):
        return float(text)
    return text


TEXTS = ("name", "type", "class", "source", "orientation", "encoding", "compression")
"""Attributes that stay text."""


def numbers_of(attributes: Mapping[str, str]) -> Values:
    """Convert attributes to numbers, except those in `TEXTS`."""
    return {key: value if key in TEXTS else number(value) for key, value in attributes.items()}


def whole(where: str, values: Values, key: str, low: int, high: int, default: int | None = None) -> int:
    """Return the integer `values[key]`, which must be within `low`..`high`."""
    value = values.get(key, default)
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    is_valid = type(value) is int and low <= value <= high
    expect(is_valid, f"{where}: {key}", f"an integer {low}..{high}", value)
    assert isinstance(value, int)
    return value


def real(where: str, values: Values, key: str, default: float = 0.0) -> float:
    """Return the number `values[key]`, whose magnitude must be at most 1e6."""
    value = values.get(key, default)
    is_valid = type(value) in (int, float) and abs(value) <= 1e6
    expect(is_valid, f"{where}: {key}", "a number of at most 1e6", value)
    return float(value)


def rows_of(where: str, values: Values, key: str) -> list[Values]:
    """Return the list of objects `values[key]`, empty if the key is missing."""
    value = values.get(key, [])
    is_valid = isinstance(value, list) and all(isinstance(each, dict) for each in value)
    expect(is_valid, f"{where}: {key}", "a list of objects", value)
    return list(value)


def named_properties(where: str, values: Values) -> Values:
    """Return the properties of a layer, tile or object, keyed by name."""
    return {str(each.get("name", "")): each.get("value") for each in rows_of(where, values, "properties")}


def class_of(values: Values) -> str:
    """Return the class of a tile or an object. Tiled writes `class` or `type`, depending on its version."""
    return str(values.get("class") or values.get("type") or "")


def tile_numbers(where: str, data: Any, encoding: str, compression: str, shape: tuple[int, int]) -> np.ndarray:
    """Return the tiles of a layer or a chunk, `[Y, X]` uint32, without flip flags; 0 means no tile.

    Args:
        data: text with this `encoding` and `compression`, or a list of numbers.
        shape: numbers of rows and columns, already checked by the caller.

    Raises:
        FileError: if the number of tiles does not match `shape`, or the compression is not supported.
    """
    count = shape[0] * shape[1]
    if isinstance(data, list):
        is_valid = len(data) == count and all(type(each) is int and 0 <= each < 1 << 32 for each in data)
        expect(is_valid, f"{where}: data", f"{count} numbers of 32 bits", f"{len(data)} entries")
        numbers = np.array(data, np.uint32)
    else:
        expect(isinstance(data, str), f"{where}: data", "text or a list", data)
        expect(encoding in ("csv", "base64"), f"{where}: encoding", "csv or base64", encoding)
        numbers = from_csv(where, data, count) if encoding == "csv" else from_base64(where, data, compression, count)
    return (numbers & TILE_BITS).reshape(shape)


def from_csv(where: str, text: str, count: int) -> np.ndarray:
    """Parse comma-separated numbers without creating a string for each number."""
    got = text.count(",") + 1
    expect(got == count, f"{where}: tiles", str(count), got)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how older versions of NumPy report other text
        try:
            numbers = np.fromstring(text, np.float64, sep=",")
        except (ValueError, DeprecationWarning) as error:
            raise FileError(f"{where}: tiles must be numbers: {error}") from None
    expect(len(numbers) == count, f"{where}: tiles", f"{count} numbers", len(numbers))
    is_valid = bool(((numbers >= 0) & (numbers < 1 << 32) & (numbers == np.floor(numbers))).all())
    expect(is_valid, f"{where}: tiles", "integers of 32 bits", "others")
    return numbers.astype(np.uint32)


def from_base64(where: str, text: str, compression: str, count: int) -> np.ndarray:
    """Decode a Base64 text into numbers of 32 bits.

    Compressed data is expanded to at most the size of `count` numbers.
    """
    kinds = {"": None, "zlib": zlib.MAX_WBITS, "gzip": zlib.MAX_WBITS | 16}
    hint = "zlib, gzip or none: choose one in Tiled (Map > Map Properties > Tile Layer Format)"
    expect(compression in kinds, f"{where}: compression", hint, compression)
    try:
        data = base64.b64decode(re.sub(r"\s+", "", text), validate=True)
        window = kinds[compression]
        if window is not None:
            expander = zlib.decompressobj(window)
            data = expander.decompress(data, 4 * count + 1)
            is_whole = expander.eof or len(data) > 4 * count
            expect(is_whole, f"{where}: compressed data", "whole: truncated?", f"{len(data)} bytes")
    except (binascii.Error, zlib.error) as error:
        raise FileError(f"{where}: data cannot be decoded: {error}") from None
    got = "more" if len(data) > 4 * count else len(data)
    expect(len(data) == 4 * count, f"{where}: bytes of tiles", str(4 * count), got)
    return np.frombuffer(data, "<u4")


def read_tilesets(path: Path, document: Values, size: int) -> list[Values]:
    """Return the tilesets of a map, sorted by their first tile number.

    Tilesets that are stored in other files are read from there.

    Args:
        path: path of the map. The paths of tilesets are relative to the map's folder.
        size: size of the map in bytes. The limit `MOST_BYTES` applies to the map and its tilesets together.

    Raises:
        FileError: if a file is missing, or the files are too large.
    """
    where, found = path.name, []
    rows = rows_of(where, document, "tilesets")
    expect(len(rows) <= MOST_TILESETS, f"{where}: tilesets", f"at most {MOST_TILESETS}", len(rows))
    for each in rows:
        first = whole(f"{where}: tileset", each, "firstgid", 1, TILE_BITS)
        source = each.get("source")
        if source is not None:
            expect(isinstance(source, str), f"{where}: tileset", "the name of a file", source)
            other = Path(str(source).replace("\\", "/"))
            is_beside = not other.is_absolute() and other.suffix.lower() in (".tsx", ".tsj", ".json", ".xml")
            expect(is_beside, f"{where}: tileset", "a .tsx or .tsj file by a relative path", source)
            data = read_file(path.parent / other, MOST_BYTES)
            size += len(data)
            expect(
                size <= MOST_BYTES,
                f"{where}: total bytes of the map and its tileset files",
                f"at most {MOST_BYTES:,}",
                size,
            )
            each = read_document(other.name, data, other.suffix.lower() in (".tsx", ".xml"))
        found.append({**each, "firstgid": first})
    return sorted(found, key=lambda each: int(each["firstgid"]))


def check_cells(where: str, total: int) -> None:
    """Reject more than `MOST_CELLS` tiles."""
    expect(total <= MOST_CELLS, f"{where}: tiles of all layers", f"at most {MOST_CELLS:,}", total)

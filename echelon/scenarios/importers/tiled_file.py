"""Files of Tiled (`.tmx`, `.tsx`, `.tmj`, `.tsj`) as values in the form of its JSON, and the numbers of layers."""

from __future__ import annotations

import base64
import binascii
import re
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from echelon.runtime.files import FileError, expect, parse_json, read_file
from echelon.scenarios.importers.ground import MOST_CELLS

MOST_BYTES = 1 << 24
"""Of a map with its tilesets: text takes many times its size while it is read."""
MOST_TILESETS = 256
LAYERS = {"layer": "tilelayer", "objectgroup": "objectgroup", "group": "group", "imagelayer": "imagelayer"}
"""The kind of a layer in JSON by its element in XML."""
TILE_BITS = 0x0FFFFFFF
"""Of a tile's number: the four bits above are flips and rotations."""
Values = dict[str, Any]


def read_document(name: str, data: bytes, is_xml: bool) -> Values:
    """A map or a tileset as values of Tiled's JSON.

    Raises:
        FileError: it is not valid, declares entities, or is too large.
    """
    expect(len(data) <= MOST_BYTES, f"{name}: bytes", f"at most {MOST_BYTES:,}", len(data))
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
    """A `map` or `tileset` element as the JSON of Tiled has it."""
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
    """A layer; of a group with the layers in it."""
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
    """What an element holds of tiles: text, or the numbers of its `tile` elements."""
    if "encoding" in layer:
        return element.text or ""
    return [numbers_of(tile.attrib).get("gid", 0) for tile in element.findall("tile")]


def object_values(element: ET.Element) -> Values:
    shapes = {each.tag: True for each in element if each.tag in ("ellipse", "point", "polygon", "polyline", "text")}
    return {**numbers_of(element.attrib), **shapes, **properties_of(element)}


def properties_of(element: ET.Element) -> Values:
    """The properties of an element, with values of their declared types."""
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
    """A number from text, or the text if it is none."""
    if re.fullmatch(r"-?\d{1,15}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"-?\d{1,15}\.\d{1,15}", text, re.ASCII):
        return float(text)
    return text


TEXTS = ("name", "type", "class", "source", "orientation", "encoding", "compression")


def numbers_of(attributes: Mapping[str, str]) -> Values:
    """Attributes with numbers in place of their texts, but for names."""
    return {key: value if key in TEXTS else number(value) for key, value in attributes.items()}


def whole(where: str, values: Values, key: str, low: int, high: int, default: int | None = None) -> int:
    """An integer of a file within its limits."""
    value = values.get(key, default)
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    is_valid = type(value) is int and low <= value <= high
    expect(is_valid, f"{where}: {key}", f"an integer {low}..{high}", value)
    assert isinstance(value, int)
    return value


def real(where: str, values: Values, key: str, default: float = 0.0) -> float:
    """A number of a file, at most a million."""
    value = values.get(key, default)
    is_valid = type(value) in (int, float) and abs(value) <= 1e6
    expect(is_valid, f"{where}: {key}", "a number of at most 1e6", value)
    return float(value)


def rows_of(where: str, values: Values, key: str) -> list[Values]:
    """A list of objects of a file, empty if it is not there."""
    value = values.get(key, [])
    is_valid = isinstance(value, list) and all(isinstance(each, dict) for each in value)
    expect(is_valid, f"{where}: {key}", "a list of objects", value)
    return list(value)


def named_properties(where: str, values: Values) -> Values:
    """Properties by name."""
    return {str(each.get("name", "")): each.get("value") for each in rows_of(where, values, "properties")}


def class_of(values: Values) -> str:
    """The class of a tile or an object, which versions of Tiled write as `class` or as `type`."""
    return str(values.get("class") or values.get("type") or "")


def tile_numbers(where: str, data: Any, encoding: str, compression: str, shape: tuple[int, int]) -> np.ndarray:
    """`[Y, X]` int64: tiles of a layer or a chunk, without their flips; 0 is no tile.

    Args:
        data: text as its `encoding` and `compression` say, or a list of numbers.
        shape: rows and columns, checked by the caller.

    Raises:
        FileError: more or fewer tiles than that, or a compression that is not read.
    """
    count = shape[0] * shape[1]
    if isinstance(data, list):
        is_valid = len(data) == count and all(type(each) is int and 0 <= each < 1 << 32 for each in data)
        expect(is_valid, f"{where}: data", f"{count} numbers of 32 bits", f"{len(data)} entries")
        numbers = np.array(data, np.int64)
    else:
        expect(isinstance(data, str), f"{where}: data", "text or a list", data)
        expect(encoding in ("csv", "base64"), f"{where}: encoding", "csv or base64", encoding)
        numbers = from_csv(where, data, count) if encoding == "csv" else from_base64(where, data, compression, count)
    return (numbers & TILE_BITS).reshape(shape)


def from_csv(where: str, text: str, count: int) -> np.ndarray:
    words = text.split(",")
    expect(len(words) == count, f"{where}: tiles", str(count), len(words))
    try:
        numbers = np.array(words).astype(np.float64)
    except ValueError as error:
        raise FileError(f"{where}: tiles must be numbers: {error}") from None
    is_valid = bool(((numbers >= 0) & (numbers < 1 << 32) & (numbers == np.floor(numbers))).all())
    expect(is_valid, f"{where}: tiles", "integers of 32 bits", "others")
    return numbers.astype(np.int64)


def from_base64(where: str, text: str, compression: str, count: int) -> np.ndarray:
    """Numbers of 32 bits; what is compressed is expanded to at most their size."""
    kinds = {"": None, "zlib": zlib.MAX_WBITS, "gzip": zlib.MAX_WBITS | 16}
    hint = "zlib, gzip or none: choose one in Tiled (Map > Map Properties > Tile Layer Format)"
    expect(compression in kinds, f"{where}: compression", hint, compression)
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
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
    return np.frombuffer(data, "<u4").astype(np.int64)


def read_tilesets(path: Path, document: Values, size: int) -> list[Values]:
    """The tilesets of a map in the order of their first numbers, those of other files with what these hold.

    Args:
        path: of the map, beside which other files lie.
        size: bytes of the map, which count with those of the tilesets.

    Raises:
        FileError: a file is missing, or they are too large.
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
            expect(size <= MOST_BYTES, f"{where}: bytes with its tilesets", f"at most {MOST_BYTES:,}", size)
            each = read_document(other.name, data, other.suffix.lower() in (".tsx", ".xml"))
        found.append({**each, "firstgid": first})
    return sorted(found, key=lambda each: int(each["firstgid"]))


def check_cells(where: str, total: int) -> None:
    """Refuse layers of more tiles than are read."""
    expect(total <= MOST_CELLS, f"{where}: tiles of all layers", f"at most {MOST_CELLS:,}", total)

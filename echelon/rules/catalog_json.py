"""A catalog from JSON: whole, as a signature tells it, or the rows and fields in which it differs from another."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from echelon.rules.catalog import Catalog
from echelon.rules.specs import SPECS
from echelon.rules.versions import completed
from echelon.runtime.errors import require
from echelon.runtime.files import MAX_JSON_BYTES, parse_json, read_file
from echelon.runtime.limits import hints_of


def read_catalog(path: Path) -> Catalog:
    """The newest catalog with the rows and fields that a JSON file adds or changes.

    Args:
        path: the file: an object of tables (`hulls`, `weapons`, `suites`, `materials`), each an object of rows by name,
            and of the catalog's own numbers. A row that the newest catalog has needs the changed fields only.

    Raises:
        FileError: it cannot be read, or is no JSON.
        ConfigError: a table, row or field is unknown, of the wrong type or out of its limits.
    """
    return catalog_from_json(parse_json(path.name, read_file(path, MAX_JSON_BYTES)), path.name, Catalog())


def catalog_from_json(values: Any, where: str = "catalog", over: Catalog | None = None) -> Catalog:
    """A catalog from what `echelon.rules.config_json.as_json` made of it, or from what differs from another.

    Args:
        values: tables of rows by name, as JSON values; null is an infinite number.
        over: the catalog that `values` adds to or changes; by default `values` tells every row and field.
    """
    require(isinstance(values, dict), where, "an object", values)
    is_complete = over is None
    fields = fields_from_json(Catalog, values, where, over, is_complete, apart=SPECS)
    for table, kind in SPECS.items():
        rows = values.get(table, {})
        require(isinstance(rows, dict), f"{where}.{table}", "an object of rows by name", rows)
        specs = {} if over is None else dict(getattr(over, table))
        for name, row in rows.items():
            spot = f"{where}.{table}.{name}"
            specs[name] = kind(**fields_from_json(kind, row, spot, specs.get(name), is_complete))
        fields[table] = specs
    return Catalog(**fields)


def fields_from_json(
    kind: Any, values: Any, where: str, over: Any, is_whole: bool, apart: Collection[str] = ()
) -> dict[str, Any]:
    """The fields of a `kind`, `apart` those that are read elsewhere. Where they need not be whole, what `values` leaves
    out is that of `over`, or the default."""
    require(isinstance(values, dict), where, "an object", values)
    values = completed(kind, values) if is_whole else values
    fields, hints = {f.name: f for f in dataclasses.fields(kind)}, hints_of(kind)
    result = {} if over is None else {name: getattr(over, name) for name in fields}
    for name, value in values.items():
        require(name in fields, f"{where}.{name}", f"one of {', '.join(fields)}", name)
        if name not in apart:
            result[name] = typed(hints[name], value, f"{where}.{name}")
    needed = [name for name, f in fields.items() if is_whole or f.default is dataclasses.MISSING]
    missing = [name for name in needed if name not in (*result, *apart)]
    require(not missing, where, f"whole: this {kind.__name__} lacks {', '.join(missing)}", values)
    return result


def typed(hint: Any, value: Any, where: str) -> Any:
    """A field as its type `hint` says: a number, a word, a list of them, or these by name."""
    kind = get_origin(hint) or hint
    if hint is float:
        is_integer = type(value) is int and abs(value) <= 2**53
        value = math.inf if value is None else float(value) if is_integer else value
    if kind is tuple:
        require(isinstance(value, list), where, "a list", value)
        return tuple(typed(get_args(hint)[0], v, where) for v in value)
    if kind is Mapping:
        kind = get_args(hint)[1]
        kinds = "words" if kind is str else "numbers"
        is_table = isinstance(value, dict) and (kind is not str or all(isinstance(v, str) for v in value.values()))
        require(is_table, where, f"an object of {kinds} by name", value)
        return {name: typed(kind, v, f"{where}.{name}") for name, v in value.items()}
    expected = str if kind is Literal else kind
    require(type(value) is expected, where, f"a {expected.__name__}", value)
    return value

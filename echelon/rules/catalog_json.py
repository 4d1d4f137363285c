"""A catalog from JSON: whole, as a signature tells it, or the rows and fields in which it differs from another."""

from __future__ import annotations

from pathlib import Path

from echelon.rules.catalog import Catalog
from echelon.rules.config_json import from_json
from echelon.runtime.files import MAX_JSON_BYTES, parse_json, read_file


def read_catalog(path: Path) -> Catalog:
    """The newest catalog with the rows and fields that a JSON file adds or changes.

    Args:
        path: the file: an object of tables (`hulls`, `weapons`, `suites`, `materials`), each an object of rows by name,
            and of the catalog's own numbers. A row that the newest catalog has needs the changed fields only.

    Raises:
        FileError: it cannot be read, or is no JSON.
        ConfigError: a table, row or field is unknown, of the wrong type or out of its limits.
    """
    catalog: Catalog = from_json(Catalog, parse_json(path.name, read_file(path, MAX_JSON_BYTES)), path.name, Catalog())
    return catalog

"""Scenarios that ship with the package, by name."""

from __future__ import annotations

import os
from pathlib import Path

from echelon.rules.scenario import Scenario, read_scenario
from echelon.runtime.errors import require
from echelon.runtime.limits import check_text

FOLDER = Path(__file__).with_name("files")
SUFFIX = ".json"


def scenario_names() -> tuple[str, ...]:
    """Names of the scenarios that ship with Echelon, which stand wherever the file of a scenario does."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}")))


def find_scenario(name: str | os.PathLike[str]) -> Scenario:
    """The scenario of a name, or of a file.

    Args:
        name: one of `scenario_names`; or the path of a file, as `read_scenario` takes it.

    Raises:
        FileError: there is neither, or the file cannot be read.
        ConfigError: as `read_scenario`.
    """
    require(isinstance(name, str | os.PathLike), "a scenario", "a name, a file or a Scenario", name)
    text = os.fspath(name)
    check_text("a scenario", text)
    if isinstance(name, str) and name in scenario_names():
        return read_scenario(FOLDER / f"{name}{SUFFIX}")
    is_name = os.sep not in text and not text.endswith(SUFFIX) and not Path(text).exists()
    expected = f"one of {', '.join(scenario_names())}, or the path of a JSON file"
    require(not is_name, "a scenario", expected, text)
    return read_scenario(text)

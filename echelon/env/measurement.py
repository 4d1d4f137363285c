"""Result of `echelon doctor --measure`: whether numba loops on a device give bit-identical battles, and how fast the
loops are.

The result is stored in the cache of compiled loops. The result decides which form `backend="auto"` selects on a GPU.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import logging
from pathlib import Path

import torch

from echelon.runtime.device import processor_name
from echelon.runtime.files import MAX_JSON_BYTES, FileError, json_bytes, parse_json, read_file, write_whole
from echelon.runtime.json_checks import FLAG, exactly, number, one_of, record
from echelon.runtime.loop_cache import PACKAGE, cache_folder, hash_of
from echelon.runtime.version import version_of

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Comparison of loops on a device with the form that `auto` would select without loops."""

    other: str
    """The form without loops: `graph` or `eager`."""
    is_equal: bool
    """Whether loops gave the same bits as the dense form on a CPU."""
    loops_per_s: float
    """Agent-steps per second in loops."""
    other_per_s: float
    """Agent-steps per second in the other form."""

    @property
    def prefers_loops(self) -> bool:
        """Whether the backend `auto` selects the loops."""
        return self.is_equal and self.loops_per_s > self.other_per_s

    @property
    def line(self) -> str:
        """The measurement as one line, as `echelon doctor` prints it."""
        bits = "the bits of the dense form" if self.is_equal else "OTHER BITS than the dense form"
        return f"loops {self.loops_per_s:,.0f} agent-steps/s, {bits}; {self.other} {self.other_per_s:,.0f}"


CHECKS = {
    "other": one_of(("graph", "eager")),
    "is_equal": FLAG,
    "loops_per_s": number(0, 1e15),
    "other_per_s": number(0, 1e15),
}


@functools.cache
def sources() -> str:
    """Return a hash of the source files that a decision depends on."""
    rooms = [PACKAGE / room for room in ("runtime", "rules", "world", "sim", "env")]
    return hash_of(sorted([PACKAGE / "state.py", *(file for room in rooms for file in room.glob("**/*.py"))]))


def machine_of(device: torch.device) -> dict[str, str]:
    """Return device, versions and sources for which a measurement is valid."""
    packages = {name: version_of(name) for name in ("numba", "numba-cuda", "triton")}
    torch_build = {"torch": str(torch.__version__), "cuda": str(torch.version.cuda)}
    return {"device": f"{device.type} {processor_name(device)}", **torch_build, **packages, "sources": sources()}


def measurement_file(device: torch.device) -> Path | None:
    """Return the file of a measurement, unique per device, versions and sources; None without a cache folder."""
    folder, words = cache_folder(), json.dumps(machine_of(device))
    return None if folder is None else folder / f"measured-{hashlib.sha256(words.encode()).hexdigest()[:16]}.json"


def save_measurement(device: torch.device, measurement: Measurement) -> None:
    """Store a measurement in the cache, for `load_measurement` in this and later processes."""
    file = measurement_file(device)
    if file is not None:
        write_whole(file, json_bytes({**machine_of(device), **dataclasses.asdict(measurement)}))


def load_measurement(device: torch.device) -> Measurement | None:
    """Return the stored measurement of a device for the current versions and sources; None if there is none.

    If the file is damaged, log a warning and return None.
    """
    file = measurement_file(device)
    if file is None or not file.exists():
        return None
    try:
        values = parse_json(str(file), read_file(file, MAX_JSON_BYTES))
        record({**{name: exactly(value) for name, value in machine_of(device).items()}, **CHECKS})(str(file), values)
    except FileError as problem:
        logger.warning("%s: measure again, `echelon doctor --measure`", problem)
        return None
    return Measurement(**{name: values[name] for name in CHECKS})

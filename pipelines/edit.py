"""The command of `arena.py` that edits a scenario in a browser."""

from __future__ import annotations

import contextlib
import webbrowser
from dataclasses import dataclass
from pathlib import Path

import tyro

from echelon.agents.tiers import TIERS
from echelon.arena.resolve import resolve
from echelon.pipelines.edit_server import EditServer
from echelon.rules.scenario import read_scenario
from echelon.runtime.files import check_writable
from echelon.runtime.limits import Limits, check_settings
from echelon.scenarios.shipped import find_scenario


@dataclass(frozen=True)
class Edit:
    """Edit a scenario in a browser: draw ground, zone and mechs, check, save, and let commanders fight there.

    The page is served to this machine alone, at an address that holds a secret; Ctrl-C ends it."""

    file: tyro.conf.Positional[Path] = Path("scenario.json")
    """The scenario, which is made where there is none; nothing else is written."""
    start: str = ""
    """What a file that is not there yet begins as: a scenario's name or file."""
    commanders: tuple[str, ...] = ()
    """Who may fight beside the scripted tiers: names as `play` takes them."""
    port: int = 0
    """0: one that is free."""
    browser: bool = True
    """Open the page in a browser."""

    def __post_init__(self) -> None:
        check_settings(self, {"port": Limits(0, 65535)})

    def run(self) -> None:
        check_writable(self.file)
        if self.file.exists():
            read_scenario(self.file)  # says at once what is wrong with it
        start = find_scenario(self.start) if self.start else None
        own = tuple(resolve(name).name for name in self.commanders)
        names = (*(f"heuristic:{tier}" for tier in TIERS), *own)
        with EditServer(self.file, start, names, self.port) as server:
            print(f"editor      {server.address}", flush=True)
            if self.browser:
                webbrowser.open(server.address)
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()

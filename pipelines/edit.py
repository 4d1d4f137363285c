"""The command of `arena.py` that opens the scenario editor."""

import contextlib
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from echelon.agents.tiers import TIERS
from echelon.arena.resolve import resolve
from echelon.rules.scenario import read_scenario
from echelon.runtime.files import check_writable
from echelon.runtime.limits import Limits, Settings
from echelon.scenarios.scene import find_scenario
from echelon.serve.edit_server import EditServer
from echelon.serve.page_server import Access


@dataclass(frozen=True)
class Edit(Settings):
    """Edit a scenario in a browser: draw ground, zone and mechs, check, save, and let commanders fight there.

    The page is served to this machine alone, unless --host says otherwise, at an address that holds a secret; Ctrl-C
    ends it."""

    file: tyro.conf.Positional[Path] = Path("scenario.json")
    """The scenario, which is made where there is none; nothing else is written."""
    start: str = ""
    """What a file that is not there yet begins as: a scenario's name or file."""
    commanders: tuple[str, ...] = ()
    """Who may fight beside the scripted tiers: names as `play` takes them."""
    port: Annotated[int, Limits(0, 65535)] = 0
    """0: one that is free."""
    host: tuple[str, ...] = ()
    """An address to listen on in place of 127.0.0.1, such as 0.0.0.0 in a container, and names by which a browser
    reaches it from elsewhere. Whoever reaches it and knows the token may edit."""
    browser: bool = True
    """Open the page in a browser."""

    def run(self) -> None:
        check_writable(self.file)
        if self.file.exists():
            read_scenario(self.file)  # says at once what is wrong with it
        start = find_scenario(self.start) if self.start else None
        named = tuple(resolve(name).name for name in self.commanders)
        names = (*(f"heuristic:{tier}" for tier in TIERS), *named)
        with EditServer(self.file, start, names, self.port, Access(self.host)) as server:
            print(f"editor      {server.address}", flush=True)
            if self.browser:
                webbrowser.open(server.address)
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()

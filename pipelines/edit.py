"""The `arena.py` command that opens the scenario editor."""

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
    """Edit a scenario in a browser: draw ground, zone and mechs, check and save it, and let commanders play it.

    The page's address contains a secret token; only this machine can open the page, unless --host is given. Ctrl-C ends
    the editor.
    """

    file: tyro.conf.Positional[Path] = Path("scenario.json")
    """Scenario file, created if missing; no other file is written."""
    start: str = ""
    """Initial content of a new file: a scenario's name or file."""
    commanders: tuple[str, ...] = ()
    """Commanders offered in addition to the scripted tiers, as for `play`."""
    port: Annotated[int, Limits(0, 65535)] = 0
    """Port; 0: any free port."""
    host: tuple[str, ...] = ()
    """Hosts: an address to listen on instead of 127.0.0.1, such as 0.0.0.0 in a container, and names by which browsers
    on other machines reach it. Anyone with access and the token can edit."""
    browser: bool = True
    """Open the page in a browser."""

    def run(self) -> None:
        check_writable(self.file)
        if self.file.exists():
            read_scenario(self.file)  # Read the file now, so that an invalid file is reported at once.
        start = find_scenario(self.start) if self.start else None
        named = tuple(resolve(name).name for name in self.commanders)
        names = (*(f"heuristic:{tier}" for tier in TIERS), *named)
        with EditServer(self.file, start, names, self.port, Access(self.host)) as server:
            print(f"editor      {server.address}", flush=True)
            if self.browser:
                webbrowser.open(server.address)
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()

"""The server of the scenario editor: it serves one page, and checks, saves and plays scenarios that the page sends.

The server stores nothing between requests, except the saved file. A request cannot name a file, and the commanders that
it names must be scripted tiers or named on the command line, so no request causes an import.
"""

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch

from echelon.arena.config import ArenaConfig
from echelon.arena.match import named_match, replay_of
from echelon.env.arguments import whole_within
from echelon.replay.ground import rebuild
from echelon.replay.recorder import Recorder
from echelon.rules.catalog import Material
from echelon.rules.config import ENV_PRESETS
from echelon.rules.position import USES
from echelon.rules.scenario import Scenario, read_scenario, scenario_from_json
from echelon.runtime.errors import ConfigError, one_line, require
from echelon.runtime.files import FileError, parse_json
from echelon.runtime.limits import SEED, Limits
from echelon.scenarios.scene import check_playable
from echelon.serve.page_server import HEADERS, THIS_MACHINE, Access
from echelon.viewer.pages import editor_page, replay_page

MOST_BYTES = 1 << 20
"""Maximum size of a request."""
TIMEOUT_S = 30.0
"""Timeout of a silent connection."""
BATTLES = Limits(2, 256, "battles, an even number")
EMPTY: Mapping[str, Any] = {"preset": "small", "zone": [], "boxes": [], "units": []}
TOKEN = "X-Echelon-Token"
PLAYED = ("x", "y", "battles", "seed")
"""Parameters of a match, in addition to its scenario."""


class RefusedError(Exception):
    """A rejected request, with an HTTP status and a message of one line."""

    def __init__(self, status: HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status = status


class EditServer(ThreadingHTTPServer):
    """The editor of one file. Use the server as a context manager.

    Args:
        file: file to which scenarios are saved.
        start: initial scenario if the file does not exist; None means open ground.
        commanders: names of the commanders that may play.
        port: port to listen on; 0 for a free one.
        access: address to listen on, and allowed clients.

    Raises:
        ConfigError: if the port is taken.
    """

    daemon_threads = True

    def __init__(
        self,
        file: Path,
        start: Scenario | None,
        commanders: tuple[str, ...],
        port: int = 0,
        access: Access = THIS_MACHINE,
    ) -> None:
        self.file, self.start, self.commanders, self.access = file, start, commanders, access
        self.token, self.playing = secrets.token_urlsafe(24), threading.Lock()
        super().__init__((access.address, port), EditHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = access.listen(port, "--port")
        self.server_address = self.socket.getsockname()
        self.server_port = self.server_address[1]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names of the server with its port; the one for a user of this machine comes first."""
        return self.access.names(self.server_port)

    @property
    def address(self) -> str:
        return f"http://{self.hosts[0]}/?token={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: an error here means that the client disconnected before the answer."""

    def page(self) -> str:
        """Return the editor's page, with the scenario of the file and the values to choose from."""
        initial = read_scenario(self.file) if self.file.exists() else self.start
        presets = {name: preset() for name, preset in ENV_PRESETS.items()}
        hulls = presets["small"].catalog.hulls
        facts = {
            "file": str(self.file),
            "scenario": EMPTY if initial is None else initial.as_json(),
            "token": self.token,
            "presets": {name: list(preset.world.size) for name, preset in presets.items()},
            "hulls": {name: list(hull.size) for name, hull in hulls.items()},
            "materials": [material.name.lower() for material in Material],
            "objectives": {kind: list(fields) for kind, fields in USES.items()},
            "commanders": list(self.commanders),
        }
        return editor_page(facts)

    def check(self, values: dict[str, Any]) -> dict[str, Any]:
        """Check whether battles can start from the scenario."""
        playable_scenario(values)
        return {"said": "ok"}

    def save(self, values: dict[str, Any]) -> dict[str, Any]:
        """Save the scenario to the file, and return the file's content."""
        scenario = playable_scenario(values)
        scenario.save(self.file)
        return {"said": f"saved {self.file}", "scenario": scenario.as_json()}

    def play(self, values: dict[str, Any]) -> dict[str, Any]:
        """Play a match between two commanders; return the results, and the replay page of the first battle."""
        unknown = sorted(set(values) - {*PLAYED, "scenario"})
        require(not unknown, "a match", f"of scenario, {', '.join(PLAYED)}", unknown)
        x, y = (values.get(name) for name in "xy")
        for name in (x, y):
            require(name in self.commanders, "a commander", f"one of {', '.join(self.commanders)}", name)
        battles = whole_within("battles", values.get("battles", 16), BATTLES)
        seed = whole_within("seed", values.get("seed", 0), SEED)
        scenario = playable_scenario(values.get("scenario"))
        if not self.playing.acquire(blocking=False):
            raise ConfigError("a match is being played; wait for its end")
        try:
            recorder = Recorder([0])
            match = named_match(str(x), str(y), scenario.config, battles, ArenaConfig(torch.device("cpu")))
            (result,) = match.play(seed, recorder).values()
        finally:
            self.playing.release()
        replay = replay_of(recorder, str(x), str(y))
        counts = {name: result.as_json()[name] for name in ("battles", "blue_wins", "red_wins", "draws")}
        sides = {"x": result.win_rates_by_side(x=True), "y": result.win_rates_by_side(x=False)}
        return {
            **counts,
            "sides": sides,
            "said": "played",
            "page": replay_page(replay, rebuild(replay, replay.battles[0])),
        }


def playable_scenario(values: Any) -> Scenario:
    """Parse a scenario from JSON values, and check that battles can start from it.

    Raises:
        ConfigError: as in `scenario_from_json`; or if a mech cannot stand at its position.
    """
    scenario = scenario_from_json(values)
    check_playable(scenario)
    return scenario


class EditHandler(BaseHTTPRequestHandler):
    """Handler of one request to an `EditServer`."""

    server: EditServer
    timeout = TIMEOUT_S
    server_version, sys_version = "echelon", ""

    def do_GET(self) -> None:
        self.answer(self.show)

    def do_POST(self) -> None:
        self.answer(self.act)

    def answer(self, make: Callable[[], tuple[str, bytes]]) -> None:
        """Send the content type and body that `make` returns, or a one-line error if it fails."""
        status = HTTPStatus.OK
        try:
            self.check_access()
            kind, body = make()
        except RefusedError as refused:
            status, (kind, body) = refused.status, as_body({"ok": False, "said": str(refused)})
        except (ConfigError, FileError) as error:
            kind, body = as_body({"ok": False, "said": str(error)})
        except Exception as error:  # A custom commander may raise any error; the editor continues.
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            kind, body = as_body({"ok": False, "said": one_line(f"{type(error).__name__}: {error}")})
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def check_access(self) -> None:
        """Reject requests that have no valid token, or that `Access` does not admit."""
        query_token = parse_qs(urlsplit(self.path).query).get("token", [""])[0]
        token = self.headers.get(TOKEN, "") or query_token
        is_valid = secrets.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode())
        hosts, origins = (self.headers.get_all(name, []) for name in ("Host", "Origin"))
        if not is_valid or not self.server.access.admits(hosts, origins):
            raise RefusedError(HTTPStatus.FORBIDDEN, "open the address that the program has printed")

    def show(self) -> tuple[str, bytes]:
        if urlsplit(self.path).path != "/":
            raise RefusedError(HTTPStatus.NOT_FOUND, "the only page is /")
        return "text/html; charset=utf-8", self.server.page().encode()

    def act(self) -> tuple[str, bytes]:
        actions = {"/check": self.server.check, "/save": self.server.save, "/play": self.server.play}
        action = actions.get(urlsplit(self.path).path)
        if action is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"expected one of {', '.join(actions)}")
        values = parse_json("request", self.body())
        require(isinstance(values, dict), "request", "an object", values)
        return as_body({"ok": True, **action(values)})

    def body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) <= 20):
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be a number of bytes")
        if int(length) > MOST_BYTES:
            line = f"a request must be at most {MOST_BYTES} bytes, got {int(length)}"
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, line)
        return self.rfile.read(int(length))

    def log_message(self, format: str, *words: Any) -> None:
        """Log nothing, because the logged address would contain the secret token."""


def as_body(values: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return the content type and the bytes of a JSON answer."""
    return "application/json", json.dumps(values, allow_nan=False).encode()

"""An address that hands out pages and talks over a WebSocket, to whoever knows its token and is admitted by `Access`.

No message names a file or a module.
"""

from __future__ import annotations

import logging
import secrets
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from echelon.command.session import MOST_BYTES
from echelon.env.env import EchelonEnv
from echelon.rules.catalog import Material
from echelon.runtime.errors import ConfigError
from echelon.serve.access import THIS_MACHINE, Access
from echelon.serve.edit_server import HEADERS

if TYPE_CHECKING:
    from websockets.http11 import Request, Response
    from websockets.sync.server import ServerConnection

CHANNEL, PAGE = "/ws", "/"
OPEN_S = 2.0
"""How long a connection may ask for nothing: browsers open some in advance, and the server's end waits for them."""
POLICY_VIOLATION = 1008
MATERIALS = [material.name.lower() for material in Material]


def page_facts(env: EchelonEnv, team: str, token: str, watches: bool = False) -> dict[str, Any]:
    """What `command_page` is told of the first battle of an environment."""
    return {
        "token": token,
        "team": team,
        "watches": watches,
        "map": list(env.config.world.size[:2]),
        "ground": ground_of(env, int(env.state.map_id[0])),
        "materials": MATERIALS,
        "hulls": {name: list(hull.size) for name, hull in env.game.catalog.hulls.items()},
    }


def ground_of(env: EchelonEnv, number: int) -> np.ndarray:
    """The materials `[Z, Y, X]` uint8 of a map, as battles begin on it."""
    ground: np.ndarray = env.game.maps.material[number].cpu().numpy()
    return ground


class PageServer:
    """Base of what listens, on this machine alone unless `access` says otherwise. Use it as a context.

    Args:
        page: what a browser is shown at the address; "": nothing, the address is that of the WebSocket.
        port: 0: one that is free.
        needed_by: the flag that asks for it, and that of the port, for error messages.
        access: where it listens, and whom it answers.

    Raises:
        ConfigError: the port is taken, or the package `websockets` is missing.
    """

    close_timeout_s = 10.0
    """How long a client may take to say goodbye."""

    def __init__(
        self,
        page: str,
        port: int = 0,
        token: str = "",
        needed_by: tuple[str, str] = ("--blue ws and human", "--port"),
        access: Access = THIS_MACHINE,
    ) -> None:
        asks, flag = needed_by
        try:
            from websockets.exceptions import ConnectionClosed
            from websockets.sync.server import serve
        except ImportError:
            hint = "the package websockets: pip install 'echelon-marl[play]'"
            raise ConfigError(f"{asks} must have {hint}, got none") from None
        listening = access.listen(port, flag)
        self.closed = ConnectionClosed
        """Raised where a client has gone."""
        self.token = token or secrets.token_urlsafe(24)
        self.pages = {PAGE: page} if page else {}
        self.access, self.hosts = access, access.names(listening.getsockname()[1])
        quiet = logging.getLogger("echelon.page_server")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._server = serve(
            self._attend,
            sock=listening,
            process_request=self._answer,
            max_size=MOST_BYTES,
            compression=None,
            open_timeout=OPEN_S,
            close_timeout=self.close_timeout_s,
            server_header=None,
            logger=quiet,
        )

    @property
    def address(self) -> str:
        """Where to go: the page, or the WebSocket where there is none."""
        url = f"http://{self.hosts[0]}{PAGE}" if self.pages else f"ws://{self.hosts[0]}{CHANNEL}"
        return f"{url}?token={self.token}"

    def __enter__(self) -> Any:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """The answer to a request, None where it may become a WebSocket."""
        url = urlsplit(request.path)
        token = parse_qs(url.query).get("token", [""])[0]
        is_valid = secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        if not is_valid or not self.access.admits(*map(request.headers.get_all, ("Host", "Origin"))):
            return connection.respond(HTTPStatus.FORBIDDEN, "open the address that the program has printed\n")
        if url.path == CHANNEL:
            return None
        page = self.pages.get(url.path)
        if page is None:
            paths = ", ".join((CHANNEL, *self.pages))
            return connection.respond(HTTPStatus.NOT_FOUND, f"there are {paths}\n")
        response = connection.respond(HTTPStatus.OK, page)
        del response.headers["Content-Type"]
        response.headers.update({"Content-Type": "text/html; charset=utf-8", **HEADERS})
        return response

    def _attend(self, connection: ServerConnection) -> None:
        """Talk to a client, from when it comes to when it goes."""
        raise NotImplementedError

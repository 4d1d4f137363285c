"""The server through which one program or person on this machine commands battles, over a WebSocket.

It carries the lines of a `Session` and hands out the pages that it was made with. No message names a file or a module.
"""

from __future__ import annotations

import json
import logging
import queue
import secrets
import socket
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from echelon.command.session import MOST_BYTES
from echelon.pipelines.edit_server import HEADERS
from echelon.runtime.errors import ConfigError

if TYPE_CHECKING:
    from websockets.http11 import Request, Response
    from websockets.sync.server import ServerConnection

CHANNEL, PAGE, REPLAY = "/ws", "/", "/replay"
MOST_LINES = 64
"""That wait for the battles; whoever writes more waits too."""
LOOK_S = 0.2
"""How often a line that waits looks whether anybody will read it."""
OPEN_S = 2.0
"""How long a connection may ask for nothing: browsers open some in advance, and the server's end waits for them."""
KEPT_LAST = ("begin", "report", "pace", "result", "replay")
"""Types of messages of which whoever comes back is told the last one; of `end` all."""
POLICY_VIOLATION = 1008
OTHER_CLIENT = "someone commands these battles already; close that page or program first"


class CommandServer:
    """The address at which battles are commanded, by one client at a time. Use it as a context.

    What is said while nobody is there is told to whoever comes next.

    Args:
        page: what a browser is shown at the address; "": nothing, the address is that of the WebSocket.
        port: 0: one that is free.

    Raises:
        ConfigError: the port is taken, or the package `websockets` is missing.
    """

    def __init__(self, page: str = "", port: int = 0, token: str = "") -> None:
        try:
            from websockets.sync.server import serve
        except ImportError:
            raise ConfigError("--blue ws and human need the package websockets: pip install 'echelon[play]'") from None
        try:
            listening = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            raise ConfigError(f"--port {port}: {error.strerror}") from None
        self.token = token or secrets.token_urlsafe(24)
        self.lines: queue.Queue[bytes | str | None] = queue.Queue(MOST_LINES)
        """What the client writes."""
        self.pages = {PAGE: page} if page else {}
        number = listening.getsockname()[1]
        self.hosts = tuple(f"{name}:{number}" for name in ("127.0.0.1", "localhost"))
        """What a browser on this machine calls it; another name leads here from a stranger's page."""
        self._seat = threading.Condition()
        self._client: ServerConnection | None = None
        self._kept: dict[str, list[str]] = {name: [] for name in ("begin", "end", *KEPT_LAST[1:])}
        self._is_closed = threading.Event()
        quiet = logging.getLogger("echelon.command_server")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        # A program sends no origin; every browser does.
        origins = [f"http://{host}" for host in self.hosts]
        self._server = serve(
            self._attend,
            sock=listening,
            origins=[*origins, None],  # type: ignore[list-item]
            process_request=self._answer,
            max_size=MOST_BYTES,
            compression=None,
            open_timeout=OPEN_S,
            server_header=None,
            logger=quiet,
        )

    @property
    def address(self) -> str:
        """Where to go: the page, or the WebSocket where there is none."""
        where = f"http://{self.hosts[0]}{PAGE}" if self.pages else f"ws://{self.hosts[0]}{CHANNEL}"
        return f"{where}?token={self.token}"

    @property
    def has_client(self) -> bool:
        return self._client is not None

    def __enter__(self) -> CommandServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        client = self._client
        if client is not None:
            client.close()
        self._server.shutdown()

    # For whoever plays the battles

    def say(self, message: dict[str, Any]) -> None:
        """Tell the client; it is told later where there is none."""
        from websockets.exceptions import ConnectionClosed

        text, kind = json.dumps(message, separators=(",", ":")), message["type"]
        with self._seat:
            if kind == "end":
                self._kept[kind].append(text)
            elif kind in KEPT_LAST:
                self._kept[kind] = [text]
            if self._client is not None:
                try:
                    self._client.send(text)
                except ConnectionClosed:
                    self._client = None

    def wait_for_client(self) -> None:
        """Return once a client is there."""
        with self._seat:
            self._seat.wait_for(lambda: self._client is not None)

    def offer(self, page: str) -> None:
        """Show a page of the battle that was played, and tell the client of it."""
        self.pages[REPLAY] = page
        self.say({"type": "replay", "path": REPLAY})

    # For whoever comes to the address

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """The answer to a request, None where it may become a WebSocket."""
        asked = urlsplit(request.path)
        token = parse_qs(asked.query).get("token", [""])[0]
        is_known = secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        if not is_known or request.headers.get_all("Host")[:1] not in [[host] for host in self.hosts]:
            return connection.respond(HTTPStatus.FORBIDDEN, "open the address that the program has printed\n")
        if asked.path == CHANNEL:
            return None
        page = self.pages.get(asked.path)
        if page is None:
            known = ", ".join((CHANNEL, *self.pages))
            return connection.respond(HTTPStatus.NOT_FOUND, f"there are {known}\n")
        response = connection.respond(HTTPStatus.OK, page)
        del response.headers["Content-Type"]
        for name, value in {"Content-Type": "text/html; charset=utf-8", **HEADERS}.items():
            response.headers[name] = value
        return response

    def _attend(self, connection: ServerConnection) -> None:
        """Take in what a client writes, from when it comes to when it goes."""
        from websockets.exceptions import ConnectionClosed

        try:
            if not self._seated(connection):
                connection.send(json.dumps({"type": "refused", "errors": [OTHER_CLIENT]}))
                connection.close(POLICY_VIOLATION, OTHER_CLIENT)
                return
            for line in connection:
                self._take(line)
        except ConnectionClosed:
            pass
        finally:
            with self._seat:
                if self._client is connection:
                    self._client = None

    def _seated(self, connection: ServerConnection) -> bool:
        """Whether nobody else is there; then the connection is the client, and is told what it missed."""
        with self._seat:
            if self._client is not None:
                return False
            for texts in self._kept.values():
                for text in texts:
                    connection.send(text)
            self._client = connection
            self._seat.notify_all()
            return True

    def _take(self, line: str | bytes) -> None:
        """Keep a line until the battles are ready for it."""
        while not self._is_closed.is_set():
            try:
                self.lines.put(line, timeout=LOOK_S)
                return
            except queue.Full:
                continue

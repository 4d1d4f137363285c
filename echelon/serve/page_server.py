"""Base of the servers of pages: the address, access control, pages and the WebSocket.

A client must know the secret token and be admitted by `Access`. No message can name a file or a module.

A browser sends the header `Host`, the host name in the address that it opened, and the header `Origin`, the page that
makes the request. A malicious page can let its own host name resolve to this machine (DNS rebinding); `Host` is then
the malicious name, which is not admitted. In addition, the servers check the token.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from echelon.command.session import MOST_BYTES
from echelon.env.env import EchelonEnv
from echelon.rules.catalog import Material
from echelon.runtime.errors import ConfigError, require

if TYPE_CHECKING:
    from websockets.http11 import Request, Response
    from websockets.sync.server import ServerConnection


HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every response."""

LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = (LOOPBACK, "localhost", "::1")
"""Names by which a browser reaches its own machine: this one, or one that a tunnel connects to it."""
NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?")
"""The form of the header `Host`."""


def is_address(host: str) -> bool:
    """Return whether a host is given as an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def parts_of(url: str) -> tuple[str, int | None]:
    """Return host name and port of a page's URL; the name is empty if the URL is invalid."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in ("http", "https") else "", parts.port
    except ValueError:
        return "", None


@dataclass(frozen=True)
class Access:
    """Defines which clients a server admits, and the address that it listens on.

    Args:
        hosts: at most one address to listen on instead of 127.0.0.1, such as 0.0.0.0 for all addresses of this machine,
            and host names by which a browser may reach the server, in addition to those of its own machine.
        flag: the flag that sets `hosts`, for error messages.

    Raises:
        ConfigError: if an entry is neither an address nor a host name, or if there are two addresses.
    """

    hosts: tuple[str, ...] = ()
    flag: str = "--host"

    def __post_init__(self) -> None:
        for host in self.hosts:
            is_host = is_address(host) or NAME.fullmatch(host.lower()) is not None
            require(is_host, self.flag, "addresses and names, such as 0.0.0.0 or hub.example", host)
        require(
            sum(map(is_address, self.hosts)) <= 1,
            self.flag,
            "at most one address to listen on, and any number of host names",
            self.hosts,
        )

    @property
    def address(self) -> str:
        """Address to listen on."""
        return next(filter(is_address, self.hosts), LOOPBACK)

    @property
    def _is_everywhere(self) -> bool:
        """Whether the server listens on all addresses of this machine."""
        return ipaddress.ip_address(self.address).is_unspecified

    def listen(self, port: int, flag: str) -> socket.socket:
        """Create a listening socket.

        Args:
            port: port to listen on; 0 for a free one.
            flag: the flag that sets the port, for error messages.

        Raises:
            ConfigError: if the port is taken, or the address does not belong to this machine.
        """
        is_6 = ":" in self.address
        is_both = is_6 and self._is_everywhere and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if is_6 else socket.AF_INET
        try:
            return socket.create_server((self.address, port), family=family, dualstack_ipv6=is_both)
        except OSError as error:
            where = "" if self.address == LOOPBACK else f" on {self.address}"
            raise ConfigError(f"{flag} {port}{where}: {error.strerror}") from None

    def names(self, port: int) -> tuple[str, ...]:
        """Return host names of the server with its port; the one for a browser on this machine comes first."""
        names = dict.fromkeys((LOOPBACK if self._is_everywhere else self.address, LOOPBACK, "localhost"))
        return tuple(f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names)

    def admits(self, hosts: Sequence[str], origins: Sequence[str]) -> bool:
        """Return whether a request is admitted, from its headers.

        A name of the own machine is admitted with any port, because a tunnel may use another port. The page that makes
        the request must have the same host name and port, or a host name in `hosts`, because a proxy may use another
        port.

        Args:
            hosts: the request's headers `Host`.
            origins: the request's headers `Origin`; a program sends none.
        """
        if len(hosts) != 1 or len(origins) > 1 or HOST.fullmatch(hosts[0]) is None:
            return False
        name, port = parts_of(f"http://{hosts[0]}")
        if not self._is_known(name):
            return False
        if not origins:
            return True
        origin, origin_port = parts_of(origins[0])
        is_same = origin == name or (origin in LOOPBACK_NAMES and name in LOOPBACK_NAMES)
        return (is_same and origin_port == port) or (origin in self._given and not is_address(origin))

    @property
    def _given(self) -> list[str]:
        return [host.lower() for host in self.hosts]

    def _is_known(self, name: str) -> bool:
        # DNS rebinding attacks need a host name, so accept any IP address: it belongs to this machine or to a tunnel.
        return name in LOOPBACK_NAMES or name in self._given or (self._is_everywhere and is_address(name))


THIS_MACHINE = Access()
"""Admits only a browser on this machine, or one connected by a tunnel."""


CHANNEL, PAGE = "/ws", "/"
OPEN_S = 2.0
"""Timeout of a connection without a request: browsers open some in advance, and closing the server waits for them."""
POLICY_VIOLATION = 1008
MATERIALS = [material.name.lower() for material in Material]


def page_facts(env: EchelonEnv, team: str, token: str, watches: bool = False) -> dict[str, Any]:
    """Return the data of the page from `command_page`, for the first battle of an environment."""
    return {
        "token": token,
        "team": team,
        "watches": watches,
        "map": list(env.config.world.size[:2]),
        "ground": ground_of(env, int(env.state.map_id[0])),
        "materials": MATERIALS,
        "hulls": {name: list(hull.size) for name, hull in env.sim_model.catalog.hulls.items()},
    }


def ground_of(env: EchelonEnv, number: int) -> np.ndarray:
    """Return the initial materials `[Z, Y, X]` uint8 of map `number`."""
    ground: np.ndarray = env.sim_model.maps.material[number].cpu().numpy()
    return ground


class PageServer:
    """Base of servers that can be reached only from this machine, unless `access` allows more.

    Use the server as a context manager.

    Args:
        page: HTML of the page at the address; if it is empty, there is no page, and the address is that of the
            WebSocket.
        port: port to listen on; 0 for a free one.
        needed_by: the flags that start the server and that set its port, for error messages.
        access: address to listen on, and admitted clients.

    Raises:
        ConfigError: if the port is taken, or the package `websockets` is missing.
    """

    close_timeout_s = 10.0
    """Timeout in seconds of a client's closing handshake."""

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
            raise ConfigError(f"{asks} requires {hint}") from None
        listening = access.listen(port, flag)
        self.closed = ConnectionClosed
        """Raised when a client has disconnected."""
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
        """URL of the page; if there is no page, URL of the WebSocket."""
        url = f"http://{self.hosts[0]}{PAGE}" if self.pages else f"ws://{self.hosts[0]}{CHANNEL}"
        return f"{url}?token={self.token}"

    def __enter__(self) -> Any:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Respond to an HTTP request; return None if the connection may become a WebSocket."""
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
            return connection.respond(HTTPStatus.NOT_FOUND, f"expected one of {paths}\n")
        response = connection.respond(HTTPStatus.OK, page)
        del response.headers["Content-Type"]
        response.headers.update({"Content-Type": "text/html; charset=utf-8", **HEADERS})
        return response

    def _attend(self, connection: ServerConnection) -> None:
        """Handle a client from its connection until it disconnects."""
        raise NotImplementedError

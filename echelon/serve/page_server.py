"""The address of a server of pages: where it listens, which requests it answers, its pages and its WebSocket.

A client must know the token and be admitted by `Access`. No message names a file or a module.

A browser sends in `Host` the name that led it here, and in `Origin` the page that asks. A page of a stranger can let a
name of its own lead to this machine (DNS rebinding); then `Host` is that name. The servers themselves check the token.
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
"""Of every answer."""

LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = (LOOPBACK, "localhost", "::1")
"""What a browser calls its own machine: this one, or one from whose port a tunnel leads here."""
NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?")
"""The form of the header `Host`."""


def is_address(host: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def parts_of(url: str) -> tuple[str, int | None]:
    """Name and port of an address of a page; no name where it is none."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in ("http", "https") else "", parts.port
    except ValueError:
        return "", None


@dataclass(frozen=True)
class Access:
    """Who is answered.

    Args:
        hosts: at most one address to listen on in place of 127.0.0.1, such as 0.0.0.0 for all of this machine, and
            names by which a browser may reach the server, besides those of its own machine.
        flag: what sets them, for errors.

    Raises:
        ConfigError: neither an address nor a name, or a second address.
    """

    hosts: tuple[str, ...] = ()
    flag: str = "--host"

    def __post_init__(self) -> None:
        for host in self.hosts:
            is_host = is_address(host) or NAME.fullmatch(host.lower()) is not None
            require(is_host, self.flag, "addresses and names, such as 0.0.0.0 or hub.example", host)
        require(sum(map(is_address, self.hosts)) <= 1, self.flag, "one address to listen on, and names", self.hosts)

    @property
    def address(self) -> str:
        """Where to listen."""
        return next(filter(is_address, self.hosts), LOOPBACK)

    @property
    def _is_everywhere(self) -> bool:
        """Whether it listens on all addresses of this machine."""
        return ipaddress.ip_address(self.address).is_unspecified

    def listen(self, port: int, flag: str) -> socket.socket:
        """A socket that listens.

        Args:
            port: 0: one that is free.
            flag: what sets the port, for errors.

        Raises:
            ConfigError: the port is taken, or the address is none of this machine.
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
        """Names of the server with its port, the one for a browser of this machine first."""
        names = dict.fromkeys((LOOPBACK if self._is_everywhere else self.address, LOOPBACK, "localhost"))
        return tuple(f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names)

    def admits(self, hosts: Sequence[str], origins: Sequence[str]) -> bool:
        """Whether a request is answered.

        A name of the own machine is admitted at any port, since a tunnel has a port of its own. The page that asks must
        have come by the same name and port, or by a name of `hosts`: a proxy may have another port.

        Args:
            hosts: its headers `Host`.
            origins: its headers `Origin`; a program sends none.
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
        # A stranger's name is no address, so any address is one of this machine, or of a tunnel.
        return name in LOOPBACK_NAMES or name in self._given or (self._is_everywhere and is_address(name))


THIS_MACHINE = Access()
"""A browser of this machine alone, or one that a tunnel leads here."""


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
        "hulls": {name: list(hull.size) for name, hull in env.sim_model.catalog.hulls.items()},
    }


def ground_of(env: EchelonEnv, number: int) -> np.ndarray:
    """The materials `[Z, Y, X]` uint8 of a map, as battles begin on it."""
    ground: np.ndarray = env.sim_model.maps.material[number].cpu().numpy()
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

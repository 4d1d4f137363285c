"""Where the servers of pages listen, and which requests they answer.

A browser sends in `Host` the name that led it here, and in `Origin` the page that asks. A page of a stranger can let a
name of its own lead to this machine (DNS rebinding); then `Host` is that name. The servers themselves check the token.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from echelon.runtime.errors import ConfigError, require

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

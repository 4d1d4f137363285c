"""Access control of page servers: through a tunnel, in a container, behind a proxy, and from foreign hosts."""

import functools
import http.client
import re
import socket
import threading
from pathlib import Path

import pytest
from patience import PATIENT, STUCK_S

from echelon.runtime.errors import ConfigError
from echelon.serve.conversation import CommandServer
from echelon.serve.edit_server import EditServer
from echelon.serve.live import LiveServer
from echelon.serve.page_server import Access

HERE, EVERYWHERE = (), ("0.0.0.0",)
HUB, ONE = ("hub.example",), ("192.0.2.7",)
REQUESTS = [
    # --host, Host, Origin, whether the request is admitted
    (HERE, "127.0.0.1:8000", None, True),
    (HERE, "localhost:9000", None, True),  # ssh -L 9000:127.0.0.1:8000
    (HERE, "[::1]:9000", None, True),
    (HERE, "LOCALHOST:9000", None, True),
    (HERE, "127.0.0.1:9000", "http://127.0.0.1:9000", True),
    (HERE, "127.0.0.1:9000", "http://localhost:9000", True),
    (HERE, "localhost", "https://localhost", True),
    (HERE, "127.0.0.1:9000", "http://127.0.0.1:3000", False),  # the page of another server of this machine
    (HERE, "127.0.0.1:9000", "http://stranger.example:9000", False),
    (HERE, "127.0.0.1:9000", "null", False),  # a sandboxed page
    (HERE, "127.0.0.1:9000", "file://", False),
    (HERE, "stranger.example:8000", None, False),  # DNS rebinding
    (HERE, "stranger.example:8000", "http://stranger.example:8000", False),
    (HERE, "127.0.0.1.stranger.example", None, False),
    (HERE, "localhost.stranger.example:8000", None, False),
    (HERE, "localhost@stranger.example", None, False),
    (HERE, "stranger.example@localhost", None, False),
    (HERE, "localhost:8000/x", None, False),
    (HERE, "localhost:99999", None, False),
    (HERE, "192.0.2.7:8000", None, False),
    (HERE, "hub.example", None, False),
    (HERE, "", None, False),
    (EVERYWHERE, "localhost:8000", "http://localhost:8000", True),  # docker run -p 8000:8000
    (EVERYWHERE, "192.0.2.7:8000", "http://192.0.2.7:8000", True),  # an IP address cannot be a foreign host name
    (EVERYWHERE, "192.0.2.7:8000", "http://192.0.2.9:8000", False),
    (EVERYWHERE, "stranger.example:8000", None, False),
    (EVERYWHERE, "0.0.0.0:8000", "http://0.0.0.0:3000", False),
    (ONE, "192.0.2.7:8000", "http://192.0.2.7:8000", True),
    (ONE, "192.0.2.9:8000", None, False),
    (HUB, "hub.example", "https://hub.example", True),
    (HUB, "Hub.Example:8443", "https://hub.example:8443", True),
    (HUB, "localhost:8000", "https://hub.example", True),  # a proxy that sends the name of this machine
    (HUB, "localhost:8000", "https://other.example", False),
    (HUB, "sub.hub.example", None, False),
    ((*EVERYWHERE, *HUB), "hub.example:8000", "http://hub.example:8000", True),
]


@pytest.mark.parametrize(("given", "host", "origin", "is_answered"), REQUESTS)
def test_request_is_answered_by_host_and_origin(given, host, origin, is_answered):
    assert Access(given).admits([host], [] if origin is None else [origin]) is is_answered


def test_two_hosts_or_origins_are_refused():
    assert not Access().admits(["localhost", "localhost"], []) and not Access().admits([], [])
    assert not Access().admits(["localhost"], ["http://localhost", "http://stranger.example"])


@pytest.mark.parametrize("given", [("hub example",), ("http://hub.example",), ("",), ("*",), ("hub.example:8000",)])
def test_invalid_host_is_refused(given):
    with pytest.raises(
        ConfigError, match=r"--host must be addresses and names, such as 0\.0\.0\.0 or hub\.example, got"
    ):
        Access(given)


def test_second_address_and_an_address_of_another_machine_are_refused():
    with pytest.raises(
        ConfigError, match="--host must be at most one address to listen on, and any number of host names"
    ):
        Access(("0.0.0.0", "127.0.0.1"))
    with pytest.raises(ConfigError, match=r"--port 0 on 192\.0\.2\.7: Cannot assign requested address"):
        Access(ONE).listen(0, "--port")


def fetch(port: int, token: str, **headers: str) -> int:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=STUCK_S)
    asked.request("GET", f"/?token={token}", headers=headers)
    answer = asked.getresponse()
    answer.read()
    asked.close()
    return answer.status


TUNNEL = "127.0.0.1:9000"
"""Address of a tunnel on the browser's machine, as the server sees it in `Host`."""


@pytest.mark.parametrize("kind", [CommandServer, LiveServer])
def test_page_and_websocket_work_through_forwarded_port(kind):
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    with kind("<!doctype html>", token="known") as server:
        port = int(server.hosts[0].rpartition(":")[2])
        assert fetch(port, "known", Host=TUNNEL) == fetch(port, "known", Host="localhost:9000") == 200
        assert fetch(port, "guess", Host=TUNNEL) == fetch(port, "known", Host="stranger.example") == 403
        address = f"ws://{TUNNEL}/ws?token=known"
        reach = functools.partial(connect, address, proxy=None, **PATIENT)
        with socket.create_connection(("127.0.0.1", port)) as end, reach(sock=end, origin=f"http://{TUNNEL}"):
            pass
        for origin in ("http://stranger.example", "http://127.0.0.1:1"):
            with socket.create_connection(("127.0.0.1", port)) as end, pytest.raises(InvalidStatus, match="403"):
                reach(sock=end, origin=origin)


def test_editor_works_through_forwarded_port_and_refuses_foreign_origin(tmp_path):
    with EditServer(tmp_path / "duel.json", None, ("heuristic:trivial",)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port, token = server.server_port, server.token
        assert fetch(port, token, Host=TUNNEL) == fetch(port, token, Host=TUNNEL, Origin=f"http://{TUNNEL}") == 200
        assert fetch(port, token, Host="stranger.example") == 403
        assert fetch(port, token, Host=TUNNEL, Origin="http://stranger.example") == 403
        server.shutdown()


def test_container_server_listens_on_all_addresses_and_prints_usable_url():
    with CommandServer("<!doctype html>", token="known", access=Access(EVERYWHERE)) as server:
        assert server._server.socket.getsockname()[0] == "0.0.0.0"
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=known", server.address)
        port = int(server.hosts[0].rpartition(":")[2])
        assert fetch(port, "known", Host="192.0.2.7:8000") == 200
        assert fetch(port, "known", Host="stranger.example:8000") == 403


def test_container_images_install_page_dependencies():
    text = (Path(__file__).parents[2] / "Dockerfile").read_text()
    installs = [line for line in text.splitlines() if "pip install" in line and "/dist" in line]
    assert len(installs) == 2 and all('"$(echo /dist/*.whl)[play]"' in line for line in installs)

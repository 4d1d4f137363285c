"""The server for commanding a battle from a program or a page: access control and lost connections."""

import http.client
import json
import os
import random
import subprocess
import sys
import threading

import pytest
from patience import PATIENT, STUCK_S
from serving import TOKEN, serving, small_port
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from echelon.command.session import Pace
from echelon.datasets.dataset import open_dataset
from echelon.pipelines.command import Command
from echelon.rules.orders import OrderField, OrderKind
from echelon.runtime.errors import ConfigError
from echelon.serve.conversation import OTHER_CLIENT, CommandServer


def client(server, **settings):
    return connect(f"ws://{server.hosts[0]}/ws?token={TOKEN}", proxy=None, **PATIENT, **settings)


def hear(spoken):
    return json.loads(spoken.recv(timeout=STUCK_S))


def until(spoken, kind):
    """Return the next message of a type."""
    while (message := hear(spoken))["type"] != kind:
        pass
    return message


@pytest.fixture
def server():
    with CommandServer("<!doctype html>", token=TOKEN) as served:
        yield served


def test_program_commands_over_websocket():
    port = small_port(6.0, period=4)
    with serving(port, "step") as served, client(served.server) as spoken:
        begun = hear(spoken)
        assert begun["type"] == "begin" and begun == served.session.begin()
        report = hear(spoken)
        assert report["number"] == 1
        spoken.send('{"orders": [{"kind": "charge"}]}')
        assert until(spoken, "refused")["errors"][0].startswith("order 0: order.kind must be one of")
        spoken.send('{"orders": [{"kind": "move", "place": [20, 30]}]}')
        assert until(spoken, "report")["battles"][0]["packs"][0]["order"] is None
        assert until(spoken, "report")["battles"][0]["packs"][0]["order"]["place"] == [20, 30]
        for _ in range(4):
            spoken.send("{}")
        assert until(spoken, "result")["orders"] == {"given": 1, "late": 0, "refused": 1}
        served.thread.join()


@pytest.mark.parametrize("token", ["", "?token=", "?token=guess", "?token=gu%e9ss", f"?token={TOKEN}x"])
def test_wrong_token_is_refused(server, token):
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"ws://{server.hosts[0]}/ws{token}", proxy=None, **PATIENT)
    assert fetch(server, f"/{token}")[0] == 403 and not server.has_client


def test_foreign_origin_is_refused(server):
    with pytest.raises(InvalidStatus, match="403"):
        client(server, origin="http://stranger.example")
    assert fetch(server, f"/?token={TOKEN}", Host="stranger.example")[0] == 403
    assert fetch(server, f"/?token={TOKEN}") == (200, "<!doctype html>")
    assert fetch(server, f"/etc/passwd?token={TOKEN}") == (404, "expected one of /ws, /\n")
    assert fetch(server, f"/ws?token={TOKEN}")[0] == 426
    with client(server, origin=f"http://{server.hosts[1]}"):
        pass


def fetch(server, path, **headers):
    asked = http.client.HTTPConnection(*server.hosts[0].split(":"), timeout=STUCK_S)
    asked.request("GET", path, headers=headers)
    answer = asked.getresponse()
    return answer.status, answer.read().decode()


def test_second_client_is_refused_and_first_stays_connected(server):
    server.say({"type": "begin"})
    with client(server) as first:
        assert hear(first) == {"type": "begin"}
        with client(server) as second:
            assert hear(second) == {"type": "refused", "errors": [OTHER_CLIENT]}
            with pytest.raises(ConnectionClosed, match="already commands these battles"):
                second.recv(timeout=STUCK_S)
        server.say({"type": "report", "number": 1})
        assert hear(first)["number"] == 1


def test_battle_pauses_until_client_reconnects():
    """Without a pause the battle would end at once, because its clock is `fast`."""
    gate = threading.Event()
    port = small_port(1.0)
    with serving(port, "fast", gate.wait) as served:
        with client(served.server) as spoken:
            assert [hear(spoken)["type"], hear(spoken)["number"]] == ["begin", 1]
            spoken.send('{"orders": [{"kind": "hold"}]}')
        while served.server.has_client:
            pass
        gate.set()
        served.thread.join(1.0)
        assert served.thread.is_alive() and served.session.number == 1
        assert port.view.env.state.tick.tolist() == [0]
        with client(served.server) as spoken:
            assert [hear(spoken)["type"], hear(spoken)["number"]] == ["begin", 1]
            assert until(spoken, "result")["type"] == "result"
        served.thread.join()
    assert served.session.is_over


def test_lost_connection_ends_manual_control():
    """Control ends before the reconnected client drives a mech, not after."""
    port = small_port(60.0)
    with serving(port, "real", paused=True) as served:
        with client(served.server) as spoken:
            spoken.send('{"drive": {"mech": "blue_1", "ahead": 1}, "step": 1}')
            while (message := until(spoken, "report"))["number"] < 2:
                pass
            assert message["driven"]["mech"] == "blue_1"
            spoken.send('{"drive": {"mech": "blue_9"}}')
            assert until(spoken, "refused")["errors"][0].startswith("drive.mech must be one of blue_0")
        while served.server.has_client or port.stick is not None:
            pass
        with client(served.server) as spoken:
            spoken.send('{"step": 1}')
            while (message := until(spoken, "report"))["number"] < 3:
                pass
            assert "driven" not in message
            spoken.send('{"drive": {"mech": "blue_2"}, "step": 1}')
            while (message := until(spoken, "report"))["number"] < 4:
                pass
            assert message["driven"]["mech"] == "blue_2"


def test_result_counts_as_sent_after_client_left():
    with CommandServer(token=TOKEN) as server:
        with client(server) as spoken:
            while not server.has_client:
                pass
            server.say({"type": "result"})
            assert hear(spoken)["type"] == "result"
        while server.has_client:
            pass
        server.wait_until_told()
        server.say({"type": "result"})
        waiting = threading.Thread(target=server.wait_until_told, daemon=True)
        waiting.start()
        assert waiting.is_alive()
        with client(server) as spoken:
            assert hear(spoken)["type"] == "result"
            waiting.join(STUCK_S)
        assert not waiting.is_alive()


def test_fuzzed_messages_never_end_a_battle():
    draw, port = random.Random(5), small_port(60.0)
    values = [None, True, -1, "x", [], {}, {"pause": 1}, {"speed": 1e999}, {"step": -1}, {"drive": 1}]
    values.append({"orders": [{"kind": []}]})
    with serving(port, "real", paused=True) as served, client(served.server) as spoken:
        for number in range(300):
            noise = draw.randbytes(draw.randrange(40))
            spoken.send(noise if number % 2 else json.dumps(draw.choice(values)))
        spoken.send('{"step": 1}')
        for _ in range(2):  # at the start of the battle, and as a response
            assert until(spoken, "pace") == {"type": "pace", "paused": True, "speed": 1.0}
        assert until(spoken, "report")["number"] == 2
        assert served.session.refused > 150 and served.thread.is_alive()
        with pytest.raises(
            ConnectionClosed
        ):  # message too long: the server disconnects the client, and the battle waits
            spoken.send(b" " * (2 << 20))
            while True:
                spoken.recv(timeout=STUCK_S)
        while served.server.has_client:
            pass
        with client(served.server) as again:
            assert until(again, "report")["number"] == 2
            again.send('{"orders": [{"kind": "hold"}], "step": 2}')
            while (message := until(again, "report"))["number"] < 4:
                pass
        assert message["battles"][0]["packs"][0]["order"]["kind"] == "hold"
    assert port.view.env.state.orders_sent[0, 0, 0, OrderField.KIND] == OrderKind.HOLD


def test_pace_schedules_reports():
    now = [10.0]
    pace = Pace(0.5, lambda: now[0])
    pace.reported()
    assert pace.left_s == 0.5
    now[0] += 0.6
    pace.reported()
    assert pace.left_s == pytest.approx(0.4)  # a delay is caught up
    pace.set({"speed": 2, "pause": True})
    assert pace.left_s == float("inf")
    now[0] += 60
    pace.set({"step": 2})
    assert pace.left_s == 0
    pace.played()
    pace.played()
    assert pace.left_s == float("inf") and pace.as_json() == {"type": "pace", "paused": True, "speed": 2}
    pace.set({"pause": False})
    assert pace.left_s == 0
    pace.reported()
    assert pace.left_s == 0.25  # a pause is not caught up
    for said in ({"speed": 0}, {"speed": 17}, {"speed": True}, {"pause": 0}, {"step": 1.0}, {"step": 1001}):
        with pytest.raises(ConfigError):
            pace.set({"pause": True, **said})
    assert not pace.is_paused


def test_taken_port_is_one_error_line(server):
    number = server.hosts[0].split(":")[1]
    with pytest.raises(ConfigError, match=f"--port {number}: Address already in use"):
        CommandServer(port=int(number))


def test_options_invalid_for_a_human_are_refused():
    with pytest.raises(ConfigError, match="--battles must be 1 for a human, got 2"):
        Command(blue="human", battles=2)
    with pytest.raises(ConfigError, match="--clock must be real for a human, got 'fast'"):
        Command(blue="human", clock="fast")
    with pytest.raises(ConfigError, match="one of them is stdio or ws or human"):
        Command(blue="human", red="ws")
    assert (Command(red="ws", blue="easy").timing, Command(blue="human").timing) == ("step", "real")


@pytest.mark.long
@pytest.mark.parametrize("who", ["ws", "human"])
def test_program_prints_and_serves_address(who, tmp_path):
    words = (
        "command",
        "--blue",
        who,
        "--no-browser",
        "--period",
        "16",
        "--clock",
        "real",
        "--seed",
        "4",
        "--device",
        "cpu",
    )
    kept, data = tmp_path / "kept.echelon", tmp_path / "kept.safetensors"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "echelon.pipelines.arena", *words, "--replay", str(kept), "--dataset", str(data)],
        stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        scheme, address = process.stderr.readline().split()[1].split("://")
        assert scheme == {"ws": "ws", "human": "http"}[who]
        host, token = address.split("/")[0], address.split("token=")[1]
        with connect(f"ws://{host}/ws?token={token}", proxy=None, **PATIENT) as spoken:
            assert hear(spoken)["type"] == "begin"
            spoken.send('{"speed": 16, "orders": [{"kind": "hold"}]}')
            assert until(spoken, "result")["won_by"].keys() == {"own", "enemy", "nobody"}
            if who == "human":
                path = until(spoken, "replay")["path"]
                asked = http.client.HTTPConnection(*host.split(":"), timeout=STUCK_S)
                asked.request("GET", f"{path}?token={token}")
                assert asked.getresponse().read().startswith(b"<!doctype html>")
                process.send_signal(2)
        assert process.wait(STUCK_S) == 0
    assert kept.stat().st_size > 1000
    dataset = open_dataset(data)
    assert dataset.commanders[0] == f"{who} over heuristic:hard" and dataset.rows["blue_command", "action"].any()

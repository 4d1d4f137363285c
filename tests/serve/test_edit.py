"""The server of the scenario editor: access control, requests and responses."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import programs
import pytest
from patience import STUCK_S

from echelon.rules.scenario import scenario_from_json
from echelon.serve.edit_server import MOST_BYTES, EditServer

DUEL = {
    "boxes": [{"low": [19, 10, 0], "high": [21, 30, 4]}],
    "units": [{"team": "blue", "hull": "light", "x": 12, "y": 20}, {"team": "red", "hull": "scout", "x": 30, "y": 20}],
    "rules": {"max_episode_s": 2.0},
}


@contextmanager
def serving(file, commanders=("heuristic:trivial",)):
    with EditServer(file, None, commanders) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path / "duel.json") as found:
        yield found


def ask(server, method, path, body=b"", **headers):
    """Return status and body of a response; the token is sent by default."""
    asked = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=STUCK_S)
    known = {"X-Echelon-Token": server.token, "Content-Length": str(len(body))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    asked.request(method, path, body, {name: value for name, value in known.items() if value is not None})
    answer = asked.getresponse()
    return answer.status, answer.read().decode()


def post(server, path, values):
    status, body = ask(server, "POST", path, json.dumps(values).encode())
    return status, json.loads(body)


def test_editor_requires_printed_address(server):
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server, "GET", f"/?token={server.token}", X_Echelon_Token=None)[0] == 200
    for path, headers in (
        ("/", {"X_Echelon_Token": None}),
        ("/?token=", {"X_Echelon_Token": None}),
        ("/?token=guess", {"X_Echelon_Token": None}),
        ("/", {"X_Echelon_Token": "gu\xe9ss"}),
        ("/", {"Host": "stranger.example"}),
    ):
        for method in ("GET", "POST"):
            status, body = ask(server, method, path, **headers)
            assert status == 403 and json.loads(body)["said"] == "open the address that the program has printed"
    assert not server.file.exists()


def test_large_or_unknown_request_is_refused(server):
    line = f"a request must be at most {MOST_BYTES} bytes, got {MOST_BYTES + 1}"
    status, body = ask(server, "POST", "/save", b"", Content_Length=str(MOST_BYTES + 1))
    assert (status, json.loads(body)["said"]) == (413, line)
    for length in ("-1", "many", "9" * 30):
        assert ask(server, "POST", "/save", b"", Content_Length=length)[0] == 411
    assert ask(server, "GET", "/etc/passwd")[0] == 404
    assert ask(server, "POST", "/../other.json", b"{}")[0] == 404
    assert ask(server, "PUT", "/save", b"{}")[0] == 501
    assert not server.file.exists()


def refusals():
    one, two = DUEL["units"]
    yield "/check", b"{", "request: not valid JSON"
    yield "/check", b"[]", "request must be an object, got []"
    yield "/save", {**DUEL, "file": "/tmp/x.json"}, "scenario.file must be one of"
    yield "/save", {**DUEL, "units": [{**one, "model": "os:system"}, two]}, "scenario.units[0].model must be one of"
    yield "/save", {**DUEL, "units": [one]}, "Scenario.units of red must be 1..20, got 0"
    yield "/play", DUEL, "a match must be of scenario, x, y, battles, seed"
    match = {"scenario": DUEL, "x": "heuristic:trivial", "y": "heuristic:trivial", "battles": 2}
    yield "/play", {**match, "x": "os:system"}, "a commander must be one of heuristic:trivial, got 'os:system'"
    yield "/play", {**match, "x": ["heuristic:trivial"]}, "a commander must be one of"
    yield "/play", {**match, "battles": 10**9}, "battles must be 2..256"
    yield "/play", {**match, "battles": 3}, "battles must be even"
    yield "/play", {**match, "replay": "/tmp/x"}, "a match must be of scenario"


@pytest.mark.parametrize("path, values, said", [*refusals()])
def test_invalid_request_is_refused_in_one_line(server, path, values, said):
    body = values if isinstance(values, bytes) else json.dumps(values).encode()
    status, answer = ask(server, "POST", path, body)
    told = json.loads(answer)
    assert status == 200 and not told["ok"] and told["said"].startswith(said) and "\n" not in told["said"]
    assert not server.file.exists()


def test_editor_saves_and_reloads_scenario(server):
    status, answer = post(server, "/save", DUEL)
    assert status == 200 and answer["ok"] and answer["said"] == f"saved {server.file}"
    scenario = scenario_from_json(DUEL)
    assert json.loads(server.file.read_text()) == answer["scenario"] == scenario.as_json()
    _, page = ask(server, "GET", "/")
    shown = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert shown["scenario"] == scenario.as_json() and shown["file"] == str(server.file)
    assert post(server, "/check", shown["scenario"]) == (200, {"ok": True, "said": "ok"})
    assert [*server.file.parent.iterdir()] == [server.file]


def test_editor_plays_match_between_commanders(server):
    match = {"scenario": DUEL, "x": "heuristic:trivial", "y": "heuristic:trivial", "battles": 2, "seed": 3}
    status, answer = post(server, "/play", match)
    assert status == 200 and answer["ok"], answer["said"]
    assert answer["blue_wins"] + answer["red_wins"] + answer["draws"] == answer["battles"] == 2
    assert answer["page"].startswith("<!doctype html>") and answer["sides"]["x"].keys() == {"blue", "red"}
    assert not server.file.exists()
    server.playing.acquire()
    assert post(server, "/play", match)[1]["said"] == "a match is being played; wait for its end"


def test_editor_serves_until_interrupted(tmp_path):
    words = ("edit", "duel.json", "--no-browser", "--start", "gate-5v5")
    arena, environment = str(programs.ROOT / "pipelines" / "arena.py"), {**os.environ, "PYTHONPATH": str(programs.ROOT)}
    with subprocess.Popen(
        [sys.executable, arena, *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        line = process.stdout.readline()
        assert line.startswith("editor      http://127.0.0.1:")
        host, token = line.split("//")[1].strip().split("/?token=")
        asked = http.client.HTTPConnection(host)
        asked.request("GET", f"/?token={token}")
        page = asked.getresponse().read().decode()
        assert "<title>duel.json</title>" in page and len(read_scenario_of(page)["units"]) == 10
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    assert [*tmp_path.iterdir()] == []


def read_scenario_of(page):
    return json.loads(page.split('id="data">')[1].split("</script>")[0])["scenario"]


def test_invalid_scenario_file_is_one_error_line(tmp_path):
    file = tmp_path / "duel.json"
    file.write_text('{"units": 3}')
    new = str(tmp_path / "new.json")
    for words, said in (
        ((str(file),), "error: duel.json.units must be a list, got 3\n"),
        ((str(tmp_path),), f"error: {tmp_path}: expected a file name, got a folder\n"),
        ((new, "--start", "nowhere"), "error: a scenario must be one of "),
        ((new, "--port", "70000"), "error: Error parsing Edit: Edit.port must be 0..65535, got 70000\n"),
        ((new, "--commanders", "unknown"), "error: "),
    ):
        refused = programs.run(str(programs.ROOT / "pipelines" / "arena.py"), "edit", "--no-browser", *words)
        assert refused.returncode == 1 and refused.stderr.startswith(said), refused.stderr
        assert refused.stderr.count("\n") == 1

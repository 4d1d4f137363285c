"""The live page of a training run: it shows the battles and changes nothing."""

import dataclasses
import json
import re
import signal
import socket
import time
from contextlib import ExitStack

import pytest
import torch
from graphs import dense_forms, faults, simulate
from patience import PATIENT, STUCK_S
from programs import Program
from runs import TINY, without_clock
from tiers import usually
from tiny_runs import everything, tiny_run
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from echelon.command.frame_buffer import FrameBuffer, frames_of
from echelon.learn.callbacks.base import Callback
from echelon.learn.config import CurriculumConfig, PPOConfig
from echelon.learn.trainer import Trainer
from echelon.rules.orders import CommandConfig
from echelon.runtime.errors import ConfigError
from echelon.serve.live import FULL, MOST_VIEWERS, Live, LiveRollout, LiveServer

MATERIAL = torch.zeros((2, 4, 4), dtype=torch.uint8).numpy()


def viewer(server, **settings):
    return connect(f"ws://{server.hosts[0]}/ws?token={server.token}", proxy=None, max_size=None, **PATIENT, **settings)


class Watched(Callback):
    """View a run from its first iteration with `count` viewers, and store the frames."""

    def __init__(self, live: Live, count: int = 1) -> None:
        self.live, self.count, self.seen, self.places = live, count, [], []
        self.held = ExitStack()

    def on_run_start(self, trainer) -> None:
        self.viewers = [self.held.enter_context(viewer(self.live.server)) for _ in range(self.count)]
        while self.live.server.viewers < self.count:
            time.sleep(0.01)

    def on_iteration_end(self, trainer, metrics) -> None:
        shown = [json.loads(each.recv(timeout=STUCK_S)) for each in self.viewers]
        assert shown == shown[:1] * self.count
        self.seen.append(shown[0])
        self.places.append(trainer.env.state.mechs.pos[0, :, :2].tolist())

    def close(self) -> None:
        self.held.close()


@pytest.fixture
def patient(monkeypatch):
    """Show every rollout immediately."""
    monkeypatch.setattr("echelon.serve.live.LEAST_S", 0.0)


RUNS = {
    "called": {},
    "in place": {"cuda_graphs": "on", "backend": "eager"},
    "orders": {"command": CommandConfig(enabled=True, drill_s=1.0)},
}


def run_of(name: str):
    settings = dict(RUNS[name])
    command = settings.pop("command", CommandConfig())
    config = tiny_run(**settings)
    return dataclasses.replace(config, env=dataclasses.replace(config.env, command=command))


@pytest.mark.parametrize("name", usually(RUNS, "orders"))
def test_live_page_does_not_change_the_run(tmp_path, patient, name):
    """Return metrics and every tensor of the learner, for a bitwise comparison."""
    config = run_of(name)
    alone = Trainer(config, tmp_path / "alone")
    alone.train()
    live = Live()
    watched = Watched(live, 2)
    trainer = Trainer(config, tmp_path / "watched", callbacks=[live, watched])
    trainer.train()
    assert without_clock(tmp_path / "alone" / "metrics.csv") == without_clock(tmp_path / "watched" / "metrics.csv")
    ours, theirs = everything(alone), everything(trainer)
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert [rollout["iteration"] for rollout in watched.seen] == [1, 2, 3]
    for rollout, places in zip(watched.seen, watched.places, strict=True):
        assert len(rollout["moments"]) == 8 and (rollout["blue"], rollout["red"]) == ("the learner", "heuristic:normal")
        last = rollout["moments"][-1].get("report")
        for mech in [] if last is None else [*last["packs"][0]["mechs"], *last["enemies"]]:
            number = int(mech["name"][-1]) + 5 * mech["name"].startswith("red")
            assert mech["place"] == pytest.approx(places[number], abs=0.051)
        assert all(
            rollout["grounds"][str(each["map"])].startswith("data:image/png")
            for each in rollout["moments"]
            if "map" in each
        )
    ends = [moment["won_by"] for rollout in watched.seen for moment in rollout["moments"] if "won_by" in moment]
    assert ends and set(ends) <= {"blue", "red", "nobody"}
    orders = [each["report"]["packs"][0]["order"] for each in watched.seen[-1]["moments"] if "report" in each]
    assert any(orders) == (name == "orders")


def test_while_nobody_looks_nothing_is_read(tmp_path, patient, monkeypatch):
    monkeypatch.setattr(FrameBuffer, "read", lambda self: pytest.fail("read"))
    live = Live()
    Trainer(tiny_run(), tmp_path, callbacks=[live]).train()
    assert live.server is None


def test_live_page_follows_new_stage(tmp_path, patient):
    """The stage has smaller teams, so environment and collector are new."""
    curriculum = CurriculumConfig(opponents=("trivial",), team_size=(2, 3), advance_at_win_rate=1e-6, window=1)
    live = Live()
    watched = Watched(live)
    watched.on_iteration_end = lambda trainer, metrics: None
    config = tiny_run(opponent="curriculum", curriculum=curriculum, total_agent_steps=10**6)
    trainer = Trainer(config, tmp_path, callbacks=[live, watched])
    trainer.curriculum.record(2.0, 2.0)
    trainer._enter_stage()
    trainer.train(1)
    assert len(trainer.collector.on_decision) == 1 and trainer.env.config.num_mechs == 6


@pytest.mark.long
def test_live_recording_can_be_captured(tmp_path, monkeypatch):
    """Recording copies nothing to the host, and a graph records the same as the function."""
    dense_forms(monkeypatch)
    config = tiny_run(
        backend="eager",
        cuda_graphs="on",
        ppo=PPOConfig(rollout_decisions=6, chunk_decisions=3, epochs=1, minibatches=2),
    )

    def trainer(name):
        made = Trainer(config, tmp_path / name)
        made.env.restarts_by_row = False
        film = FrameBuffer(made.env.sim_model, made.env.state, made.collector.decisions)
        made.collector.on_decision.append(film.keep)
        return made, film

    called, film = trainer("called")
    kept = []
    for _ in range(2):
        called.iterate()
        kept.append(film.read())
    called.collector._begin_rollout()
    assert faults(torch.inference_mode()(called.collector._decide)) == []
    counted = simulate(monkeypatch)
    graphed, film = trainer("graphed")
    for expected in kept:
        graphed.iterate()
        found = film.read()
        assert all((found[name] == expected[name]).all() for name in expected)
    assert counted.replays > 6


def test_long_rollout_keeps_last_decisions(monkeypatch, tmp_path):
    monkeypatch.setattr("echelon.command.frame_buffer.MOST_DECISIONS", 5)
    made = Trainer(tiny_run(), tmp_path)
    film, whole = FrameBuffer(made.env.sim_model, made.env.state, 8), []
    made.collector.on_decision += [film.keep, lambda at, state, after: whole.append(state.tick[0].item())]
    made.iterate()
    assert film.read()["tick"].tolist() == whole[3:]
    assert len(frames_of(film.read(), made.env.sim_model, False, made.env.agent_names)) == 5


def rollout(number: int, size: int = 10) -> LiveRollout:
    return LiveRollout({"iteration": number, "words": "x" * size}, [], {0: MATERIAL})


def test_viewers_do_not_disturb_the_run(monkeypatch):
    """One viewer that reads nothing, one that leaves, one that writes, and one too many."""
    with LiveServer("<!doctype html>") as server, ExitStack() as held:
        deaf = held.enter_context(socket.create_connection(server.hosts[0].split(":")))
        hello = f"GET /ws?token={server.token} HTTP/1.1\r\nHost: {server.hosts[0]}\r\nUpgrade: websocket\r\n"
        key = "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        deaf.sendall((hello + key).encode())
        while not server.viewers:
            time.sleep(0.01)
        # Only the viewer that reads nothing is slow, on any machine.
        monkeypatch.setattr("echelon.serve.live.SLOW_S", STUCK_S)
        with viewer(server):
            pass
        while server.viewers != 1:
            time.sleep(0.01)
        others = [held.enter_context(viewer(server)) for _ in range(MOST_VIEWERS - 1)]
        while server.viewers < MOST_VIEWERS:
            time.sleep(0.01)
        with pytest.raises(ConnectionClosed, match=re.escape(FULL)):
            viewer(server).recv(timeout=STUCK_S)
        others[0].send('{"drive": {"mech": "blue_0"}}')
        server.show(rollout(1, 20_000_000))
        assert [json.loads(each.recv(timeout=STUCK_S))["iteration"] for each in others] == [1] * len(others)
        server.show(rollout(2))
        assert [json.loads(each.recv(timeout=STUCK_S))["iteration"] for each in others] == [2] * len(others)
        late = None
        while late is None:  # the viewer that reads nothing is disconnected
            try:
                late = held.enter_context(viewer(server))
                told = json.loads(late.recv(timeout=STUCK_S))
            except ConnectionClosed:
                late = None
        assert told["iteration"] == 2
        held.close()
        while server.viewers:
            time.sleep(0.01)
        with viewer(server) as again:
            while not server.viewers:
                time.sleep(0.01)
            server.show(rollout(3))
            assert json.loads(again.recv(timeout=STUCK_S))["iteration"] == 3


def test_viewer_without_token_is_refused():
    from websockets.exceptions import InvalidStatus

    with LiveServer("<!doctype html>") as server:
        for token, origin in (("guess", None), (server.token, "http://stranger.example")):
            with pytest.raises(InvalidStatus, match="403"):
                connect(f"ws://{server.hosts[0]}/ws?token={token}", proxy=None, origin=origin, **PATIENT)


def test_used_port_prints_one_line(tmp_path):
    with LiveServer("") as server:
        number = int(server.hosts[0].split(":")[1])
        with pytest.raises(ConfigError, match=f"--dashboard-port {number}: Address already in use"):
            Trainer(tiny_run(), tmp_path, callbacks=[Live(number)])


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_run_with_live_page(tmp_path, number):
    words = ["pipelines/train.py", *TINY, "--total-agent-steps", "100000000", "--run-dir", str(tmp_path), "--dashboard"]
    process = Program(*words)
    with open(process._outputs[0].name) as said:
        while not (found := re.search(r"dashboard +http://(\S+?)/\?token=(\S+)", said.read())):
            assert process.poll() is None, process.communicate()
            said.seek(0)
            time.sleep(0.05)
    with connect(f"ws://{found[1]}/ws?token={found[2]}", proxy=None, max_size=None, **PATIENT) as looking:
        assert json.loads(looking.recv(timeout=STUCK_S))["type"] == "rollout"
        process.send_signal(number)
        with pytest.raises(ConnectionClosed):
            while True:
                looking.recv(timeout=STUCK_S)
    output, errors = process.communicate()
    assert process.returncode == 128 + number, errors
    assert f"{number.name}: stopped after iteration" in output

"""A page that shows the newest rollouts of a running training (`echelon-train --dashboard`)."""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.command.frame_buffer import Frame, FrameBuffer, frames_of
from echelon.env.observation.layout import GROUPS
from echelon.learn.callbacks.base import Callback, Metrics, TrainingRun
from echelon.learn.config import PAST
from echelon.learn.curriculum import SCRIPTED
from echelon.learn.opponents.assignment import LEARNER
from echelon.serve.page_server import (
    MATERIALS,
    POLICY_VIOLATION,
    THIS_MACHINE,
    Access,
    PageServer,
    ground_of,
    page_facts,
)
from echelon.viewer.pages import command_page, ground_picture

if TYPE_CHECKING:
    from websockets.sync.server import ServerConnection


MOST_VIEWERS = 8
FULL = f"{MOST_VIEWERS} viewers already watch this run; close one of their pages first"
LOOK_S = 0.5
"""Interval in seconds at which a waiting thread checks whether its viewer is still connected."""
SLOW_S = 2.0
"""Timeout in seconds for a viewer to read a message; a slower viewer is disconnected."""
LEAST_S = 0.5
"""Minimum time between two displayed rollouts; a GPU may play more than a person can see."""


class LiveRollout:
    """The message about one rollout, encoded once, by the thread of the first viewer.

    Args:
        facts: fields of the message, except its moments.
        grounds: initial materials `[Z, Y, X]` uint8, keyed by map index.
    """

    def __init__(self, facts: dict[str, Any], played: list[Frame], grounds: dict[int, np.ndarray]) -> None:
        self.facts, self.played, self.grounds = facts, played, grounds
        self._making = threading.Lock()

    def text(self) -> str:
        with self._making:
            return self._text

    @functools.cached_property
    def _text(self) -> str:
        pictures = {number: ground_picture(ground, MATERIALS) for number, ground in self.grounds.items()}
        message = {**self.facts, "type": "rollout", "grounds": pictures, "moments": self.played}
        return json.dumps(message, separators=(",", ":"))


class LiveServer(PageServer):
    """A server through which several viewers watch a training run; the server reads nothing from the viewers.

    Use the server as a context manager. Showing a rollout never blocks the training: each viewer has a thread, which
    sends the newest rollout.

    Args:
        page, port, token, access: see `PageServer`.
    """

    close_timeout_s = 1.0

    def __init__(self, page: str, port: int = 0, token: str = "", access: Access = THIS_MACHINE) -> None:
        super().__init__(page, port, token, ("--dashboard", "--dashboard-port"), access)
        self._news = threading.Condition()
        self._rollout: LiveRollout | None = None
        self._number = 0
        self._is_closed = False
        self.viewers = 0

    def __exit__(self, *error: object) -> None:
        with self._news:
            self._is_closed = True
            self._news.notify_all()
        super().__exit__(*error)

    def show(self, rollout: LiveRollout) -> None:
        """Show a rollout to all viewers."""
        with self._news:
            self._rollout, self._number = rollout, self._number + 1
            self._news.notify_all()

    def _attend(self, connection: ServerConnection) -> None:
        # Set a timeout, so that a viewer that does not read cannot delay the end of the run.
        connection.socket.settimeout(SLOW_S)
        with self._news:
            is_full = self.viewers == MOST_VIEWERS
            self.viewers += not is_full
        if is_full:
            with contextlib.suppress(self.closed):
                connection.close(POLICY_VIOLATION, FULL)
            return
        last_number = 0
        try:
            while not self._is_closed and connection.state.name == "OPEN":
                with self._news:
                    self._news.wait_for(lambda seen=last_number: self._is_closed or self._number > seen, LOOK_S)  # type: ignore[misc]
                    rollout, number = self._rollout, self._number
                if rollout is not None and number > last_number and not self._is_closed:
                    connection.send(rollout.text())
                    last_number = number
        except (self.closed, OSError):
            pass
        finally:
            with self._news:
                self.viewers -= 1
                # When the last viewer leaves, drop the rollout, so that the next viewer does not receive an old one.
                self._rollout = self._rollout if self.viewers else None


class Live(Callback):
    """Callback that shows the first battle of a training run to viewers; the server is on the first process.

    If no viewer is connected, nothing is copied from the device.

    Args:
        port: port to listen on; 0 for a free one.
        host: an address to listen on instead of 127.0.0.1, and host names by which a browser may reach the server.
    """

    def __init__(self, port: int = 0, host: tuple[str, ...] = ()) -> None:
        self.port, self.access = port, Access(host, "--dashboard-host")
        self.server: LiveServer | None = None
        """None before the run and on other processes."""
        self._serving = contextlib.ExitStack()
        self._frame_buffer: FrameBuffer | None = None
        self._filmed: object = None
        """The collector whose decisions are recorded; a new stage creates another one."""
        self._shown_s = self._began_s = 0.0

    def setup(self, trainer: TrainingRun) -> None:
        """Start the server.

        Raises:
            ConfigError: if the port is taken, or the package `websockets` is missing.
        """
        if not trainer.ranks.is_first:
            return
        token = secrets.token_urlsafe(24)
        page = command_page(page_facts(trainer.env, team_of(trainer), token, watches=True))
        self.server = self._serving.enter_context(LiveServer(page, self.port, token, self.access))

    def on_run_start(self, trainer: TrainingRun) -> None:
        if self.server is not None:
            trainer.log_plain(f"dashboard   {self.server.address}")

    def on_iteration_start(self, trainer: TrainingRun) -> None:
        """Start recording the decisions of the trainer's current collector, if it is a new one."""
        self._began_s = time.monotonic()
        if self.server is not None and self._filmed is not trainer.collector:
            self._frame_buffer = FrameBuffer(trainer.env.sim_model, trainer.env.state, trainer.collector.decisions)
            trainer.collector.on_decision.append(self._frame_buffer.keep)
            self._filmed = trainer.collector

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """Send the recorded rollout to the viewers."""
        now_s = time.monotonic()
        if self.server is None or self.server.viewers == 0 or now_s - self._shown_s < LEAST_S:
            return
        # In the first iteration of a curriculum stage, the new collector has not recorded a rollout yet.
        if self._frame_buffer is None or self._filmed is not trainer.collector:
            return
        self._shown_s = now_s
        sim_model, team = trainer.env.sim_model, team_of(trainer)
        frames = frames_of(self._frame_buffer.read(), sim_model, team == "red", trainer.env.agent_names)
        maps = {frame["map"] for frame in frames if "map" in frame}
        facts = {
            "iteration": trainer.counters.iterations,
            "agent_steps": trainer.counters.agent_steps,
            "seconds": round(now_s - self._began_s, 3),
            "decision_s": sim_model.rules.decision_s,
            **{group: name_of(trainer, group) for group in GROUPS},
        }
        grounds = {number: ground_of(trainer.env, number) for number in maps}
        self.server.show(LiveRollout(facts, frames, grounds))

    def close(self) -> None:
        self._serving.close()
        self.server = None


def owner_of(trainer: TrainingRun, group: str) -> str:
    """Return which policy commands a team in the first battle, as its name in `EnvTeams`."""
    return trainer.opponents.assignment.owners[group][0][1]


def team_of(trainer: TrainingRun) -> str:
    """Return the learner's team in the first battle; blue if the learner has both teams."""
    return next(group for group in GROUPS if owner_of(trainer, group) == LEARNER)


def name_of(trainer: TrainingRun, group: str) -> str:
    """Return a description of the commander of a team in the first battle."""
    owner = owner_of(trainer, group)
    names = {LEARNER: "the learner", SCRIPTED: trainer.curriculum.stage.opponent, PAST: "a frozen policy"}
    return names.get(owner, owner)

"""A battle that is commanded through a server and played by a thread."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

import echelon
from echelon import CommandConfig, CommandPort, EnvConfig
from echelon.command.session import Pace, Session
from echelon.serve.conversation import Clock, CommandServer, converse
from echelon.serve.page_server import page_facts
from echelon.viewer.pages import command_page

TOKEN = "known"


@dataclass
class Served:
    server: CommandServer
    session: Session
    thread: threading.Thread


def small_port(
    episode_s: float, period: int = 1, config: EnvConfig | None = None, side: str = "blue", battles: int = 1
) -> CommandPort:
    config = config or dataclasses.replace(EnvConfig.small(), map_pool=2)
    rules = dataclasses.replace(config.rules, max_episode_s=episode_s)
    config = dataclasses.replace(config, rules=rules, command=CommandConfig(enabled=True, period=period))
    return CommandPort(echelon.commanders(config, num_envs=battles, device="cpu", seed=3, side=side))


@contextmanager
def serving(
    port: CommandPort, clock: Clock, attend: Callable[[], object] = lambda: None, paused: bool = False
) -> Iterator[Served]:
    """Context manager: play the battle of a port and serve its page; `attend` is called before each step."""
    pace = Pace(port.view.config.command.period * port.view.config.rules.decision_s) if clock == "real" else None
    if pace is not None:
        pace.is_paused = paused
    session, team = Session(port, pace=pace), "red" if port.is_red[0] else "blue"
    with CommandServer(command_page(page_facts(port.view.env, team, TOKEN)), token=TOKEN) as server:

        def both() -> bool:
            attend()
            return server.wait_for_client()

        @torch.no_grad()
        def play() -> None:
            converse(session, clock, server.lines, server.say, both)

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        yield Served(server, session, thread)

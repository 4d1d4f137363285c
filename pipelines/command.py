"""The command of `arena.py` that lets a program, a language model or a person command battles."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import queue
import secrets
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch

from echelon.arena.match import MOST_PLAYED
from echelon.arena.resolve import resolve
from echelon.command.pace import Pace
from echelon.command.port import PORTS, CommandPort, named_over
from echelon.command.reply import Replies
from echelon.command.session import MOST_BYTES, Session
from echelon.datasets.commanded import CommandedGame
from echelon.datasets.dataset import DatasetWriter
from echelon.pipelines.access import Access
from echelon.pipelines.arena_args import ChosenBattle
from echelon.pipelines.command_server import CLIENT_LEFT, CommandServer
from echelon.pipelines.page_server import page_facts
from echelon.replay.battle import Replay
from echelon.replay.file import save
from echelon.replay.ground import rebuild
from echelon.replay.recorder import Recorder
from echelon.rules.orders import CommandConfig
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import SEED, Limits, Settings
from echelon.view.command_page import command_page
from echelon.view.run_report import replay_page
from echelon.views.commanders import commanders

Clock = Literal["step", "real", "fast"]
MOST_LATE = 1024
"""Lines that are taken in when the battles could go on."""


@dataclass(frozen=True)
class Command(Settings, ChosenBattle):
    """Command the packs of a team (docs/COMMAND.md): by lines of JSON on stdin or over a WebSocket, or in a browser."""

    blue: str = "stdio"
    """stdio: whoever writes to this program commands blue; ws: whoever comes to the address that it prints; human: you,
    in a browser; else what plays blue: heuristic:TIER, trained:NAME, a checkpoint, package.module:Commander."""
    red: str = "heuristic:hard"
    """The same for red. One of the two is stdio, ws or human."""
    mechs: str = "heuristic:hard"
    """What plays the mechs that are commanded."""
    battles: Annotated[int, Limits(1, MOST_PLAYED, "battles")] = 1
    """Battles side by side, each played once."""
    seed: Annotated[int, SEED] = 0
    clock: Clock | None = None
    """step: battles wait for a line after each report. real: they go on in real time, and orders count when they come.
    fast: they go on at once. None: step, for a human real."""
    period: int | None = None
    """Decisions between two reports. None: 8, for a human 1."""
    delay_s: float = CommandConfig.delay_s
    """How long an order is on its way to its pack."""
    words: bool = False
    """Tell each report in plain English besides."""
    port: Annotated[int, Limits(0, 65535)] = 0
    """Of the address of ws and human; 0: one that is free."""
    host: tuple[str, ...] = ()
    """For ws and human: an address to listen on in place of 127.0.0.1, such as 0.0.0.0 in a container, and names by
    which a browser reaches it from elsewhere. Whoever reaches it and knows the token may command."""
    browser: bool = True
    """Open a human's page in a browser."""
    device: str = "auto"
    replay: Path | None = None
    """Record the battles, at most 16, into this file."""
    dataset: Path | None = None
    """Keep the battles as data for learning in this file (docs/DATASETS.md): what everybody saw and did, your orders
    and what you drove. Whoever gives it consents to that; without it nothing of the kind is kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        ports = [team for team in ("blue", "red") if getattr(self, team) in PORTS]
        require(len(ports) == 1, "--blue and --red", f"one of them {' or '.join(PORTS)}", [self.blue, self.red])
        if self.kind == "human":
            require(self.battles == 1, "--battles", "1 for a human", self.battles)
            require(self.clock in (None, "real"), "--clock", "real for a human", self.clock)
        is_other_file = self.dataset is None or self.replay is None or self.dataset.resolve() != self.replay.resolve()
        require(is_other_file, "--dataset", "another file than the replay", str(self.dataset))

    @property
    def side(self) -> Literal["blue", "red"]:
        """The team that is commanded."""
        return "blue" if self.blue in PORTS else "red"

    @property
    def kind(self) -> str:
        """Who commands it, one of `PORTS`."""
        return str(getattr(self, self.side))

    @property
    def opponent(self) -> str:
        """What plays the other team."""
        return self.red if self.side == "blue" else self.blue

    @property
    def timing(self) -> Clock:
        """The clock, of those who say nothing of it the one that fits."""
        return self.clock or ("real" if self.kind == "human" else "step")

    def run(self) -> None:
        check_writable(self.replay, self.dataset)
        is_recorded = self.replay is not None or self.kind == "human"
        recorder = Recorder(range(min(self.battles, 16))) if is_recorded else None
        port = self.commanded(recorder)
        command, rules = port.view.config.command, port.view.config.rules
        pace = Pace(command.period * rules.decision_s) if self.timing == "real" else None
        session = Session(port, self.words, pace)
        if self.kind == "stdio":
            self.over_stdio(session)
            self.finished_replay(recorder)
        else:
            self.over_network(session, recorder)

    def over_stdio(self, session: Session) -> None:
        # The lines of the program are the conversation; nothing else may stand among them.
        stdout, sys.stdout = sys.stdout, sys.stderr
        try:
            with self.kept_as_data(session.port):
                replies = Replies(lines_of(functools.partial(os.read, sys.stdin.fileno())))

                def say(message: dict[str, Any]) -> None:
                    if message["type"] == "report":
                        replies.report_follows()
                    print(json.dumps(message, separators=(",", ":")), file=stdout, flush=True)

                converse(session, self.timing, replies, say)
        finally:
            sys.stdout = stdout

    def over_network(self, session: Session, recorder: Recorder | None) -> None:
        """Serve one client; a human is then offered what was played, until the program is interrupted."""
        token = secrets.token_urlsafe(24)
        env = session.port.view.env
        page = command_page(page_facts(env, self.side, token)) if self.kind == "human" else ""
        with CommandServer(page, self.port, token, Access(self.host)) as server:
            print(f"command     {server.address}", file=sys.stderr, flush=True)
            if page and self.browser:
                webbrowser.open(server.address)
            with self.kept_as_data(session.port):
                converse(session, self.timing, server.lines, server.say, server.wait_for_client)
            server.wait_until_told()
            replay = self.finished_replay(recorder)
            if page and replay is not None:
                server.offer(replay_page(replay, rebuild(replay, replay.battles[0])))
                print("the battle is over; Ctrl-C ends the program", file=sys.stderr, flush=True)
                with contextlib.suppress(KeyboardInterrupt):
                    threading.Event().wait()

    def finished_replay(self, recorder: Recorder | None) -> Replay | None:
        """What was recorded, written where that is asked for."""
        if recorder is None:
            return None
        count = len(recorder.battles)
        blue, red = self.names
        replay = recorder.finish(blue=[blue] * count, red=[red] * count)
        if self.replay is not None:
            save(replay, self.replay)
        return replay

    @property
    def names(self) -> tuple[str, str]:
        """Who commands blue and red, in words."""
        commander = named_over(self.kind, self.mechs)
        return (commander, self.opponent) if self.side == "blue" else (self.opponent, commander)

    @contextlib.contextmanager
    def kept_as_data(self, port: CommandPort) -> Iterator[None]:
        """Write the battles that are played inside as a dataset, where that is asked for; none after an error."""
        if self.dataset is None:
            yield
            return
        with DatasetWriter(self.dataset, port.view.config, self.names) as writer:
            game = CommandedGame(port, writer, self.names)
            yield
            game.end()
        print(f"dataset     {self.dataset}: {writer.lengths['rows']} decisions", file=sys.stderr, flush=True)

    def commanded(self, recorder: Recorder | None = None) -> CommandPort:
        """The battles, ready to be commanded."""
        team_commanders = [resolve(self.mechs), resolve(self.opponent)]
        config = self.config(team_commanders)
        default = 1 if self.kind == "human" else CommandConfig.period
        period = default if self.period is None else self.period
        command = dataclasses.replace(config.command, enabled=True, period=period, delay_s=self.delay_s)
        config = dataclasses.replace(config, command=command)
        device = resolve_device(self.device)
        policies = [commander.policy(config, device) for commander in team_commanders]
        torch.set_grad_enabled(False)
        view = commanders(
            config, policies[0], policies[1], self.battles, device, self.seed, side=self.side, observer=recorder
        )
        return CommandPort(view)


def converse(
    session: Session,
    clock: Clock,
    lines: queue.Queue[Any] | Replies,
    say: Callable[[Any], None],
    attend: Callable[[], bool] = lambda: False,
) -> None:
    """Report, take orders, play on, until every battle has ended.

    Args:
        lines: the replies of the other side; None at its end, `CLIENT_LEFT` where one writer left and another may come.
        say: writes a message to it.
        attend: returns once somebody is there; until then no battle goes on. Whether nobody was.

    Raises:
        ConfigError: the other side has gone before the battles ended.
    """
    say(session.begin())
    if session.pace is not None:
        say(session.pace.as_json())
    while not session.is_over:
        say(session.report())
        for line in waiting(lines, clock, session.pace):
            if line is CLIENT_LEFT:
                session.left()
                continue
            if line is None:
                count = sum(session.port.ended)
                reason = f"stdin ended after report {session.number}, {count} of {len(session.port.ended)} battles had"
                raise ConfigError(f"{reason}: a line of orders is expected after each report, {{}} for none")
            answer = session.receive(line)
            if answer:
                say(answer)
        if attend():
            session.left()
        if session.pace is not None:
            session.pace.skip_to_now()
        for message in session.advance():
            say(message)
    say(session.result())


def waiting(lines: queue.Queue[Any] | Replies, clock: Clock, pace: Pace | None) -> Iterator[Any]:
    """The replies that count before the battles go on: one with the clock `step`, else those that came until then."""
    if clock == "step":
        line = CLIENT_LEFT
        while line is CLIENT_LEFT:
            line = lines.get()
            yield line
        return
    late = 0
    # Whoever writes without end holds up no battle.
    while late < MOST_LATE:
        left_s = pace.left_s if pace is not None else 0.0
        late += left_s <= 0
        try:
            line = lines.get(timeout=None if math.isinf(left_s) else left_s) if left_s > 0 else lines.get_nowait()
        except queue.Empty:
            return
        if line is None:
            # Whoever has gone commands no more; the battles go on.
            if pace is not None:
                pace.set({"pause": False})
            return
        yield line


def lines_of(read: Callable[[int], bytes]) -> queue.Queue[bytes | None]:
    """The lines of what `read` returns at most so many bytes of, as they come, by a thread; None at its end. Of a line
    that is too long its beginning."""
    lines: queue.Queue[bytes | None] = queue.Queue(maxsize=MOST_LATE)

    def split() -> None:
        partial_line = b""
        while chunk := read(1 << 16):
            *complete, partial_line = (partial_line + chunk).split(b"\n")
            for line in complete:
                lines.put(line[: MOST_BYTES + 1])
            partial_line = partial_line[: MOST_BYTES + 1]
        if partial_line:
            lines.put(partial_line)
        lines.put(None)

    # Not by Python's own buffer of stdin: its lock, held by a thread that waits, is fatal when the program ends.
    threading.Thread(target=split, daemon=True).start()
    return lines

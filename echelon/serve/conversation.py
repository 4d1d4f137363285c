"""The conversation in which battles are commanded: reports, orders, and the clock between them."""

from __future__ import annotations

import contextlib
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
from typing import Any, Literal

from echelon.command.pace import Pace
from echelon.command.reply import MOST_BYTES, Replies
from echelon.command.session import Session
from echelon.datasets.commanded import CommandedGame
from echelon.datasets.dataset import DatasetWriter
from echelon.replay.battle import Replay
from echelon.replay.file import save
from echelon.replay.ground import rebuild
from echelon.replay.recorder import Recorder
from echelon.runtime.errors import ConfigError
from echelon.serve.access import Access
from echelon.serve.command_server import CLIENT_LEFT, CommandServer
from echelon.serve.page_server import page_facts
from echelon.viewer.pages import command_page, replay_page

Clock = Literal["step", "real", "fast"]


MOST_LATE = 1024
"""Lines that are taken in when the battles could go on."""


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


@dataclass(frozen=True)
class CommandedBattles:
    """Battles in progress that a client commands, and the files that are written of them.

    Args:
        clock: when the battles go on.
        names: the commanders of blue and red, in words.
        recorder: what records the battles, or None.
        replay, dataset: files that are written at the end, or None.
    """

    session: Session
    clock: Clock
    names: tuple[str, str]
    recorder: Recorder | None = None
    replay: Path | None = None
    dataset: Path | None = None

    def over_stdio(self) -> None:
        """Talk by lines of JSON on stdin and stdout."""
        # The lines of the program are the conversation; nothing else may stand among them.
        stdout, sys.stdout = sys.stdout, sys.stderr
        try:
            with self.kept_as_data():
                replies = Replies(lines_of(functools.partial(os.read, sys.stdin.fileno())))

                def say(message: dict[str, Any]) -> None:
                    if message["type"] == "report":
                        replies.report_follows()
                    print(json.dumps(message, separators=(",", ":")), file=stdout, flush=True)

                converse(self.session, self.clock, replies, say)
        finally:
            sys.stdout = stdout
        self.finished_replay()

    def over_network(self, side: str, is_human: bool, port: int, access: Access, opens: bool) -> None:
        """Serve one client; a human is then offered what was played, until the program is interrupted.

        Args:
            side: the team that is commanded.
            is_human: whether a page is served to a person.
            opens: whether that page is opened in a browser here.
        """
        token = secrets.token_urlsafe(24)
        page = command_page(page_facts(self.session.port.view.env, side, token)) if is_human else ""
        with CommandServer(page, port, token, access) as server:
            print(f"command     {server.address}", file=sys.stderr, flush=True)
            if page and opens:
                webbrowser.open(server.address)
            with self.kept_as_data():
                converse(self.session, self.clock, server.lines, server.say, server.wait_for_client)
            server.wait_until_told()
            replay = self.finished_replay()
            if page and replay is not None:
                server.offer(replay_page(replay, rebuild(replay, replay.battles[0])))
                print("the battle is over; Ctrl-C ends the program", file=sys.stderr, flush=True)
                with contextlib.suppress(KeyboardInterrupt):
                    threading.Event().wait()

    def finished_replay(self) -> Replay | None:
        """What was recorded, written where that is asked for."""
        if self.recorder is None:
            return None
        count = len(self.recorder.battles)
        blue, red = self.names
        replay = self.recorder.finish(blue=[blue] * count, red=[red] * count)
        if self.replay is not None:
            save(replay, self.replay)
        return replay

    @contextlib.contextmanager
    def kept_as_data(self) -> Iterator[None]:
        """Write the battles that are played inside as a dataset, where that is asked for; none after an error."""
        if self.dataset is None:
            yield
            return
        port = self.session.port
        with DatasetWriter(self.dataset, port.view.config, self.names) as writer:
            game = CommandedGame(port, writer, self.names)
            yield
            game.end()
        print(f"dataset     {self.dataset}: {writer.lengths['rows']} decisions", file=sys.stderr, flush=True)

"""The server through which one program or person commands battles over a WebSocket.

The server transports the lines of a `Session`, and serves the pages that it was created with.
"""

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
from typing import TYPE_CHECKING, Any, Literal

from echelon.command.chat_commander import ChatCommander, command_battles
from echelon.command.reply import MOST_BYTES, Replies
from echelon.command.report import WINNERS
from echelon.command.session import Pace, Session
from echelon.datasets.dataset import CommandedGame, DatasetWriter
from echelon.replay.battle import Replay
from echelon.replay.file import save
from echelon.replay.ground import rebuild
from echelon.replay.recorder import Recorder
from echelon.runtime.errors import ConfigError
from echelon.serve.page_server import POLICY_VIOLATION, THIS_MACHINE, Access, PageServer, page_facts
from echelon.viewer.pages import command_page, replay_page

if TYPE_CHECKING:
    from websockets.sync.server import ServerConnection


REPLAY = "/replay"
MOST_LINES = 64
"""Maximum number of lines that wait for the battles; then the client has to wait."""
LOOK_S = 0.2
"""Interval in seconds at which a waiting line checks whether the server has closed."""
KEPT_LAST = ("begin", "report", "pace", "result", "replay")
"""Types of messages whose last one is repeated to a client that reconnects; messages `end` are all repeated."""
OTHER_CLIENT = "another client already commands these battles; close that page or program first"
CLIENT_LEFT = object()
"""Marks in the queue of lines that the client has left."""


class CommandServer(PageServer):
    """A server through which one client at a time commands battles. Use it as a context manager.

    If no client is connected, messages are sent to the next client.

    Args:
        page, port, token, access: see `PageServer`.
    """

    def __init__(self, page: str = "", port: int = 0, token: str = "", access: Access = THIS_MACHINE) -> None:
        super().__init__(page, port, token, access=access)
        self.lines: queue.Queue[Any] = queue.Queue(MOST_LINES)
        """Lines received from the client."""
        self._seat = threading.Condition()
        self._client: ServerConnection | None = None
        self._kept: dict[str, list[str]] = {name: [] for name in ("begin", "end", *KEPT_LAST[1:])}
        self._is_told = False
        self._is_closed = threading.Event()

    @property
    def has_client(self) -> bool:
        return self._client is not None

    def __exit__(self, *error: object) -> None:
        self._is_closed.set()
        client = self._client
        if client is not None:
            client.close()
        super().__exit__(*error)

    # For the battle loop

    def say(self, message: dict[str, Any]) -> None:
        """Send a message to the client, now or when a client connects."""
        text, kind = json.dumps(message, separators=(",", ":")), message["type"]
        with self._seat:
            if kind == "end":
                self._kept[kind].append(text)
            elif kind in KEPT_LAST:
                self._kept[kind] = [text]
            self._is_told = False
            if self._client is not None:
                # Ignore a closed connection here: the client's own thread handles it after reading the last line.
                with contextlib.suppress(self.closed):
                    self._client.send(text)
                    self._is_told = True

    def wait_for_client(self) -> bool:
        """Wait for a client; return whether no client was connected at the call."""
        with self._seat:
            was_alone = self._client is None
            self._seat.wait_for(lambda: self._client is not None)
            return was_alone

    def wait_until_told(self) -> None:
        """Wait until the last message was sent to a client, which may have left in the meantime."""
        with self._seat:
            self._seat.wait_for(lambda: self._is_told)

    def offer(self, page: str) -> None:
        """Serve the replay page of the played battle, and send the page's path to the client."""
        self.pages[REPLAY] = page
        self.say({"type": "replay", "path": REPLAY})

    # For connections

    def _attend(self, connection: ServerConnection) -> None:
        if not self._seated(connection):
            with contextlib.suppress(self.closed):
                connection.send(json.dumps({"type": "refused", "errors": [OTHER_CLIENT]}))
                connection.close(POLICY_VIOLATION, OTHER_CLIENT)
            return
        try:
            for line in connection:
                self._take(line)
        except self.closed:
            pass
        finally:
            self._take(CLIENT_LEFT)
            with self._seat:
                self._client = None

    def _seated(self, connection: ServerConnection) -> bool:
        """Register a connection as the client and send missed messages; return False if another client is connected."""
        with self._seat:
            if self._client is not None:
                return False
            self._client = connection
            with contextlib.suppress(self.closed):
                for texts in self._kept.values():
                    for text in texts:
                        connection.send(text)
                self._is_told = True
            self._seat.notify_all()
            return True

    def _take(self, line: object) -> None:
        """Put a line into the queue; wait while the queue is full."""
        while not self._is_closed.is_set():
            try:
                self.lines.put(line, timeout=LOOK_S)
                return
            except queue.Full:
                continue


Clock = Literal["step", "real", "fast"]


MOST_LATE = 1024
"""Maximum number of lines that are read after the battles could continue."""


def converse(
    session: Session,
    clock: Clock,
    lines: queue.Queue[Any] | Replies,
    say: Callable[[Any], None],
    attend: Callable[[], bool] = lambda: False,
) -> None:
    """Send reports, receive orders and play, until the first battle in every batch slot has ended.

    Args:
        lines: replies of the client; None marks their end, `CLIENT_LEFT` means that the client left and another one may
            come.
        say: function that sends a message to the client.
        attend: function that waits for a client while the battles are stopped; it returns whether no client was
            connected.

    Raises:
        ConfigError: if the replies end before the battles have ended.
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
                raise ConfigError(f"{reason}: expected a line of orders after each report, {{}} for none")
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
    """Yield the replies that arrive before the battles continue: one for the clock `step`, otherwise all in time."""
    if clock == "step":
        line = CLIENT_LEFT
        while line is CLIENT_LEFT:
            line = lines.get()
            yield line
        return
    late = 0
    # Accept a limited number of late lines, so that a client that never stops sending cannot stop the battles.
    while late < MOST_LATE:
        left_s = pace.left_s if pace is not None else 0.0
        late += left_s <= 0
        try:
            line = lines.get(timeout=None if math.isinf(left_s) else left_s) if left_s > 0 else lines.get_nowait()
        except queue.Empty:
            return
        if line is None:
            # After the last reply the battles continue without pause.
            if pace is not None:
                pace.set({"pause": False})
            return
        yield line


def lines_of(read: Callable[[int], bytes]) -> queue.Queue[bytes | None]:
    """Read lines in a thread, by calling `read(size)`, and put them into a queue; None marks the end.

    Lines that are too long are truncated.
    """
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

    # Read with `os.read`: a thread that waits for `sys.stdin` holds its lock and crashes the interpreter at exit.
    threading.Thread(target=split, daemon=True).start()
    return lines


@dataclass(frozen=True)
class CommandedBattles:
    """Running battles that a client commands, and the files to write at their end.

    Args:
        clock: when the battles continue.
        names: names of blue's and red's commander, for display.
        recorder: recorder of the battles, or None.
        replay, dataset: files to write at the end, or None.
    """

    session: Session
    clock: Clock
    names: tuple[str, str]
    recorder: Recorder | None = None
    replay: Path | None = None
    dataset: Path | None = None

    def over_stdio(self) -> None:
        """Command the battles through lines of JSON on stdin and stdout."""
        # Stdout carries only protocol messages, so print all other output to stderr.
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
        """Command the battles through a server with one client; a person can view the replay at the end.

        The replay is served until the program is interrupted.

        Args:
            side: the commanded team.
            is_human: whether to serve a page for a person.
            opens: whether to open this page in a browser on this machine.
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
                # Ctrl-C is the normal end here, once the client has the replay page.
                with contextlib.suppress(KeyboardInterrupt):
                    server.offer(replay_page(replay, rebuild(replay, replay.battles[0])))
                    print("the battle is over; Ctrl-C ends the program", file=sys.stderr, flush=True)
                    threading.Event().wait()

    def over_model(self, commander: ChatCommander) -> None:
        """Let a language model command the battles; print the result and a summary of the model's calls as JSON."""
        port = self.session.port
        try:
            with self.kept_as_data():
                command_battles(port, commander)
        finally:
            commander.close()
        self.finished_replay()
        won_by = {winner: port.winners.count(winner) for winner in WINNERS}
        print(json.dumps({"type": "result", "won_by": won_by, **commander.facts()}, separators=(",", ":")))

    def finished_replay(self) -> Replay | None:
        """Return the recorded replay, or None; if a replay file is given, write the replay to it."""
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
        """Context manager that writes the battles as a dataset, if a file is given and no error occurs."""
        if self.dataset is None:
            yield
            return
        port = self.session.port
        with DatasetWriter(self.dataset, port.view.config, self.names) as writer:
            game = CommandedGame(port, writer, self.names)
            yield
            game.end()
        print(f"dataset     {self.dataset}: {writer.lengths['rows']} decisions", file=sys.stderr, flush=True)

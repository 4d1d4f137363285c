"""The server through which one program or person commands battles, over a WebSocket.

It carries the lines of a `Session` and hands out the pages that it was made with.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from typing import TYPE_CHECKING, Any

from echelon.serve.access import THIS_MACHINE, Access
from echelon.serve.page_server import POLICY_VIOLATION, PageServer

if TYPE_CHECKING:
    from websockets.sync.server import ServerConnection

REPLAY = "/replay"
MOST_LINES = 64
"""That wait for the battles; whoever writes more waits too."""
LOOK_S = 0.2
"""How often a line that waits looks whether anybody will read it."""
KEPT_LAST = ("begin", "report", "pace", "result", "replay")
"""Types of messages of which whoever comes back is told the last one; of `end` all."""
OTHER_CLIENT = "someone commands these battles already; close that page or program first"
CLIENT_LEFT = object()
"""Among the lines: whoever wrote those before has gone."""


class CommandServer(PageServer):
    """The address at which battles are commanded, by one client at a time. Use it as a context.

    What is said while nobody is there is told to whoever comes next.

    Args:
        page, port, token, access: as in `PageServer`.
    """

    def __init__(self, page: str = "", port: int = 0, token: str = "", access: Access = THIS_MACHINE) -> None:
        super().__init__(page, port, token, access=access)
        self.lines: queue.Queue[Any] = queue.Queue(MOST_LINES)
        """What the client writes."""
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

    # For whoever plays the battles

    def say(self, message: dict[str, Any]) -> None:
        """Tell the client; it is told later where there is none."""
        text, kind = json.dumps(message, separators=(",", ":")), message["type"]
        with self._seat:
            if kind == "end":
                self._kept[kind].append(text)
            elif kind in KEPT_LAST:
                self._kept[kind] = [text]
            self._is_told = False
            if self._client is not None:
                # Its own thread lets it go, behind its last line.
                with contextlib.suppress(self.closed):
                    self._client.send(text)
                    self._is_told = True

    def wait_for_client(self) -> bool:
        """Return once a client is there; whether nobody was."""
        with self._seat:
            was_alone = self._client is None
            self._seat.wait_for(lambda: self._client is not None)
            return was_alone

    def wait_until_told(self) -> None:
        """Return once what was said last was sent to a client, who may have gone since."""
        with self._seat:
            self._seat.wait_for(lambda: self._is_told)

    def offer(self, page: str) -> None:
        """Show a page of the battle that was played, and tell the client of it."""
        self.pages[REPLAY] = page
        self.say({"type": "replay", "path": REPLAY})

    # For whoever comes to the address

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
        """Whether nobody else is there; then the connection is the client, and is told what it missed."""
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
        """Keep a line until the battles are ready for it."""
        while not self._is_closed.is_set():
            try:
                self.lines.put(line, timeout=LOOK_S)
                return
            except queue.Full:
                continue

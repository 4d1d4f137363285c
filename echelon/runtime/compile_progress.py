"""What torch.compile is busy with: a line as it begins with a function, and one when it is done."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

logger = logging.getLogger(__name__)
"""Its lines are of level INFO; programs print them."""


class Progress:
    """Logs every compilation of the functions that were announced by `expect` and are called within `calling`."""

    def __init__(self) -> None:
        self.expected: list[str] = []
        """Names of the functions that may be compiled in this process, each once."""
        self.compiled: list[str] = []
        """Those that were, once for every graph."""
        self.seconds = 0.0
        """Spent on them."""
        self._began = 0.0
        self._thread = threading.local()

    def expect(self, name: str) -> None:
        """Announce a function that is compiled when it is first called."""
        if name not in self.expected:
            self.expected.append(name)
        # Imported late, for it takes a second; whoever resets Dynamo removes callbacks.
        from torch._dynamo.callback import callback_handler as handler

        for add, remove, callback in (
            (handler.register_start_callback, handler.remove_start_callback, self._start),
            (handler.register_end_callback, handler.remove_end_callback, self._end),
        ):
            with contextlib.suppress(ValueError):
                remove(callback)
            add(callback)

    @contextlib.contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Within, what this thread compiles is the function of this name."""
        before = getattr(self._thread, "name", None)
        self._thread.name = name
        try:
            yield
        finally:
            self._thread.name = before

    def _start(self, *_: Any) -> None:
        name = getattr(self._thread, "name", None)
        if name is None:
            return
        self._began = time.monotonic()
        number, most = len(set(self.compiled)) + 1, len(self.expected)
        # For other shapes or dtypes, or the way back of a loss.
        which = "again" if name in self.compiled else f"({number} of at most {most})"
        logger.info("compiling %s %s, %.0f s so far", name, which, self.seconds)

    def _end(self, *_: Any) -> None:
        name = getattr(self._thread, "name", None)
        if name is None:
            return
        spent = time.monotonic() - self._began
        self.seconds += spent
        self.compiled.append(name)
        logger.info("compiled %s in %.0f s", name, spent)


PROGRESS = Progress()
"""That of this process."""

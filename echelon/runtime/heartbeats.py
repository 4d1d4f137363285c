"""Which processes of a run are still at work: each raises a counter in torch's store, and the others read it."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from typing import Any

from torch import distributed as dist

BEATS = 10
"""Beats of a process within the patience of the others."""


class Heartbeats:
    """The heartbeats of all processes; this one begins to beat, in a thread of its own.

    All processes must be joined before `silent` is called: the counters of all are then in the store.

    Args:
        store: the store that all processes share; the thread uses a connection of its own.
        patience_s: seconds without a beat after which a process counts as silent.
    """

    def __init__(self, store: dist.Store, rank: int, size: int, patience_s: float) -> None:
        self.store, self.patience_s = store, patience_s
        self.keys = [self._key(other) for other in range(size)]
        self.seen: dict[int, tuple[bytes, float]] = {}
        """Of each process, its last counter and when this process read it first, by `time.monotonic`."""
        store.set(self._key(rank), "0")
        self._ended = threading.Event()
        own: Any = store  # torch's stubs lack `clone`
        self._thread = threading.Thread(target=self._beat, args=(own.clone(), self._key(rank)), daemon=True)
        self._thread.start()
        # A thread that asks for Python's lock while the interpreter ends aborts it.
        atexit.register(self.stop)

    def _key(self, rank: int) -> str:
        return f"heartbeat of rank {rank}"

    def _beat(self, store: dist.Store, key: str) -> None:
        count = 0
        # Without a store the run has ended elsewhere.
        with contextlib.suppress(RuntimeError):
            while not self._ended.wait(self.patience_s / BEATS):
                count += 1
                store.set(key, str(count))

    def silent(self) -> list[int]:
        """The processes whose counter has been the same for `patience_s`."""
        now = time.monotonic()
        for rank, count in enumerate(self.store.multi_get(self.keys)):
            if rank not in self.seen or self.seen[rank][0] != count:
                self.seen[rank] = count, now
        return [rank for rank, (_, since) in self.seen.items() if now - since > self.patience_s]

    def stop(self) -> None:
        """End the thread; again without effect."""
        self._ended.set()
        self._thread.join(timeout=self.patience_s / BEATS)
        atexit.unregister(self.stop)

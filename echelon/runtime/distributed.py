"""The processes that `torchrun` starts on one machine or several, each with its own battles: data-parallel training.

Each process raises a counter in the store of torch; the others read it, to know which processes still work.
"""

import atexit
import contextlib
import datetime
import gc
import hashlib
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from echelon.runtime.device import use_device
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError

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


MOST_PROCESSES = 1 << 20
"""Processes of a run."""
PATIENCE_S = 1800
"""Seconds until processes that do not join, and those without a heartbeat, are given up; also the timeout of
collectives on a GPU. A process that is at work is waited for, however long its evaluation takes."""
FOREVER = datetime.timedelta(days=30)
"""Timeout of collectives on a CPU, which end with `Ranks.beats`."""
TELLS_AFTER_S = 2.0
"""Seconds after which a process says for whom it waits; those that `torchrun` starts together meet within them."""
GONE_WITHIN_S = 30.0
"""Seconds to wait for a disconnected process to show up as ended, see `Ranks.explain_failure`."""


class Ranks:
    """Rank of this process and collectives over all of them; a single process by default.

    Args:
        rank: global rank, 0..size - 1. Rank 0 writes files and prints.
        local: local rank on this machine, which is the index of its GPU.
    """

    def __init__(self, rank: int = 0, size: int = 1, local: int = 0) -> None:
        self.rank = rank
        self.size = size
        self.local = local
        self.pids: list[int] = []
        """Process id of each rank on this machine, as far as it can be seen from here; 0 for all others."""
        self.beats: Heartbeats | None = None
        """Heartbeats of all processes; None for a single one."""
        self.group: dist.ProcessGroup | None = None
        """Group of the collectives on a CPU, without a timeout of their own; None for the default group."""

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes files and prints."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        return self.size == 1

    def sum(self, value: Tensor) -> Tensor:
        """Sum over all processes; `value` is not modified."""
        return value if self.is_alone else self._all_reduce(value, dist.ReduceOp.SUM)

    def mean(self, value: Tensor) -> Tensor:
        """Mean over all processes; `value` is not modified."""
        return self.sum(value) / self.size

    def max(self, value: float) -> float:
        """Maximum over all processes. Syncs with the device."""
        return self.maxima([value])[0]

    def maxima(self, values: Sequence[float]) -> list[float]:
        """Maximum of each value over all processes, in one all-reduce. Syncs with the device."""
        if self.is_alone:
            return [float(value) for value in values]
        tensor = torch.tensor([float(value) for value in values], dtype=torch.float64, device="cpu")
        return self._all_reduce(tensor, dist.ReduceOp.MAX).tolist()

    def _all_reduce(self, value: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
        # Inference tensors of a rollout cannot be modified outside inference mode.
        with torch.inference_mode(False), torch.no_grad():
            reduced = value.detach().clone()
            if reduced.is_cuda:
                dist.all_reduce(reduced, how)
            else:
                self._wait(dist.all_reduce(reduced, how, group=self.group, async_op=True))
            return reduced

    def _wait(self, work: dist.Work) -> None:
        """Wait for a collective on a CPU for as long as all processes are at work."""
        while self.beats is not None and not work.is_completed():
            with contextlib.suppress(RuntimeError):  # not yet, or failed, which the last line raises
                work.wait(datetime.timedelta(seconds=self.beats.patience_s / BEATS))
            silent = [] if work.is_completed() else self.beats.silent()
            if silent:
                names = " and ".join(f"rank {rank}" for rank in silent)
                raise dist.DistError(f"{names}: no heartbeat for {self.beats.patience_s:g} s")
        work.wait()

    def gather(self, value: Tensor) -> list[Tensor]:
        """Tensors of all processes, by rank. They must be on the CPU and of equal shape."""
        if self.is_alone:
            return [value]
        gathered = [torch.empty_like(value) for _ in range(self.size)]
        self._wait(dist.all_gather(gathered, value, group=self.group, async_op=True))
        return gathered

    def broadcast_text(self, text: str) -> str:
        """Broadcast a string from rank 0; the argument of other ranks is ignored."""
        return self.gather_texts(text if self.is_first else "")[0]

    def gather_texts(self, text: str) -> list[str]:
        """Strings of all processes, by rank."""
        # A path need not be UTF-8: Python tells its other bytes as surrogates.
        encoded = text.encode(errors="surrogatepass")
        lengths = [int(length) for length in self.gather(torch.tensor(len(encoded), device="cpu"))]
        padded = torch.zeros(max(lengths), dtype=torch.uint8, device="cpu")
        padded[: len(encoded)] = torch.frombuffer(bytearray(encoded), dtype=torch.uint8) if encoded else 0
        pairs = zip(self.gather(padded), lengths, strict=True)
        return [value[:length].numpy().tobytes().decode(errors="surrogatepass") for value, length in pairs]

    def barrier(self) -> None:
        """Wait until all processes have reached this call."""
        self.max(0.0)

    def check_shared(self, name: str, folder: Path) -> None:
        """Wait for all processes, and refuse on each of them a folder that not all can see and write to.

        Args:
            name: of the setting, for the error.
        """
        if self.is_alone:
            return
        # No file system has a name in its cache that nobody asked for before.
        mark = folder / f".shared.{self.broadcast_text(uuid.uuid4().hex)}"
        if self.is_first:
            mark.touch()
        self.barrier()
        own_mark, problem = mark.with_name(f"{mark.name}.{self.rank}"), "does not see it"
        if mark.exists():
            try:
                own_mark.touch()
                own_mark.unlink()
                problem = ""
            except OSError as error:
                problem = f"cannot write to it ({error.strerror})"
        messages = self.gather_texts(problem and f"{socket.gethostname()} {problem}")
        if self.is_first:
            mark.unlink()
        failures = ", ".join(f"rank {rank} on {text}" for rank, text in enumerate(messages) if text)
        require(not failures, name, f"a folder that all machines share: {failures}", str(folder))

    def place(self, device: torch.device) -> torch.device:
        """Device of this process, made the current one: of several processes each uses the GPU of its local rank."""
        if self.is_alone or device.type != "cuda":
            return use_device(device)
        count = torch.cuda.device_count()
        require(self.local < count, "--nproc-per-node", f"<= {count}, the GPUs of this machine", self.local + 1)
        return use_device(torch.device("cuda", self.local))

    def with_rank(self, line: str) -> str:
        """`line`, prefixed with the rank if there are several processes."""
        return line if self.is_alone else f"rank {self.rank} of {self.size}: {line}"

    @contextlib.contextmanager
    def errors_in_a_line(self) -> Iterator[None]:
        """Context manager in which errors name the rank, and the end of another process ends this one in one line."""
        try:
            yield
        except (ConfigError, FileError) as error:
            raise ConfigError(self.with_rank(str(error))) from None
        except RuntimeError as error:
            explained = self.explain_failure(error)
            if explained is None:
                raise
            # Print while signals are still handled: the launcher sends one as soon as a process has died.
            print(f"error: {explained}", file=sys.stderr, flush=True)
            sys.exit(1)

    def explain_failure(self, error: RuntimeError) -> ConfigError | None:
        """One-line error for a collective that failed because another process ended; None for any other error."""
        if self.is_alone or not (isinstance(error, dist.DistError) or "gloo" in str(error).lower()):
            return None
        deadline = time.monotonic() + GONE_WITHIN_S
        ended: list[int] = []
        # Of other machines nothing can be seen, and their launchers wait for this process.
        is_visible = any(self.pids[: self.rank] + self.pids[self.rank + 1 :])
        while is_visible and not ended and time.monotonic() < deadline:
            ended = [rank for rank, pid in enumerate(self.pids) if pid and has_ended(pid)]
            time.sleep(0.02)
        reason = (
            " and ".join(f"rank {rank}" for rank in ended) + " is gone" if ended else "another process does not answer"
        )
        return ConfigError(self.with_rank(f"{reason}, so the run ends here; go on with --resume latest"))


ALONE = Ranks()


def init_ranks() -> Ranks:
    """Initialise the process group from `torchrun`'s environment variables; a single process without them."""
    size = environment_number("WORLD_SIZE", 1, MOST_PROCESSES, "1")
    if size == 1:
        return Ranks()
    ranks = Ranks(
        environment_number("RANK", 0, size - 1), size, environment_number("LOCAL_RANK", 0, size - 1, default="0")
    )
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    address = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    awaited = f"all {size} processes" if ranks.is_first else "rank 0"
    line = ranks.with_rank(f"waiting for {awaited} at {address}, {PATIENCE_S // 60} minutes at most")
    try:
        with told_after(TELLS_AFTER_S, line):
            timeout = datetime.timedelta(seconds=PATIENCE_S)
            store, rank, size = next(dist.rendezvous("env://", timeout=timeout))
            store.set_timeout(timeout)
            group_store = dist.PrefixStore("group", store)
            dist.init_process_group(backend, store=group_store, rank=rank, world_size=size, timeout=timeout)
            ranks.group = dist.new_group(backend="gloo", timeout=FOREVER)
        ranks.beats = Heartbeats(dist.PrefixStore("echelon", store), rank, size, PATIENCE_S)
    except (RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(ranks.with_rank(f"cannot join the other processes of torchrun: {reason}")) from None
    machine = int.from_bytes(hashlib.sha256(where_pids_hold().encode()).digest()[:7], "little")
    processes = [row.tolist() for row in ranks.gather(torch.tensor([os.getpid(), machine], device="cpu"))]
    ranks.pids = [pid if host == machine else 0 for pid, host in processes]
    return ranks


def where_pids_hold() -> str:
    """Names the system, or the container of it, in which a process id means what it means here. Names of hosts need not
    differ."""
    names = [socket.gethostname()]
    with contextlib.suppress(OSError):
        names += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return "\n".join(names)


@contextlib.contextmanager
def told_after(seconds: float, line: str) -> Iterator[None]:
    """Context manager that prints a line to stderr if what runs inside takes longer than this."""
    timer = threading.Timer(seconds, print, (line,), {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def environment_number(name: str, low: int, high: int, default: str = "") -> int:
    """An integer that `torchrun` tells in a variable of the environment."""
    text = os.environ.get(name, default)
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    require(low <= number <= high, name, f"{low}..{high}, as torchrun sets it", text)
    return number


def destroy_ranks(ranks: Ranks) -> None:
    """Destroy the process group, if there is one. Trainers that used it must be gone: they hold it."""
    if ranks.beats is not None:
        ranks.beats.stop()
    if not ranks.is_alone:
        # Threads of a group that outlives this may ask for Python's lock while the interpreter ends, and abort it.
        gc.collect()
        dist.destroy_process_group()


def has_ended(pid: int) -> bool:
    """Whether a process of this machine has ended or is a zombie. False where there is no /proc."""
    stat_file = Path(f"/proc/{pid}/stat")
    try:
        return stat_file.read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return Path("/proc").exists()

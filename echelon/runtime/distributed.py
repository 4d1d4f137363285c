"""Data-parallel training with the processes that `torchrun` starts on one or more machines, each with its own battles.

Each process increments a counter in torch's store. The other processes read the counters to detect processes that have
stopped.
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
"""Number of heartbeats per `patience_s`."""


class Heartbeats:
    """The heartbeats of all processes. The constructor starts the heartbeat thread of this process.

    Call `silent` only after all processes have joined, because it needs all counters in the store.

    Args:
        store: the store that all processes share; the thread uses its own connection.
        rank: rank of this process.
        size: number of processes.
        patience_s: seconds without a heartbeat after which a process counts as silent.
    """

    def __init__(self, store: dist.Store, rank: int, size: int, patience_s: float) -> None:
        self.store, self.patience_s = store, patience_s
        self.keys = [self._key(other) for other in range(size)]
        self.seen: dict[int, tuple[bytes, float]] = {}
        """Last counter of each process, and the `time.monotonic` at which this process first read that value."""
        store.set(self._key(rank), "0")
        self._ended = threading.Event()
        own: Any = store  # torch's type stubs lack `Store.clone`
        self._thread = threading.Thread(target=self._beat, args=(own.clone(), self._key(rank)), daemon=True)
        self._thread.start()
        # Stop the thread at exit: if it acquired the GIL while the interpreter shuts down, the process would abort.
        atexit.register(self.stop)

    def _key(self, rank: int) -> str:
        return f"heartbeat of rank {rank}"

    def _beat(self, store: dist.Store, key: str) -> None:
        count = 0
        # The store raises RuntimeError if the process that hosts it has ended.
        with contextlib.suppress(RuntimeError):
            while not self._ended.wait(self.patience_s / BEATS):
                count += 1
                store.set(key, str(count))

    def silent(self) -> list[int]:
        """Return the ranks whose counter has not changed for `patience_s`."""
        now = time.monotonic()
        for rank, count in enumerate(self.store.multi_get(self.keys)):
            if rank not in self.seen or self.seen[rank][0] != count:
                self.seen[rank] = count, now
        return [rank for rank, (_, since) in self.seen.items() if now - since > self.patience_s]

    def stop(self) -> None:
        """Stop the thread. Further calls have no effect."""
        self._ended.set()
        self._thread.join(timeout=self.patience_s / BEATS)
        atexit.unregister(self.stop)


MOST_PROCESSES = 1 << 20
"""Maximum number of processes of a run."""
PATIENCE_S = 1800
"""Seconds to wait for processes that do not join or have no heartbeat, and the timeout of collectives on a GPU. A
process with a heartbeat is waited for without limit, such as during a long evaluation."""
FOREVER = datetime.timedelta(days=30)
"""Timeout of collectives on a CPU. `Ranks.beats` ends them earlier."""
MESSAGE_AFTER_S = 2.0
"""Seconds after which a waiting process prints what it waits for. Processes started together need less."""
GONE_WITHIN_S = 30.0
"""Seconds to wait until a disconnected process shows as ended; see `Ranks.explain_failure`."""


class Ranks:
    """Rank of this process, and collectives over all processes. By default there is a single process.

    Args:
        rank: global rank, 0..size - 1. Rank 0 writes files and prints.
        size: number of processes.
        local: local rank on this machine, which is the index of the process's GPU.
    """

    def __init__(self, rank: int = 0, size: int = 1, local: int = 0) -> None:
        self.rank = rank
        self.size = size
        self.local = local
        self.pids: list[int] = []
        """Process id of each rank that is visible on this machine; 0 for all others."""
        self.beats: Heartbeats | None = None
        """Heartbeats of all processes; None for a single one."""
        self.group: dist.ProcessGroup | None = None
        """Process group of CPU collectives, with the timeout `FOREVER`; None for the default group."""

    @property
    def is_first(self) -> bool:
        """True for rank 0, which writes files and prints."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        return self.size == 1

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum over all processes; `value` is not modified."""
        return value if self.is_alone else self._all_reduce(value, dist.ReduceOp.SUM)

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean over all processes; `value` is not modified."""
        return self.sum(value) / self.size

    def max(self, value: float) -> float:
        """Return the maximum over all processes. Syncs with the device."""
        return self.maxima([value])[0]

    def maxima(self, values: Sequence[float]) -> list[float]:
        """Return the maximum of each value over all processes, in one all-reduce. Syncs with the device."""
        if self.is_alone:
            return [float(value) for value in values]
        tensor = torch.tensor([float(value) for value in values], dtype=torch.float64, device="cpu")
        return self._all_reduce(tensor, dist.ReduceOp.MAX).tolist()

    def _all_reduce(self, value: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
        # Clone the value: a tensor of a rollout may be an inference tensor, which must not be modified here.
        with torch.inference_mode(False), torch.no_grad():
            reduced = value.detach().clone()
            if reduced.is_cuda:
                dist.all_reduce(reduced, how)
            else:
                self._wait(dist.all_reduce(reduced, how, group=self.group, async_op=True))
            return reduced

    def _wait(self, work: dist.Work) -> None:
        """Wait for a CPU collective while all processes have a heartbeat."""
        while self.beats is not None and not work.is_completed():
            # A timeout is ignored here; after a failure, the last line of this function raises the error again.
            with contextlib.suppress(RuntimeError):
                work.wait(datetime.timedelta(seconds=self.beats.patience_s / BEATS))
            silent = [] if work.is_completed() else self.beats.silent()
            if silent:
                names = " and ".join(f"rank {rank}" for rank in silent)
                raise dist.DistError(f"{names}: no heartbeat for {self.beats.patience_s:g} s")
        work.wait()

    def gather(self, value: Tensor) -> list[Tensor]:
        """Return the tensors of all processes, by rank. The tensors must be on the CPU and have equal shapes."""
        if self.is_alone:
            return [value]
        gathered = [torch.empty_like(value) for _ in range(self.size)]
        self._wait(dist.all_gather(gathered, value, group=self.group, async_op=True))
        return gathered

    def broadcast_text(self, text: str) -> str:
        """Broadcast a string from rank 0; the argument of other ranks is ignored."""
        return self.gather_texts(text if self.is_first else "")[0]

    def gather_texts(self, text: str) -> list[str]:
        """Return the strings of all processes, by rank."""
        # Paths may contain bytes that are not UTF-8, which Python decodes as surrogates.
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
        """Wait for all processes, and check that each of them can see and write to a folder.

        Args:
            name: name of the setting, for the error.
            folder: the folder.

        Raises:
            ConfigError: in every process, if any process cannot see or write to the folder.
        """
        if self.is_alone:
            return
        # Use a new unique name, for which a network file system has no cached entry.
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
        """Make the device of this process the current one and return it. With several processes, the device is the GPU
        with the index `local`."""
        if self.is_alone or device.type != "cuda":
            return use_device(device)
        count = torch.cuda.device_count()
        require(self.local < count, "--nproc-per-node", f"<= {count}, the GPUs of this machine", self.local + 1)
        return use_device(torch.device("cuda", self.local))

    def with_rank(self, line: str) -> str:
        """Return `line`, prefixed with the rank if there are several processes."""
        return line if self.is_alone else f"rank {self.rank} of {self.size}: {line}"

    @contextlib.contextmanager
    def errors_in_a_line(self) -> Iterator[None]:
        """Context manager that adds the rank to errors, and exits with one line if another process has ended."""
        try:
            yield
        except (ConfigError, FileError) as error:
            raise ConfigError(self.with_rank(str(error))) from None
        except RuntimeError as error:
            explained = self.explain_failure(error)
            if explained is None:
                raise
            # Print now, because the launcher sends this process a signal as soon as any process has ended.
            print(f"error: {explained}", file=sys.stderr, flush=True)
            sys.exit(1)

    def explain_failure(self, error: RuntimeError) -> ConfigError | None:
        """Return a one-line error if a collective failed because another process ended; None for other errors."""
        if self.is_alone or not (isinstance(error, dist.DistError) or "gloo" in str(error).lower()):
            return None
        deadline = time.monotonic() + GONE_WITHIN_S
        ended: list[int] = []
        # Processes on other machines are not visible, so look only at those on this machine.
        is_visible = any(self.pids[: self.rank] + self.pids[self.rank + 1 :])
        while is_visible and not ended and time.monotonic() < deadline:
            ended = [rank for rank, pid in enumerate(self.pids) if pid and has_ended(pid)]
            time.sleep(0.02)
        reason = (
            " and ".join(f"rank {rank}" for rank in ended) + " is gone" if ended else "another process does not answer"
        )
        return ConfigError(self.with_rank(f"{reason}, so the run ends here; continue with --resume latest"))


ALONE = Ranks()


def init_ranks() -> Ranks:
    """Initialise the process group from the environment variables of `torchrun`; without them, use a single process.

    Raises:
        ConfigError: if a variable is invalid, or the processes cannot be joined.
    """
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
        with print_after(MESSAGE_AFTER_S, line):
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
    machine = int.from_bytes(hashlib.sha256(pid_namespace().encode()).digest()[:7], "little")
    processes = [row.tolist() for row in ranks.gather(torch.tensor([os.getpid(), machine], device="cpu"))]
    ranks.pids = [pid if host == machine else 0 for pid, host in processes]
    return ranks


def pid_namespace() -> str:
    """Return an identifier of the PID namespace of this process. A host name alone may not be unique, so it does not
    identify a machine."""
    names = [socket.gethostname()]
    with contextlib.suppress(OSError):
        names += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return "\n".join(names)


@contextlib.contextmanager
def print_after(seconds: float, line: str) -> Iterator[None]:
    """Context manager that prints a line to stderr if its body takes longer than `seconds`."""
    timer = threading.Timer(seconds, print, (line,), {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def environment_number(name: str, low: int, high: int, default: str = "") -> int:
    """Return an integer from an environment variable of `torchrun`."""
    text = os.environ.get(name, default)
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    require(low <= number <= high, name, f"{low}..{high}, as torchrun sets it", text)
    return number


def destroy_ranks(ranks: Ranks) -> None:
    """Destroy the process group, if there is one. Before this call, delete all trainers that used the group, because
    they reference it."""
    if ranks.beats is not None:
        ranks.beats.stop()
    if not ranks.is_alone:
        # Otherwise a thread of the group could acquire the GIL while the interpreter shuts down, and abort the process.
        gc.collect()
        dist.destroy_process_group()


def has_ended(pid: int) -> bool:
    """Return True if a process of this machine has ended or is a zombie. Return False on systems without /proc."""
    stat_file = Path(f"/proc/{pid}/stat")
    try:
        return stat_file.read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return Path("/proc").exists()

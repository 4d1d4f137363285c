"""The processes that train one policy together, each in battles of its own. `torchrun` starts them."""

from __future__ import annotations

import datetime
import hashlib
import os
import socket
import time
from pathlib import Path

import torch
from torch import Tensor
from torch import distributed as dist

from echelon.runtime.errors import ConfigError, require

PATIENCE_S = 1800
"""How long a process waits for the others: rank 0 evaluates meanwhile."""
GONE_WITHIN_S = 5.0
"""A process whose connection broke has ended within this time, or it lives."""


class Ranks:
    """This process among those that train together; by default it is alone.

    Args:
        rank: its number, 0..size - 1. Rank 0 writes files and speaks.
        size: how many there are, K.
        local: its number on this machine, which is that of its GPU.
    """

    def __init__(self, rank: int = 0, size: int = 1, local: int = 0) -> None:
        self.rank = rank
        self.size = size
        self.local = local
        self.pids: list[int] = []
        """Process ids by rank, of those on this machine; 0 for others."""

    @property
    def is_first(self) -> bool:
        """Whether this one writes and speaks."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there are no others."""
        return self.size == 1

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes, the same on each; the argument stays what it is."""
        return value if self.is_alone else self._reduced(value, dist.ReduceOp.SUM)

    def mean(self, value: Tensor) -> Tensor:
        """The mean over all processes."""
        return self.total(value) / self.size

    def most(self, value: float) -> float:
        """The largest of a number of each process. Reads the host."""
        if self.is_alone:
            return value
        return self._reduced(torch.tensor(value, dtype=torch.float64), dist.ReduceOp.MAX).item()

    def _reduced(self, value: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
        # What an inference-mode rollout made cannot be written to elsewhere.
        with torch.inference_mode(False), torch.no_grad():
            reduced = value.detach().clone()
            dist.all_reduce(reduced, how)
            return reduced

    def gather(self, value: Tensor) -> list[Tensor]:
        """A tensor of every process by rank, all on the CPU and equally shaped."""
        if self.is_alone:
            return [value]
        every = [torch.empty_like(value) for _ in range(self.size)]
        dist.all_gather(every, value)
        return every

    def said_by_first(self, text: str) -> str:
        """What rank 0 says, on all."""
        letters = list(text.encode()) if self.is_first else []
        length = int(self.most(len(letters)))
        mine = torch.tensor(letters + [0] * (length - len(letters)), dtype=torch.uint8)
        return bytes(self.gather(mine)[0].tolist()).decode()

    def wait(self) -> None:
        """Until all have come here."""
        self.most(0.0)

    def place(self, device: torch.device) -> torch.device:
        """The device of this process: where there are several, each has a GPU of its own."""
        if self.is_alone or device.type != "cuda":
            return device
        count = torch.cuda.device_count()
        require(self.local < count, "--nproc-per-node", f"<= {count}, the GPUs of this machine", self.local + 1)
        own = torch.device("cuda", self.local)
        torch.cuda.set_device(own)
        return own

    def signed(self, line: str) -> str:
        """What this process says, with its number where there are others."""
        return line if self.is_alone else f"rank {self.rank} of {self.size}: {line}"

    def why(self, error: RuntimeError) -> ConfigError | None:
        """One line for an error that another process's end explains; None for any other error."""
        if self.is_alone or not (isinstance(error, dist.DistError) or "gloo" in str(error).lower()):
            return None
        patient_until = time.monotonic() + GONE_WITHIN_S
        gone: list[int] = []
        while not gone and time.monotonic() < patient_until:
            gone = [rank for rank, pid in enumerate(self.pids) if pid and has_ended(pid)]
            time.sleep(0.02)
        who = " and ".join(f"rank {rank}" for rank in gone) + " is gone" if gone else "another process does not answer"
        return ConfigError(self.signed(f"{who}, so the run ends here; go on with --resume latest"))


ALONE = Ranks()


def join() -> Ranks:
    """Join the processes that `torchrun` started; alone where it did not."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Ranks()
    ranks = Ranks(int(os.environ["RANK"]), size, int(os.environ.get("LOCAL_RANK", "0")))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=PATIENCE_S))
    machine = int.from_bytes(hashlib.sha256(socket.gethostname().encode()).digest()[:7], "little")
    everyone = [each.tolist() for each in ranks.gather(torch.tensor([os.getpid(), machine]))]
    ranks.pids = [pid if where == machine else 0 for pid, where in everyone]
    return ranks


def leave(ranks: Ranks) -> None:
    """Part from the others, when all is done."""
    if not ranks.is_alone:
        dist.destroy_process_group()


def has_ended(pid: int) -> bool:
    """Whether a process of this machine has ended, though its parent may not have noticed."""
    facts = Path(f"/proc/{pid}/stat")
    try:
        return facts.read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return Path("/proc").exists()

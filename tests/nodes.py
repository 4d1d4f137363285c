"""Simulated machines of a network on this machine, for programs that use several nodes.

Each has its own network namespace, joined by a bridge, and its own host name, home, caches and working folder. Only
root can create network namespaces; without them all machines are `127.0.0.1`."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

from patience import STUCK_S
from programs import ROOT

from echelon.runtime.loop_cache import cache_folder

NAMES = ("first", "second", "third")
ENTER = 'hostname "$1"; mount --bind "$2" /etc/hosts; cd "$3"; shift 3; exec "$@"'
"""Shell code before the program of a node: sets a private host name and hosts file."""


@functools.cache
def can_make_networks() -> bool:
    """Return whether this process may create namespaces for networks, host names and mounts."""
    tried = ["unshare", "--net", "--uts", "--mount", "true"]
    return bool(shutil.which("ip")) and subprocess.run(tried, capture_output=True).returncode == 0


def ip(*words: str, network: str = "") -> None:
    """Run a command of iproute2."""
    inside = ["-n", network] if network else []
    subprocess.run(["ip", *inside, *words], check=True, capture_output=True)


class Node:
    """A machine.

    Args:
        folder: folder for its home, caches and files.
        network: name of its network namespace; empty for that of this machine.
    """

    def __init__(self, name: str, folder: Path, network: str, hosts: Path) -> None:
        self.name, self.network, self.hosts = name, network, hosts
        self.work, self.home, caches = folder / "work", folder / "home", folder / "caches"
        for each in (self.work, self.home, folder / "tmp"):
            each.mkdir(parents=True)
        for shared in ("pipelines", "tests"):
            (self.work / shared).symlink_to(ROOT / shared)
        # Share compiled loops: tests do not need half a minute of compilation on each machine.
        kept = cache_folder()
        if kept is not None:
            shutil.copytree(kept, caches / kept.name, dirs_exist_ok=True)
        own = {"HOME": self.home, "XDG_CACHE_HOME": caches, "NUMBA_CACHE_DIR": caches, "TMPDIR": folder / "tmp"}
        self.variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self.variables |= {variable: str(place) for variable, place in own.items()}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a program in the working folder of this machine."""
        # `ip netns exec` would hide /sys/fs/cgroup, which Slurm needs.
        enter = ["nsenter", f"--net=/run/netns/{self.network}", "unshare", "--uts", "--mount", "sh", "-ec", ENTER, "sh"]
        inside = [*enter, self.name, str(self.hosts), str(self.work)] if self.network else []
        process = subprocess.Popen(
            [*inside, *words],
            **{"stdout": -1, "stderr": -1, "text": True, "cwd": self.work, "env": self.variables},
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def pids(self) -> list[int]:
        """Return the processes of this machine: those in its network, or with its home."""
        if self.network:
            listed = subprocess.run(["ip", "netns", "pids", self.network], capture_output=True, text=True, check=True)
            return [int(pid) for pid in listed.stdout.split()]
        home, found = f"HOME={self.home}".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if home in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def trainers(self) -> list[int]:
        """Return its processes that `torchrun` started."""
        found = []
        for pid in self.pids():
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                found += [pid] if any(each.startswith(b"LOCAL_RANK=") for each in variables) else []
        return found

    def signal(self, number: int, pids: list[int] | None = None) -> None:
        """Send a signal to some or all of its processes."""
        for pid in self.pids() if pids is None else pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def lose_power(self) -> None:
        """Send SIGKILL to all of its processes."""
        self.signal(signal.SIGKILL)
        for process in self.started:
            process.communicate(timeout=STUCK_S)


@contextlib.contextmanager
def network(folder: Path, count: int) -> Iterator[list[Node]]:
    """Context manager: machines that reach each other by the names `NAMES`. Remaining processes are killed at the
    end."""
    names, hosts, key = NAMES[:count], folder / "hosts", uuid.uuid4().hex[:8]
    apart = can_make_networks()
    places = {name: f"10.213.7.{number + 1}" if apart else "127.0.0.1" for number, name in enumerate(names)}
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{place} {name}\n" for name, place in places.items()))
    made = [f"ech-{key}-{name}" for name in ("switch", *names)] if apart else []
    nodes: list[Node] = []
    try:
        for name in made:
            ip("netns", "add", name)
        if apart:
            ip("link", "add", "bridge", "type", "bridge", network=made[0])
            ip("link", "set", "bridge", "up", network=made[0])
        for number, name in enumerate(names):
            own = made[number + 1] if apart else ""
            if apart:
                ip("link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", made[0], network=own)
                ip("addr", "add", f"{places[name]}/24", "dev", "eth0", network=own)
                for device in ("lo", "eth0"):
                    ip("link", "set", device, "up", network=own)
                ip("link", "set", name, "master", "bridge", "up", network=made[0])
            nodes.append(Node(name, folder / name, own, hosts))
        yield nodes
    finally:
        for node in nodes:
            node.lose_power()
        for name in made:
            ip("netns", "del", name)

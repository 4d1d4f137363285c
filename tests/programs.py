"""Programs in forked processes that do not import torch again.

A program sees the same arguments, folder, environment, outputs and signals as under a shell, and has its own exit
status. Tests of imports, of environment variables read at import, and of threads need `subprocess`."""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from multiprocessing.connection import wait
from pathlib import Path

from patience import STUCK_S

ROOT = Path(__file__).parents[1]
PRELOADED = ["tests.warmed"]
"""Imported by the parent of the programs, which runs in the current folder. If this fails, each program imports what it
needs."""


def become(words: list[str], cwd: str, environment: dict[str, str], outputs: list[str]) -> None:
    """Turn the forked process into the program."""
    for descriptor, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY), descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    kind, *more = words
    tests = str(ROOT / "tests")
    first = str(Path(kind).parent) if not kind.startswith("-") else ""
    sys.path[:] = [path for path in sys.path if not path.startswith(tests)]
    sys.path[:0] = [first, *environment.get("PYTHONPATH", "").split(os.pathsep)]
    if kind == "-c":
        sys.argv = ["-c", *more[1:]]
        exec(compile(more[0], "<string>", "exec"), {"__name__": "__main__"})
    elif kind == "-m":
        sys.argv = more
        runpy.run_module(more[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(kind, run_name="__main__")


class Program:
    """A running program: the part of `subprocess.Popen` that tests use.

    Args:
        words: arguments of `python`: a file, `-m` and a module, or `-c` and a program, then its arguments.
        cwd: its current folder.
        environment: additional environment variables.
    """

    def __init__(self, *words: str, cwd: Path = ROOT, **environment: str) -> None:
        # On shared cores, more threads cost more than they save.
        variables = {"OMP_NUM_THREADS": "1", **os.environ, **environment}
        self.words = words
        self._outputs = [tempfile.NamedTemporaryFile("r") for _ in range(2)]  # noqa: SIM115
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        paths = [file.name for file in self._outputs]
        self._process = context.Process(target=become, args=([*words], str(cwd), variables, paths))
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        """Exit status; None while it runs, and the negative signal number after a signal."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit status, or None."""
        return self.returncode

    def wait(self) -> None:
        """Wait for its end."""
        assert wait([self._process.sentinel], STUCK_S), f"{self.words} is stuck"
        self._process.join()

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        """Wait for its end; return its output and error output."""
        self.wait()
        output, errors = (file.read() for file in self._outputs)
        return output, errors


def run(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    program = Program(*words, cwd=cwd, **environment)
    output, errors = program.communicate()
    return subprocess.CompletedProcess([*words], program.returncode or 0, output, errors)

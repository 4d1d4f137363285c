"""Programs with broken output: a closed pipe, a full disk, a closed terminal, no stream."""

import io
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from patience import STUCK_S
from runs import ROOT, TINY

from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.metrics import read_table
from echelon.runtime.terminal import LastingOutput, lasting_output, replace_unknown_letters, terminal

TRAIN = [sys.executable, "pipelines/train.py", *TINY]


def closed_pipe() -> int:
    ear, mouth = os.pipe()
    os.close(ear)
    return mouth


def closed_terminal() -> int:
    master, slave = pty.openpty()
    os.close(master)
    return slave


NOWHERE = {
    "a closed pipe": closed_pipe,
    "a full disk": lambda: os.open("/dev/full", os.O_WRONLY),
    "a closed terminal": closed_terminal,
}


@pytest.mark.parametrize("kind", NOWHERE)
@pytest.mark.parametrize("unbuffered", [False, True])
def test_broken_output_is_reported_once_without_failure(monkeypatch, capfd, kind, unbuffered):
    stream = io.TextIOWrapper(io.FileIO(NOWHERE[kind](), "w"), write_through=unbuffered)
    with stream, monkeypatch.context() as here:
        here.setattr(sys, "stdout", stream)
        here.setattr(sys, "__stdout__", stream)
        with lasting_output():
            for _ in range(2):
                print("iteration 1, wins 50%" * 1000, flush=True)
                terminal().print("best so far")
            assert sys.stdout is not stream
        assert sys.stdout is stream
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("output: ") and line.endswith(": continuing without output; Ctrl-C stops and saves")


def test_force_color_does_not_make_pipe_a_terminal(monkeypatch):
    """Notebooks set these variables; a bar in a pipe would print each frame."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not terminal(file=io.StringIO()).is_terminal
    master, slave = pty.openpty()
    with open(master, "rb"), open(slave, "w") as screen:
        assert terminal(file=screen).is_terminal
    assert not terminal(file=screen).is_terminal, "a closed stream"


def test_blocked_output_is_waited_for():
    """A shell that shares a terminal with another program may leave the output non-blocking."""
    ear, mouth = os.pipe()
    os.set_blocking(mouth, False)
    data, heard = bytes(1 << 20), []

    def read() -> None:
        with open(ear, "rb") as file:
            heard.append(len(file.read()))

    reader = threading.Thread(target=read)
    reader.start()
    with LastingOutput(mouth, "w") as output, io.BufferedWriter(output) as buffer:
        buffer.write(data)
    reader.join()
    assert heard == [len(data)]


@pytest.mark.long
def test_closed_streams_are_replaced_by_empty_ones():
    """The next opened file must not become standard output."""
    program = """
import os, sys
from echelon.runtime.terminal import run
def main():
    assert os.open("/dev/null", os.O_RDONLY) > 2
    print("words"); print("words", file=sys.stderr); assert sys.stdin.read() == ""
run(main)
"""
    closed = f"exec \"{sys.executable}\" -c '{program}' <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", closed], timeout=STUCK_S, cwd=ROOT).returncode == 0


def saved(folder: Path) -> int:
    """Return the iterations of the newest checkpoint, which must equal the rows of the table."""
    done = open_checkpoint(newest_checkpoint(folder / "checkpoints")).counters.iterations
    assert len(read_table(folder / "metrics.csv")) == done
    return done


@pytest.mark.long
def test_run_with_closed_pipe_finishes_normally(tmp_path):
    flags = ("--total-agent-steps", "320", "--run-dir", str(tmp_path / "run"))
    done = subprocess.run(
        [*TRAIN, *flags], stdout=closed_pipe(), stderr=subprocess.PIPE, text=True, timeout=STUCK_S, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("output: Broken pipe: continuing without output") and done.stderr.count("\n") == 1
    assert saved(tmp_path / "run") == 2


@pytest.mark.long
def test_run_with_closed_terminal_is_saved(tmp_path):
    folder = tmp_path / "run"
    child, master = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and child processes inherit that
        os.chdir(ROOT)
        os.execv(sys.executable, [*TRAIN, "--total-agent-steps", "100000000", "--run-dir", str(folder)])
    with open(master, "rb", buffering=0) as shown:
        while len(read_table(folder / "metrics.csv")) < 2:
            assert shown.read(1 << 16)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    assert saved(folder) >= 2


def test_unencodable_characters_are_replaced(monkeypatch):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, "ascii"))
    replace_unknown_letters()
    print("90 % … saved", flush=True)
    assert buffer.getvalue() == b"90 % ? saved\n"

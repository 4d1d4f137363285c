"""Programs whose output goes nowhere: a closed pipe, a full disk, a terminal that is gone, no stream at all."""

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
def test_output_that_cannot_be_written_is_told_once_and_fails_nothing(monkeypatch, capfd, kind, unbuffered):
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


def test_colours_that_are_asked_for_make_no_terminal_of_a_pipe(monkeypatch):
    """As a notebook asks for them: of a bar it would show each frame."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not terminal(file=io.StringIO()).is_terminal
    master, slave = pty.openpty()
    with open(master, "rb"), open(slave, "w") as screen:
        assert terminal(file=screen).is_terminal
    assert not terminal(file=screen).is_terminal, "a closed stream"


def test_output_that_takes_no_more_for_now_is_waited_for():
    """A shell that shares a terminal with another program may leave it so."""
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
def test_a_program_of_closed_streams_has_empty_ones():
    """The next file that is opened must not become the standard output."""
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
    """Iterations in the newest checkpoint, which are those of the table."""
    done = open_checkpoint(newest_checkpoint(folder / "checkpoints")).counters.iterations
    assert len(read_table(folder / "metrics.csv")) == done
    return done


@pytest.mark.long
def test_a_run_whose_reader_has_gone_ends_as_it_would_have(tmp_path):
    flags = ("--total-agent-steps", "320", "--run-dir", str(tmp_path / "run"))
    done = subprocess.run(
        [*TRAIN, *flags], stdout=closed_pipe(), stderr=subprocess.PIPE, text=True, timeout=STUCK_S, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("output: Broken pipe: continuing without output") and done.stderr.count("\n") == 1
    assert saved(tmp_path / "run") == 2


@pytest.mark.long
def test_a_run_whose_terminal_is_closed_is_saved(tmp_path):
    folder = tmp_path / "run"
    child, master = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores, and with it all that it starts
        os.chdir(ROOT)
        os.execv(sys.executable, [*TRAIN, "--total-agent-steps", "100000000", "--run-dir", str(folder)])
    with open(master, "rb", buffering=0) as shown:
        while len(read_table(folder / "metrics.csv")) < 2:
            assert shown.read(1 << 16)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    assert saved(folder) >= 2


def test_letters_that_an_encoding_lacks_are_replaced(monkeypatch):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, "ascii"))
    replace_unknown_letters()
    print("90 % … saved", flush=True)
    assert buffer.getvalue() == b"90 % ? saved\n"

"""Locks of folders, and the bytes of JSON files."""

import errno
import fcntl
import os
import socket
import subprocess
import sys

import pytest
from patience import STUCK_S

from echelon.runtime.files import FileError, file_lock, json_bytes, parse_json


def test_folder_lock_is_exclusive(tmp_path):
    lock = tmp_path / ".lock"
    with file_lock(lock):
        with pytest.raises(FileError) as error, file_lock(lock):
            pass
        me = f"process {os.getpid()} on {socket.gethostname()}"
        assert (
            str(error.value)
            == f"{tmp_path}: expected no other process that uses the folder, got {me}: wait until it ends"
        )
    assert not lock.exists(), "nothing is left"
    with file_lock(lock):
        pass


def test_killed_process_releases_the_lock(tmp_path):
    program = f"""
import os, signal
from pathlib import Path
from echelon.runtime.files import file_lock
with file_lock(Path({str(tmp_path / ".lock")!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], timeout=STUCK_S)
    assert (tmp_path / ".lock").read_text().startswith("process ")
    with file_lock(tmp_path / ".lock"):
        pass


@pytest.mark.parametrize(
    ("holder", "is_free"),
    [
        ("", True),
        (f"process {os.getpid()} on {socket.gethostname()}", False),
        (f"process {2**22 + 1} on {socket.gethostname()}", True),
        ("process 1 on elsewhere", False),
        ("\0 nonsense", True),
    ],
    ids=["no owner", "this process", "ended process", "other machine", "nonsense"],
)
def test_without_flock_a_living_owner_keeps_the_lock(tmp_path, monkeypatch, holder, is_free):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / ".lock").write_text(holder)
    if is_free:
        with file_lock(tmp_path / ".lock"):
            pass
    else:
        with (
            pytest.raises(FileError, match="expected no other process that uses the folder, got process"),
            file_lock(tmp_path / ".lock"),
        ):
            pass


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(FileError, match="cannot be written"), file_lock(tmp_path / ".lock"):
        pass
    assert not (tmp_path / "precious").exists()


def test_json_files_are_indented_by_one_space_and_end_with_a_newline():
    document = {"b": [1, 2.5], "a": {"name": "é", "none": None}}
    data = json_bytes(document)
    assert data == b'{\n "b": [\n  1,\n  2.5\n ],\n "a": {\n  "name": "\\u00e9",\n  "none": null\n }\n}\n'
    assert parse_json("file", data) == document

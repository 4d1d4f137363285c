"""Cache folder of compiled loops: read-only folders, no home, a full disk, and other users."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from patience import STUCK_S

from echelon.runtime import loop_cache

numba = pytest.importorskip("numba")


def add_up(values, into):
    for value in values:
        into[0] += value


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return the four possible folders, keyed by name. None of them exists yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "named"))
    monkeypatch.setattr(loop_cache, "PACKAGE", tmp_path / "package")
    monkeypatch.setattr(loop_cache.tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "home").mkdir()
    # Clear the cached result, because the folder of this test process was chosen before.
    monkeypatch.setattr(loop_cache, "cache_folder", loop_cache.cache_folder.__wrapped__)
    inside = {"named": ".", "package": "__pycache__", "home": ".cache/echelon", "temporary": f"echelon-{os.getuid()}"}
    return {name: tmp_path / name / inner / loop_cache.NAME for name, inner in inside.items()}


def close(place: Path, tmp_path: Path) -> None:
    """Put a file where a parent folder would be, so that even root cannot create the folder."""
    top = tmp_path / place.relative_to(tmp_path).parts[0]
    shutil.rmtree(top, ignore_errors=True)
    top.touch()


def test_next_folder_is_used_if_one_is_read_only(tmp_path, places, caplog):
    for place in places.values():
        assert loop_cache.cache_folder() == place and place.is_dir()
        close(place, tmp_path)
    assert places["temporary"].parent.name == f"echelon-{os.getuid()}" and not caplog.records
    assert loop_cache.cache_folder() is None
    (record,) = caplog.records
    assert "NUMBA_CACHE_DIR" in record.getMessage() and "\n" not in record.getMessage()
    assert not loop_cache.is_cached("add_up")


def test_loop_is_compiled_without_a_cache_folder(monkeypatch):
    monkeypatch.setattr(loop_cache, "cache_folder", lambda: None)
    into = np.zeros(1)
    loop_cache.compile_and_keep(add_up)(np.ones(3), into)
    assert into[0] == 3


def test_missing_home_folder_is_not_created(tmp_path, places, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    for name in ("named", "package"):
        close(places[name], tmp_path)
    assert loop_cache.cache_folder() == places["temporary"] and not (tmp_path / "missing").exists()


def test_temporary_folder_is_private(tmp_path, places, monkeypatch):
    folder = loop_cache.private_folder()
    assert folder == places["temporary"].parent and folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    assert loop_cache.private_folder() is None, "others may write there"
    folder.rmdir()
    folder.symlink_to(tmp_path / "home")
    assert loop_cache.private_folder() is None, "a link leads elsewhere"
    folder.unlink()
    folder.touch()
    assert loop_cache.private_folder() is None, "no folder"
    folder.unlink()
    folder.mkdir(mode=0o700)
    status = folder.lstat()
    other = os.stat_result((*status[:4], status.st_uid + 1, *status[5:]))
    monkeypatch.setattr(Path, "lstat", lambda self: other)
    assert loop_cache.private_folder() is None, "another user made it first"


def test_subfolder_of_another_user_is_not_used(tmp_path, places, monkeypatch):
    theirs = places["named"] / "runtime_1"
    theirs.mkdir(parents=True)
    make = loop_cache.tempfile.TemporaryFile

    def refuse(dir):
        if dir == theirs:
            raise PermissionError
        return make(dir=dir)

    monkeypatch.setattr(loop_cache.tempfile, "TemporaryFile", refuse)
    (theirs / "exact.sum-1.py311.nbi").write_bytes(b"index")
    (theirs / "exact.sum-1.py311.1.nbc").write_bytes(b"code")
    assert loop_cache.cache_folder() == places["package"]
    assert (places["package"] / "runtime_1" / "exact.sum-1.py311.1.nbc").read_bytes() == b"code", "but used"
    assert loop_cache.is_cached("sum")


def test_corrupt_file_full_disk_and_missing_folder_only_recompile(tmp_path, places, monkeypatch):
    def total() -> float:
        into, loop = np.zeros(1), loop_cache.compile_and_keep(add_up)
        loop(np.ones(3), into)
        total.hits = sum(loop.stats.cache_hits.values())
        return into[0]

    assert total() == 3 and total.hits == 0
    assert total() == 3 and total.hits == 1
    for suffix in ("nbi", "nbc"):
        for content in (b"", bytes(100)):
            (file,) = places["named"].glob(f"*/*.{suffix}")
            file.write_bytes(content)
            assert total() == 3 and total.hits == 0
            assert total() == 3 and total.hits == 1, "mended"
    into, loop = np.zeros(1), loop_cache.compile_and_keep(add_up)
    shutil.rmtree(places["named"])
    loop(np.ones(3), into)
    loop(np.ones(3, np.float32), into)
    assert into[0] == 6
    full = loop_cache.compile_and_keep(add_up)
    monkeypatch.setattr(full._cache._cache_file, "_open_for_write", lambda path: os.mkdir("/dev/full/none"))
    full(np.ones(3), into)
    assert into[0] == 9


READ_ONLY = """
import ctypes, os, sys
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(header, data) == 0
import torch
from echelon.runtime import exact, loop_cache
assert exact.sum(torch.ones(3), 0) == 3
print(loop_cache.cache_folder())
"""


@pytest.mark.long
def test_import_works_with_read_only_package_and_home(tmp_path):
    for name in ("home", "temporary", "work"):
        (tmp_path / name).mkdir()
    shutil.copytree(loop_cache.PACKAGE, tmp_path / "echelon", ignore=shutil.ignore_patterns("__pycache__", "trained"))
    folders = [path for path in (tmp_path / "echelon").rglob("*") if path.is_dir()]
    for path in (tmp_path / "home", tmp_path / "work", tmp_path / "echelon", *folders):
        path.chmod(0o555)
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    places = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary"), "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", READ_ONLY]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=STUCK_S, cwd=tmp_path / "work", env={**kept, **places}
    )
    for path in (tmp_path / "home", tmp_path / "work", tmp_path / "echelon", *folders):
        path.chmod(0o755)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert Path(done.stdout.strip()).parent == tmp_path / "temporary" / f"echelon-{os.getuid()}"

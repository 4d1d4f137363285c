"""uv in an empty folder: its lock has the TorchRL that training needs, and keeps the CPU build of torch."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from docs.pages import blocks, commands

ROOT = Path(__file__).parents[1]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
SMALL = ("--num-envs", "8", "--total-agent-steps", "640", "--ppo.rollout-decisions", "16")
JUDGED = ("--evaluation.battles", "2", "--evaluation.final-battles", "2", "--evaluation.tiers", "trivial")
DISK_GB = 15
"""Disk space of the default torch build for Linux, downloaded and installed."""

pytestmark = pytest.mark.long


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A copy of the tracked files, without a lock; `uv` keeps its downloads beside it."""
    if shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    folder = tmp_path / "clone"
    folder.mkdir()
    subprocess.run(["xargs", "-0", "cp", "-P", "--parents", "-t", folder], cwd=ROOT, input=names, check=True)
    return folder


def uv(folder: Path, *words: str, offline: str = r"(?i)failed to fetch|dns|connect") -> str:
    """Run uv and return its output; skip the test if no index is reachable."""
    ran = subprocess.run(["uv", *words], cwd=folder, capture_output=True, text=True)
    if ran.returncode and re.search(offline, ran.stderr):
        pytest.skip("no index is reached")
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def locked(folder: Path, package: str, *extras: str) -> set[str]:
    """Return the locked versions of a package for some extras."""
    chosen = [word for extra in extras for word in ("--extra", extra)]
    lines = uv(folder, "export", "-q", "--no-hashes", "--no-annotate", "--no-header", "--no-emit-project", *chosen)
    return set(re.findall(rf"^{package}==([^\s;]+)", lines, re.MULTILINE))


def test_lock_holds_the_torchrl_that_training_needs(clone):
    uv(clone, "lock", "-q")
    for extras in ((), ("test",), ("pettingzoo", "sb3"), ("ray", "notebooks")):
        (version,) = locked(clone, "torchrl", *extras)
        assert version.startswith("0.14.")
    assert locked(clone, "torchrl", "benchmarl") == {"0.11.1"}


def cpu_index(folder: Path) -> Path:
    """A package index with one wheel, an empty CPU build of torch."""
    name, parts = "torch-2.13.0+cpu-py3-none-any.whl", {"torch/__init__.py": ""}
    parts["torch-2.13.0+cpu.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n"
    parts["torch-2.13.0+cpu.dist-info/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    parts["torch-2.13.0+cpu.dist-info/RECORD"] = ""
    (folder / "torch").mkdir(parents=True)
    with zipfile.ZipFile(folder / "torch" / name, "w") as wheel:
        for path, text in parts.items():
            wheel.writestr(path, text)
    (folder / "torch" / "index.html").write_text(f'<a href="{name.replace("+", "%2B")}">{name}</a>')
    return folder


def test_documented_command_keeps_the_cpu_build_of_torch(clone, tmp_path):
    """The command of INSTALL, with a local index in place of PyTorch's."""
    page = (ROOT / "docs" / "INSTALL.md").read_text()
    (words,) = re.findall(r"^uv (add --index .*)$", page, re.MULTILINE)
    assert CPU_INDEX in words
    arguments = shlex.split(words.replace(CPU_INDEX, cpu_index(tmp_path / "index").as_uri()))
    uv(clone, "lock", "-q")
    assert not any("+cpu" in version for version in locked(clone, "torch"))
    uv(clone, *arguments, "--no-sync", "-q")
    assert locked(clone, "torch") == {"2.13.0+cpu"} and len(locked(clone, "torchrl")) == 1
    assert not locked(clone, r"nvidia-\S+")


def test_readme_command_trains(clone, monkeypatch):
    """`uv run echelon-train` creates the lock, installs it, and trains."""
    if shutil.disk_usage(clone).free < DISK_GB * 2**30:
        pytest.skip(f"less than {DISK_GB} GB of disk")
    lines = [words for block in blocks(ROOT / "README.md", "sh") for words in commands(block)]
    assert ["uv", "run", "echelon-train"] in lines
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    printed = uv(clone, "run", "-q", "echelon-train", "--run-dir", "runs/mine", *SMALL, *JUDGED)
    assert "checkpoint" in printed and list((clone / "runs" / "mine" / "checkpoints").iterdir())

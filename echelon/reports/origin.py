"""Where a result comes from: command, commit, host and versions."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from echelon.rules.versions import RULES_VERSION
from echelon.runtime.version import VERSION

PACKAGES = ("torch", "torchrl", "tensordict", "numpy", "numba")
CLONE = Path(__file__).resolve().parents[2]
"""The clone that this file lies in, unless it is installed."""


def origin_of(device: torch.device) -> dict[str, str]:
    """Command, commit, host and versions of this process, each as one line; what is unknown is left out."""
    versions = {"Python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{os.cpu_count()} CPUs"
    told = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    found = {
        "command": command_of(sys.argv),
        "commit": commit_of(CLONE),
        "host": f"{platform.node()}, {platform.system()} {platform.machine()}, {chip}",
        "versions": f"Echelon {VERSION}, rules {RULES_VERSION}, {told}",
    }
    return {name: value for name, value in found.items() if value}


def command_of(words: Sequence[str]) -> str:
    """A command line; of absolute paths the last part alone, since folders are those of one machine."""

    def plain(word: str) -> str:
        flag, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        return f"{flag}{equals}{Path(value).name}" if value.startswith("/") else word

    return shlex.join(plain(word) for word in words)


def version_of(package: str) -> str:
    """The version of an installed package, empty without it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def commit_of(clone: Path) -> str:
    """The commit of a clone, and whether tracked files differ from it; empty where there is no clone or no git."""
    if not (clone / ".git").exists():
        return ""
    try:
        commit, changes = (
            subprocess.run(["git", *words], cwd=clone, capture_output=True, text=True, check=True, timeout=10).stdout
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit.strip() + (", with changes" if changes.strip() else "")

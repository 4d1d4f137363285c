"""Names of trained policies: `trained:NAME` and the paths of checkpoint and run folders, as commanders.

Importing this module registers them in `echelon.agents.names`.
"""

from __future__ import annotations

from pathlib import Path

from echelon.agents.names import Commander, register_paths, register_resolver
from echelon.learn.checkpoint.files import checkpoints_in, find_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.checkpoint.shipped import shipped_checkpoint

TRAINED = "trained"
"""Prefix of the policies that ship with the package."""
SHOWN = 5
"""Checkpoints that are told where the named one is not there."""


def shipped(name: str) -> Commander:
    """The commander `trained:NAME`."""
    return Commander(name, shipped_checkpoint(name.partition(":")[2]))


def saved(path: str) -> Commander:
    """The commander of a checkpoint or run folder."""
    return Commander(path, open_checkpoint(find_checkpoint(path)))


def available_checkpoints(name: str) -> str:
    """The checkpoints in the folder where `name` is not, as an ending of a sentence."""
    folder = Path(name).parent
    checkpoints = [path.name for path in checkpoints_in(folder)] if "/" in name and name.isprintable() else []
    return f"; {folder} has {', '.join(checkpoints[-SHOWN:])}" if checkpoints else ""


register_resolver(TRAINED, f"{TRAINED}:NAME", shipped)
register_paths(saved, available_checkpoints)

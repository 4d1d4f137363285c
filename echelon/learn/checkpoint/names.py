"""Commander names of trained policies (`trained:NAME`, and paths of checkpoint and run folders).

Importing this module registers these forms of names in `echelon.agents.names`.
"""

from __future__ import annotations

from pathlib import Path

from echelon.agents.names import Commander, register_paths, register_resolver
from echelon.learn.checkpoint.files import checkpoints_in, find_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.checkpoint.shipped import shipped_checkpoint

TRAINED = "trained"
"""Prefix of policies shipped with the package."""
SHOWN = 5
"""Maximum number of checkpoints listed if the named one does not exist."""


def shipped(name: str) -> Commander:
    """Return the commander `trained:NAME`."""
    return Commander(name, shipped_checkpoint(name.partition(":")[2]))


def saved(path: str) -> Commander:
    """Return the commander of a checkpoint or run folder."""
    return Commander(path, open_checkpoint(find_checkpoint(path)))


def available_checkpoints(name: str) -> str:
    """List the checkpoints next to the missing path `name`, as the end of an error message."""
    folder = Path(name).parent
    checkpoints = [path.name for path in checkpoints_in(folder)] if "/" in name and name.isprintable() else []
    return f"; {folder} has {', '.join(checkpoints[-SHOWN:])}" if checkpoints else ""


register_resolver(TRAINED, f"{TRAINED}:NAME", shipped)
register_paths(saved, available_checkpoints)

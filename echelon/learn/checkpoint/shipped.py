"""Policies shipped with the package: a table by name, and one checkpoint each, without optimiser state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from echelon.learn.checkpoint.format import POLICY, Checkpoint, open_checkpoint
from echelon.runtime.errors import require
from echelon.runtime.files import MAX_JSON_BYTES, expect, parse_json, read_file

FOLDER = Path(__file__).parents[2] / "trained"
TABLE = "trained.json"
MOST_BYTES = 10 << 20
"""Maximum size of all files of the folder, bytes."""


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy shipped with Echelon; `trained:NAME` is its commander name."""

    name: str
    """Lower-case letters, digits and hyphens."""
    about: str
    """Description in one line."""
    task: str
    """Full name of the task used for training and evaluation."""
    agent_steps: int
    """Number of training decisions of single mechs."""
    command: str
    """Training command."""
    commit: str
    """Commit of Echelon that trained the policy."""
    rules_version: int
    """Version of the rules in training."""
    sha256: str
    """sha256 of the weights."""
    battles: int
    """Number of evaluation battles per opponent."""
    win_rates: Mapping[str, float]
    """Win rate in these battles, keyed by opponent."""
    rating: float | None = None
    """Bradley-Terry strength in a tournament of the shipped policies of the same task and the scripted tiers; the mean
    is 1500 (`benchmarks/rate.py`). None for the population that protocol 2 evaluates against, and before a
    tournament."""

    @property
    def win_rate(self) -> float:
        """Mean of `win_rates`."""
        return sum(self.win_rates.values()) / len(self.win_rates)


def trained() -> dict[str, TrainedPolicy]:
    """Return the policies shipped with Echelon, keyed by name and grouped by task. Within a task, rated policies come
    first, the best at the top, then unrated policies, sorted by `win_rate`.

    The policies' checkpoints contain their training history, like those of any trained policy.
    """
    rows = parse_json(TABLE, read_file(FOLDER / TABLE, MAX_JSON_BYTES))
    return {row["name"]: TrainedPolicy(**row) for row in rows}


def shipped_checkpoint(name: str) -> Checkpoint:
    """Open the checkpoint of the shipped policy `name`, one of the keys of `trained`.

    Raises:
        ConfigError: if there is no policy of that name.
        FileError: if the sha256 of the weights differs from the table.
    """
    policies = trained()
    require(name in policies, "a trained policy", f"one of {', '.join(policies)}", name)
    checkpoint = open_checkpoint(FOLDER / name)
    expected, stored = policies[name].sha256, checkpoint.metadata["files"][POLICY]
    expect(stored == expected, f"trained:{name}: sha256", f"{expected}, as in {TABLE}", stored)
    return checkpoint

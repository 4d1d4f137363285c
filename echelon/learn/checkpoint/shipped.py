"""Policies that ship with the package, by name: a table of them, and a checkpoint each without a learner's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from echelon.learn.checkpoint.format import POLICY, Checkpoint, open_checkpoint
from echelon.runtime.errors import require
from echelon.runtime.files import MAX_JSON_BYTES, expect, parse_json, read_file

FOLDER = Path(__file__).parents[2] / "trained"
TABLE = "trained.json"
MOST_BYTES = 8 << 20
"""Of all files of the folder."""


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy that ships with Echelon: `trained:NAME` means it wherever a commander is named."""

    name: str
    """Lower-case letters, digits and hyphens."""
    about: str
    """What it is, in a line."""
    task: str
    """Full name of the task in whose battles it was trained, and by which it was judged."""
    agent_steps: int
    """Decisions of single mechs that it learnt from."""
    command: str
    """How it was trained."""
    commit: str
    """The commit of Echelon that trained it."""
    rules_version: int
    """Version of the rules that it was trained under."""
    sha256: str
    """Of its weights."""
    battles: int
    """How many it was judged by against each opponent."""
    win_rates: Mapping[str, float]
    """Share of them that it won, by opponent."""
    rating: float | None = None
    """Bradley-Terry strength in a tournament of the policies that ship for the same battles and the scripted tiers,
    1500 on the average (`benchmarks/rate.py`); None for the population that protocol 2 judges by."""

    @property
    def win_rate(self) -> float:
        """Mean of `win_rates`."""
        return sum(self.win_rates.values()) / len(self.win_rates)


def trained() -> dict[str, TrainedPolicy]:
    """Policies that ship with Echelon by name, those of a task together: the best rated first, then those without a
    rating by `win_rate`.

    What they were trained against is in their checkpoints, as of any trained policy.
    """
    rows = parse_json(TABLE, read_file(FOLDER / TABLE, MAX_JSON_BYTES))
    return {row["name"]: TrainedPolicy(**row) for row in rows}


def shipped_checkpoint(name: str) -> Checkpoint:
    """The checkpoint of a policy of `trained`.

    Raises:
        ConfigError: there is none of that name.
        FileError: its files are not those that the table names.
    """
    policies = trained()
    require(name in policies, "a trained policy", f"one of {', '.join(policies)}", name)
    checkpoint = open_checkpoint(FOLDER / name)
    expected, claimed = policies[name].sha256, checkpoint.claims["files"][POLICY]
    expect(claimed == expected, f"trained:{name}: sha256", f"{expected}, as in {TABLE}", claimed)
    return checkpoint

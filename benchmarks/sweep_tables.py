"""The tables of settings that `sweep.py` runs: each a number of rows, which are flags of `pipelines/train.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Settings to compare at one budget."""

    name: str
    about: str
    """What it asks, in words."""
    task: str
    """Judges every row: its opponents, on maps that training never saw."""
    agent_steps: int
    seeds: tuple[int, ...]
    battles: int
    """Against each opponent."""
    flags: tuple[str, ...]
    """Flags that all rows share."""
    rows: dict[str, tuple[str, ...]]
    """The flags that each row has in addition, by its name."""

    def flags_of(self, row: str, seed: int) -> list[str]:
        """Flags of a run."""
        return [*self.flags, *self.rows[row], "--total-agent-steps", str(self.agent_steps), "--seed", str(seed)]


TABLES: dict[str, Table] = {}

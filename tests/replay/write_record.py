"""Write the replay of today's record that hostile tests change: `python tests/replay/write_record.py FILE`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import torch

from echelon.arena.match import named_match, replay_of
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig, RulesConfig, WorldConfig

ENV = dataclasses.replace(
    EnvConfig.small(),
    world=WorldConfig(40, 40, 16),
    blue=("heavy", "light"),
    red=("medium", "scout"),
    map_pool=2,
    rules=RulesConfig(max_episode_s=15.0),
)
"""Few mechs and a small field, so that the file stays small, and time to meet."""


def write(path: Path) -> None:
    """Write it."""
    recorder = Recorder([0])
    match = named_match("heuristic:expert", "heuristic:hard", ENV, 2, torch.device("cpu"))
    match.play(0, recorder)
    save(replay_of(recorder, "heuristic:expert", "heuristic:hard"), path)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

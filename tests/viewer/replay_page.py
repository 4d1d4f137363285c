"""Pages of recorded replays, whose ground is made again from their seeds."""

from __future__ import annotations

from pathlib import Path

from echelon.replay.battle import Replay
from echelon.replay.ground import rebuild
from echelon.viewer.page import write_page


def write_replay_page(replay: Replay, path: Path) -> None:
    """Write the page of all battles of a recorded replay."""
    write_page(replay, [rebuild(replay, battle) for battle in replay.battles], path)

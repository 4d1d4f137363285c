"""What the tests of exports share: a small made-up battle, and a real one that an earlier release recorded."""

from pathlib import Path

from scenes import small_replay

from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.viewer.exporters.course import BattleTimeline

KEPT = Path(__file__).parents[1] / "fixtures" / "1.0.0" / "battles.echelon"


def small_course(decisions: int = 0) -> BattleTimeline:
    """The course of the small battle of `scenes`."""
    replay, grounds = small_replay(1)
    return BattleTimeline(replay, 0, grounds[0])


def kept_course() -> BattleTimeline:
    """The course of the first battle of the kept replay."""
    replay = read(KEPT)
    return BattleTimeline(replay, 0, rebuild(replay, replay.battles[0]))


COURSES = {"small": small_course, "kept": kept_course}

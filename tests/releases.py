"""Files of each release, which every later version reads."""

from pathlib import Path

RELEASES = sorted((Path(__file__).parent / "fixtures").glob("[0-9]*"))
"""A folder for each release whose form of a file, or whose rules, were new."""
NEWEST = RELEASES[-1]
REPLAY = NEWEST / "battles.echelon"
CHECKPOINT = NEWEST / "run" / "checkpoints" / "iteration_000002"

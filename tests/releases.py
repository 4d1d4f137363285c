"""Files of each release; all later versions read them."""

from pathlib import Path

RELEASES = sorted((Path(__file__).parent / "fixtures").glob("[0-9]*"))
"""A folder for each release with a new file format or new rules."""
NEWEST = RELEASES[-1]
REPLAY = NEWEST / "battles.echelon"
CHECKPOINT = NEWEST / "run" / "checkpoints" / "iteration_000002"

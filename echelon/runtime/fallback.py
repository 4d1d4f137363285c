"""What runs in a simpler form than it was to, and why: told in one line each, and kept for whoever asks."""

import logging

PREFIX = "fallback: "
"""Begins each such line, so that programs and logs can be searched for them."""
REASONS: list[str] = []
"""Lines of this process, without the prefix, each once."""
logger = logging.getLogger(__name__)


def fall_back(line: str) -> None:
    """Log, once a process, that something simpler takes the place of what failed."""
    if line not in REASONS:
        REASONS.append(line)
        logger.warning("%s%s", PREFIX, line)


def cause_of(problem: BaseException) -> str:
    """The first line of an error, or its type where it says nothing."""
    lines = str(problem).strip().splitlines()
    return lines[0][:200] if lines else type(problem).__name__

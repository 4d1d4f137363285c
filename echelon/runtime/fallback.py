"""Record which functions fell back to a slower implementation, and why."""

import logging

PREFIX = "fallback: "
"""First word of each logged fallback, for searching in logs."""
REASONS: list[str] = []
"""Unique fallback lines of this process, without the prefix."""
logger = logging.getLogger(__name__)


def fall_back(line: str) -> None:
    """Log a fallback, once per process."""
    if line not in REASONS:
        REASONS.append(line)
        logger.warning("%s%s", PREFIX, line)


def cause_of(problem: BaseException) -> str:
    """Return the first line of an error, or its type if the message is empty."""
    lines = str(problem).strip().splitlines()
    return lines[0][:200] if lines else type(problem).__name__

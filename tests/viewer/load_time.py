"""Measure the load time of a page until it is usable; not a test.

`PYTHONPATH=.:tests:tests/viewer python tests/viewer/load_time.py battles.echelon [loads]`
prints, for each load, the milliseconds from the start of navigation to the first frame that its viewer drew (looked for
every `browser.LOOK_S`), and to the frame that shows the answer to a key pressed then; and the medians.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from browser import Browser
from replay_page import write_replay_page

from echelon.replay.file import read

LOADS = 9
NOW_MS = "performance.now()"
"""Script for the time since the start of navigation."""


def measure(browser: Browser, page: Path) -> tuple[float, float]:
    """Return the milliseconds to the first frame, and to the frame after a key press."""
    browser.open(page)
    first = browser.run(NOW_MS)
    browser.press("1")
    return first, browser.run(NOW_MS)


def main(source: Path, loads: int) -> None:
    """Measure the page of a replay at desktop size."""
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = Path(folder) / "battles.html"
        write_replay_page(read(source), page)
        browser.resize(1600, 900)
        times = [measure(browser, page) for _ in range(loads)]
        first, answered = ([round(ms) for ms in column] for column in zip(*times, strict=True))
        result = {
            "bytes": page.stat().st_size,
            "load_average": round(os.getloadavg()[0], 1),
            "first_frame_ms": first,
            "median_first_frame_ms": statistics.median(first),
            "answered_ms": answered,
            "median_answered_ms": statistics.median(answered),
        }
        print(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else LOADS)

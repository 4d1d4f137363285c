"""The page on which a training is watched, in a browser, of a run as the program starts it."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from programs import Program

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
RUN = [
    *("pipelines/train.py", "--preset", "quick", "--device", "cpu", "--num-envs", "4", "--evaluation.battles", "2"),
    *("--evaluation.final-battles", "2", "--evaluation.tiers", "easy", "--env.map-pool", "2", "--dashboard"),
    *("--ppo.rollout-decisions", "16", "--ppo.chunk-decisions", "4", "--opponent", "heuristic:easy"),
    *("--total-agent-steps", "100000000"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


def address_of(process: Program) -> str:
    """What the run prints."""
    said = Path(process._outputs[0].name)
    while not (found := re.search(r"^dashboard +(\S+)", said.read_text(), re.M)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return found[1]


def test_live_page_shows_battles_without_controls(chromium, tmp_path):
    process = Program(*RUN, "--run-dir", str(tmp_path))
    try:
        chromium.resize(1280, 800)
        chromium.call("Page.navigate", url=address_of(process))
        chromium.wait("!!window.echelon && !!echelon.report()")
        for _ in range(3):
            chromium.run("window.seen = [echelon.report(), echelon.place('blue_0').join()]")
            chromium.wait("echelon.report() !== window.seen[0] && echelon.place('blue_0').join() !== window.seen[1]")
        assert chromium.run("echelon.report().packs[0].mechs.length + echelon.report().enemies.length") > 5
        said = chromium.run("document.getElementById('said').textContent")
        assert re.search(r"iteration \d+ · [\d,]+ agent-steps · blue: the learner · red: heuristic:easy", said)
        hidden = "[...document.querySelectorAll('#pace, #commands, #stick')].every(e => e.offsetParent === null)"
        assert chromium.run(hidden)
        for key in ("h", "e", " ", "."):
            chromium.press(key)
        assert chromium.run("echelon.driven()") is None
        assert not chromium.complaints()
        process.send_signal(signal.SIGTERM)
        chromium.wait("document.getElementById('said').textContent.includes('the run has ended')")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, errors

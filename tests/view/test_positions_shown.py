"""A battle that begins in a position which somebody has written down is shown by the page on its ground."""

import pytest
from browser import CHROMIUM, Browser
from replay_page import write_replay_page

import echelon
from echelon.env.env import EchelonEnv
from echelon.replay.file import read, save
from echelon.replay.recorder import Recorder


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH")
def test_the_page_shows_it(tmp_path):
    scene, recorder = echelon.Scene().wall((19, 10), (21, 30), 5), Recorder([0, 1])
    scene.place("blue", "medium", at=(12, 20)).place("red", "heavy", at=(30, 20.5), facing_deg=180)
    env = EchelonEnv(scene.scenario.config, 2, "cpu", seed=1, observer=recorder)
    env.rollout(4)
    save(recorder.finish(["x"] * 2, ["y"] * 2), tmp_path / "duel.echelon")
    write_replay_page(read(tmp_path / "duel.echelon"), tmp_path / "page.html")
    with Browser() as browser:
        browser.resize(1280, 720)
        browser.open(tmp_path / "page.html")
        browser.run("echelon.select(1); echelon.seek(0.5)")
        browser.materialize()
        assert browser.run("document.querySelector('#battle-choice optgroup').label").startswith("position 0, seed ")
        assert "heavy" in browser.run("document.querySelector('#cockpit').textContent").lower()
        assert not browser.complaints() and not browser.requests()

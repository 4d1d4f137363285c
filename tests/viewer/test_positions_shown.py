"""The page shows a battle that starts from a user-defined position, on its map."""

import pytest
from browser import CHROMIUM, Browser
from replay_page import write_replay_page

import echelon
from echelon.env.env import EchelonEnv
from echelon.replay.file import read, save
from echelon.replay.ground import objective_text, rebuild
from echelon.replay.recorder import Recorder
from echelon.rules.position import Objective
from echelon.viewer.battle_picture import BattlePlan
from echelon.viewer.page import pack, unpack


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
        assert browser.run("document.querySelector('.score.blue').title") == "20 s of zone control win"
        assert not browser.complaints() and not browser.requests()


def test_pages_and_pictures_show_both_zones():
    objective = echelon.Objective("king_of_two", second_zone=(30, 10, 4))
    scene, recorder = echelon.Scene(objective=objective), Recorder([0])
    scene.place("blue", "medium", at=(12, 20)).place("red", "heavy", at=(30, 20))
    env = EchelonEnv(scene.scenario.config, 1, "cpu", seed=1, observer=recorder)
    env.rollout(2)
    replay = recorder.finish(["x"], ["y"])
    grounds = [rebuild(replay, battle) for battle in replay.battles]
    (battle,) = unpack(pack(replay, grounds)).battles
    assert battle["about"]["zones"] == [[20.5, 20.5, 7.5], [30.5, 10.5, 4]]
    assert battle["about"]["objective"] == "20 s of zone control win, of two zones that count half each"
    assert BattlePlan(replay, 0, grounds[0], 8).zones == battle["about"]["zones"]


@pytest.mark.parametrize(
    ("objective", "text"),
    [
        (Objective("zone", control_s=5), "5 s of zone control win"),
        (Objective("hold", attackers="red", seconds=30), "red wins with 20 s of zone control, blue after 30 s"),
        (
            Objective("escort", mech="blue_1"),
            "blue wins when blue_1 is in the zone, red by its death or when time is up",
        ),
        (
            Objective("breakthrough", mechs=2, seconds=9),
            "blue wins once 2 of its mechs were in the zone, red when too many have died or after 9 s",
        ),
        (Objective("elimination"), "only the death of a team decides"),
    ],
)
def test_objectives_in_words(objective, text):
    assert objective_text(objective, 20.0) == text

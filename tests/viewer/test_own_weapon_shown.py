"""A custom weapon is recorded, and the page shows it, with the values of its catalog row."""

import dataclasses

import pytest
from browser import CHROMIUM, Browser
from own_catalog import CATALOG
from replay_page import write_replay_page

from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.replay.battle import FLIGHTS, Replay
from echelon.replay.file import read, save
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.views.group_policy import GroupPolicy, memory_spec

CONFIG = dataclasses.replace(
    EnvConfig.small(), catalog=CATALOG, blue=("scout",) * 3, red=("heavy", "medium"), map_pool=1
)
WEAPON, SHOOTER, LAUNCH = (FLIGHTS.index(name) for name in ("weapon", "shooter", "launch_tick"))


@pytest.fixture(scope="module")
def fought() -> Replay:
    """A battle of `expert` against itself."""
    policy, recorder = Heuristic(CONFIG, "expert"), Recorder([0])
    env = EchelonEnv(CONFIG, 1, "cpu", 3, memory=memory_spec(a=policy), observer=recorder)
    td = env.reset()
    for _ in range(50):
        for group in ("blue", "red"):
            GroupPolicy(policy, group, "a")(td)
        _, td = env.step_and_maybe_reset(td)
    return recorder.finish(["x"], ["y"])


def shots_of(replay: Replay) -> list[list[int]]:
    """Rows of the flights of the railgun."""
    flights = replay.battles[0].flights
    return flights[flights[:, WEAPON] == replay.about["weapons"].index("railgun")].tolist()


def test_replay_contains_custom_weapon_shots_and_statistics(fought, tmp_path):
    save(fought, tmp_path / "kept.echelon")
    kept = read(tmp_path / "kept.echelon")
    stats = kept.battles[0].about["outcome"]["stats"]
    assert len(shots_of(kept)) > 0 and "shots_railgun" in stats
    told = {"range_vox": 40.0, "arc_deg": 60.0, "effect": "damage", "look": "tracer", "colour": "#40ffc0"}
    told |= {"damage": 30.0, "self_heat": 40.0, "target_heat": 0.0}
    assert kept.about["weapon_specs"]["railgun"] == told
    assert "railgun" in kept.about["mechs"][0]["weapons"]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH")
def test_the_page_shows_it(fought, tmp_path):
    page = tmp_path / "page.html"
    write_replay_page(fought, page)
    first = shots_of(fought)[0]
    with Browser() as browser:
        browser.resize(1280, 720)
        browser.open(page)
        browser.run(f"echelon.select({first[SHOOTER]}); echelon.seek({(first[LAUNCH] + 3) * 0.05})")
        browser.materialize()
        told = browser.run("document.querySelector('#statistics').textContent")
        drawn = browser.run("document.querySelector('#cockpit').textContent")
        assert "railgun" in told and "railgun" in drawn
        assert not browser.complaints() and not browser.requests()

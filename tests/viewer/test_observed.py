"""Observations shown by the page, compared with the observations of the environment."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from browser import CHROMIUM, Browser
from replay_page import write_replay_page
from scenes import EGO, PACK, small_replay

from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.replay.battle import Replay
from echelon.replay.file import read, save
from echelon.replay.ground import rebuild
from echelon.replay.observed import LEVELS, describe_observed, observed_arrays, units
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.physics import RulesConfig
from echelon.viewer.page import write_page

BRIEF = EnvConfig(world=WorldConfig(40, 40, 16), rules=RulesConfig(max_episode_s=2.0), blue=PACK, red=PACK, map_pool=1)
MOMENT, MECH = 6, 3
needs_browser = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]


@pytest.fixture(scope="module")
def replay(tmp_path_factory) -> Replay:
    """Return a short battle with observations, read from its file."""
    recorder = Recorder([0], observations=True)
    env = EchelonEnv(BRIEF, 1, "cpu", seed=3, observer=recorder)
    with torch.inference_mode():
        env.rollout(BRIEF.rules.max_decisions, auto_cast_to_device=False)
    path = tmp_path_factory.mktemp("observed") / "battle.echelon"
    save(recorder.finish(blue=["chance"], red=["chance"]), path)
    return read(path)


@pytest.fixture(scope="module")
def page(replay, tmp_path_factory):
    path = tmp_path_factory.mktemp("observed") / "battle.html"
    write_replay_page(replay, path)
    return path


def open_senses(browser: Browser, page, tab: str = "cockpit") -> None:
    browser.open(page, f"#t={MOMENT * 0.25}&select={MECH}&tab={tab}")
    browser.run("document.querySelector('[data-part=senses]').open = true")
    browser.materialize()
    browser.materialize()


def cells(browser: Browser, selector: str) -> list[list[str]]:
    rows = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return browser.run(f"{rows}.map(row => [...row.cells].map(cell => cell.innerText))")


def told(text: str) -> float:
    return float(text.replace("−", "-"))


# Data in the page


def test_quantised_numbers_stay_within_one_step(replay):
    battle = replay.battles[0]
    packed = observed_arrays(replay, battle, rebuild(replay, battle))
    for stream, features in (("contacts", layout.CONTACT), ("squad", layout.SQUAD), ("ego", layout.EGO)):
        low, high = (bound.numpy() for bound in layout.bounds(features))
        back = low + packed[f"observed_{stream}"] / LEVELS * (high - low)
        within = (high - low) / LEVELS / 2 + 2e-6
        assert (np.abs(back - battle.observations[stream]) <= within).all(), stream
    assert np.array_equal(packed["observed_local_map"], battle.observations["local_map"])
    assert np.array_equal(packed["observed_contacts_mask"], battle.observations["contacts_mask"])


def test_height_map_equals_environment(replay):
    battle = replay.battles[0]
    packed = observed_arrays(replay, battle, rebuild(replay, battle))["observed_telemetry"]
    given = EchelonEnv(BRIEF, 1, "cpu", seed=3).reset()["telemetry"]
    assert packed.shape == given.shape == (1, 16, 16)
    assert np.abs(packed / LEVELS - given.numpy()).max() <= 0.5 / LEVELS + 1e-6


def test_replay_without_observations_embeds_none():
    replay, grounds = small_replay(1)
    assert observed_arrays(replay, replay.battles[0], grounds[0]) == {}
    assert [feature["name"] for feature in describe_observed(replay)["ego"]] == [row[0] for row in replay.about["ego"]]


def test_stream_with_other_layout_is_omitted(replay):
    battle = replay.battles[0]
    narrower = {**battle.observations, "contacts": battle.observations["contacts"][..., :-1]}
    odd = dataclasses.replace(battle, observations=narrower)
    packed = observed_arrays(replay, odd, rebuild(replay, battle))
    assert "observed_contacts" not in packed and "observed_contacts_mask" not in packed and "observed_squad" in packed


def test_all_layout_units_are_supported():
    used = {feature.unit for features in layout.streams(8).values() for feature in features}
    known = units(EnvConfig())
    assert used - {"top speed", "full thrust", "top yaw rate"} <= known.keys(), "those are of actions"


def test_switched_off_features_say_so(replay):
    features = dataclasses.replace(BRIEF.features, comms=False, ewar=False)
    env = dataclasses.replace(BRIEF, features=features).signature()
    described = describe_observed(Replay({**replay.about, "env": env}, replay.battles))
    assert described["comms"][0]["off"]
    off = {feature["name"] for feature in described["ego"] if feature["off"]}
    assert {"ecm", "eccm", "jam"} <= off and "heat" not in off


# Display of the page


class TestThePanel:
    pytestmark = needs_browser

    def test_shown_contacts_equal_observation(self, browser, page, replay):
        open_senses(browser, page)
        shown = cells(browser, ".observed .objects:nth-of-type(1) tbody tr")
        battle, mask = replay.battles[0], replay.battles[0].observations["contacts_mask"][MOMENT, MECH]
        rows = battle.observations["contacts"][MOMENT, MECH].astype(np.float64)
        contacts = browser.run(
            "[...document.querySelector('.observed .objects').querySelectorAll('tbody tr')].map(r => ({...r.dataset}))"
        )
        assert [int(row["slot"]) for row in contacts] == np.flatnonzero(mask).tolist()
        assert [int(row["mech"]) for row in contacts] == battle.contacts[MOMENT, MECH][mask].tolist()
        for row, line in zip(np.flatnonzero(mask), shown, strict=False):
            rel = rows[row, layout.columns(layout.CONTACT, "rel_pos")] * BRIEF.world.longest_side
            assert [told(text) for text in line[2:5]] == pytest.approx(rel.tolist(), abs=0.08)
            detail = rows[row, layout.columns(layout.CONTACT, "detail")][0] > 0
            hp = rows[row, layout.columns(layout.CONTACT, "hp")][0]
            assert (told(line[5]) == pytest.approx(100 * hp, abs=0.6)) if detail else line[5] == "–"
            assert line[1] == layout.HULLS[int(rows[row, layout.columns(layout.CONTACT, "hull")].argmax())]

    def test_empty_slots_are_left_out_and_counted(self, browser, page, replay):
        open_senses(browser, page)
        masks = [replay.battles[0].observations[f"{name}_mask"][MOMENT, MECH] for name in ("contacts", "squad")]
        sums = browser.run("[...document.querySelectorAll('.observed .summary')].map(e => e.textContent)")
        assert sums == [f"{mask.sum()} of {len(mask)} slots filled" for mask in masks]

    def test_squad_messages_and_ego_are_shown(self, browser, page, replay):
        open_senses(browser, page)
        battle = replay.battles[0]
        heard = cells(browser, ".observed .heard tr")
        pack = [n for n in range(10) if n // 5 == MECH // 5]
        assert [row[0][1:] for row in heard] == [str(n % 5 + 1) for n in pack if n != MECH]
        for n, row in zip([n for n in pack if n != MECH], heard, strict=True):
            said = battle.observations["comms"][MOMENT, MECH, pack.index(n)]
            assert [told(x) for x in row[1].split()] == pytest.approx(said.tolist(), abs=0.051)
        itself = {row[0].split(",")[0]: row[1] for row in cells(browser, ".observed .itself tr")}
        ego = battle.observations["ego"][MOMENT, MECH].astype(np.float64)
        x, y, z = (told(word) for word in itself["position"].split()[:3])
        assert (x, y, z) == pytest.approx(battle.pos[MOMENT, MECH] / 64, abs=0.1)
        sin, cos = ego[layout.columns(layout.EGO, "yaw_sin_cos")]
        assert told(itself["yaw"].removesuffix("°")) == pytest.approx(math.degrees(math.atan2(sin, cos)), abs=0.7)
        assert itself["hull"] == layout.HULLS[int(ego[:4].argmax())] and itself["hp"].endswith(" %")
        assert itself["time"] == f"{told(itself['time'].split()[0]):g} s" and itself["alive"] == "yes"

    def test_local_map_is_drawn_nose_up(self, browser, page, replay):
        open_senses(browser, page)
        blocked = replay.battles[0].observations["local_map"][MOMENT, MECH] > 0
        assert blocked.any() and not blocked.all()
        script = (
            "(c => { const all = c.getContext('2d').getImageData(0, 0, 121, 121).data;"
            " return Array.from({length: 11}, (_, y) => Array.from({length: 11}, (_, x) =>"
            " [...all.slice(4 * ((y * 11 + 1) * 121 + x * 11 + 1)).slice(0, 3)].join())); })"
            "(document.querySelector('.grounds canvas'))"
        )
        drawn = np.array(browser.run(script))
        # Rows run from back to front, columns from right to left; the picture starts at the front left.
        wanted = blocked[::-1, ::-1]
        colours = {bool(kind): set(drawn[wanted == kind]) for kind in (True, False)}
        assert all(len(found) == 1 for found in colours.values()) and not colours[True] & colours[False]

    def test_raw_observation_values_can_be_shown(self, browser, page, replay):
        open_senses(browser, page)
        browser.click_on(".as-given input")
        browser.materialize()
        line = cells(browser, ".observed .objects tbody tr")[0]
        slot = int(line[0]) - 1
        rel = replay.battles[0].observations["contacts"][MOMENT, MECH, slot, :3]
        assert [float(text) for text in line[2:5]] == pytest.approx(rel.tolist(), abs=0.006)
        assert browser.run("document.activeElement.type") == "checkbox", "the choice keeps the focus"

    def test_replay_without_observations_lists_missing_streams(self, browser, tmp_path):
        write_page(*small_replay(1), tmp_path / "page.html")
        browser.open(tmp_path / "page.html", "#t=1&select=0&tab=cockpit")
        browser.run("document.querySelector('[data-part=senses]').open = true")
        browser.materialize()
        lacks = browser.run("[...document.querySelectorAll('#cockpit .lack')].map(e => e.textContent)")
        assert lacks == [
            "Not in this replay: contacts, comrades, messages, the ground around it, as observed; "
            "record them with play --replay-observations."
        ]
        assert browser.run("document.querySelectorAll('.observed .itself tr').length") == len(EGO)

    def test_panel_fits_its_width(self, browser, page):
        for wide, high in ((1280, 720), (1600, 900), (390, 844)):
            browser.resize(wide, high, mobile=wide < 500)
            open_senses(browser, page)
            over = "[...document.querySelectorAll('.observed *')]"
            over += ".filter(e => e.getBoundingClientRect().right > innerWidth)"
            assert browser.run(f"{over}.map(e => e.outerHTML)") == []
            panel = "document.querySelector('#cockpit')"
            assert browser.run(f"{panel}.scrollWidth <= {panel}.clientWidth")

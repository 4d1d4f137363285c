"""The viewer in a browser."""

from __future__ import annotations

import io
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from browser import CHROMIUM, Browser
from PIL import Image
from replay_page import write_replay_page
from scenes import DECISIONS, HEAVY, LIGHT, MEDIUM, PACK, SCOUT, noisy_replay, small_replay
from tiers import usually

from echelon.env.env import EchelonEnv
from echelon.replay.battle import NO_INDEX, Fact, Replay
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.versions import RULES_VERSION
from echelon.viewer.page import write_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
DECISION_S = 0.25
SHIFT = 8


@pytest.fixture(scope="module")
def replay() -> Replay:
    return small_replay()[0]


def state(browser: Browser) -> dict:
    return browser.run("echelon.state()")


def time_of(browser: Browser) -> float:
    return browser.run("echelon.time()")


def go(browser: Browser, moment: int, select: int = NO_INDEX) -> None:
    browser.run(f"echelon.select({select}); echelon.seek({moment * DECISION_S})")
    browser.materialize()


def pixels(browser: Browser, selector: str = "#stage") -> np.ndarray:
    """Return the screen content after all animations."""
    browser.wait("echelon.state().still")
    place = browser.run(
        f"(r => [r.x, r.y, r.right, r.bottom])(document.querySelector('{selector}').getBoundingClientRect())"
    )
    return np.asarray(Image.open(io.BytesIO(browser.screenshot())).convert("RGB").crop([round(x) for x in place]))


def texts(browser: Browser, selector: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")


def test_the_field_is_drawn(browser):
    picture = pixels(browser).reshape(-1, 3)
    assert len(np.unique(picture // 8, axis=0)) > 200
    blue = (picture[:, 2] > 150) & (picture[:, 0] < 110)
    red = (picture[:, 0] > 150) & (picture[:, 2] < 90)
    assert blue.sum() > 50 and red.sum() > 50


def test_scrubber_follows_mouse(browser):
    x, y = browser.middle_of("#timeline")
    browser.mouse("mousePressed", x, y, 1)
    assert time_of(browser) == pytest.approx(3.0, abs=0.05)
    browser.mouse("mouseMoved", x + 150, y, 1)
    browser.mouse("mouseReleased", x + 150, y)
    browser.mouse("mouseMoved", x - 100, y)
    assert 3.5 < time_of(browser) < 5.5
    assert float(browser.run("document.querySelector('#timeline').ariaValueNow")) == pytest.approx(
        time_of(browser), abs=0.01
    )


def test_playback_stops_at_end(browser):
    browser.click_on("#play")
    browser.wait("echelon.time() > 0.3")
    browser.press(" ")
    assert not state(browser)["playing"]
    browser.run("echelon.seek(5.9); echelon.play()")
    browser.wait("!echelon.state().playing")
    assert time_of(browser) == DECISIONS * DECISION_S
    assert texts(browser, ".control") == ["blue wins by time up"]


def test_speed(browser):
    browser.press("]")
    browser.press("]")
    assert state(browser)["speed"] == 4 and browser.run("document.querySelector('#speed').value") == "4"
    browser.press("[")
    assert state(browser)["speed"] == 2


def test_keys_step(browser):
    browser.press("ArrowRight")
    assert time_of(browser) == DECISION_S
    browser.press("ArrowRight", SHIFT)
    assert time_of(browser) == DECISION_S + 5.0
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    assert time_of(browser) == 4.75
    browser.press(",")
    assert time_of(browser) == pytest.approx(4.7)
    browser.press(".")
    assert time_of(browser) == pytest.approx(4.75)
    browser.run("echelon.seek(0.1)")
    browser.press("ArrowRight", SHIFT)
    assert time_of(browser) == pytest.approx(5.1), "five seconds, fraction kept"
    browser.press("Home")
    assert time_of(browser) == 0.0


def test_click_on_field_selects_mech(browser):
    for n in (HEAVY, MEDIUM):
        browser.click(*browser.run(f"echelon.screenOf({n})"))
        assert state(browser)["selected"] == n and state(browser)["tab"] == "cockpit"
    assert browser.run("document.querySelector('.mech[data-mech=\"2\"]').ariaPressed") == "true"
    browser.press("Escape")
    assert state(browser)["selected"] == NO_INDEX


def test_click_in_list_selects_mech(browser):
    browser.click_on(f'.mech[data-mech="{LIGHT}"]')
    assert state(browser)["selected"] == LIGHT
    browser.press(" ")
    assert state(browser)["playing"] and state(browser)["selected"] == LIGHT
    assert texts(browser, "[data-part=name]") == ["red light 2"]


def test_list_shows_condition_of_all_mechs(browser):
    go(browser, 10)
    row = browser.run(f"document.querySelector('.mech[data-mech=\"{MEDIUM}\"]').ariaLabel")
    assert row == "red medium 1, 73 % hit points, 0 % heat, fallen, legs lost, suppressed"
    assert "shut down" not in browser.run(f"document.querySelector('.mech[data-mech=\"{HEAVY}\"]').ariaLabel")
    go(browser, 13)
    assert "shut down" in browser.run(f"document.querySelector('.mech[data-mech=\"{HEAVY}\"]').ariaLabel")
    go(browser, DECISIONS)
    assert texts(browser, ".team-head .count") == ["1/2", "1/2"]


@pytest.mark.parametrize(
    ("mech", "moment"), usually(product((HEAVY, LIGHT), (0, 4, 7, 12, 20)), (HEAVY, 4), (LIGHT, 7), (HEAVY, 20))
)
def test_cockpit_shows_recorded_contacts(browser, replay, mech, moment):
    go(browser, moment, mech)
    battle = replay.battles[0]
    kept = [
        {"mech": str(other), "slot": str(slot), "facts": str(facts)}
        for slot, (other, facts) in enumerate(
            zip(battle.contacts[moment, mech], battle.contact_facts[moment, mech], strict=True)
        )
        if other != NO_INDEX
    ]
    assert browser.run("[...document.querySelectorAll('[data-part=contacts] tr')].map(r => ({...r.dataset}))") == kept


def test_contact_without_detail_hides_hit_points(browser):
    go(browser, 4, HEAVY)
    rows = browser.run(
        "[...document.querySelectorAll('[data-part=contacts] tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [row[1:3] + row[5:] for row in rows] == [["light", "intel", "–", "–"]]
    assert texts(browser, "[data-part=summary]") == ["1 contact · 1 enemy unseen"]


def test_see_as_hides_unperceived_mechs(browser):
    go(browser, 2, HEAVY)
    assert browser.run("echelon.shownMechs()") == [HEAVY, SCOUT, MEDIUM, LIGHT]
    browser.press("v")
    assert browser.run("echelon.shownMechs()") == [HEAVY, SCOUT]
    go(browser, 9, HEAVY)
    assert browser.run("echelon.shownMechs()") == [HEAVY, SCOUT, MEDIUM, LIGHT]


def test_dead_mechs_are_removed_from_field(browser):
    go(browser, 18)
    assert browser.run("echelon.shownMechs()") == [HEAVY, SCOUT, MEDIUM]
    go(browser, 2)
    assert browser.run("echelon.shownMechs()") == [HEAVY, SCOUT, MEDIUM, LIGHT]


@pytest.mark.long
def test_ground_is_equal_forward_and_backward(browser):
    browser.run("echelon.seek(1)")
    browser.materialize()
    before = pixels(browser)
    browser.run("echelon.seek(5)")
    browser.materialize()
    assert (pixels(browser) != before).any()
    browser.run("echelon.seek(1)")
    browser.materialize()
    assert (pixels(browser) == before).all()


def test_feed_lists_every_death(browser, replay):
    told = browser.run(
        "[...document.querySelectorAll('.event.kill')]"
        ".map(e => [Number(e.dataset.t), e.querySelector('.what').textContent])"
    )
    deaths = replay.battles[0].deaths
    assert [t for t, _ in told] == pytest.approx([(tick + 1) * 0.05 for tick in deaths[:, 0]])
    assert [text for _, text in told] == ["blue heavy 1 killed red light 2 with gauss", "blue scout 2 burnt to death"]


def test_feed_lists_other_events(browser):
    told = texts(browser, ".event .what")
    for text in (
        "red medium 1 was knocked down",
        "red medium 1 lost its legs",
        "blue heavy 1 shut down from heat: fired missile +90, fired laser +22 heat in 5 s",
        "blue scout 2 painted red light 2",
        "missile of blue heavy 1 shot down by red medium 1",
        "blue takes the zone",
        "the zone is contested",
        "blue wins by time up",
    ):
        assert told.count(text) >= 1, text


@pytest.mark.long
def test_feed_can_be_filtered_and_seeks_to_events(browser):
    shown = "[...document.querySelectorAll('#events li:not([hidden]) .event.kill')].length"
    assert browser.run(shown) == 2
    browser.click_on(".event.kill")
    assert time_of(browser) == pytest.approx(79 * 0.05 - 0.6) and state(browser)["selected"] == HEAVY
    browser.click_on("#tab-events")
    browser.click_on(".filter")
    assert browser.run(shown) == 0


@pytest.mark.long
def test_another_battle_can_be_chosen(browser):
    browser.run(
        "(c => { c.value = 1; c.dispatchEvent(new Event('change')); })(document.querySelector('#battle-choice'))"
    )
    browser.materialize()
    browser.press("End")
    assert state(browser)["battle"] == 1 and time_of(browser) == (DECISIONS - 1) * DECISION_S


@pytest.mark.long
def test_address_sets_and_follows_state(browser, page):
    browser.open(page, "#battle=1&t=2.5&select=3&view=top&theme=light&tab=events&lines=1&speed=0.5")
    found = state(browser)
    wanted = {"battle": 1, "t": 2.5, "selected": 3, "top": True, "theme": "light", "tab": "events", "showLines": True}
    assert {key: found[key] for key in wanted} == wanted and found["speed"] == 0.5
    browser.press("ArrowRight")
    browser.wait("location.hash.includes('t=2.75')")
    browser.run("location.hash = '#t=1.25'")
    browser.wait("echelon.time() === 1.25")


@pytest.mark.long
def test_light_and_dark(browser, page):
    dark = pixels(browser, "body").mean()
    browser.prefer("light")
    browser.materialize()
    light = pixels(browser, "body").mean()
    assert state(browser)["theme"] == "light" and light > dark + 60
    browser.click_on("#toggle-theme")
    assert state(browser)["theme"] == "dark" and pixels(browser, "body").mean() < dark + 10


def wait_until_still(browser):
    """Wait until the camera stops, on a busy machine too."""
    browser.materialize()
    browser.wait("echelon.state().still")


@pytest.mark.long
def test_view_turns_and_resets(browser):
    wait_until_still(browser)
    before = browser.run("echelon.screenOf(0)")
    browser.mouse("mousePressed", 600, 400, 1)
    for x in (620, 660, 700):
        browser.mouse("mouseMoved", x, 400, 1)
    browser.mouse("mouseReleased", 700, 400)
    wait_until_still(browser)
    assert np.abs(np.subtract(browser.run("echelon.screenOf(0)"), before)).max() > 5
    assert state(browser)["selected"] == NO_INDEX
    browser.click_on("#home")
    wait_until_still(browser)
    assert browser.run("echelon.screenOf(0)") == pytest.approx(before, abs=2)


@pytest.mark.long
def test_phone_layout_has_no_sideways_scroll(browser, page):
    browser.resize(390, 844, mobile=True)
    browser.open(page, "#select=0")
    for tab in ("teams", "events", "cockpit", "statistics"):
        browser.click_on(f"#tab-{tab}")
        assert state(browser)["tab"] == tab
        assert browser.run("document.scrollingElement.scrollWidth") == 390
        wide = "[...document.querySelectorAll('body *')].filter(e => e.offsetParent)"
        wide += ".filter(e => e.getBoundingClientRect().right > 390.5)"
        assert browser.run(f"{wide}.map(e => e.id || e.className)") == []
    assert browser.run("document.querySelector('#scene').clientHeight") > 280


def test_help_lists_the_keys(browser):
    browser.press("?")
    assert browser.run("document.querySelector('#help').open") and len(texts(browser, ".key-row")) > 15
    browser.press("Escape")
    assert not browser.run("document.querySelector('#help').open")


def chosen(browser: Browser) -> dict:
    """Return the selection, independent of the drawn state."""
    return {name: value for name, value in state(browser).items() if name not in ("frames", "still")}


@pytest.mark.long
@pytest.mark.parametrize("dialog", ["help", "battles"])
def test_dialog_blocks_keys_of_page(browser, dialog):
    browser.run("echelon.select(0)")
    browser.run(f"document.querySelector('#{dialog}').showModal()")
    before = chosen(browser)
    for key in ("t", "l", "n", "ArrowRight", "]", "?", "Escape"):
        browser.press(key)
    assert chosen(browser) == before
    assert not browser.run(f"document.querySelector('#{dialog}').open"), "it is closed, and its mech stays selected"


def test_print_shows_panels_dark_on_white(browser):
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.call("Emulation.setEmulatedMedia", media="print", features=dark)
    try:
        style = "(s, name) => getComputedStyle(document.querySelector(s))[name]"
        shown = browser.run(f"['#teams', '#statistics', '#events-panel', '.tools'].map(s => ({style})(s, 'display'))")
        assert shown == ["block", "block", "block", "none"]
        assert browser.run(f"({style})('body', 'backgroundColor')") == "rgb(255, 255, 255)"
        assert browser.run(f"({style})('#events', 'overflowY')") == "visible"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
        browser.prefer("light")


def test_all_controls_have_accessible_names(browser):
    every = "[...document.querySelectorAll('button, select, canvas')]"
    nameless = f"{every}.filter(e => !(e.ariaLabel || e.textContent.trim() || e.ariaHidden))"
    assert browser.run(f"{nameless}.map(e => e.outerHTML)") == []


@pytest.mark.long
def test_missing_webgl_and_canvas_is_one_line(browser, page, tmp_path):
    blind = tmp_path / "blind.html"
    without_contexts(page, blind, "() => null")
    browser.call("Page.navigate", url=f"file://{blind}")
    browser.wait("document.querySelector('#trouble')?.hidden === false")
    assert texts(browser, "#trouble") == ["This viewer needs WebGL2 or a 2D canvas, and this browser offers neither."]


def without_contexts(page: Path, into: Path, context: str) -> None:
    """Copy the page with a script that replaces canvas contexts."""
    patch = f"<script>HTMLCanvasElement.prototype.getContext = {context}</script><script"
    into.write_text(page.read_text().replace("<script", patch, 1))


@pytest.mark.long
def test_page_without_webgl_shows_plan_and_panels(browser, page, tmp_path):
    plain = tmp_path / "plain.html"
    old = "(own => function (kind, ...more) { return kind === 'webgl2' ? null : own.call(this, kind, ...more); })"
    without_contexts(page, plain, f"{old}(HTMLCanvasElement.prototype.getContext)")
    browser.open(plain, "#t=2&select=0")
    assert texts(browser, "#said") == ["Without WebGL2 the field is shown from above."]
    picture = pixels(browser).reshape(-1, 3)
    assert len(np.unique(picture // 8, axis=0)) > 60
    for colour in ((63, 142, 240), (240, 96, 44)):
        assert (np.abs(picture.astype(int) - colour).sum(-1) < 30).sum() > 30
    browser.click(*browser.run(f"echelon.screenOf({MEDIUM})"))
    assert state(browser)["selected"] == MEDIUM
    parts = {"events": "#events", "missiles": "#missiles", "cockpit": ".radar", "statistics": ".accounts"}
    for tab, part in parts.items():
        browser.click_on(f"#tab-{tab}")
        assert browser.run(f"document.querySelector('{part}').offsetParent !== null")


def test_shown_facts_equal_replay(browser):
    told = browser.run("echelon.facts")
    assert told == {fact.name: int(fact) for fact in Fact}


def test_recorded_battle_is_shown(browser, tmp_path):
    env = EnvConfig(
        world=WorldConfig(40, 40, 16), rules=RulesConfig(max_episode_s=2.0), blue=PACK, red=PACK, map_pool=1
    )
    recorder = Recorder([0])
    arena = EchelonEnv(env, 1, "cpu", seed=3, observer=recorder)
    with torch.inference_mode():
        arena.rollout(env.rules.max_decisions, auto_cast_to_device=False)
    recorded = recorder.finish(blue=["chance"], red=["chance"])
    write_replay_page(recorded, tmp_path / "page.html")
    browser.open(tmp_path / "page.html", "#t=1.5&select=0")
    assert browser.run("echelon.shownMechs().length") == 10 and state(browser)["moment"] == 6
    contacts = [other for other in recorded.battles[0].contacts[6, 0].tolist() if other != NO_INDEX]
    assert (
        browser.run("[...document.querySelectorAll('[data-part=contacts] tr')].map(r => +r.dataset.mech)") == contacts
    )


def test_result_shows_both_teams(browser):
    browser.click_on("#tab-statistics")
    assert texts(browser, "#statistics h2") == ["blue wins by time up"]
    assert texts(browser, "#statistics .duel") == ["1kills0"]
    assert "gauss1 : 0" in texts(browser, "#statistics tbody tr")
    assert texts(browser, "#statistics .summary") == [f"rules version {RULES_VERSION}"]


def test_cockpit_of_dead_mech_shows_cause(browser):
    go(browser, 20, LIGHT)
    assert texts(browser, "[data-part=fate]") == ["killed by blue heavy 1 at 0:03.9"]
    assert browser.run("document.querySelector('.radar').offsetParent === null")


@pytest.mark.long
@pytest.mark.parametrize("size", [(1000, 700), (844, 390), (1920, 1080)])
def test_field_keeps_room_on_other_screens(browser, page, size):
    browser.resize(*size)
    browser.open(page, "#select=0&tab=cockpit")
    wide, high = browser.run(
        "[document.querySelector('#scene').clientWidth, document.querySelector('#scene').clientHeight]"
    )
    assert wide >= 0.55 * size[0] and high >= 0.55 * size[1]
    assert browser.run("document.scrollingElement.scrollWidth") == size[0]


@pytest.mark.long
def test_zoom_out_while_following(browser):
    go(browser, 4, HEAVY)
    browser.press("f")
    wait_until_still(browser)
    near = browser.run("echelon.screenOf(1)")
    for _ in range(4):
        browser.press("-")
    wait_until_still(browser)
    here, far = browser.run("echelon.screenOf(0)"), browser.run("echelon.screenOf(1)")
    assert np.hypot(*np.subtract(far, here)) < 0.8 * np.hypot(*np.subtract(near, here))


@pytest.mark.long
def test_minute_of_noise_is_drawn(browser, tmp_path):
    write_page(*noisy_replay(), tmp_path / "noise.html")
    browser.open(tmp_path / "noise.html", "#t=20&select=3&tab=cockpit&lines=1")
    frames = state(browser)["frames"]
    browser.run("echelon.play()")
    browser.wait(f"echelon.state().frames > {frames + 3}")
    browser.run("echelon.pause()")

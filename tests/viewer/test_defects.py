"""Texts and colours of the page that were once misread."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from scenes import HEAVY, LIGHT, MEDIUM, SCOUT, small_replay

from echelon.replay.battle import Condition
from echelon.viewer.page import write_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
LEAST_CONTRAST = 4.5
LEAST_DISTANCE = 25.0
"""CIE76 between two colours of the strip that tells who holds the zone."""
SEEN_BY = {  # Machado, Oliveira and Fernandes 2009, severity 1, linear RGB
    "most": np.eye(3),
    "protanopes": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopes": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopes": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def texts(browser: Browser, selector: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText.trim())")


def linear(colour: str) -> np.ndarray:
    """`rgb(r, g, b)` or `#rrggbb` as linear light."""
    if colour.startswith("#"):
        rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    else:
        rgb = [float(x) for x in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    s = np.array(rgb) / 255
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG has it."""
    dark, light = sorted(float(linear(c) @ (0.2126, 0.7152, 0.0722)) for c in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(light: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ light.clip(0, 1) / (0.9505, 1.0, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_events_match_statistics(browser):
    """A mech that shuts down in the tick before its death was told by the result and not by the events."""
    told = texts(browser, ".event.shutdown .what")
    assert len(told) == 2 and told[1].startswith("red light 2 shut down")
    conditions = small_replay()[0].battles[0].conditions
    assert len(told) == (conditions[:, 2] == Condition.SHUT_DOWN).sum()


def test_each_detection_source_has_a_chip(browser):
    def chips(mech, moment):
        browser.run(f"echelon.select({mech}); echelon.seek({moment * 0.25})")
        browser.materialize()
        rows = "[...document.querySelectorAll('[data-part=contacts] tr')]"
        return browser.run(f"{rows}.map(r => [...r.querySelectorAll('.chip')].map(c => c.textContent))")

    assert chips(HEAVY, 4) == [["intel"]]
    assert chips(HEAVY, 9) == [["sight", "paint", "◎"], ["radar"]]
    assert chips(MEDIUM, 4) == [["sight", "radar"]] and chips(LIGHT, 4) == [["bloom"]]


def test_statistics_have_full_labels(browser, tmp_path):
    replay, grounds = small_replay(1)
    stats = {"zone_s": [59.0, 2.0], "knockdowns": [1, 0], "shutdowns": [1, 1], "deaths": [1, 1]}
    replay.battles[0].about["outcome"]["stats"] = stats
    write_page(replay, grounds, tmp_path / "page.html")
    browser.open(tmp_path / "page.html", "#tab=statistics")
    labels = texts(browser, ".duel .label")
    assert labels == ["zone, mech-s", "knockdowns inflicted", "shutdowns suffered", "deaths suffered"]


def test_dead_mech_perceives_nothing(browser):
    browser.run(f"echelon.select({SCOUT}); echelon.seek(5.5)")
    browser.press("v")
    assert browser.run("echelon.shownMechs()") == []
    assert texts(browser, "#seen-as") == ["What blue scout 2 perceives: nothing, it is dead"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_future_events_and_dead_mechs_are_legible(browser, page, theme):
    browser.prefer(theme)
    browser.open(page, "#t=5.2&tab=events")
    parts = [".ahead .event time", ".ahead .event .what", ".ahead .event .sign"]
    parts += [".mech.dead .tag", ".mech.dead .hull", ".filter .count"]
    for part in parts:
        ground, text, seen = browser.run(
            f"(e => {{ let p = e; while (p && /, 0\\)$|transparent/.test(getComputedStyle(p).backgroundColor))"
            " p = p.parentElement; let o = 1; for (let q = e; q; q = q.parentElement) o *= getComputedStyle(q).opacity;"
            f" return [getComputedStyle(p).backgroundColor, getComputedStyle(e).color, o]; }})"
            f"(document.querySelector({json.dumps(part)}))"
        )
        assert seen == 1 and contrast(ground, text) >= LEAST_CONTRAST, (part, ground, text)


@pytest.mark.parametrize("eye", SEEN_BY)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_zone_colours_are_distinct_for_colour_blind_viewers(browser, page, theme, eye):
    browser.prefer(theme)
    browser.open(page)
    names = ("--blue", "--red", "--contested", "--line")
    style = "getComputedStyle(document.documentElement)"
    colours = browser.run(f"{list(names)}.map(n => {style}.getPropertyValue(n).trim())")
    seen = [lab(SEEN_BY[eye] @ linear(colour)) for colour in colours]
    for (one, a), (other, b) in itertools.combinations(zip(names, seen, strict=True), 2):
        assert np.linalg.norm(a - b) >= LEAST_DISTANCE, (one, other)


def test_double_click_on_filter_shows_one_kind(browser):
    shown = "[...document.querySelectorAll('#events li:not([hidden]) .event')].map(e => e.dataset.kind)"
    x, y = browser.middle_of('.filter[data-kind="fall"]')
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
    browser.materialize()
    assert set(browser.run(shown)) == {"fall", "end"}
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
    browser.materialize()
    assert len(set(browser.run(shown))) > 4


def test_title_contains_no_path(browser, tmp_path):
    replay, grounds = small_replay(1)
    replay.battles[0].about["blue"] = "/home/user/runs/first/checkpoints/00000512"
    write_page(replay, grounds, tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.run("document.title").startswith("first 00000512 against")
    assert "user" not in browser.run("document.body.innerText")

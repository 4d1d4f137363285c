"""Measured layout of every view: no element off screen or overlapping, and legible text."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import CHROMIUM
from looks import NO_WEBGL, SIZES, THEMES, VIEWS, look
from scenes import HEAVY, LIGHT, small_replay, with_observations
from test_defects import LEAST_CONTRAST, contrast
from test_page import without_contexts

from echelon.viewer.page import write_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
AT = {"t": 2, "mech": HEAVY, "dead": LIGHT}
READ = (
    "field",
    "teams",
    "result",
    "cockpit",
    "observed",
    "dead",
    "missiles",
    "why",
    "why-shots",
    "focus",
    "beside",
    "battles",
    "help",
)
"""Views with different texts."""
LEAST_PX = 10
"""Size of text, px."""
MEASURES = (Path(__file__).parent / "measures.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """A page with observations in a browser without WebGL2, which draws sooner and lays out the same."""
    folder, (replay, grounds) = tmp_path_factory.mktemp("plain"), small_replay()
    write_page(with_observations(replay), grounds, folder / "page.html")
    path = folder / "plain.html"
    without_contexts(folder / "page.html", path, f"{NO_WEBGL}(HTMLCanvasElement.prototype.getContext)")
    return path


def measured(browser, what: str):
    """Return the result of a function of `measures.js`."""
    return browser.run(f"(() => {{ {MEASURES} return {what}(); }})()")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_layout_has_no_overlap_or_overflow(chromium, plain, size):
    """No element of a view is off screen, scrolls sideways, overlaps another part, or covers a button."""
    chromium.resize(*size, mobile=size[0] < 500)
    chromium.prefer("dark")
    wrong = {}
    for name, view in VIEWS.items():
        look(chromium, plain, view, None, AT)
        for what in ("beyond", "sideways", "overlapping", "covered"):
            parts = measured(chromium, what)
            wrong |= {(name, what): parts} if parts else {}
    assert wrong == {}


@pytest.mark.parametrize("theme", THEMES)
def test_text_is_legible(chromium, plain, theme):
    """Every text has a contrast of at least 4.5 and a size of at least ten pixels."""
    chromium.resize(1280, 720)
    chromium.prefer(theme)
    wrong, count = {}, 0
    for name in READ:
        look(chromium, plain, VIEWS[name], None, AT)
        texts = measured(chromium, "texts")
        count += len(texts)
        faint = [text for text in texts if contrast(text[1], text[2]) < LEAST_CONTRAST or text[3] < LEAST_PX]
        wrong |= {name: faint} if faint else {}
    assert wrong == {} and count > 200


def test_layout_measures_detect_defects(chromium, plain):
    """Each function finds the defect of a page that was broken on purpose."""
    chromium.resize(1280, 720)
    look(chromium, plain, VIEWS["field"], None, AT)
    chromium.run(
        "document.body.insertAdjacentHTML('beforeend', '<p id=spoilt style=\"position:fixed; left:1200px; top:0;"
        " width:200px; height:60px; background:rgb(90,90,90); color:rgb(99,99,99); font-size:6px\">spoilt</p>');"
        "document.querySelector('footer').style.marginTop = '-40px'; 0"
    )
    assert "open-help" in measured(chromium, "covered")
    chromium.run(
        "document.querySelector('header').insertAdjacentHTML('beforeend', '<i style=\"flex:0 0 999px\">wide</i>'); 0"
    )
    assert "spoilt" in measured(chromium, "beyond") and "HEADER" in measured(chromium, "sideways")
    assert ["stage", "FOOTER"] in measured(chromium, "overlapping")
    (text,) = [text for text in measured(chromium, "texts") if text[0] == "spoilt"]
    assert text[3] == 6 and contrast(text[1], text[2]) < 1.3


def test_presentation_mode_ends_without_keyboard(browser, page):
    browser.resize(390, 844, mobile=True)
    browser.open(page, "#present=1")
    assert browser.run("document.querySelector('header').offsetParent === null")
    browser.click_on("#end-present")
    assert not browser.run("echelon.state().present")
    assert browser.run("document.querySelector('header').offsetParent !== null")


def test_help_opens_at_its_top(browser, page):
    browser.resize(390, 844, mobile=True)
    browser.open(page)
    browser.click_on("#open-help")
    assert browser.run("document.querySelector('#help').scrollTop") == 0


def test_larger_text_is_sharp(browser, page):
    browser.open(page, "#select=0&tab=cockpit&t=2&large=1")
    for canvas in (".radar", "[data-part=curves]"):
        drawn, shown = browser.run(
            f"(c => [c.width, c.getBoundingClientRect().width])(document.querySelector('{canvas}'))"
        )
        assert drawn == pytest.approx(shown, abs=1.5)


def test_lanes_scale_with_screen(browser, plain):
    heights = []
    for size in ((1280, 720), (1600, 900), (2560, 1440), (3840, 2160)):
        browser.resize(*size)
        browser.open(plain, "#course=1")
        heights.append(browser.run("document.querySelector('#timeline').clientHeight"))
    assert heights[0] == 182 and heights[1:] == sorted(heights[1:]) and heights[-1] > 2 * heights[0], heights

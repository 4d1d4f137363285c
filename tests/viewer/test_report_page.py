"""The report of a run in a browser."""

from __future__ import annotations

import time

import pytest
from browser import CHROMIUM, LOOK_S, Browser
from patience import STUCK_S
from reports import HOSTILE, empty_report
from scenes import small_replay

from echelon.viewer.pages import replay_page, write_report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
STEPS = [0.0, 5e5, 1e6]


def full_report() -> dict:
    """A report with something in every section."""
    score = {"iteration": 3, "agent_steps": 1e6, "battles": 8, "wins": 6, "win_rate": 0.75, "low": 0.4, "high": 0.93}
    rates = {
        "name": HOSTILE,
        "axis": "evaluations",
        "y": [0, 0.5, 0.75],
        "low": [0, 0.2, 0.4],
        "high": [0.3, 0.8, 0.93],
    }
    behaviour = {
        "against": "On average.",
        "weapons": {"columns": ["weapon", "shots"], "rows": [["laser", 12.5], ["gauss", 3]]},
        "deeds": {"columns": ["", "ours", HOSTILE], "rows": [["kills", 3.2, 1.0]]},
        "charts": [{"title": "shutdowns", "lines": [{"name": "shutdowns", "axis": "evaluations", "y": [1, 2, 0]}]}],
        "distances": [{"weapon": "laser", "hits": 9, "low": 4.0, "median": 8.0, "high": 12.0}],
    }
    return empty_report(
        name=HOSTILE,
        signs=[HOSTILE, "actions are as random as before training"],
        progress=0.5,
        tiles=[{"what": f"wins against {HOSTILE}", "value": "75 %", "detail": "8 battles"}],
        axes={"metrics": STEPS, "evaluations": STEPS},
        charts=[
            {"title": "win rate, held-out maps", "lines": [rates], "percent": True, "range": [0, 1], "points": True},
            {"title": "return", "lines": [{"name": "return", "axis": "metrics", "y": [-4.0, None, 2.5]}]},
            {"title": "stage", "lines": [{"name": "stage", "axis": "metrics", "y": [1.0, 1.0, 1.0]}]},
            {"title": "none", "lines": []},
        ],
        evaluations={"columns": [["damage", "damage, hp"]], "rows": [{"rival": HOSTILE, **score, "damage": 512.0}]},
        skills=[
            {
                "piece": "jump_wall",
                "skill": HOSTILE,
                "battles": 8,
                "wins": 6,
                "win_rate": 0.75,
                "low": 0.4,
                "high": 0.93,
            }
        ],
        behaviour=behaviour,
        battle="one policy against another",
        stages=[[5e5, 2], [9e5, 3]],
        best="best: the best so far",
        origin=[["command", HOSTILE], ["commit", "abc"]],
        config={"told": "1 setting", "settings": [["num_envs", "4", "128"], ["opponent", HOSTILE, None]]},
    )


SIZES_OF_TABLES = "[...document.querySelectorAll('.scroll')].map(e => [e.scrollWidth, e.clientWidth])"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    replay, grounds = small_replay(1)
    write_report(full_report(), path, replay_page(replay, grounds[0]))
    return path


@pytest.fixture
def browser(chromium, page):
    """Open the report at desktop size; fail if the page logs an error."""
    chromium.events.clear()
    chromium.resize(1280, 720)
    chromium.prefer("light")
    show(chromium, page)
    yield chromium
    assert not chromium.complaints() and not chromium.requests()


def show(browser: Browser, page) -> None:
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=f"file://{page}")
    browser.wait("document.readyState === 'complete' && document.querySelectorAll('nav a').length > 0")


def texts(browser: Browser, selector: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")


def test_report_shows_all_sections(browser):
    assert texts(browser, "nav a") == [
        *("Results", "Curves", "Evaluations", "Skills", "What the team does", "A battle", "Config")
    ]
    assert texts(browser, "#curves figcaption") == ["win rate, held-out maps", "return", "stage"]
    widths = "[...svg.querySelectorAll('.line, .between')].map(line => line.getBBox().width)"
    drawn = browser.run(f"[...document.querySelectorAll('#curves svg')].map(svg => {widths})")
    assert all(width > 200 for lines in drawn for width in lines) and [len(lines) for lines in drawn] == [1, 1, 1]
    assert len(texts(browser, "#curves .whisker")) == 3, "an interval at each evaluation"
    assert len(texts(browser, "#curves figure:first-child .line")) == 0, "no curve between evaluations"
    assert texts(browser, ".stage-number") == ["2", "3"] * 4, "the stages, in every panel"
    assert "best so far" in texts(browser, "#evaluations .note")[0]
    assert texts(browser, "#origin td") == ["command", HOSTILE, "commit", "abc"]
    cells = texts(browser, "#evaluations .scroll tbody tr:first-child td")
    assert cells[:3] == [HOSTILE, "6 of 8", "75 %"] and cells[4:6] == ["40 % to 93 %", "512"]
    assert texts(browser, "#behaviour .columns tbody td")[:2] == ["laser", "12.5"]
    assert texts(browser, "#distances td")[0] == "laser"
    assert texts(browser, "#config .scroll tbody")[0] == "num_envs4128"
    assert browser.run("document.querySelector('#bar div').getBoundingClientRect().width") > 300


def test_desktop_tables_are_not_truncated(browser, tmp_path):
    report = full_report()
    report["evaluations"]["rows"][0]["rival"] = "heuristic:normal"
    columns = ["weapon", "shots", "hits", "hit rate", "dealt, hp", "kills", "taken, hp"]
    row = ["autocannon", 30.5, 9.03, "100 %", 74.5, 0.105, 263.4]
    report["behaviour"]["weapons"] = {"columns": columns, "rows": [row]}
    report["behaviour"]["deeds"]["columns"] = ["", "this policy", "heuristic:normal"]
    write_report(report, tmp_path / "report.html", "")
    show(browser, tmp_path / "report.html")
    shown = [each for each in browser.run(SIZES_OF_TABLES) if each[1] > 0]
    assert len(shown) >= 4 and all(wide <= room for wide, room in shown), shown
    assert browser.run("document.querySelector('#evaluations tbody td').getClientRects()[0].height") < 32


def test_names_are_escaped(browser):
    assert texts(browser, "h1") == [HOSTILE] and browser.run("document.images.length") == 0
    assert browser.run("document.title") == HOSTILE


def test_warnings_are_escaped(browser):
    assert texts(browser, "#signs li") == [HOSTILE, "actions are as random as before training"]


def test_pointer_shows_curve_values(browser):
    x, y = browser.middle_of("#curves svg")
    browser.mouse("mouseMoved", x + 150, y)
    browser.materialize()
    (told,) = texts(browser, "#curves figure:first-child .legend span")
    assert told.strip() == "75 % (40 % to 93 %) at 1 M"
    browser.mouse("mouseMoved", 2, 2)
    browser.materialize()
    assert texts(browser, "#curves figure:first-child .legend span") == [""]


def test_embedded_battle_plays(browser):
    """The frame is isolated from scripts of the report, so the test controls it separately."""
    browser.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)
    browser.click_on("#play")
    browser.wait("!!document.querySelector('#viewer iframe')")
    outside, browser.session = browser.session, attached(browser)
    try:
        for domain in ("Runtime", "Log"):
            browser.call(f"{domain}.enable")
        browser.wait("!!window.echelon && window.echelon.state().frames > 0")
        browser.run("echelon.seek(2.5)")
        assert browser.run("echelon.time()") == 2.5
        assert "heuristic" in browser.run("document.body.innerText")
    finally:
        browser.session = outside


def attached(browser: Browser) -> str:
    """Wait for the frame and return its session."""
    for _ in range(int(STUCK_S / LOOK_S)):
        browser.run("1")
        found = [event["params"] for event in browser.events if event.get("method") == "Target.attachedToTarget"]
        inside = [params["sessionId"] for params in found if params["targetInfo"]["type"] == "iframe"]
        if inside:
            return inside[-1]
        time.sleep(LOOK_S)
    raise AssertionError("the frame never came")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_report_scrolls_vertically_only(browser, page, scheme):
    browser.resize(390, 844, mobile=True)
    browser.prefer(scheme)
    show(browser, page)
    assert browser.run("document.documentElement.scrollWidth") == 390
    ink, paper = browser.run("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    assert contrast(ink, paper) > 7
    soft = browser.run("getComputedStyle(document.querySelector('.note')).color")
    assert contrast(soft, paper) > 4.5
    browser.resize(1280, 720)


def contrast(one: str, other: str) -> float:
    """Contrast of two colours by WCAG 2."""

    def light(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[4:-1].split(",")]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_printed_report_is_dark_on_white_without_controls(browser):
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.call("Emulation.setEmulatedMedia", media="print", features=dark)
    try:
        hidden = "['nav', '#reload', '#play'].map(s => getComputedStyle(document.querySelector(s)).display)"
        assert browser.run(hidden) == ["none"] * 3
        assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.run("getComputedStyle(document.querySelector('#evaluations .scroll')).overflowX") == "visible"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
        browser.prefer("light")

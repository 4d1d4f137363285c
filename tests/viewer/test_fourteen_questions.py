"""Fourteen questions of a user about a battle, each answered in a browser with at most two clicks."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import time
from pathlib import Path

import numpy as np
import pytest
from browser import CHROMIUM, LOOK_S
from patience import STUCK_S
from scenes import AUTOCANNON, DECISIONS, HEAVY, LIGHT, MEDIUM, SCOUT, small_replay
from test_defects import contrast
from test_questions import MOST_CLICKS, at_second, cells, texts

from echelon.replay.battle import OPTIONAL, POS_PER_VOX, TABLES, Replay
from echelon.rules.orders import OrderField, OrderKind
from echelon.viewer.page import OtherReplay, write_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
LEAST_GREY = 1.6
"""Minimum contrast of the team colours in greyscale."""
SAID = "document.querySelector('#said').textContent"


@pytest.fixture(autouse=True)
def few_clicks(browser):
    """Fail if an answer takes more than two clicks."""
    browser.clicks = 0
    yield
    assert 0 < browser.clicks <= MOST_CLICKS


def look_into(browser, section: str) -> str:
    """Open a section of the tab Why and return its text."""
    browser.click_on("#tab-study")
    browser.click_on(f"[data-study={section}] summary")
    browser.wait(f"document.querySelector('[data-study={section}] .study').childNodes.length > 0")
    browser.materialize()
    return texts(browser, f"[data-study={section}] .study")[0]


def rows_of(browser, section: str) -> list[list[str]]:
    return cells(browser, f"[data-study={section}] tbody tr")


def overlay(browser) -> str:
    return browser.run("document.querySelector('#overlay').toDataURL()")


def open_with(browser, path: Path, address: str = "", **changes) -> None:
    """Open a page of the small battle with changed arrays."""
    replay, grounds = small_replay(1)
    write_page(Replay(replay.about, [dataclasses.replace(replay.battles[0], **changes)]), grounds, path)
    browser.open(path, address)


def test_screens_table(browser):
    """The medium of red has most hit points; the light walks before it, 4 vox aside, for its first seconds."""
    look_into(browser, "screens")
    heavy, medium = rows_of(browser, "screens")
    assert heavy[:4] == ["H1", "6 s", "0 %", "no mech"]
    assert medium[0] == "M1" and medium[3] == "L2 3 s"


def test_trails_are_drawn(browser):
    browser.run("echelon.seek(3)")
    browser.materialize()
    before = overlay(browser)
    browser.click_on("#toggle-trails")
    assert overlay(browser) != before


def test_flank_list(browser, tmp_path):
    """Three mechs together; a fourth leaves, meets two enemies, and dies before the others fight."""
    battle = small_replay(1)[0].battles[0]
    pos = battle.pos.copy()
    pos[:, HEAVY, :2] = np.array([3.0, 3.0]) * POS_PER_VOX
    pos[:, SCOUT, :2] = pos[:, HEAVY, :2] + POS_PER_VOX
    pos[8:, SCOUT, 0] += 12 * POS_PER_VOX
    harms = np.array([[50, SCOUT, MEDIUM, 640, 0], [60, LIGHT, SCOUT, 1280, 0], [110, HEAVY, LIGHT, 640, 0]], np.int32)
    open_with(browser, tmp_path / "flank.html", pos=pos, harms=harms)
    look_into(browser, "flanks")
    told = [text for text in texts(browser, "[data-study=flanks] .what") if "blue scout 2" in text]
    assert told == [
        "blue scout 2 left its team and met red medium 1, red light 2 at 0:02.5; the others did not fight: "
        "1 against 2, dealt 5, took 10; died"
    ] or told == [
        "blue scout 2 left its team and met red medium 1, red light 2 at 0:02.5, 3.0 s before the others fought: "
        "1 against 2, dealt 5, took 10; died"
    ]


def test_message_correlations(browser, tmp_path):
    """Channel 3 of blue is its number of known enemies, so the correlation is 1."""
    battle = small_replay(1)[0].battles[0]
    messages = np.zeros_like(battle.messages)
    hostile = (battle.contacts >= 0) & (battle.contact_facts & 1 > 0)
    for n in (HEAVY, SCOUT):
        messages[:, n, 2] = 40 * hostile[:, n].sum(-1)
    open_with(browser, tmp_path / "said.html", messages=messages)
    told = look_into(browser, "messages")
    assert "red: messages are constant" in told and "blue, channel 3 (solid) and enemies known (dashed)" in told
    assert rows_of(browser, "messages")[0][:4] == ["enemies known", "·", "·", "1.00"]


ODDS = {
    "branches": 32,
    "s": [0.0, 2.0, 4.0, 6.0],
    "blue": [0.5, 0.5, 0.9, 1.0],
    "low": [0.3, 0.3, 0.7, 1.0],
    "high": [0.7, 0.7, 1.0, 1.0],
    "at_s": 2.0,
    "mechs": {
        "removed": {"difference": [-0.4, 0.0, 0.1, 0.3], "low": [-0.6, 0.0, -0.1, 0.1], "high": [-0.2, 0.0, 0.3, 0.5]},
        "hold_fire": {"difference": [-0.3] * 4, "low": [-0.5] * 4, "high": [-0.1] * 4},
    },
    "deaths": [{"mech": LIGHT, "s": 3.75, "difference": -0.25, "low": -0.4, "high": -0.1}],
}


@pytest.fixture
def counted(browser, tmp_path):
    about = {**small_replay(1)[0].battles[0].about, "odds": ODDS}
    open_with(browser, tmp_path / "odds.html", about=about)
    return browser


def test_when_was_it_decided(counted):
    look_into(counted, "decided")
    first = texts(counted, "[data-study=decided] .what")[0]
    fell = "blue heavy 1 killed red light 2 with gauss; red medium 1 lost its legs; red takes the zone"
    assert first == f"+40 points for blue by 0:04.0: {fell}"


def test_value_of_survival_is_listed(counted):
    look_into(counted, "decided")
    assert "red light 2 died; if it had survived: −25 points for blue (−40 to −10)" in texts(
        counted, "[data-study=decided] .what"
    )
    rows = rows_of(counted, "decided")
    assert rows[0] == ["H1", "−40", "−30"] and rows[3] == ["L2", "+30", "−30"]


def test_battle_without_win_rates_shows_command(browser):
    told = look_into(browser, "decided")
    assert (
        "have not been computed" in told
        and "echelon-arena whatif FILE --battle 1 --at 2 --deaths --page FILE.html" in told
    )


def test_missed_shots_have_causes(browser, tmp_path):
    """The slug of a medium hits a wall between the medium and its target, a scout."""
    battle = small_replay(1)[0].battles[0]
    flights, waypoints = battle.flights.copy(), battle.waypoints.copy()
    (shot,) = np.flatnonzero(flights[:, 3] == AUTOCANNON)
    first = flights[shot, 7]
    where = battle.pos[10, [MEDIUM, SCOUT]].astype(float)
    waypoints[first : first + 2] = where[0], where[0] + 0.4 * (where[1] - where[0])
    lines = np.zeros_like(battle.lines)
    open_with(browser, tmp_path / "shots.html", waypoints=waypoints, lines=lines)
    look_into(browser, "shots")
    rows = rows_of(browser, "shots")
    assert rows[0][:3] == ["autocannon", "1", "100 %"] and rows[1][:3] == ["missile", "2", "50 %"]
    (why,) = texts(browser, "[data-study=shots] .what")
    assert why.startswith("red medium 1 → blue scout 2: ") and " vox, " in why and "no line" in why


def test_heat_curves_of_both_teams_are_drawn(browser):
    browser.run("echelon.seek(3)")
    told = look_into(browser, "heat")
    assert "blue 54 % · red 0 %" in told and "blue 108 % · red 0 %" in told
    assert rows_of(browser, "heat")[0] == ["H1", "22 %", "108 %", "1 s", "0 s", "1"]
    drawn = "[...document.querySelectorAll('.small-chart canvas')].map(c => c.width * c.height > 1000)"
    assert browser.run(drawn) == [True, True]


def test_missile_list_names_painter(browser):
    browser.click_on("#tab-missiles")
    assert texts(browser, "#missiles .what")[0] == "blue heavy 1 → red light 2 by paint of blue scout 2: hit it"
    assert "paint of blue scout 2: 1 launched by it, 1 hit" in texts(browser, ".ending-sums p")


def test_seen_share_of_map(browser):
    """Computed by hand: from the middle of the map of 24 x 20 cells only walls block the view."""
    told = look_into(browser, "seen")
    assert "blue 98 % · red 87 %" in told
    assert [row[0] for row in rows_of(browser, "seen")] == ["blue", "red"]


def test_fog_darkens_unseen_ground(browser):
    before = overlay(browser)
    browser.click_on("#toggle-fog")
    blue = overlay(browser)
    browser.click_on("#toggle-fog")
    assert len({before, blue, overlay(browser)}) == 3
    assert browser.run("echelon.state().fog") == 1


def test_battles_can_be_filtered(browser, tmp_path):
    """Blue leads in both measures at half time, so it led and lost if red wins."""
    replay, grounds = small_replay(3)
    lost = replay.battles[2].about
    lost = {**lost, "outcome": {**lost["outcome"], "winner": "red"}}
    battles = [*replay.battles[:2], dataclasses.replace(replay.battles[2], about=lost)]
    write_page(Replay(replay.about, battles), grounds, tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.click_on("#open-battles")
    filters = texts(browser, "#summary .filter")
    place = next(k for k, text in enumerate(filters) if text.startswith("led in hit points at half time and lost"))
    assert filters[place].endswith("lost1") and filters[0] == "all3"
    browser.click_on(f"#summary .filter:nth-child({place + 1})")
    assert [row[0] for row in cells(browser, "#summary tbody tr")] == ["3"]


def test_battle_table_can_be_sorted(browser):
    browser.click_on("#open-battles")
    browser.click_on("#summary th:nth-child(3) button")
    assert [row[2] for row in cells(browser, "#summary tbody tr")] == ["6 s", "6 s"]
    assert [row[0] for row in cells(browser, "#summary tbody tr")] == ["1", "2"]
    browser.run("document.querySelector('#summary th:nth-child(3) button').click()")
    assert [row[0] for row in cells(browser, "#summary tbody tr")] == ["2", "1"]


def test_link_restores_moment_and_mech(browser, page):
    browser.click(*at_second(browser, 3.0))
    browser.run(f"echelon.select({MEDIUM})")
    browser.click_on("#copy")
    browser.wait(f"{SAID}.includes('address')")
    address = browser.run("location.hash")
    browser.open(page, address)
    assert browser.run("[echelon.time(), echelon.state().selected]") == [3.0, MEDIUM]


def test_all_lanes_and_tables_are_exported(browser):
    browser.click_on("#tab-study")
    names = texts(browser, "[data-study=numbers] button")
    assert set(TABLES) < set(names) and {"lanes", "mechs", "events", "shots", "flanks", "screens", "worth"} < set(names)
    tables = {
        name: list(csv.DictReader(io.StringIO(browser.run(f"echelon.table({json.dumps(name)})")))) for name in names
    }
    assert len(tables["lanes"]) == DECISIONS + 1 and len(tables["mechs"]) == 4 * (DECISIONS + 1)
    assert float(tables["lanes"][12]["blue_hp"]) == 1.0 and tables["deaths"][0]["killer"] == "blue heavy 1"
    assert tables["events"][-1]["text"] == "blue wins by time up"


def test_table_is_saved_as_csv(browser, tmp_path):
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.click_on("#tab-study")
    browser.click_on("[data-study=numbers] button")
    kept = tmp_path / "echelon-battle-1-lanes.csv"
    for _ in range(int(STUCK_S / LOOK_S)):
        if kept.exists():
            break
        time.sleep(LOOK_S)
    assert len(kept.read_text().splitlines()) == DECISIONS + 2, "names, and a row a moment"


def test_battles_of_two_files_are_compared(browser, tmp_path):
    replay, grounds = small_replay(2)
    other = OtherReplay("other.echelon", Replay(replay.about, replay.battles[1:]), grounds[1:])
    write_page(Replay(replay.about, replay.battles[:1]), grounds[:1], tmp_path / "page.html", [other])
    browser.open(tmp_path / "page.html")
    browser.click_on("#open-battles")
    assert "of other.echelon" in cells(browser, "#summary tbody tr")[1][1]
    browser.click_on('#summary [data-battle="1"] td:last-child button')
    table = {row[0]: row[1:] for row in cells(browser, "#compare tbody tr")}
    assert table["length, s"] == ["6.0", "5.8"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_teams_differ_in_greyscale(browser, page, theme):
    browser.prefer(theme)
    browser.open(page)
    style = "getComputedStyle(document.documentElement)"
    words = browser.run(f"['--blue', '--red'].map(n => {style}.getPropertyValue(n).trim())")
    assert contrast(*words) >= LEAST_GREY
    browser.click_on("#toggle-trails")
    for name in ("TEAM_COLOURS", "TEAM_LIGHT"):
        script = browser.run("document.querySelector('script[type=module]').textContent")
        line = next(line for line in script.splitlines() if line.startswith(f"const {name} = "))
        assert contrast(*line.split('"')[1::2]) >= LEAST_GREY, name


def test_orders_are_drawn_if_enabled(browser, tmp_path):
    assert "orders" in OPTIONAL and browser.run("document.querySelector('#toggle-orders').hidden")
    orders = np.zeros((DECISIONS + 1, 4, len(OrderField)), np.int32)
    orders[..., OrderField.TARGET] = orders[..., OrderField.ISSUED] = -1
    orders[4:, HEAVY, [OrderField.KIND, OrderField.X, OrderField.Y]] = OrderKind.MOVE, 12 * 64, 10 * 64
    orders[4:, SCOUT, [OrderField.KIND, OrderField.TARGET]] = OrderKind.ATTACK, LIGHT
    orders[4:, [HEAVY, SCOUT], OrderField.ISSUED] = 20
    open_with(browser, tmp_path / "orders.html", f"#t=2&select={HEAVY}&tab=cockpit", orders=orders)
    assert texts(browser, '[data-part="orders"]')[0].startswith("ordered at 0:01.0: move (12, 10)")
    drawn = overlay(browser)
    browser.click_on("#toggle-orders")
    assert overlay(browser) != drawn

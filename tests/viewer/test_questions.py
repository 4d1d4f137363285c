"""Questions about a battle, each answered in a browser with at most two clicks."""

from __future__ import annotations

import base64
import dataclasses
import io
import json

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from PIL import Image
from releases import REPLAY
from replay_page import write_replay_page
from scenes import DECISIONS, HEAVY, LIGHT, MEDIUM, SCOUT, small_replay

from echelon.replay.battle import Replay
from echelon.replay.file import read
from echelon.replay.ground import name_map
from echelon.viewer.page import write_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
MOST_CLICKS = 2


@pytest.fixture(autouse=True)
def few_clicks(browser):
    """Fail if a test clicks more than twice."""
    browser.clicks = 0
    yield
    assert browser.clicks <= MOST_CLICKS


def texts(browser: Browser, selector: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText.trim())")


def cells(browser: Browser, selector: str) -> list[list[str]]:
    rows = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return browser.run(f"{rows}.map(row => [...row.cells].map(cell => cell.innerText))")


def at_second(browser: Browser, t: float, y: float = 40) -> tuple[float, float]:
    """Return the position of a time on the timeline of a battle of 6 s."""
    place = browser.run("(r => [r.x, r.y, r.width])(document.querySelector('#timeline').getBoundingClientRect())")
    return place[0] + 10 + t / (DECISIONS * 0.25) * (place[2] - 20), place[1] + y


def test_damage_table_ranks_mechs_and_weapons(browser):
    browser.click_on("#tab-statistics")
    first, *others = cells(browser, ".accounts tbody tr")
    assert first == ["H1", "120", "gauss 60, laser 40", "0", "1", "·", "·", "0"]
    assert [row[0] for row in others] == ["S2", "M1", "L2"]
    assert browser.run("document.querySelector('.accounts tbody tr').title").endswith("gauss 60, laser 40, missile 20")


def test_when_was_it_decided(chromium, tmp_path):
    """Blue's win rate is a lane, and also shown in words."""
    replay, grounds = small_replay(1)
    odds = {
        "branches": 32,
        "s": [0.0, 3.0, 6.0],
        "blue": [0.5, 0.75, 1.0],
        "low": [0.3, 0.6, 1.0],
        "high": [0.7, 0.9, 1.0],
    }
    told = dataclasses.replace(replay.battles[0], about={**replay.battles[0].about, "odds": odds})
    write_page(Replay(replay.about, [told]), grounds, tmp_path / "odds.html")
    chromium.open(tmp_path / "odds.html")
    for t, share in ((2.9, "blue wins 50 % (30 to 70 %)"), (3.1, "blue wins 75 % (60 to 90 %)")):
        chromium.mouse("mouseMoved", *at_second(chromium, t, 120))
        assert texts(chromium, "#readout")[0].endswith(share)
    assert not chromium.complaints()


def test_damage_table_sorts_and_selects(browser):
    browser.run("document.querySelector('#tab-statistics').click()")
    browser.materialize()
    browser.click_on('.accounts [data-key="taken"]')
    assert [row[0] for row in cells(browser, ".accounts tbody tr")] == ["L2", "M1", "H1", "S2"]
    browser.click_on(f'.accounts [data-mech="{MEDIUM}"]')
    state = browser.run("echelon.state()")
    assert state["selected"] == MEDIUM and state["tab"] == "statistics"
    assert browser.run("document.querySelector('.accounts .chosen').dataset.mech") == str(MEDIUM)


def test_leads_are_shown(browser):
    """The lanes are visible at the start; the result also states it in words."""
    browser.mouse("mouseMoved", *at_second(browser, 2.0, 120))
    readout = texts(browser, "#readout")[0]
    assert readout.startswith("0:02.0 · score 1.3 : 0.7 · hit points 100 : 83 %")
    assert "mechs 2 : 2" in readout and "zone 100 : 25 %" in readout
    assert readout.endswith("reward 0.100 : 0.000, so far 0.80 : 0.00 · value -0.30 : none")
    browser.click_on("#tab-statistics")
    assert texts(browser, ".lead") == [
        "Time was up: the higher score wins, at equal scores the team with more hit points.",
        "blue ahead in hit points from 0:01.5 on",
        "blue ahead in score from 0:00.2 on",
    ]


@pytest.mark.parametrize(
    ("winner", "reason", "why"),
    [
        ("red", "elimination", "The last mech of blue died; scores and hit points do not count then."),
        ("red", "zone", "The first team with 30 s of zone control wins, regardless of losses."),
        ("red", "objective", "30 s of zone control win: so red won, regardless of losses."),
        ("draw", "elimination", "Both teams lost their last mechs in one decision."),
    ],
)
def test_result_explains_lost_lead(browser, tmp_path, winner, reason, why):
    replay, grounds = small_replay(1)
    (battle,) = replay.battles
    outcome = {**battle.about["outcome"], "winner": winner, "reason": reason}
    changed = dataclasses.replace(battle, about={**battle.about, "outcome": outcome})
    write_page(Replay(replay.about, [changed]), grounds, tmp_path / "page.html")
    browser.open(tmp_path / "page.html", "#tab=statistics")
    note = ", which did not decide" if winner == "red" else ""
    assert texts(browser, ".lead") == [
        why,
        f"blue ahead in hit points from 0:01.5 on{note}",
        f"blue ahead in score from 0:00.2 on{note}",
    ]


def test_reward_and_value_lanes_are_shown(browser):
    """Lanes of reward and value: only blue's value, because red has none; the last moment has no value."""
    lanes = browser.run("echelon.timeline.lanes")
    assert [name for name, _ in lanes] == ["hp", "alive", "damage", "zone", "reward", "value"]
    assert lanes[-1][1] == "value of blue, red has none"
    course = browser.run("[...echelon.timeline.course.reward.map(side => [...side])]")
    assert course[0][-1] == pytest.approx(0.1 * DECISIONS, abs=1e-3) and course[1][-1] == pytest.approx(-0.5, abs=1e-4)
    told = browser.run("[0, 12, 23, 24].map(m => echelon.timeline.battle.value(0, m))")
    assert told[:3] == pytest.approx([-1, -1 + 24 / 23, 1], abs=1e-4)
    assert browser.run(
        "Number.isNaN(echelon.timeline.battle.value(0, 24)) && Number.isNaN(echelon.timeline.battle.value(1, 3))"
    )
    high, wide = browser.run("[echelon.timeline.high, echelon.timeline.wide]")
    lane = browser.run(
        f"(() => {{ const c = echelon.timeline.still, d = echelon.timeline.dense, p = c.getContext('2d');"
        f" return [...p.getImageData({wide / 2} * d, ({high} - 17) * d, {wide / 2 - 12} * d, 15 * d).data] }})()"
    )
    blue = browser.run("getComputedStyle(document.querySelector('#timeline')).getPropertyValue('--blue').trim()")
    colour = [int(blue[at : at + 2], 16) for at in (1, 3, 5)]
    drawn = [lane[at : at + 3] for at in range(0, len(lane), 4)]
    assert sum(max(abs(a - b) for a, b in zip(pixel, colour, strict=True)) < 40 for pixel in drawn) > 100


def test_timeline_mark_seeks_to_death(browser):
    browser.click(*at_second(browser, 79 * 0.05, 12))
    assert browser.run("echelon.time()") == pytest.approx(79 * 0.05 - 0.6)
    assert browser.run("echelon.state().selected") == HEAVY
    assert texts(browser, ".event.chosen .what") == ["blue heavy 1 killed red light 2 with gauss"]


def test_heat_account_explains_shutdown(browser):
    assert any("fired missile +90, fired laser +22 heat in 5 s" in text for text in texts(browser, ".event .what"))
    browser.click_on(".event.shutdown")
    browser.click_on("#tab-cockpit")
    assert texts(browser, '[data-part="name"]') == ["blue heavy 1"]
    account = texts(browser, '[data-part="heat"]')[0]
    assert account.startswith("heat 0 → 140 of 130 in 5 s: fired missile ×2 +90, laser +22")
    log = texts(browser, ".log li span")
    assert log[0] == "shut down from heat" and "fired missile ×2: heat +90" in log
    orders = texts(browser, '[data-part="orders"]')[0]
    assert "turn right 50 %" in orders and "said 1.0 0.0 0.0" in orders


def test_history_remains_after_death(browser):
    browser.run(f"echelon.select({LIGHT}); echelon.seek(6)")
    browser.materialize()
    assert texts(browser, '[data-part="fate"]') == ["killed by blue heavy 1 at 0:03.9"]
    log = texts(browser, ".log li span")
    assert log[0] == "died" and "hit by blue heavy 1 with gauss: −60 hp" in log
    assert "hit by blue heavy 1 with missile: −20 hp" in log
    curves = browser.run("document.querySelector('[data-part=\"curves\"]').toDataURL()")
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(curves.partition(",")[2]))))
    assert picture[..., 3].any()


def test_pack_focus_is_listed(browser):
    browser.click(*at_second(browser, 2.0))
    assert browser.run("echelon.time()") == 2.0
    before = browser.run("document.querySelector('#overlay').toDataURL()")
    browser.click_on("#toggle-focus")
    told = texts(browser, "#intent p")
    assert told[1].replace("\n", " ") == "red pack 1 blue heavy 1 ×1 no preference ×1"
    assert "◎ L2" in told[0]
    assert browser.run("document.querySelector('#overlay').toDataURL()") != before


def test_click_on_timeline_seeks_to_time(browser):
    for t in (1.0, 3.0, 4.0):
        browser.mouse("mousePressed", *at_second(browser, t), 1)
        browser.mouse("mouseReleased", *at_second(browser, t))
        assert browser.run("echelon.time()") == t


def test_missile_ends_are_listed(browser):
    browser.click_on("#tab-missiles")
    assert texts(browser, "#missiles .what") == [
        "blue heavy 1 → red light 2 by paint of blue scout 2: hit it",
        "blue heavy 1 → red medium 1 in sight: AMS of red medium 1",
    ]
    assert texts(browser, ".ending-sums p") == [
        "blue 1 hit · 1 AMS",
        "red launched nothing",
        "paint of blue scout 2: 1 launched by it, 1 hit",
    ]
    before = browser.run("document.querySelector('#overlay').toDataURL()")
    browser.click_on("#missiles .event")
    assert browser.run("echelon.time()") == pytest.approx(23 * 0.05 - 0.1)
    browser.run("echelon.settle()")
    browser.materialize()
    assert browser.run("document.querySelector('#overlay').toDataURL()") != before


def test_two_battles_are_compared(browser):
    menu = texts(browser, "#battle-choice option")
    assert menu[0] == "1 · expert (blue) beat hard <b>bold</b>, time up, 6 s"
    browser.click_on("#open-battles")
    rows = cells(browser, "#summary tbody tr")
    assert [row[1] for row in rows] == [text[4:] for text in menu] and rows[0][5] == "7, 2 battles"
    browser.click_on('#summary [data-battle="1"] td:last-child button')
    table = {row[0]: row[1:] for row in cells(browser, "#compare tbody tr")}
    assert table["length, s"] == ["6.0", "5.8"] and table["winner"] == ["blue", "blue"]
    assert texts(browser, "#compare .differs th") == ["length, s"]
    browser.run("echelon.seek(3)")
    browser.materialize()
    pictures = browser.run(
        "[...document.querySelectorAll('.pair canvas')].map(c => [c.width, c.height, c.toDataURL()])"
    )
    assert all(wide > 200 and high > 150 for wide, high, _ in pictures)
    browser.run("echelon.seek(5)")
    browser.materialize()
    later = browser.run("[...document.querySelectorAll('.pair canvas')].map(c => c.toDataURL())")
    assert all(now != before[2] for now, before in zip(later, pictures, strict=True)), "one clock moves both"


def test_map_of_battle_is_shown(browser, tmp_path):
    """Number in the pool and biomes: in the menu, in the table and in the comparison."""
    kept = read(REPLAY)
    later = dataclasses.replace(kept.battles[0], about={**kept.battles[0].about, "seed": 9})
    replay = Replay(kept.about, [kept.battles[0], later])
    write_replay_page(replay, tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    named = name_map(kept, kept.battles[0])
    told = f"{named.number} ({', '.join(name.replace('_', ' ') for name in named.biomes)})"
    labels = browser.run("[...document.querySelectorAll('#battle-choice optgroup')].map(g => g.label)")
    assert labels == [f"map {told}, seed {battle.about['seed']}" for battle in replay.battles]
    browser.click_on("#open-battles")
    assert [row[6] for row in cells(browser, "#summary tbody tr")] == [told, told]


def test_a_picture_is_saved(browser, tmp_path):
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.run("echelon.seek(3)")
    browser.click_on("#picture")
    name = "echelon-battle-1-3_00s.png"
    browser.wait("document.querySelector('#said').textContent === 'picture saved'")
    for _ in range(200):
        if (tmp_path / name).exists():
            break
        browser.materialize()
    with Image.open(tmp_path / name) as picture:
        assert picture.width >= browser.run("document.querySelector('#scene').clientWidth")
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 1000


def test_a_clip_is_recorded(browser, tmp_path):
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.click_on("#clip")
    browser.wait("echelon.time() > 0.5")
    browser.click_on("#clip")
    browser.wait("document.querySelector('#said').textContent === 'clip saved'")
    for _ in range(200):
        if list(tmp_path.glob("*.webm")):
            break
        browser.materialize()
    (clip,) = tmp_path.glob("*.webm")
    assert clip.read_bytes()[:4] == b"\x1a\x45\xdf\xa3"


def test_ego_observation_is_shown(browser):
    browser.run(f"echelon.select({HEAVY}); echelon.seek(2)")
    browser.materialize()
    browser.click_on("[data-part=senses] summary")
    browser.materialize()
    told = {name.partition(",")[0]: value for name, value in cells(browser, "[data-part=observed] tr")}
    assert told["hp"] == "100 %" and told["sensor quality"] == "0.99"
    assert told["zone vector"].endswith(" vox") and len(told["zone vector"].split()) == 3


# Events move the camera


def test_event_moves_camera_to_its_mechs(browser):
    far = browser.run("echelon.camera()")
    browser.click_on(".event.kill")
    browser.run("echelon.settle()")
    browser.materialize()
    near = browser.run("echelon.camera()")
    assert near[4] < far[4]
    place = browser.run(
        "(r => [r.x, r.y, r.right, r.bottom])(document.querySelector('#scene').getBoundingClientRect())"
    )
    for n in (HEAVY, LIGHT):
        x, y = browser.run(f"echelon.screenOf({n})")
        assert place[0] < x < place[2] and place[1] < y < place[3]


def test_number_keys_select_and_centre(browser):
    browser.press("2")
    assert browser.run("echelon.state().selected") == SCOUT
    browser.press("2")
    assert browser.run("echelon.state().selected") == LIGHT, "again: of the other team"
    browser.run("echelon.settle()")
    browser.materialize()
    x, y = browser.run(f"echelon.screenOf({LIGHT})")
    middle = browser.run(
        "(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector('#scene').getBoundingClientRect())"
    )
    assert np.hypot(x - middle[0], y - middle[1]) < 60


def test_address_stores_camera_and_speed(browser, page):
    browser.press("]")
    browser.press("+")
    browser.press("q")
    browser.run("echelon.settle()")
    browser.run("echelon.seek(1.5)")
    browser.wait("location.hash.includes('cam=') && location.hash.includes('t=1.50')")
    address, camera = browser.run("location.hash"), browser.run("echelon.camera()")
    assert "speed=2" in address
    browser.open(page, address)
    assert browser.run("echelon.camera()") == pytest.approx(camera, abs=2e-3)
    assert browser.run("echelon.state().speed") == 2
    browser.click_on("#copy")
    browser.wait("document.querySelector('#said').textContent.includes('address')")


def test_presentation_mode_and_larger_text(browser):
    browser.click_on("#toggle-large")
    assert browser.run("getComputedStyle(document.querySelector('.panel')).zoom") == "1.2"
    wide = "[...document.querySelectorAll('.panel, .tabs, header, footer')].filter(e => e.offsetParent)"
    assert browser.run(f"{wide}.filter(e => e.getBoundingClientRect().right > 1280.5).map(e => e.id)") == []
    browser.press("m")
    assert browser.run("[document.scrollingElement.scrollWidth, document.querySelector('#scene').clientWidth]") == [
        1280,
        1280,
    ]
    assert browser.run("document.querySelector('#scene').clientHeight") > 500
    assert browser.run("document.querySelector('header').offsetParent === null")
    browser.press("m")
    assert browser.run("document.querySelector('#scene').clientWidth") < 900

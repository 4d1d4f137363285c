"""The scenario editor in a browser."""

from __future__ import annotations

import json
import runpy
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.position import Objective
from echelon.rules.scenario import Scenario, read_scenario
from echelon.scenarios.scene import Scene
from echelon.serve.edit_server import EditServer

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_position.py"
"""Example whose position is also drawn here."""
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
CONTROL = 2
TRIVIAL = "heuristic:trivial"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "duel.json"


@pytest.fixture
def editor(chromium, file) -> Iterator[Browser]:
    """Open the page of a new file; fail if the page logs an error."""
    chromium.call("Page.navigate", url="about:blank")
    chromium.events.clear()
    chromium.resize(1280, 800)
    with EditServer(file, None, (TRIVIAL, "heuristic:easy")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        load(chromium, server.address)
        yield chromium
        assert not chromium.complaints()
        assert {address.split("?")[0].rsplit("/", 1)[0] for address in chromium.requests()} == {
            f"http://{server.hosts[0]}"
        }
        server.shutdown()


def load(browser: Browser, address: str) -> None:
    browser.call("Page.navigate", url=address)
    browser.wait("!!window.echelon && echelon.drawn() > 1")


def spot(browser: Browser, x: float, y: float) -> tuple[float, float]:
    across, down = browser.run(f"echelon.spot({x}, {y})")
    return across, down


def click_map(browser: Browser, x: float, y: float) -> None:
    browser.click(*spot(browser, x, y))


def drag(browser: Browser, start: tuple[float, float], end: tuple[float, float]) -> None:
    browser.mouse("mouseMoved", *spot(browser, *start))
    browser.mouse("mousePressed", *spot(browser, *start), 1)
    browser.mouse("mouseMoved", *spot(browser, *end), 1)
    browser.mouse("mouseReleased", *spot(browser, *end))
    browser.materialize()


def take(browser: Browser, tool: str) -> None:
    browser.click_on(f'[data-tool="{tool}"]')


def fill(browser: Browser, identity: str, value: object) -> None:
    """Type into a field and leave it."""
    field = f"document.getElementById({json.dumps(identity)})"
    browser.run(f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('change'))")


def said(browser: Browser, words: str) -> None:
    """Wait for an answer of the server with these words."""
    browser.wait("!['', '…'].includes(document.getElementById('said').textContent)")
    line = browser.run("document.getElementById('said').textContent")
    assert line.startswith(words)


def place_two(browser: Browser) -> None:
    take(browser, "blue")
    click_map(browser, 12, 20)
    take(browser, "red")
    click_map(browser, 30, 20)
    take(browser, "select")


def saved(browser: Browser, file: Path) -> Scenario:
    browser.press("s", CONTROL)
    said(browser, "saved")
    assert browser.run("echelon.isSaved()")
    return read_scenario(file)


def test_drawn_scenario_equals_python_scenario(editor, file):
    place_two(editor)
    take(editor, "box")
    drag(editor, (19.5, 10.5), (20.5, 29.5))
    take(editor, "select")
    click_map(editor, 12, 20)
    editor.press("ArrowUp")
    editor.press("ArrowLeft")
    editor.press("e")
    editor.press("s", CONTROL)
    said(editor, "saved")
    runpy.run_path(str(EXAMPLE))["position"]().scenario.save(file.with_name("own.json"))
    assert file.read_bytes() == file.with_name("own.json").read_bytes()


def test_editor_sets_all_fields(editor, file):
    """Drag, turn by the handle, set hit points, undo; zone, objective and settings."""
    place_two(editor)
    drag(editor, (30, 20), (32, 25))
    half = 2.5 / 2 + 1.6
    drag(editor, (32 - half, 25), (32, 20))
    for name, value in (("hull", "heavy"), ("hp", 0.5), ("leg_hp", 0.25), ("heat", 0.75)):
        fill(editor, f"unit-{name}", value)
    take(editor, "zone")
    drag(editor, (18, 21), (18.25, 22.25))
    drag(editor, (18 + 7.5, 22), (18 + 5, 22))
    fill(editor, "objective-kind", "hold")
    fill(editor, "objective-attackers", "red")
    fill(editor, "objective-seconds", 12)
    fill(editor, "settings", '{"rules": {"max_episode_s": 30}}')
    take(editor, "box")
    drag(editor, (1, 1), (3, 3))
    editor.press("Delete")
    fill(editor, "material", "glass")
    fill(editor, "box-bottom", 2)
    drag(editor, (5.5, 5.5), (6.5, 5.5))
    editor.press("z", CONTROL)
    assert editor.run("echelon.scenario().boxes") == []
    drag(editor, (5.5, 5.5), (6.5, 5.5))
    rules, hold = RulesConfig(max_episode_s=30.0), Objective("hold", attackers="red", seconds=12)
    from dataclasses import replace

    small = EnvConfig.small()
    scene = Scene(replace(small, rules=replace(small.rules, max_episode_s=rules.max_episode_s)), (18, 22, 5.0), hold)
    scene.wall((5, 5), (7, 6), height=4, material="glass", bottom=2).place("blue", "medium", at=(12.0, 20.0))
    scene.place("red", "heavy", at=(32.0, 25.0), facing_deg=-90.0, hp=0.5, leg_hp=0.25, heat=0.75)
    assert saved(editor, file).as_json() == scene.scenario.as_json()


def test_invalid_scenario_is_reported_in_one_line(editor, file):
    take(editor, "blue")
    click_map(editor, 12, 20)
    editor.click_on("#check")
    said(editor, "Scenario.units of red must be 1..20, got 0")
    take(editor, "red")
    click_map(editor, 13, 20)
    editor.click_on("#check")
    said(editor, "scenario: state.mechs.pos of blue_0 in battle 0 must be clear of the hull of red_0")
    editor.click_on("#save")
    said(editor, "scenario: state.mechs.pos")
    assert not file.exists()
    for _ in range(4):
        editor.press("ArrowRight")
    editor.click_on("#check")
    said(editor, "ok")
    saved(editor, file)


def test_editor_plays_match_and_shows_battle(editor, file):
    place_two(editor)
    fill(editor, "settings", '{"rules": {"max_episode_s": 2}}')
    fill(editor, "x", TRIVIAL)
    fill(editor, "y", TRIVIAL)
    fill(editor, "battles", 2)
    saved(editor, file)
    editor.click_on("#play")
    said(editor, "played")
    lines = editor.run("[...document.querySelectorAll('#result p')].map(p => p.textContent)")
    assert lines[0].startswith("2 battles: blue won ") and len(lines) == 3
    assert [*file.parent.iterdir()] == [file], "nothing else is written"
    editor.call("Page.navigate", url=editor.run("document.getElementById('replay').href"))
    editor.wait("!!window.echelon && !!echelon.state && echelon.state().frames > 0")
    assert len(editor.run("echelon.state()")) > 0

"""The page on which a person commands, as somebody uses it in a browser."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from patience import STUCK_S

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
FOUND = importlib.util.spec_from_file_location("serving", Path(__file__).parents[1] / "command" / "serving.py")
serving = importlib.util.module_from_spec(FOUND)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    import sys

    sys.modules["serving"] = serving
    FOUND.loader.exec_module(serving)
    with Browser() as browser:
        yield browser


@pytest.fixture
def served():
    with serving.serving(serving.small_port(120.0), "real", paused=True) as found:
        yield found


def load(browser: Browser, served) -> None:
    browser.call("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.resize(1280, 800)
    browser.call("Page.navigate", url=served.server.address)
    browser.wait("!!window.echelon && echelon.frames() > 0")


def right_click(browser: Browser, x: float, y: float) -> None:
    across, down = browser.run(f"echelon.spot({x}, {y})")
    browser.mouse("mouseMoved", across, down)
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=across, y=down, button="right", clickCount=1)
    browser.materialize()


def step(browser: Browser, times: int = 1) -> None:
    for _ in range(times):
        browser.run("window.seen = echelon.report().time_s")
        browser.press(".")
        browser.wait("echelon.report().time_s !== window.seen")


def test_a_click_moves_a_pack_in_the_battle(chromium, served):
    load(chromium, served)
    chromium.wait("!!echelon.report()")
    state = served.session.port.view.env.state
    begun = state.mechs.pos[0, :5, :2].mean(0)
    place = served.session.port.reports()[0]["zone"]["place"]
    x, y = chromium.run("echelon.spot(...echelon.place('blue_2'))")
    chromium.click(x, y)
    assert chromium.run("echelon.selected()") == 0
    right_click(chromium, *place)
    step(chromium, 14)
    state = served.session.port.view.env.state
    sent = state.orders_sent[0, 0, 0].tolist()
    assert sent[0] == 2 and sent[1:3] == pytest.approx(place, abs=0.5)
    goal = state.orders_sent[0, 0, 0, 1:3]
    now = state.mechs.pos[0, :5, :2].mean(0)
    assert (goal - now).norm() < (goal - begun).norm() - 2
    orders = []
    for key in ("d", "s", "r", "g", "t", "f", "h"):
        chromium.press(key)
        step(chromium)
        orders.append(served.session.port.reports()[0]["packs"][0]["order"])
    assert [order["kind"] for order in orders] == ["defend", "screen", "screen", "regroup", "regroup", "free", "hold"]
    assert [order["fire"] for order in orders] == ["free", "free", "return", "return", "hold", "hold", "hold"]
    for _ in range(120):
        if enemies := chromium.run("echelon.report().enemies"):
            break
        step(chromium)
    right_click(chromium, *enemies[0]["place"])
    step(chromium)
    assert "attack" in chromium.run("document.querySelector('.order').textContent")
    assert not chromium.complaints()
    assert {url.split("?")[0] for url in chromium.requests()} == {f"http://{served.server.hosts[0]}/"}


def test_a_second_tab_is_refused(chromium, served):
    from websockets.sync.client import connect

    with connect(f"ws://{served.server.hosts[0]}/ws?token={serving.TOKEN}", proxy=None) as first:
        first.recv(timeout=STUCK_S)
        load(chromium, served)
        chromium.wait("document.getElementById('said').textContent.includes('commands these battles already')")
    assert not chromium.run("echelon.isConnected()") and chromium.run("echelon.report()") is None


def test_a_dropped_connection_pauses_and_goes_on(chromium, served):
    load(chromium, served)
    chromium.wait("!!echelon.report() && echelon.paused()")
    chromium.press(" ")
    chromium.wait("!echelon.paused()")
    chromium.wait("echelon.report().time_s > 0.5")
    chromium.run("echelon.drop()")
    chromium.wait("document.getElementById('said').textContent.includes('the battle waits')")
    chromium.wait("echelon.isConnected()")
    chromium.run("window.seen = echelon.report().time_s")
    chromium.wait("echelon.report().time_s > window.seen")
    assert not chromium.run("echelon.paused()")

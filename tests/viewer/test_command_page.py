"""The command page in a browser."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import serving
import torch
from browser import CHROMIUM, Browser
from patience import PATIENT, STUCK_S

from echelon import EnvConfig

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
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


def test_click_moves_pack(chromium, served):
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


def test_second_tab_is_refused(chromium, served):
    from websockets.sync.client import connect

    with connect(f"ws://{served.server.hosts[0]}/ws?token={serving.TOKEN}", proxy=None, **PATIENT) as first:
        first.recv(timeout=STUCK_S)
        load(chromium, served)
        chromium.wait("document.getElementById('said').textContent.includes('already commands these battles')")
    assert not chromium.run("echelon.isConnected()") and chromium.run("echelon.report()") is None


def test_dropped_connection_pauses_and_resumes_battle(chromium, served):
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


def hold(browser: Browser, kind: str, key: str, code: str = "") -> None:
    """Press (`keyDown`) or release (`keyUp`) a key."""
    browser.call(
        "Input.dispatchKeyEvent", type=kind, key=key, code=code, **({"text": key} if kind == "keyDown" else {})
    )
    browser.materialize()


def said(browser: Browser, text: str) -> bool:
    """Return whether the page sent a message with this text since the last call; call `watch_messages` first."""
    browser.materialize()
    return any(text in line for line in browser.run("window.sent.splice(0)"))


def watch_messages(browser: Browser) -> None:
    browser.run(
        "(() => { const send = WebSocket.prototype.send; window.sent = [];"
        " WebSocket.prototype.send = function (text) { window.sent.push(text); return send.call(this, text); }; })()"
    )


def test_keys_of_other_layouts_work_on_command_page(chromium):
    config = dataclasses.replace(EnvConfig.standard(), map_pool=2)
    with serving.serving(serving.small_port(60.0, config=config), "real", paused=True) as served:
        load(chromium, served)
        chromium.wait("!!echelon.report()")
        watch_messages(chromium)
        for key, code in (("é", "Digit2"), ("2", "Numpad2")):
            chromium.press("1", code="Digit1")
            assert chromium.run("echelon.selected()") == 0
            chromium.press(key, code=code)
            assert chromium.run("echelon.selected()") == 1, (key, code)
        for key, code in (("р", "KeyH"), ("h", "KeyJ")):
            said(chromium, "")
            chromium.press(key, code=code)
            assert said(chromium, '"hold"'), (key, code)
        chromium.press("y", code="KeyH")  # a layout with H at another position
        assert not said(chromium, '"hold"')
        for key, code in (("ц", "KeyW"), ("z", "KeyW")):
            chromium.press("e", code="KeyE")
            chromium.wait("!!echelon.driven()")
            step(chromium)
            said(chromium, "")
            hold(chromium, "keyDown", key, code)
            chromium.wait("window.sent.some((line) => line.includes('\"ahead\":1'))")
            # Shift has changed the character of the key.
            said(chromium, "")
            hold(chromium, "keyUp", key.upper(), code)
            chromium.wait("window.sent.some((line) => line.includes('\"ahead\":0'))")
            chromium.press("Escape", code="Escape")
            assert chromium.run("echelon.driven()") is None
        assert not chromium.complaints()


def test_person_drives_one_mech_of_pack(chromium, served):
    load(chromium, served)
    chromium.wait("!!echelon.report()")
    port = served.session.port
    begun = port.view.env.state.mechs.pos[0, :5, :2].clone()
    chromium.click(*chromium.run("echelon.spot(...echelon.place('blue_2'))"))
    chromium.press("h")
    chromium.press("e")
    assert chromium.run("echelon.driven()") == "blue_2"
    x, y = port.reports()[0]["zone"]["place"]
    across, down = chromium.run(f"echelon.spot({x}, {y})")
    chromium.mouse("mouseMoved", across, down)
    hold(chromium, "keyDown", "w")
    chromium.mouse("mousePressed", across, down, 1)
    step(chromium, 10)
    stick = port.stick
    assert stick.mech == "blue_2" and stick.ahead == 1 and stick.face == pytest.approx([x, y], abs=0.2)
    assert stick.fire == ("primary", "secondary", "tertiary")
    left = (port.view.env.state.mechs.pos[0, :5, :2] - torch.tensor([x, y])).norm(dim=1)
    nearer = (begun - torch.tensor([x, y])).norm(dim=1) - left
    assert nearer[2] > 5 and nearer[2] > 2 + nearer[[0, 1, 3, 4]].mean(), "the others hold"
    assert port.reports()[0]["packs"][0]["order"]["kind"] == "hold"
    chromium.mouse("mouseReleased", across, down, 0)
    hold(chromium, "keyUp", "w")
    chromium.press("e")
    assert chromium.run("echelon.driven()") is None
    step(chromium)
    assert port.stick is None and not chromium.complaints()


def test_dropped_connection_ends_manual_control(chromium, served):
    load(chromium, served)
    chromium.wait("!!echelon.report()")
    chromium.press("e")
    step(chromium)
    assert served.session.port.stick.mech == "blue_0"
    chromium.run("echelon.drop()")
    chromium.wait("echelon.driven() === null && echelon.isConnected()")
    step(chromium)
    assert served.session.port.stick is None and chromium.run("echelon.paused()")

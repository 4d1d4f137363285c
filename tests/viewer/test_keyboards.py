"""Key bindings of the pages on other keyboard layouts."""

from __future__ import annotations

import json

import pytest
from browser import CHROMIUM

from echelon.viewer.page import read

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
MEANT = [
    # character of the key, key code, with Shift, expected binding
    ("w", "KeyW", False, "w"),
    ("W", "KeyW", True, "w"),
    ("w", "", False, "w"),
    ("ц", "KeyW", False, "w"),
    ("z", "KeyW", False, "w"),  # French
    ("q", "KeyA", False, "a"),
    ("a", "KeyQ", False, "q"),
    ("m", "Semicolon", False, "m"),
    (",", "KeyM", False, ","),
    (",", "KeyW", False, ","),  # Dvorak: the sign is known, and is nowhere else
    ("w", "Comma", False, "w"),
    ("o", "KeyS", False, "o"),
    ("y", "KeyT", False, "y"),
    ("х", "BracketLeft", False, "["),  # Russian
    ("ю", "Period", False, "."),
    ("е", "KeyT", False, "t"),
    ("ü", "BracketLeft", False, "["),  # German
    ("é", "Digit2", False, "2"),
    ("2", "Digit2", True, "2"),
    ("+", "Digit1", True, "+"),  # Swiss
    ("-", "NumpadSubtract", False, "-"),
    ("5", "Numpad5", False, "5"),
    ("ArrowRight", "Numpad6", False, "ArrowRight"),
    ("Process", "KeyT", False, "t"),  # an input method is on
    ("Dead", "Equal", False, "="),
    ("?", "Minus", True, "?"),
    ("Escape", "Escape", False, "Escape"),
]


KNOWN = [*" .,][nptfvlborkghmcwasdqe+=-?0123456789", "ArrowRight", "Escape"]
"""Keys of the page of a replay."""


def test_keys_match_by_character_then_by_code(browser):
    events = [{"key": key, "code": code, "shiftKey": shift} for key, code, shift, _ in MEANT]
    found = browser.run(
        f"(() => {{ {read('typed.js')}; const known = {json.dumps(KNOWN)};"
        f" return {json.dumps(events)}.map((event) => meaningOf(event, (key) => known.includes(key), 'wasdqe')); }})()"
    )
    assert found == [meant for *_, meant in MEANT]


def test_russian_and_french_layouts_work(browser):
    browser.press("ъ", code="BracketRight")
    assert browser.run("echelon.state().speed") == 2
    browser.press("е", code="KeyT")
    assert browser.run("echelon.state().top") is True
    browser.press("é", code="Digit2")
    second = browser.run("echelon.state().selected")
    browser.press("Escape")
    browser.press("2", code="Digit2")
    assert second is not None and browser.run("echelon.state().selected") == second


def test_alt_gr_types_character_and_alt_is_ignored(browser):
    press = "window.dispatchEvent(new KeyboardEvent('keydown', {{key: ']', code: 'Digit9', altKey: true, {}}}))"
    browser.run(f"document.body.{press.format('bubbles: true').removeprefix('window.')}")
    assert browser.run("echelon.state().speed") == 1
    browser.run(f"document.body.{press.format('bubbles: true, modifierAltGraph: true').removeprefix('window.')}")
    assert browser.run("echelon.state().speed") == 2

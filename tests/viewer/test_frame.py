"""The page of a replay in the frame of a notebook, which has no address of its own."""

from __future__ import annotations

import html

import pytest
from browser import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium in PATH"),
]
INNER = "document.querySelector('iframe').contentWindow"


def test_page_in_frame_plays_and_reports_missing_address(chromium, page, tmp_path):
    """As `examples/1_first_battle.ipynb` shows it."""
    outer = tmp_path / "notebook.html"
    frame = f'<iframe srcdoc="{html.escape(page.read_text())}" width="1200" height="680"></iframe>'
    outer.write_text(f'<!doctype html><meta charset="utf-8">{frame}')
    chromium.events.clear()
    chromium.resize(1280, 720)
    chromium.call("Page.navigate", url=f"file://{outer}")
    chromium.wait("document.querySelector('iframe')?.contentWindow.echelon?.state().frames > 0")
    chromium.run(f"{INNER}.document.getElementById('play').click()")
    chromium.wait(f"{INNER}.echelon.state().t > 0.5")  # the page keeps its address every 0.4 s
    chromium.run(f"{INNER}.document.getElementById('play').click()")
    chromium.run(f"{INNER}.document.getElementById('copy').click()")
    chromium.wait(f"{INNER}.document.getElementById('said').textContent.includes('cop')")
    told = chromium.run(f"{INNER}.document.getElementById('said').textContent")
    assert told.startswith("copied #") or told == "nothing copied: a page in a frame has no address of its own"
    assert not chromium.complaints()

"""A page of a small battle in Chromium, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from scenes import small_replay

from echelon.viewer.page import write_page


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("viewer") / "battle.html"
    write_page(*small_replay(), path)
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(chromium, page) -> Iterator[Browser]:
    """Open the page at desktop size; fail if the page logs an error."""
    chromium.events.clear()
    chromium.resize(1280, 720)
    chromium.prefer("dark")
    chromium.open(page)
    yield chromium
    assert not chromium.complaints() and not chromium.requests()

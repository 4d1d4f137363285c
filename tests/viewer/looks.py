"""Write pictures of every view of the page, light and dark, at two desktop sizes and a phone size; not a test.

`PYTHONPATH=.:tests:tests/viewer python tests/viewer/looks.py battles.echelon pictures/ [report.html]`
writes `VIEW-WIDTHxHEIGHT-THEME.png` for each of `VIEWS`. Take a replay of two battles or more, with observations.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from browser import Browser
from replay_page import write_replay_page
from test_page import without_contexts

from echelon.replay.file import read

SIZES = ((1600, 900), (1280, 720), (390, 844))
THEMES = ("light", "dark")
NO_WEBGL = "(own => function (kind, ...more) { return kind === 'webgl2' ? null : own.call(this, kind, ...more); })"
OPEN_SENSES = (
    "document.querySelector('[data-part=senses]').open = true; new Promise(done => { const look = () => {"
    " if (!document.querySelector('.grounds')) { setTimeout(look, 50); return; }"
    " document.querySelector('[data-part=senses]').scrollIntoView(); done(); }; look(); })"
)


@dataclass(frozen=True)
class View:
    """State of the page: an address and a script."""

    address: str
    script: str = ""
    blind: bool = False
    """Without WebGL2."""


AT = {"t": 9, "mech": 3, "dead": 7}
"""Time and mech of the pictures; mech `dead` dies before the end."""
VIEWS = {
    "opening": View("#"),
    "field": View("#t={t}&tab=events"),
    "above": View("#t={t}&view=top&tags=1&tab=events"),
    "teams": View("#t={t}&tab=teams&tags=1"),
    "result": View("#t={t}&tab=statistics"),
    "lanes": View("#t={t}&course=1&tab=events", "document.querySelector('#timeline').scrollIntoView()"),
    "cockpit": View("#t={t}&select={mech}&tab=cockpit"),
    "log": View("#t={t}&select={mech}&tab=cockpit", "document.querySelector('.log').scrollIntoView({block: 'start'})"),
    "observed": View("#t={t}&select={mech}&tab=cockpit", OPEN_SENSES),
    "observed-end": View(
        "#t={t}&select={mech}&tab=cockpit",
        f"{OPEN_SENSES}.then(() => document.querySelector('.grounds').scrollIntoView())",
    ),
    "dead": View("#t=999&select={dead}&tab=cockpit"),
    "missiles": View(
        "#t={t}&tab=missiles", "document.querySelectorAll('#missiles .event')[1].click(); echelon.settle()"
    ),
    "focus": View("#t={t}&focus=1&tags=1&tab=events"),
    "see-as": View("#t={t}&select={mech}&as=1&lines=1&tab=cockpit"),
    "follow": View("#t={t}&select={mech}&follow=1&tab=cockpit"),
    "beside": View("#t={t}&beside=1&tab=statistics"),
    "why": View("#t={t}&tab=study", "document.querySelector('[data-study=messages]').open = true"),
    "why-shots": View("#t={t}&tab=study", "document.querySelector('[data-study=shots]').open = true"),
    "fog": View("#t={t}&tab=events&fog=red&trails=1&view=top"),
    "present": View("#t={t}&present=1"),
    "battles": View("#t={t}", "document.querySelector('#open-battles').click()"),
    "help": View("#t={t}", "document.querySelector('#open-help').click()"),
    "large": View("#t={t}&large=1&select={mech}&tab=cockpit"),
    "large-result": View("#t={t}&large=1&tab=statistics"),
    "blind": View("#t={t}&select={mech}&tab=cockpit", blind=True),
}


def look(browser: Browser, page: Path, view: View, path: Path | None, at: Mapping[str, float] = AT) -> None:
    """Open a view of a battle, and write a picture if a path is given."""
    browser.open(page, view.address.format(**at))
    if view.script:
        browser.run(view.script)
        browser.materialize()
    if path is not None:
        browser.wait("echelon.state().still")
        browser.screenshot(path)


def look_at_report(browser: Browser, report: Path, into: Path, name: str) -> None:
    """Write a picture of every part of a report."""
    browser.call("Page.navigate", url=f"file://{report}")
    browser.wait("document.readyState === 'complete' && document.querySelectorAll('nav a').length > 0")
    for part in browser.run("[...document.querySelectorAll('nav a')].map(a => a.hash)"):
        browser.run(f"document.querySelector({part!r}).scrollIntoView()")
        browser.materialize()
        browser.screenshot(into / f"report-{part[1:]}-{name}.png")


def main(replay_file: str, folder: str, report: str = "", *only: str) -> None:
    """Write all pictures, or only the named views."""
    into, replay = Path(folder), read(Path(replay_file))
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, Browser() as browser:
        page, blind = Path(place) / "page.html", Path(place) / "blind.html"
        write_replay_page(replay, page)
        without_contexts(page, blind, f"{NO_WEBGL}(HTMLCanvasElement.prototype.getContext)")
        for wide, high in SIZES:
            for theme in THEMES:
                browser.resize(wide, high, mobile=wide < 500)
                browser.prefer(theme)
                name = f"{wide}x{high}-{theme}"
                for view in only or VIEWS:
                    chosen = VIEWS[view]
                    look(browser, blind if chosen.blind else page, chosen, into / f"{view}-{name}.png")
                if report:
                    look_at_report(browser, Path(report).resolve(), into, name)


if __name__ == "__main__":
    main(*sys.argv[1:])

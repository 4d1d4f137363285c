"""The command of `arena.py` that draws a replay: a page and pictures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from echelon.pipelines.console import terminal
from echelon.pipelines.progress_bar import tracked
from echelon.replay.battle import Replay
from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import Limits, check_settings
from echelon.view.page import write_page
from echelon.view.painting import GIF_S, draw_gif
from echelon.view.paper import FORMATS, WIDTH_IN
from echelon.view.strip import draw_strip

GIF_PX_PER_IN = 69.0
"""Of the field; with its frame a moving picture of 6.5 inches is about 474 px wide."""
WATCH = {"size": Limits(1.0, 40.0, "inches"), "speed": Limits(0.0, 1000.0)}
MOST_TIMES = 40


@dataclass(frozen=True)
class Watch:
    """Turn a replay into an HTML page, and into pictures. The page loads nothing from the network."""

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    out: Path | None = None
    """The page; by default FILE.html next to the replay, or here if nothing can be written there."""
    strip: Path | None = None
    """Also draw a row of moments of one battle, for a paper, into this PDF, SVG or PNG."""
    gif: Path | None = None
    """Also draw one battle from above as a moving picture."""
    battle: int = 1
    """Which battle the pictures show."""
    begin: Annotated[float, tyro.conf.arg(name="from")] = 0.0
    """When the pictures begin, s."""
    end: Annotated[float, tyro.conf.arg(name="to")] = 0.0
    """When they end, s; 0: with the battle."""
    times: tuple[float, ...] = ()
    """Moments of the strip, s; by default four between which equal shares of the damage were done. One makes a single
    picture."""
    speed: float = 0.0
    """Speed of the moving picture, 1 as it happened; 0: as fast as makes it 8 s long."""
    size: float = WIDTH_IN
    """Width in inches: of a strip as it is printed, text of 7 and 8 pt; of a moving picture at 72 pixels an inch."""

    def __post_init__(self) -> None:
        check_settings(self, WATCH)
        require(len(self.times) <= MOST_TIMES, "--times", f"at most {MOST_TIMES} moments", len(self.times))

    def run(self) -> None:
        """Read the replay and draw it."""
        page = self.out or beside(self.file, self.file.with_suffix(".html").name)
        pictures = [path for path in (self.strip, self.gif) if path is not None]
        require(page != self.file, "--out", "another file than the replay", str(page))
        require_picture("--strip", self.strip)
        require_picture("--gif", self.gif, (".gif",))
        written = [path.resolve() for path in (page, *pictures)]
        require(len({*written, self.file.resolve()}) == 1 + len(written), "outputs", "files of their own", written)
        for path in (page, *pictures):
            check_writable(path)
        replay = read(self.file)
        count = len(replay.battles)
        require(1 <= self.battle <= count, "--battle", f"1..{count}, the battles of {self.file.name}", self.battle)
        span = self.span(replay)
        grounds = [rebuild(replay, battle) for battle in tracked(replay.battles, "maps", count)]
        write_page(replay, grounds, page)
        self.draw(replay, grounds[self.battle - 1], span)
        for path in (page, *pictures):
            terminal().print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")

    def draw(self, replay: Replay, ground: np.ndarray, span: tuple[float, float]) -> None:
        """Draw the pictures."""
        which, (begin, end) = self.battle - 1, span
        if self.strip is not None:
            draw_strip(replay, which, ground, self.strip, self.times, self.size, span)
        if self.gif is not None:
            seconds = (end - begin) / self.speed if self.speed > 0 else GIF_S
            side_px = round(GIF_PX_PER_IN * self.size)
            draw_gif(replay, which, ground, self.gif, seconds, side_px, span, lambda t, n: tracked(t, "frames", n))

    def span(self, replay: Replay) -> tuple[float, float]:
        """From when until when the pictures show the battle, s."""
        battle, about = replay.battles[self.battle - 1], replay.about
        length = battle.decisions * about["dt_s"] * about["decision_repeat"]
        end = self.end if self.end > 0 else length
        require(0 <= self.begin < end, "--from", f"at least 0 and before --to, {end:g} s", self.begin)
        require(end <= length, "--to", f"at most {length:g} s, the length of battle {self.battle}", end)
        for time in self.times:
            require(0 <= time <= length, "--times", f"0..{length:g} s, the length of battle {self.battle}", time)
        return self.begin, end


def beside(file: Path, name: str) -> Path:
    """Where a file about another one goes by default: next to it, or into the working folder if that is read-only."""
    return file.with_name(name) if os.access(file.parent, os.W_OK) else Path(name)


def require_picture(flag: str, path: Path | None, suffixes: tuple[str, ...] = FORMATS) -> None:
    """Refuse a name that says another kind of picture than can be drawn."""
    fits = path is None or path.suffix.lower() in suffixes
    require(fits, flag, f"the name of a picture that ends with {' or '.join(suffixes)}", str(path))

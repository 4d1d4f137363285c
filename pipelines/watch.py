"""The `arena.py` command that draws replays."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.reports.pictures import draw_moving, other_replay, shown_span
from echelon.runtime.errors import require
from echelon.runtime.files import beside, check_writable
from echelon.runtime.limits import Limits, Settings
from echelon.runtime.terminal import terminal, tracked
from echelon.viewer.battle_picture import strip_figure
from echelon.viewer.page import write_page
from echelon.viewer.paper import WIDTH_IN, require_picture, save

MOST_TIMES = 40


@dataclass(frozen=True)
class Watch(Settings):
    """Write a replay as an HTML page, and draw pictures of it. The page loads nothing from the network."""

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    beside: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction] = ()
    """Another replay to show on the page for comparison. Repeatable."""
    out: Path | None = None
    """HTML page; by default FILE.html next to the replay, or in the current folder if that is read-only."""
    strip: Path | None = None
    """Also draw a row of moments of one battle, for a paper, to this PDF, SVG or PNG."""
    gif: Path | None = None
    """Also draw one battle from above as an animated GIF."""
    battle: int = 1
    """Number of the battle in the pictures, from 1."""
    begin: Annotated[float, tyro.conf.arg(name="from")] = 0.0
    """Start of the pictures, in seconds."""
    end: Annotated[float, tyro.conf.arg(name="to")] = 0.0
    """End of the pictures, in seconds; 0: the end of the battle."""
    times: tuple[float, ...] = ()
    """Moments of the strip, in seconds; by default four that divide the damage into equal shares. One moment makes a
    single picture."""
    speed: Annotated[float, Limits(0.0, 1000.0)] = 0.0
    """Speed of the animation, 1 for real time; 0: a length of 8 s."""
    size: Annotated[float, Limits(1.0, 40.0, "inches")] = WIDTH_IN
    """Width in inches: of a printed strip, with text of 7 and 8 pt; of an animation at 72 pixels per inch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.times) <= MOST_TIMES, "--times", f"at most {MOST_TIMES} moments", len(self.times))

    def run(self) -> None:
        page = self.out or beside(self.file, self.file.with_suffix(".html").name)
        pictures = [path for path in (self.strip, self.gif) if path is not None]
        require(page != self.file, "--out", "another file than the replay", str(page))
        require_picture("--strip", self.strip)
        require_picture("--gif", self.gif, (".gif",))
        paths = [path.resolve() for path in (page, *pictures)]
        require(len({*paths, self.file.resolve()}) == 1 + len(paths), "outputs", "files of their own", paths)
        check_writable(page, *pictures)
        replay = read(self.file)
        count = len(replay.battles)
        require(1 <= self.battle <= count, "--battle", f"1..{count}, the battles of {self.file.name}", self.battle)
        span = shown_span(replay, self.battle, self.begin, self.end, self.times)
        grounds = [rebuild(replay, battle) for battle in tracked(replay.battles, "maps", count)]
        write_page(replay, grounds, page, [other_replay(path) for path in self.beside])
        battle = replay, self.battle - 1, grounds[self.battle - 1]
        if self.strip is not None:
            save(strip_figure(*battle, self.times, self.size, span), self.strip)
        if self.gif is not None:
            draw_moving(*battle, self.gif, self.speed, self.size, span)
        for path in (page, *pictures):
            terminal().print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")

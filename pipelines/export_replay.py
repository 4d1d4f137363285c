"""The `arena.py` command that writes a replay as a file for other programs."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from echelon.runtime.files import beside
from echelon.runtime.limits import Settings
from echelon.runtime.terminal import terminal
from echelon.viewer.exporters import SUFFIXES, Format, export_replay


@dataclass(frozen=True)
class ExportReplay(Settings):
    """Write one battle of a replay as a file for another program (docs/EXPORTS.md).

    The formats mp4 and rerun need the extra `export`.
    """

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    to: Format
    """csv: the events as a table. tacview: ACMI 2.2. gltf: terrain and moving mechs as GLB. mp4: a video from above.
    rerun: a recording of all of it."""
    out: Path | None = None
    """Output file; by default FILE-N with the format's suffix next to the replay, or in the
    current folder if that is read-only."""
    battle: int = 1
    """Number of the battle, from 1."""

    def run(self) -> None:
        out = self.out or beside(self.file, f"{self.file.stem}-{self.battle}{SUFFIXES[self.to]}")
        export_replay(self.file, self.to, out, self.battle)
        terminal().print(f"{out}  {out.stat().st_size / 1e6:.1f} MB")

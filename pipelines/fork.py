"""The `arena.py` command that continues a recorded battle with changes from a given time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from echelon.arena.branches import Intervention
from echelon.arena.fork import fork
from echelon.replay.file import save
from echelon.reports.whatif import change_of, chosen_replay, place_of
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import require
from echelon.runtime.files import beside, check_writable
from echelon.runtime.terminal import terminal


@dataclass(frozen=True)
class ForkCommand:
    """Play a recorded battle again, with changes from a given time on.

    The output is a replay that contains the original and the changed battle. The commanders of the recorded battle must
    still exist.
    """

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    at: float
    """Time of the change, in seconds."""
    battle: int = 1
    """Number of the battle in the replay, from 1."""
    blue: str | None = None
    """Blue commander after the change, as for `play`; by default unchanged."""
    red: str | None = None
    """Red commander after the change; by default unchanged."""
    seed: int | None = None
    """Seed of the random numbers after the change; by default unchanged."""
    mech: tuple[Literal["blue", "red"], int] = ("blue", 1)
    """The changed mech: its team, and its number in the team."""
    intervention: Intervention | None = None
    """Change of this mech: hold_still, hold_fire, removed, repaired, follow_order, or one trigger that it no longer
    pulls, such as hold_primary."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Value of a mech at that time, such as "blue 2 hp=150": hp, leg_hp, heat, stability, x, y, z or yaw.
    Repeatable."""
    out: Path | None = None
    """Output replay; by default FILE-fork.echelon in the same folder."""
    device: str = "auto"

    def run(self) -> None:
        device = use_device(resolve_device(self.device))
        path = self.out or beside(self.file, f"{self.file.stem}-fork{self.file.suffix}")
        require(path != self.file, "--out", "another file than the replay", str(path))
        check_writable(path)
        replay = chosen_replay(self.file, self.battle)
        mech = place_of(*self.mech, replay, "--mech", "{}, a mech of {}")
        changes = [change_of(change, replay) for change in self.set]
        options: dict[str, Any] = {"blue": self.blue, "red": self.red, "seed": self.seed, "device": device}
        options |= {"intervention": self.intervention, "changes": changes}
        forked = fork(replay, self.battle - 1, at_s=self.at, mech=mech, **options)
        save(forked, path)
        for label, battle in zip(("was", "is"), forked.battles, strict=True):
            outcome, length = battle.about["outcome"], battle.decisions * replay.about["dt_s"]
            seconds = length * replay.about["decision_repeat"]
            terminal().print(f"{label:<4}{outcome['winner']}, {outcome['reason'].replace('_', ' ')}, {seconds:g} s")
        terminal().print(f"replay      {path}")

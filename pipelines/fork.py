"""The command of `arena.py` that plays a recorded battle otherwise from a moment on."""

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
    """Play a recorded battle again and otherwise from a time on, into a replay of both: the battle as it was, and as it
    became. Its commanders must still be where they were."""

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    at: float
    """Seconds after which something is other."""
    battle: int = 1
    """Which of its battles."""
    blue: str | None = None
    """Who commands blue from there on, as `play` takes names; who did so far, by default."""
    red: str | None = None
    """The same for red."""
    seed: int | None = None
    """Fresh chance from there on; by default it goes on as it did."""
    mech: tuple[Literal["blue", "red"], int] = ("blue", 1)
    """Which mech does otherwise: its team, and its place in it."""
    intervention: Intervention | None = None
    """What it does or is: hold_still, hold_fire, removed, repaired, follow_order, or one trigger left alone, such as
    hold_primary."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """What a mech is at that time, such as "blue 2 hp=150": hp, leg_hp, heat, stability, x, y, z or yaw. Repeatable."""
    out: Path | None = None
    """The replay; by default FILE-fork.echelon beside it."""
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

"""The command of `echelon` that checks a result of protocol 2."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from echelon.arena.strangers.verify import SAMPLE, verify
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.terminal import terminal


@dataclass(frozen=True)
class CheckArgs:
    """How a result is checked."""

    policy: tuple[str, ...] = ()
    """The policies that were judged, one a run; commanders that ship with Echelon may be left out."""
    sample: int = SAMPLE
    """Battles that are fought again, chosen by chance; 0 for all."""
    statistical: bool = False
    """Compare how often was won, not bit by bit: for a processor that is of another kind than it says."""
    device: str = "auto"
    batch: int = 256
    """Maximum number of battles in parallel."""

    def how(self) -> dict[str, Any]:
        """Arguments of `verify`."""
        device = use_device(resolve_device(self.device))
        return {"sample": self.sample, "statistical": self.statistical, "device": device, "batch": self.batch}


@dataclass(frozen=True)
class Verify:
    """Say whether a result of protocol 2 tells the truth: all that follows from its battles is found anew, and a sample
    of the battles is fought again. Exit code 1 if it does not."""

    result: tyro.conf.Positional[Path]
    """A file that `echelon-arena evaluate --protocol 2 --out` wrote."""
    check: tyro.conf.OmitArgPrefixes[CheckArgs] = field(default_factory=CheckArgs)

    def run(self) -> None:
        verified = verify(self.result, self.check.policy, **self.check.how())
        terminal().print(f"{self.result}: {verified}", markup=False, highlight=False)

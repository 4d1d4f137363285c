"""The `echelon` command that checks a result of protocol 2."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from echelon.arena.strangers.verify import SAMPLE, verify
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.terminal import terminal


@dataclass(frozen=True)
class CheckArgs:
    """Settings of the check."""

    policy: tuple[str, ...] = ()
    """The evaluated policies, one per run; policies shipped with Echelon may be omitted."""
    sample: int = SAMPLE
    """Number of randomly chosen battles to replay; 0: all."""
    statistical: bool = False
    """Compare win rates instead of exact states, for a result from another kind of processor."""
    device: str = "auto"
    batch: int = 256
    """Maximum number of battles in parallel."""

    def how(self) -> dict[str, Any]:
        """Return this command's keyword arguments for `echelon.verify`."""
        device = use_device(resolve_device(self.device))
        return {"sample": self.sample, "statistical": self.statistical, "device": device, "batch": self.batch}


@dataclass(frozen=True)
class Verify:
    """Verify a result of protocol 2: recompute all values that follow from its battles, and replay some of the battles.

    The exit code is 1 if the result is wrong.
    """

    result: tyro.conf.Positional[Path]
    """File written by `echelon-arena evaluate --protocol 2 --out`."""
    check: tyro.conf.OmitArgPrefixes[CheckArgs] = field(default_factory=CheckArgs)

    def run(self) -> None:
        verified = verify(self.result, self.check.policy, **self.check.how())
        terminal().print(f"{self.result}: {verified}", markup=False, highlight=False)

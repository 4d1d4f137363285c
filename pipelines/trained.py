"""The command of `arena.py` that lists the policies that ship with Echelon."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from echelon.learn.checkpoint.shipped import trained
from echelon.pipelines.result_tables import show


@dataclass(frozen=True)
class Trained:
    """List the policies that ship with Echelon: `trained:NAME` means one wherever a commander is named."""

    json: bool = False
    """Print one JSON list of all that the table tells."""

    def run(self) -> None:
        rows = [asdict(policy) for policy in trained().values()]
        if not self.json:
            rows = [
                {name: row[name] for name in ("name", "about", "task", "agent_steps")}
                | {"battles won": ", ".join(f"{rate:.0%} {who}" for who, rate in row["win_rates"].items())}
                for row in rows
            ]
        show(rows, self.json, "policies that ship with Echelon: trained:NAME")

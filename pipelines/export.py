"""The `echelon` commands for trained policies: list the shipped ones, and export one for other programs."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import tyro

from echelon.arena.resolve import named_checkpoint
from echelon.learn.checkpoint.format import POLICY
from echelon.learn.checkpoint.shipped import trained
from echelon.learn.models.export import Actions, export_onnx
from echelon.rules.versions import RULES
from echelon.runtime.files import check_writable
from echelon.runtime.terminal import show_table, terminal


@dataclass(frozen=True)
class Export:
    """Write a trained policy as one ONNX file, which decides for single mechs.

    Inputs are observations and memory, outputs are actions and memory, named as in `echelon describe`. Needs the extra
    `onnx`.
    """

    policy: tyro.conf.Positional[str]
    """trained:NAME, a checkpoint or run folder, or league:FOLDER/NAME."""
    out: Path
    """Output file."""
    format: Literal["onnx"] = "onnx"
    actions: Actions = "mean"
    """mean: the mean of the distribution. sampled: sampled as in evaluations, with standard normal numbers as an
    additional input."""

    def run(self) -> None:
        check_writable(self.out)
        checkpoint = named_checkpoint(self.policy)
        metadata = checkpoint.metadata
        metadata = {
            "policy": metadata["files"][POLICY],
            RULES: str(checkpoint.versions.rules),
            "layout_hash": metadata["layout_hash"],
            "actions": self.actions,
        }
        step = export_onnx(checkpoint.policy(), checkpoint.env, self.out, self.actions, metadata)
        console = terminal()
        console.print(f"{self.out}: {self.actions} actions, {self.out.stat().st_size:,} bytes")
        for name, spec in step.inputs.items():
            console.print(f"in   {name} [{', '.join(('mechs', *map(str, spec.shape)))}] {spec.dtype}")
        console.print(f"out  {', '.join(step.outputs)}")


@dataclass(frozen=True)
class Trained:
    """List the policies that ship with Echelon; `trained:NAME` is the commander name of such a policy."""

    json: bool = False
    """Print the table as one JSON list."""

    def run(self) -> None:
        rows = [asdict(policy) for policy in trained().values()]
        if not self.json:
            rows = [
                {name: row[name] for name in ("name", "about", "task", "agent_steps", "rating")}
                | {"battles won": ", ".join(f"{rate:.0%} {opponent}" for opponent, rate in row["win_rates"].items())}
                for row in rows
            ]
        show_table(rows, self.json, "policies shipped with Echelon: trained:NAME")

"""Add a trained policy to the package: evaluate it on a task, then write its folder and its row of the table.

python benchmarks/ship.py runs/mine --name quick-hard --about "beats hard" --command "echelon-train --preset quick"
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import tyro

from echelon.arena.evaluate import evaluate
from echelon.arena.resolve import named_checkpoint
from echelon.env.tasks.task import tasks
from echelon.learn.checkpoint import shipped
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import POLICY, open_checkpoint
from echelon.learn.checkpoint.provenance import battle_hash
from echelon.learn.checkpoint.shipped import MOST_BYTES, TABLE, TrainedPolicy, trained
from echelon.rules.config import EnvConfig
from echelon.rules.versions import current_versions
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import require
from echelon.runtime.files import json_bytes, write_whole
from echelon.runtime.json_checks import matching
from echelon.runtime.terminal import run, with_progress

NAME = matching("[a-z0-9][a-z0-9-]{0,62}", "lower-case letters, digits and hyphens")


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    checkpoint: tyro.conf.Positional[str]
    """A checkpoint or run folder, or league:FOLDER/NAME."""
    name: str
    """NAME in `trained:NAME`."""
    about: str
    """A description in one line."""
    command: str
    """The command that trained it."""
    commit: str = ""
    """The commit of Echelon that trained it; by default the commit of this clone."""
    task: str = ""
    """Full name of the task for the evaluation, whose battles the checkpoint then names; by default that of its own."""
    battles: int = 128
    """Battles against each opponent of the task."""
    device: str = "auto"
    half_critic: bool = False
    """Store the critic in bfloat16, which halves its size; it is not used in battles. The weights get another hash."""


def ship(args: Args) -> TrainedPolicy:
    """Evaluate a policy, then write its checkpoint, without the learner's state, and its row."""
    NAME("--name", args.name)
    shipped_rows, checkpoint = trained(), named_checkpoint(args.checkpoint)
    require(args.name not in shipped_rows, "--name", f"none of {', '.join(shipped_rows)}", args.name)
    require(
        checkpoint.versions == current_versions(),
        args.checkpoint,
        "trained under the rules of today",
        checkpoint.versions,
    )
    task, policy = args.task or task_of(checkpoint.env), checkpoint.policy()
    if args.half_critic:
        policy.critic.bfloat16()
    room = MOST_BYTES - sum(path.stat().st_size for path in shipped.FOLDER.rglob("*") if path.is_file())
    num_bytes = sum(value.nbytes for value in policy.state_dict().values())
    require(num_bytes < room, args.checkpoint, f"less than the {room} bytes that are left", num_bytes)
    device = use_device(resolve_device(args.device))
    watch = partial(with_progress, quiet=False)
    evaluation = evaluate(args.checkpoint, task, battles=args.battles, device=device, watch=watch)
    save_checkpoint(
        shipped.FOLDER / args.name,
        policy,
        checkpoint.value_norm(),
        tasks()[task].config if args.task else checkpoint.env,
        checkpoint.counters,
        learner={},
        provenance=checkpoint.provenance,
    )
    row = TrainedPolicy(
        args.name,
        args.about,
        task,
        checkpoint.counters.agent_steps,
        args.command,
        args.commit or commit_here(),
        checkpoint.versions.rules,
        sha256=open_checkpoint(shipped.FOLDER / args.name).metadata["files"][POLICY],
        battles=args.battles,
        win_rates={row["opponent"]: round(row["win_rate"], 3) for row in evaluation.rows()},
    )
    write_table([*shipped_rows.values(), row])
    return row


def write_table(rows: Sequence[TrainedPolicy]) -> None:
    """Write the table of shipped policies, in the order of `trained`."""
    ordered = sorted(rows, key=lambda each: (each.task, each.rating is None, -(each.rating or 0.0), -each.win_rate))
    write_whole(shipped.FOLDER / TABLE, json_bytes([asdict(entry) for entry in ordered]))


def task_of(env: EnvConfig) -> str:
    """Return the playable task with the battles of a policy."""
    fits = [name for name, task in tasks().items() if task.is_playable and battle_hash(task.config) == battle_hash(env)]
    require(len(fits) > 0, "--task", "set, because no task has the battles of this policy", "")
    return fits[0]


def commit_here() -> str:
    """Return the short hash of this clone's commit."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    run(lambda: print(ship(settings(Args, __doc__))))

"""Make rows of the table of baselines: train, evaluate with the protocol of the task, append a JSON line. For a task
among strangers, the runs of all seeds make one row of the leaderboard.

python benchmarks/baselines/run.py --task TASK --baseline mappo-lstm --seed 0 --agent-steps 1000000
python benchmarks/baselines/run.py --task TASK --baseline mappo-lstm qmix --seed 0 1 2 --ray auto
python benchmarks/baselines/run.py --task strangers/TASK --baseline bc-hard --seed 0 1 2 3 4 --folder runs/rows
"""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import tyro
from recipes import RECIPES, Budget, Trained

import echelon
from echelon.arena.evaluate import Evaluation
from echelon.arena.strangers.evaluation import evaluate_strangers
from echelon.arena.strangers.leaderboard import add_result, cells_of
from echelon.env.tasks.task import find_task
from echelon.learn.models.actor_critic import ActorCritic
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import require
from echelon.runtime.files import json_bytes, write_whole
from echelon.runtime.ray_tasks import RayArgs, results_of
from echelon.runtime.terminal import run

ROOT = Path(__file__).parents[2]
UNFINISHED = 3
"""Exit status of a run that was saved before its end; the same command resumes it."""


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    task: str
    baseline: tuple[str, ...]
    """Baselines, by their names in `recipes.RECIPES`."""
    seed: tuple[int, ...] = (0,)
    """Seeds of each baseline."""
    agent_steps: int = 1_000_000
    """Budget in agent steps. The same command gives the same policy on the same kind of processor."""
    num_envs: int = 128
    battles: int = 0
    """Battles against each opponent; 0 takes the number of the task. Other numbers are marked in the row."""
    device: str = "cpu"
    minutes: float = 0.0
    """Runs of our trainer (ippo-*, mappo-*) are saved after so many minutes each, and the same command resumes them bit
    for bit; 0 for no limit. Needs --folder."""
    folder: str = ""
    """Folder of such runs and of results of protocol 2; a temporary folder by default."""
    out: Path = ROOT / "benchmarks" / "results" / "baselines.jsonl"
    leaderboard: Path = ROOT / "benchmarks" / "results" / "leaderboard.json"
    """Leaderboard file for rows of protocol 2."""
    save: str = ""
    """Folder for the trained policies (safetensors)."""
    cluster: tyro.conf.OmitArgPrefixes[RayArgs] = field(default_factory=RayArgs)


def main(args: Args) -> int:
    """Train, evaluate and write; return the exit status."""
    for baseline in args.baseline:
        require(baseline in RECIPES, "--baseline", f"one of {', '.join(RECIPES)}", baseline)
    require(args.minutes == 0 or args.folder != "", "--folder", "a folder, for a run in pieces", args.folder)
    if find_task(args.task).strangers is not None:
        require(args.save == "" and args.battles == 0, "--save, --battles", "left alone among strangers", "given")
        require(args.cluster.ray == "", "--ray", "left alone among strangers", args.cluster.ray)
        rows = [run_among_strangers(args, baseline) for baseline in args.baseline]
        print("\n".join(filter(None, rows)))
        return report_status(args, None not in rows)
    calls = [(args, baseline, seed) for baseline in args.baseline for seed in args.seed]
    is_complete, output = True, sys.stdout
    with args.cluster.connected() as tasks:
        labels = [f"{baseline}, seed {seed}" for _, baseline, seed in calls]
        for result in results_of(train_and_judge, calls, labels, tasks):
            is_complete = is_complete and result is not None
            if result is not None:
                append(args.out, result[0])
                print(result[1], file=output, flush=True)
    return report_status(args, is_complete)


def report_status(args: Args, is_complete: bool) -> int:
    """Return the exit status; print how to resume runs that were saved before their end."""
    if not is_complete:
        print(f"saved in {args.folder}; the same command resumes", file=sys.stderr)
    return 0 if is_complete else UNFINISHED


def train(args: Args, baseline: str, seed: int) -> Trained | None:
    """Run one training, in split train if the task has one; return None if it was saved before its end."""
    task = find_task(args.task)
    config = task.config if task.strangers is None else task.battle("train")
    device = use_device(resolve_device(args.device))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.folder or scratch) / f"{baseline}-{seed}"
        piece_s = 60 * args.minutes if args.minutes > 0 else float("inf")
        budget = Budget(args.agent_steps, args.num_envs, seed, str(device), folder, piece_s)
        return RECIPES[baseline](config, budget)


def run_among_strangers(args: Args, baseline: str) -> str | None:
    """Evaluate the runs of all seeds together by protocol 2, add them to the leaderboard, return the row as text."""
    runs = [train(args, baseline, seed) for seed in args.seed]
    policies = [trained.policy for trained in runs if trained is not None]
    if len(policies) < len(runs):
        return None
    device = resolve_device(args.device)
    command = command_of(dataclasses.replace(args, baseline=(baseline,)))
    # Set pieces have other team sizes, which networks with flat observations cannot read.
    pieces = None if isinstance(policies[0], ActorCritic) else 0
    evaluation = evaluate_strangers(policies, args.task, pieces=pieces, device=device, command=command)
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(args.folder or scratch) / f"{baseline}.json"
        write_whole(result, json_bytes(evaluation.as_json()))
        name = f"{baseline}, {args.agent_steps:,} agent-steps"
        row, _ = add_result(args.leaderboard, result, name, policies, device=device)
    return " | ".join(cells_of(row))


def train_and_judge(args: Args, baseline: str, seed: int) -> tuple[dict[str, Any], str] | None:
    """Train and evaluate one run. Return its JSON line and a text row of win rates; None if it was saved before its
    end."""
    trained = train(args, baseline, seed)
    if trained is None:
        return None
    start_s, device = time.perf_counter(), resolve_device(args.device)
    given: dict[str, Any] = {"battles": args.battles or None, "env": trained.env, "device": device}
    evaluation = echelon.evaluate(trained.policy, args.task, **given)
    own_args = dataclasses.replace(args, baseline=(baseline,), seed=(seed,))
    line = row(own_args, trained, evaluation, time.perf_counter() - start_s)
    if args.save:
        save(trained.policy, Path(args.save) / f"{args.task}_{baseline}_{seed}.safetensors")
    return line, str(evaluation)


def row(args: Args, trained: Trained, judged: Evaluation, evaluation_s: float) -> dict[str, Any]:
    """Return the JSON line of a run of one baseline and seed. `pairs` is a string with the number of won battles (0 to
    2) of each seed."""
    opponents = {}
    for name, result in judged.results.items():
        won = result.won_by_x
        pairs = "".join(str(a + b) for a, b in zip(won[::2], won[1::2], strict=True))
        opponents[name] = {**result.row(judged.by_side), "pairs": pairs}
    commit, is_clean = commit_of()
    return {
        "task": judged.task,
        "fingerprint": judged.fingerprint,
        "baseline": args.baseline[0],
        "seed": args.seed[0],
        "command": command_of(args),
        "commit": commit,
        "clean": is_clean,
        "agent_steps": trained.agent_steps,
        "parameters": sum(p.numel() for p in trained.policy.parameters()),
        "train_s": round(trained.seconds, 1),
        "evaluation_s": round(evaluation_s, 1),
        "threads": torch.get_num_threads(),
        "versions": dict(judged.versions),
        "by_protocol": judged.by_protocol,
        "win_rate": judged.win_rate,
        "opponents": opponents,
        **trained.facts,
        "curve": [finite(point) for point in trained.curve],
    }


def command_of(args: Args) -> str:
    """Return the command that makes these rows again."""
    seeds = " ".join(str(seed) for seed in args.seed)
    parts = ["python benchmarks/baselines/run.py", f"--task {args.task}", f"--baseline {args.baseline[0]}"]
    parts += [f"--seed {seeds}", f"--agent-steps {args.agent_steps}", f"--num-envs {args.num_envs}"]
    return " ".join([*parts, *[f"--battles {args.battles}"] * (args.battles > 0)])


def finite(point: Mapping[str, float]) -> dict[str, float]:
    """Return a point of a curve without NaN, such as the win rate of an iteration without finished battles."""
    return {name: round(value, 5) for name, value in point.items() if math.isfinite(value)}


def commit_of() -> tuple[str, bool]:
    """Return the commit of this checkout, and whether only results differ from it; empty without git."""
    try:
        calls = [["git", "rev-parse", "--short=12", "HEAD"], ["git", "status", "--porcelain", "-uno", "--", "echelon"]]
        calls[1] += ["pipelines", "benchmarks/baselines", "tests/examples"]
        commit, changed = (subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True) for call in calls)
    except (OSError, subprocess.CalledProcessError):
        return "", False
    return commit.stdout.strip(), changed.stdout.strip() == ""


def append(path: Path, line: dict[str, Any]) -> None:
    """Append a line to a file of JSON lines atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_bytes() if path.exists() else b""
    write_whole(path, before + json.dumps(line).encode() + b"\n")


def save(policy: torch.nn.Module, path: Path) -> None:
    """Write the weights of a policy."""
    from safetensors.torch import save as to_bytes

    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, to_bytes({name: value.contiguous().clone() for name, value in policy.state_dict().items()}))


if __name__ == "__main__":
    run(lambda: sys.exit(main(settings(Args, __doc__))))

"""Train every row of a table of settings from several seeds, and write the win rates into `benchmarks/README.md`.

python benchmarks/sweep.py --table screen --minutes 60 --folder runs/sweep
python benchmarks/sweep.py --table screen --ray auto
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tyro
from sweep_tables import TABLES, Table

sys.path.insert(0, str(Path(__file__).parent / "baselines"))
from interquartile import bootstrap
from recipes import Budget, train_ours
from run import UNFINISHED, append, commit_of, finite
from table import ROOT, Row, markdown, replace_between

import echelon
from echelon.env.tasks.task import find_task
from echelon.learn.train_flags import read_config
from echelon.runtime.command_line import settings
from echelon.runtime.errors import require
from echelon.runtime.ray_tasks import RayArgs, results_of

BEGIN, END = "<!-- tables: written by benchmarks/sweep.py -->", "<!-- end of tables -->"


@dataclass(frozen=True)
class Args:
    """Settings of this program. Rows with results are not run again."""

    table: str = "screen"
    """Table, by its name in `sweep_tables.TABLES`."""
    rows: tuple[str, ...] = ()
    """Rows to run, in this order; all by default."""
    seeds: tuple[int, ...] = ()
    """Seeds; those of the table by default."""
    minutes: float = 0.0
    """Time limit, also within a run; 0 for none. The same command resumes, bit for bit with --folder."""
    folder: str = ""
    """Folder of unfinished runs; a temporary folder by default."""
    results: Path = ROOT / "benchmarks" / "results" / "sweep.jsonl"
    page: Path = ROOT / "benchmarks" / "README.md"
    """Page whose tables are rewritten from the results."""
    cluster: tyro.conf.OmitArgPrefixes[RayArgs] = field(default_factory=RayArgs)


def main(args: Args) -> int:
    """Run missing rows, then write the tables; return the exit status."""
    require(args.table in TABLES, "--table", f"one of {', '.join(TABLES)}", args.table)
    table, ends = TABLES[args.table], time.time() + 60 * (args.minutes or 1e9)
    for name in args.rows:
        require(name in table.rows, "--rows", f"of {', '.join(table.rows)}", name)
    finished = finished_runs(table, read_rows(args.results))
    runs = [(name, seed) for seed in args.seeds or table.seeds for name in args.rows or table.rows]
    calls = [(table, *key, args.folder, ends) for key in runs if key not in finished]
    is_complete, output = True, sys.stdout
    with args.cluster.connected() as tasks:
        for row in results_of(run, calls, [f"{name}, seed {seed}" for _, name, seed, *_ in calls], tasks):
            is_complete = is_complete and row is not None
            if row is not None:
                append(args.results, row)
                print(f"{row['row']}, seed {row['seed']}: {describe(row)}", file=output, flush=True)
    replace_between(args.page, BEGIN, END, "\n".join(tables(read_rows(args.results))))
    return 0 if is_complete else UNFINISHED


def run(table: Table, name: str, seed: int, folder: str, ends: float) -> Row | None:
    """Train and evaluate one row; None if it does not end before `ends`, Unix seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        return run_in(table, name, seed, Path(folder or scratch), ends - time.time())


def run_in(table: Table, name: str, seed: int, folder: Path, seconds: float) -> Row | None:
    if seconds <= 0:
        return None
    flags = table.flags_of(name, seed)
    config = read_config([*flags, "--checkpoint-every", "1000000000"])
    run_folder = folder / f"{table.name}-{list(table.rows).index(name)}-{seed}"
    budget = Budget(table.agent_steps, config.num_envs, seed, config.device, run_folder, seconds)
    start_s = time.process_time()
    trained = train_ours(config, budget)
    if trained is None:
        return None
    evaluation = echelon.evaluate(trained.policy, find_task(table.task), battles=table.battles, device=config.device)
    commit, is_clean = commit_of()
    return {
        "table": table.name,
        "row": name,
        "seed": seed,
        "command": " ".join(["python pipelines/train.py", *flags]),
        "commit": commit,
        "clean": is_clean,
        "agent_steps": trained.agent_steps,
        "train_s": round(trained.seconds, 1),
        "processor_s": round(time.process_time() - start_s, 1),
        "versions": dict(evaluation.versions),
        "opponents": {opponent: result.row(False) for opponent, result in evaluation.results.items()},
        "curve": [finite(point) for point in trained.curve],
    }


def describe(row: Row) -> str:
    """Return the win rates in one line."""
    rates = {name.removeprefix("heuristic:"): result["win_rate"] for name, result in row["opponents"].items()}
    return ", ".join(f"{name} {rate:.0%}" for name, rate in rates.items())


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file of results; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def finished_runs(table: Table, rows: Sequence[Row]) -> dict[tuple[str, int], Row]:
    """Return the results with the current flags of a table, keyed by row and seed."""
    commands = {(name, seed): table.flags_of(name, seed) for name in table.rows for seed in table.seeds}
    by_run = {(row["row"], row["seed"]): row for row in rows if row["table"] == table.name}
    return {key: row for key, row in by_run.items() if key in commands and row["command"].split()[2:] == commands[key]}


def tables(rows: Sequence[Row]) -> list[str]:
    """Return the lines of all tables with results."""
    lines: list[str] = []
    for table in TABLES.values():
        runs = finished_runs(table, rows)
        names = [name for name in table.rows if any((name, seed) in runs for seed in table.seeds)]
        if not names:
            continue
        opponents = list(next(iter(runs.values()))["opponents"])
        heads = [
            "row",
            "flags",
            "seeds",
            *(opponent.removeprefix("heuristic:") for opponent in opponents),
            "IQM (95 %)",
        ]
        body = [
            table_row(name, table, [runs[name, seed] for seed in table.seeds if (name, seed) in runs], opponents)
            for name in names
        ]
        commits = ", ".join(dict.fromkeys(row["commit"] + ("" if row["clean"] else "+") for row in runs.values()))
        shared = " ".join(["python pipelines/train.py", *table.flags, "--total-agent-steps", str(table.agent_steps)])
        lines += ["", f"## {table.name}: {table.about}", "", f"`{shared} --seed SEED`, evaluated on `{table.task}`,"]
        lines += [f"{table.battles} battles per opponent; commits {commits} (+: with local changes).", ""]
        lines += [*markdown(heads, body), ""]
    return lines


def table_row(name: str, table: Table, runs: Sequence[Row], opponents: Sequence[str]) -> list[str]:
    """Return the cells of one row: mean win rates over seeds in %, with minimum and maximum for several seeds."""
    rates = 100 * np.array([[row["opponents"][opponent]["win_rate"] for opponent in opponents] for row in runs])
    middle, low, high = bootstrap(rates)
    flags = f"`{' '.join(table.rows[name])}`" if table.rows[name] else ""
    cells = [
        f"{rate.mean():.0f}" + (f" ({rate.min():.0f} to {rate.max():.0f})" if len(runs) > 1 else "") for rate in rates.T
    ]
    iqm = f"{middle:.1f}" + (f" ({low:.1f} to {high:.1f})" if len(runs) > 1 else "")
    return [name, flags, str(len(runs)), *cells, iqm]


if __name__ == "__main__":
    sys.exit(main(settings(Args, __doc__)))

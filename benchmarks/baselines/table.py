"""Write the tables of `docs/BASELINES.md` from the JSON lines of `run.py`: a row for every baseline with three seeds.

python benchmarks/baselines/table.py
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from interquartile import bootstrap

from echelon.env.tasks.task import tasks
from echelon.runtime.command_line import settings
from echelon.runtime.errors import require
from echelon.runtime.files import write_whole
from echelon.runtime.terminal import run

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- tables: written by benchmarks/baselines/table.py -->", "<!-- end of tables -->"
SEEDS = 3
Row = dict[str, Any]


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    rows: Path = ROOT / "benchmarks" / "results" / "baselines.jsonl"
    page: Path = ROOT / "docs" / "BASELINES.md"
    plot: str = ""
    """File for a picture of the curves; none by default."""


def main(args: Args) -> None:
    """Replace the text between the marks of the page."""
    lines = [json.loads(line) for line in args.rows.read_text().splitlines()] if args.rows.exists() else []
    replace_between(args.page, BEGIN, END, tables(lines))
    if args.plot:
        draw_curves(usable(lines), Path(args.plot))


def replace_between(page: Path, begin: str, end: str, text: str) -> None:
    """Replace the text between two marks of a page.

    Raises:
        ConfigError: if the page does not contain both marks exactly once.
    """
    content = page.read_text()
    require(content.count(begin) == content.count(end) == 1, str(page), f"{begin} and {end}, once each", "others")
    before, rest = content.split(begin)
    write_whole(page, f"{before}{begin}\n\n{text}\n{end}{rest.split(end)[1]}".encode())


def usable(lines: Sequence[Row]) -> list[Row]:
    """Return the rows that are valid for the current task: with its protocol, of a clean commit."""
    fingerprints = {name: task.fingerprint for name, task in tasks().items()}
    return [
        row
        for row in lines
        if row["by_protocol"] and row["clean"] and fingerprints.get(row["task"]) == row["fingerprint"]
    ]


def groups(lines: Sequence[Row]) -> dict[tuple[str, str, int], list[Row]]:
    """Group rows by task, baseline and requested agent steps: one row a seed (the last), in the order of seeds."""
    by_group: dict[tuple[str, str, int], dict[int, Row]] = defaultdict(dict)
    for row in usable(lines):
        arguments = row["command"].split()
        agent_steps = int(arguments[arguments.index("--agent-steps") + 1])
        by_group[row["task"], row["baseline"], agent_steps][row["seed"]] = row
    return {key: [by_seed[seed] for seed in sorted(by_seed)] for key, by_seed in by_group.items()}


def tables(lines: Sequence[Row]) -> str:
    """Return a table for each task with a complete row, and the list of missing runs."""
    complete = {key: rows for key, rows in groups(lines).items() if len(rows) >= SEEDS}
    page = []
    for task in dict.fromkeys(task for task, _, _ in complete):
        group = {key: rows for key, rows in complete.items() if key[0] == task}
        opponents = list(next(iter(group.values()))[0]["opponents"])
        names = [name.removeprefix("heuristic:") for name in opponents]
        head = ["baseline", "agent steps", "seeds", *names, "IQM (95 %)", "training", "commit"]
        body = [table_row(baseline, rows, opponents) for (_, baseline, _), rows in group.items()]
        page += [f"## {task} (`{group[next(iter(group))][0]['fingerprint']}`)", "", *markdown(head, body), ""]
        page += ["These commands made the rows, with one run per seed:", "", "```sh", *commands(group), "```", ""]
    page += ["Tasks and baselines without a row here were not run.", ""]
    return "\n".join(page)


def commands(group: Mapping[tuple[str, str, int], Sequence[Row]]) -> list[str]:
    """Return the commands of a task's rows; baselines with equal flags share a command."""
    baselines: dict[str, list[str]] = defaultdict(list)
    for (_, baseline, _), rows in group.items():
        command = rows[0]["command"].replace(" --seed 0", " --seed SEED")
        baselines[command.replace(f"--baseline {baseline} ", "--baseline {} ")].append(baseline)
    return [command.format(" ".join(names)) for command, names in baselines.items()]


def in_percent(value: float, low: float, high: float) -> str:
    """Return a share and its range in percent, without the sign."""
    return f"{100 * value:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def table_row(baseline: str, rows: Sequence[Row], opponents: Sequence[str]) -> list[str]:
    """Return the cells of one baseline: the mean win rate over seeds with the lowest and the highest, and its cost."""
    rates = np.array([[row["opponents"][name]["win_rate"] for name in opponents] for row in rows])
    cells = [in_percent(rate.mean(), rate.min(), rate.max()) for rate in rates.T]
    seconds = [row["train_s"] for row in rows]
    steps = "{:,}".format(max(row["agent_steps"] for row in rows))
    commits = ", ".join(dict.fromkeys(f"`{row['commit'][:7]}`" for row in rows))
    cost = f"{min(seconds):.0f} to {max(seconds):.0f} s"
    return [f"`{baseline}`", steps, str(len(rows)), *cells, in_percent(*bootstrap(rates)), cost, commits]


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return [f"|{'|'.join(cells)}|" for cells in (head, ["-"] * len(head), *body)]


def draw_curves(lines: Sequence[Row], path: Path) -> None:
    """Draw the win rate of each run in its training battles by agent steps: a line a run, a colour a baseline."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    colours = {name: f"C{number}" for number, name in enumerate(dict.fromkeys(row["baseline"] for row in lines))}
    labelled: set[str] = set()
    for row in lines:
        points = [(point["agent_steps"], point["won"]) for point in row["curve"] if "won" in point]
        if points:
            name = row["baseline"]
            axis.plot(*zip(*points, strict=True), colours[name], lw=1, label="" if name in labelled else name)
            labelled.add(name)
    axis.set(xlabel="agent steps", ylabel="share of training battles won", ylim=(0, 1))
    if labelled:
        axis.legend()
    figure.savefig(path)


if __name__ == "__main__":
    run(lambda: main(settings(Args, __doc__)))

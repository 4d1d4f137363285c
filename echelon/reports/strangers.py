"""Pages for protocol 2 (evaluation among unknown partners and opponents): one for a result, one for the leaderboard."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.arena.strangers.evaluation import met_in_training
from echelon.arena.strangers.leaderboard import SHOWN, cells_of
from echelon.arena.strangers.scores import GAP, table_rows
from echelon.runtime.errors import one_line
from echelon.runtime.files import write_whole
from echelon.viewer.paper import LINES, WIDTH_IN, blank, paper_style, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
body {{ margin: 0 auto; max-width: 1000px; padding: 1.2rem; color: #1c2128; font: 15px/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.4rem; overflow-wrap: anywhere; }}
p, pre {{ color: #57606b; font-size: 0.87rem; overflow-wrap: anywhere; white-space: pre-wrap; }}
table {{ border-collapse: collapse; width: 100%; font-size: 0.87rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.28rem 0.6rem; border-bottom: 1px solid #d9dde2; text-align: left; }}
tr.whole td {{ font-weight: 650; }}
svg {{ width: 100%; height: auto; }}
div {{ overflow-x: auto; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""
Row = Sequence[str]


@paper_style()
def strangers_figure(scores: Mapping[str, Any]) -> Figure:
    """Plot every score of a result as a point with its 95 % interval; overall scores are coloured."""
    rows = list(reversed(table_rows(scores)))
    figure = blank(WIDTH_IN, 0.5 + 0.14 * len(rows))
    axis = figure.subplots()
    for index, row in enumerate(rows):
        is_whole = row["of"] == "" or row["score"] == "worst_case"
        reach = np.abs([[row["value"] - row["low"]], [row["high"] - row["value"]]])
        colour = LINES[0] if is_whole else "black"
        axis.errorbar([row["value"]], [index], xerr=reach, fmt="o", markersize=2.5, color=colour, elinewidth=0.8)
    names = [shortened(one_line(f"{row['score'].replace('_', ' ')} {row['of']}"), 46) for row in rows]
    axis.set_yticks(range(len(rows)), names)
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.set_xlim(min(0.0, *(row["low"] for row in rows if row["score"] == GAP)), 1)
    axis.axvline(0, color="black", linewidth=0.5)
    axis.set_title(f"share of battles won, and the gap, with 95 % intervals over {scores['unit']}s")
    return figure


def as_svg(scores: Mapping[str, Any]) -> str:
    buffer = io.StringIO()
    with paper_style():
        strangers_figure(scores).savefig(buffer, format="svg")
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def write_strangers_page(record: Mapping[str, Any], path: Path) -> None:
    """Write a result of protocol 2 as a self-contained HTML page with policies, table, picture and command."""
    scores, contacts = record["scores"], met_in_training(record)
    ends = ("value", "low", "high")
    lines = [(row["score"], row["of"], *(f"{row[end]:.1%}" for end in ends)) for row in table_rows(scores)]
    policies = ", ".join(run["policy"] for run in record["runs"])
    facts = [
        f"{record['task']} ({record['fingerprint']}), split {record['split']}; intervals over {scores['unit']}s",
        f"by the task's protocol: {'yes' if record['by_protocol'] else 'no'}",
        f"training contained: {', '.join(contacts) or 'nothing recorded'}",
        f"weights: {', '.join(run['id'] for run in record['runs'])}",
        f"versions: {', '.join(f'{name} {value}' for name, value in record['versions'].items())}",
    ]
    body = [
        f"<h1>{safe(policies)}</h1>",
        *(f"<p>{safe(line)}</p>" for line in facts),
        table_of(("score", "of", *ends), lines, [line[1] == "" for line in lines]),
        as_svg(scores),
        f"<pre>{safe(record['command'])}</pre>",
    ]
    write_whole(path, PAGE.format(title=safe(policies), body="\n".join(body)).encode())


def write_leaderboard_page(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the leaderboard as a self-contained HTML page: a table for each task, and the command of each row."""
    body = ["<h1>Leaderboard of protocol 2</h1>"]
    for task in dict.fromkeys(row["task"] for row in rows):
        task_rows = [row for row in rows if row["task"] == task]
        body.append(f"<h2>{safe(task)} ({safe(task_rows[0]['fingerprint'])})</h2>")
        body.append(table_of(("policy", "runs", *SHOWN), [cells_of(row) for row in task_rows]))
        for row in task_rows:
            weights = ", ".join(run["id"] for run in row["runs"])
            checked = row["verified"]
            check = f"{checked['replayed']} of {checked['battles']} battles replayed"
            body.append(f"<p>{safe(row['name'])}: {safe(row['command'])}; weights {safe(weights)}; {check}</p>")
    write_whole(path, PAGE.format(title="Leaderboard of protocol 2", body="\n".join(body)).encode())


def safe(text: str) -> str:
    """Escape untrusted text, for one line of an HTML page."""
    return html.escape(one_line(text))


def table_of(head: Row, lines: Sequence[Row], whole: Sequence[bool] = ()) -> str:
    """Return an HTML table; rows that `whole` marks are emphasised."""
    cells = "".join(f"<th>{safe(cell)}</th>" for cell in head)
    body = ""
    for index, line in enumerate(lines):
        mark = ' class="whole"' if index < len(whole) and whole[index] else ""
        body += f"<tr{mark}>{''.join(f'<td>{safe(cell)}</td>' for cell in line)}</tr>"
    return f"<div><table><tr>{cells}</tr>{body}</table></div>"

"""Write the table of clients in docs/INTEGRATIONS.md from the rows that the tests of each client write."""

from __future__ import annotations

import json
import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROWS, PAGE = DOCS / "clients.jsonl", DOCS / "INTEGRATIONS.md"
BEGIN, END = "<!-- clients: python docs/clients.py -->\n", "<!-- end of clients -->\n"
COLUMNS = {
    "client": "client",
    "version": "version",
    "glue": "lines",
    "death": "a mech dies",
    "time_up": "time is up",
    "win": "who won",
    "masks": "masks",
    "rate": "agent-steps/s",
    "own": "TorchRL's view",
}


def read(path: Path) -> dict[str, dict[str, object]]:
    """Rows keyed by client; a later row replaces an earlier one."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {str(row["client"]): row for row in rows}


def table(rows: dict[str, dict[str, object]]) -> str:
    lines = [list(COLUMNS.values()), ["-"] * len(COLUMNS)]
    for _, row in sorted(rows.items(), key=lambda item: item[0].lower()):
        lines.append([f"{row[key]:,}" if key in ("rate", "own") else str(row[key]) for key in COLUMNS])
    return "".join(f"|{'|'.join(cells)}|\n" for cells in lines)


def with_table(page: str, rows: dict[str, dict[str, object]]) -> str:
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table(rows) + END + rest.partition(END)[2]


if __name__ == "__main__":
    rows = read(ROWS)
    for path in sys.argv[1:]:
        rows |= read(Path(path))
    ROWS.write_text("".join(json.dumps(rows[name]) + "\n" for name in sorted(rows)))
    PAGE.write_text(with_table(PAGE.read_text(), rows))

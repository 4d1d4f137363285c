"""The command of `arena.py` that keeps the table of results of protocol 2."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from echelon.arena.strangers.leaderboard import add_result, markdown, read_table
from echelon.pipelines.verify import CheckArgs
from echelon.reports.strangers import write_leaderboard_page
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.terminal import terminal


@dataclass(frozen=True)
class Leaderboard:
    """Keep the table of results of protocol 2: add one that is true and a figure of its task, show all, or write them
    as a page."""

    action: tyro.conf.Positional[Literal["add", "show", "page"]]
    """add a result; show the table as Markdown; or write a page of HTML."""
    result: tyro.conf.Positional[str] = ""
    """To add: a file that `echelon-arena evaluate --protocol 2 --out` wrote."""
    name: str = ""
    """To add: what its row is called; by default the first policy."""
    table: Path = Path("benchmarks/results/leaderboard.json")
    """The table."""
    out: Path = Path("leaderboard.html")
    """The page."""
    check: tyro.conf.OmitArgPrefixes[CheckArgs] = field(default_factory=CheckArgs)

    def __post_init__(self) -> None:
        limit = "given to add, and only there"
        require((self.result != "") == (self.action == "add"), "a result", limit, self.result or "none")

    def run(self) -> None:
        if self.action == "add":
            check_writable(self.table)
            row, verified = add_result(self.table, self.result, self.name, self.check.policy, **self.check.how())
            message = f"{self.table}: {row['name']} at {row['task']}; {self.result} is {verified}"
        elif self.action == "page":
            write_leaderboard_page(read_table(self.table), self.out)
            message = f"written: {self.out}"
        else:
            print(markdown(read_table(self.table)))
            return
        terminal().print(message, markup=False, highlight=False)

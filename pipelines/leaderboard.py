"""The `arena.py` command for the leaderboard of protocol 2."""

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
    """Maintain the leaderboard of protocol 2, the evaluation among unknown partners and opponents.

    A command adds a result after verifying it, shows all results, or writes them as a web page.
    """

    action: tyro.conf.Positional[Literal["add", "show", "page"]]
    """add: add a result; show: print the table as Markdown; page: write an HTML page."""
    result: tyro.conf.Positional[str] = ""
    """With add: file written by `echelon-arena evaluate --protocol 2 --out`."""
    name: str = ""
    """With add: name of the row; by default the first policy."""
    table: Path = Path("benchmarks/results/leaderboard.json")
    """File of the table."""
    out: Path = Path("leaderboard.html")
    """HTML page to write."""
    check: tyro.conf.OmitArgPrefixes[CheckArgs] = field(default_factory=CheckArgs)

    def __post_init__(self) -> None:
        limit = "given with add, and only with add"
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

"""The command of `python -m echelon` that writes the report of several training runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from echelon.pipelines.console import terminal
from echelon.reports.many_runs import report_of_runs
from echelon.reports.run_groups import Statistic, read_run
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.view.run_report import write_report


@dataclass(frozen=True)
class Report:
    """Write a page about several training runs: curves with bands over seeds, groups beside each other, in which
    settings runs differ, and where each comes from. A run writes the report of itself."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    out: Path = Path("runs.html")
    """The page."""
    statistic: Statistic = "mean"
    """Middle of a group: mean, or iqm, the interquartile mean, which a single odd run moves little."""

    def run(self) -> None:
        require(len(self.runs) > 0, "report", "given one run folder at least", self.runs)
        folders = [folder.resolve() for folder in self.runs]
        require(len(set(folders)) == len(folders), "report", "given each run folder once", list(map(str, self.runs)))
        check_writable(self.out)
        report = report_of_runs([read_run(folder) for folder in folders], folders, self.statistic)
        write_report(report, self.out)
        terminal().print(f"{self.out}  {report['name']}")

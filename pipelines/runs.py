"""The `echelon` commands that compare several training runs: curves, and a page."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from echelon.reports.many_runs import report_of_runs
from echelon.reports.pictures import check_folders, draw_curves
from echelon.reports.run_groups import Statistic, grouped, read_run
from echelon.runtime.files import check_writable
from echelon.runtime.terminal import terminal
from echelon.viewer.pages import write_report
from echelon.viewer.paper import require_picture


@dataclass(frozen=True)
class Plot:
    """Plot the curves of training runs in one picture.

    Runs that differ only in the seed form one curve with a 95 % interval over the runs; groups are named by the
    settings in which they differ.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    out: Path = Path("runs.pdf")
    """Output picture, 6.5 inches wide: PDF, SVG or PNG by its suffix."""
    curves: tuple[str, ...] = ()
    """Curves to draw: columns of metrics.csv, and commanders of the evaluations (tiers also by short names); by default
    all evaluations and some columns."""
    statistic: Statistic = "mean"
    """Center of a group: mean, or iqm, the interquartile mean, which is robust to a single outlier."""
    each: bool = False
    """Draw every run separately."""

    def run(self) -> None:
        check_folders("plot", self.runs)
        require_picture("--out", self.out)
        check_writable(self.out)
        runs = [read_run(folder) for folder in self.runs]
        groups = (
            {str(folder): [run] for folder, run in zip(self.runs, runs, strict=True)} if self.each else grouped(runs)
        )
        panels = draw_curves(runs, groups, self.curves, self.statistic, self.out)
        for label, members in groups.items():
            terminal().print(f"{label}: {', '.join(run.name for run in members)}")
        terminal().print(f"{self.out}  {panels} curves of {len(runs)} runs")


@dataclass(frozen=True)
class Report:
    """Write an HTML page that compares training runs.

    The page has curves with bands over seeds, a comparison of groups, settings that differ, and the provenance of each
    run. For a single run, the training itself writes a report.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    out: Path = Path("runs.html")
    """HTML page to write."""
    statistic: Statistic = "mean"
    """Center of a group: mean, or iqm, the interquartile mean, which is robust to a single outlier."""

    def run(self) -> None:
        check_folders("report", self.runs)
        check_writable(self.out)
        folders = [folder.resolve() for folder in self.runs]
        report = report_of_runs([read_run(folder) for folder in folders], folders, self.statistic)
        write_report(report, self.out)
        terminal().print(f"{self.out}  {report['name']}")

"""The command of `python -m echelon` that draws runs over each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from echelon.agents.heuristic import full_name
from echelon.arena.evaluator import BEST
from echelon.pipelines.console import terminal
from echelon.pipelines.pictures import require_picture
from echelon.reports.plots import SHARES, Curve, Subplot, draw_curves, title_of
from echelon.reports.run_groups import Run, Statistic, grouped, middle, read_run
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable

SHOWN = ("return", "win_rate", "entropy")
"""Columns of `metrics.csv` that are drawn by default, behind the evaluations."""


@dataclass(frozen=True)
class Plot:
    """Draw training runs over each other. Runs that differ by their seeds alone are one curve with a 95 % bootstrap
    interval over runs; groups are named by the settings in which they differ."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    out: Path = Path("runs.pdf")
    """The picture, 6.5 inches wide: a PDF, SVG or PNG by its name."""
    curves: tuple[str, ...] = ()
    """What to draw: columns of metrics.csv, and commanders of the evaluations, tiers by short names too; by default all
    of these, and some of those."""
    statistic: Statistic = "mean"
    """Middle of a group: mean, or iqm, the interquartile mean, which a single odd run moves little."""
    each: bool = False
    """Draw every run by itself."""

    def run(self) -> None:
        """Read the runs and draw them."""
        require(len(self.runs) > 0, "plot", "given one run folder at least", self.runs)
        folders = [folder.resolve() for folder in self.runs]
        require(len(set(folders)) == len(folders), "plot", "given each run folder once", list(map(str, self.runs)))
        require_picture("--out", self.out)
        check_writable(self.out)
        runs = [read_run(folder) for folder in self.runs]
        groups = (
            {str(folder): [run] for folder, run in zip(self.runs, runs, strict=True)} if self.each else grouped(runs)
        )
        panels: dict[str, Subplot] = {}
        for name in self.names(runs):
            found = {label: middle(members, name, self.statistic) for label, members in groups.items()}
            is_rival = any(name in run.rivals for run in runs)
            curves = {label: Curve(m.steps, m.value, m.low, m.high) for label, m in found.items() if m is not None}
            title = f"win rate against {name}" if is_rival else title_of(name)
            panels[title] = Subplot(curves, is_evaluation=is_rival, is_share=is_rival or name in SHARES)
        draw_curves(panels, self.out, self.note([len(members) for members in groups.values()], panels))
        for label, members in groups.items():
            terminal().print(f"{label}: {', '.join(run.name for run in members)}")
        terminal().print(f"{self.out}  {len(panels)} curves of {len(runs)} runs")

    def names(self, runs: list[Run]) -> list[str]:
        """The curves to draw."""
        columns = set().union(*(run.columns for run in runs))
        rivals = list(dict.fromkeys(rival for run in runs for rival in run.rivals))
        chosen = [name if name in columns or name in rivals else full_name(name) for name in self.curves]
        for name in chosen:
            limit = f"a column of metrics.csv that has values, or one of {', '.join(rivals) or 'no evaluations'}"
            require(name in columns or name in rivals, "--curves", limit, name)
        usual = [rival for rival in rivals if rival != BEST] + [name for name in SHOWN if name in columns]
        require(bool(self.curves or usual), "plot", "given runs with metrics", [run.name for run in runs])
        return chosen or usual

    def note(self, sizes: Sequence[int], panels: Mapping[str, Subplot]) -> str:
        """What lines, bands and bars are, for groups of so many runs."""
        middle_name = "interquartile mean" if self.statistic == "iqm" else "mean"
        parts = [f"{middle_name} over runs, 95 % bootstrap interval"] if max(sizes) > 1 else []
        if min(sizes) == 1 and any(panel.is_evaluation for panel in panels.values()):
            parts.append("evaluations of one run: 95 % interval over battles")
        return "; ".join(parts)

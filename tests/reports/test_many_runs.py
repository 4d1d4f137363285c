"""The report of several runs."""

import json
import re

import pytest
from tiny_runs import tiny_run

from echelon.learn.trainer import Trainer
from echelon.pipelines.runs import Report
from echelon.reports.many_runs import report_of_runs
from echelon.reports.run_groups import Run
from echelon.runtime.errors import ConfigError


def run(name, wins, **settings) -> Run:
    """Return a run with growing return and the given win rates against `easy`, one per evaluation."""
    metrics = [{"agent_steps": 1000.0 * n, "return": float(n)} for n in range(1, 4)]
    told = [
        {"rival": "easy", "agent_steps": f"{1000 * n}", "win_rate": f"{win}", "low": "0", "high": "1"}
        for n, win in enumerate(wins, 1)
    ]
    return Run(name, settings, metrics, told)


def test_groups_have_bands_in_shared_panels(tmp_path):
    runs = [
        run("a", [0.2, 0.4], rate=1),
        run("b", [0.3, 0.6], rate=1),
        run("c", [0.5, 0.8], rate=2),
        run("d", [0.5, 1.0], rate=2),
    ]
    report = report_of_runs(runs, [tmp_path] * 4)
    wins = report["charts"][0]
    assert wins["title"] == "win rate against easy" and wins["bands"] and wins["range"] == [0, 1]
    assert [line["name"] for line in wins["lines"]] == ["rate 1 (2 runs)", "rate 2 (2 runs)"]
    assert wins["lines"][0]["y"] == pytest.approx([0.25, 0.5]) and wins["lines"][0]["low"][1] == 0.0
    beside, settings, origins = report["tables"]
    assert beside["columns"] == ["group", "easy", "to the first, points"]
    (first, _, none), (_, second, change) = beside["rows"][0], beside["rows"][1]
    assert (
        first == "rate 1 (2 runs)"
        and none == ""
        and second == "90 (0 to 100; runs 80, 100)"
        and change.startswith("+40 (-")
    )
    assert settings["rows"] == [["rate", "1", "1", "2", "2"]]
    assert [row[0] for row in origins["rows"]] == ["a", "b", "c", "d"]
    json.dumps(report, allow_nan=False)


def test_runs_are_compared_at_last_common_step(tmp_path):
    runs = [run("a", [0.1, 0.4, 0.8]), run("b", [0.1, 0.6, 0.9]), run("short", [0.1, 0.5]), run("none", [])]
    beside = report_of_runs(runs, [tmp_path] * 4)["tables"][0]
    assert beside["rows"] == [["4 runs", "50 (18 to 82; runs 40, 60, 50; 3 of 4 runs)", ""]]
    assert "short ended early, at 2,000 of 3,000 steps: all are compared there." in beside["note"]
    assert "No evaluations: none." in beside["note"]


def test_equal_runs_have_no_interval(tmp_path):
    beside = report_of_runs([run(name, [1.0]) for name in "abc"], [tmp_path] * 3)["tables"][0]
    assert beside["rows"] == [["3 runs", "100 (runs 100, 100, 100)", ""]]


def test_runs_with_one_config_form_one_group(tmp_path):
    report = report_of_runs([run("a", [0.2]), run("b", [0.4])], [tmp_path] * 2)
    assert report["name"] == "2 runs, 1 group" and report["tables"][1]["rows"] == []
    assert "differ only in seeds" in report["tables"][1]["note"]


def test_command_writes_page_of_runs_with_their_origin(tmp_path, capsys):
    folders = tuple(tmp_path / f"run_{seed}" for seed in (0, 1))
    for seed, folder in enumerate(folders):
        Trainer(tiny_run(seed=seed, total_agent_steps=160), folder).train()
    out = tmp_path / "runs.html"
    Report(folders, out).run()
    assert "2 runs, 1 group" in capsys.readouterr().out
    told = json.loads(re.search(r'id="data">(.*?)</script>', out.read_text())[1])
    origins = told["tables"][2]["rows"]
    assert [row[:2] for row in origins] == [["run_0", "0"], ["run_1", "1"]] and len({row[-1] for row in origins}) == 2
    with pytest.raises(ConfigError, match="given each run folder once"):
        Report((folders[0], folders[0]), out).run()
    with pytest.raises(ConfigError, match="given at least one run folder"):
        Report(()).run()

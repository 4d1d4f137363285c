"""Comparison of runs: groups by config differences, with intervals over seeds."""

import numpy as np
import pytest
from scipy import stats
from tiny_runs import tiny_run

from echelon.learn.config import PPOConfig
from echelon.learn.trainer import Trainer
from echelon.reports.run_groups import BINS, NUMBERS, Run, flat, grouped, interval_over_runs, middle, read_run
from echelon.runtime.files import FileError


def run(name, values=(), **settings) -> Run:
    """Return a run whose return is `values`, one value per thousand agent steps."""
    metrics = [{"agent_steps": 1000.0 * n, "return": value} for n, value in enumerate(values, 1)]
    return Run(name, settings, metrics, [])


def test_runs_that_differ_in_seed_are_one_group(tmp_path):
    configs = [tiny_run(seed=seed, total_agent_steps=160) for seed in (0, 1)]
    configs.append(tiny_run(total_agent_steps=160, ppo=PPOConfig(8, 4, epochs=1, minibatches=2, gae_lambda=0.97)))
    for number, config in enumerate(configs):
        Trainer(config, tmp_path / f"run_{number}").train()
    runs = [read_run(tmp_path / f"run_{number}") for number in range(3)]
    groups = grouped(runs)
    assert {label: [each.name for each in own] for label, own in groups.items()} == {
        "ppo.gae_lambda 0.9 (2 runs)": ["run_0", "run_1"],
        "ppo.gae_lambda 0.97 (run_2)": ["run_2"],
    }
    assert [len(each.metrics) for each in runs] == [1, 1, 1]
    assert list(grouped(runs[:2])) == ["2 runs"]


def test_folder_without_run_is_one_error_line(tmp_path):
    with pytest.raises(FileError, match=r"metrics\.csv: expected the metrics of a run, found none"):
        read_run(tmp_path)
    (tmp_path / "metrics.csv").write_text("iteration,agent_steps\n1,many\n")
    with pytest.raises(FileError, match=r"metrics\.csv: agent_steps must be a number in every row, got 'many'"):
        read_run(tmp_path)


def test_settings_have_dotted_names():
    assert flat({"a": 1, "b": {"c": [2], "d": {"e": 3}}}) == {"a": 1, "b.c": [2], "b.d.e": 3}


def test_centre_is_mean_or_interquartile_mean():
    runs = [run(str(seed), [float(seed), 2.0 * seed]) for seed in (1, 2, 3, 100)]
    mean, iqm = middle(runs, "return", "mean"), middle(runs, "return", "iqm")
    assert mean.x.tolist() == [1000, 2000] and mean.y.tolist() == [26.5, 53.0]
    assert iqm.y.tolist() == [2.5, 5.0], "of the middle two"
    for found in (mean, iqm):
        assert (found.low <= found.y).all() and (found.y <= found.high).all()
    assert mean.low[0] < 1 and mean.high[0] > 100 and mean.high[1] == pytest.approx(2 * mean.high[0])


def test_interval_of_many_runs_is_close_to_students():
    rng = np.random.default_rng(1)
    values = rng.normal(5.0, 1.0, 400)
    found = middle([run(str(n), [value]) for n, value in enumerate(values)], "return", "mean")
    half = stats.t.ppf(0.975, 399) * values.std(ddof=1) / 400**0.5
    assert found.y[0] == pytest.approx(values.mean())
    assert found.high[0] - found.y[0] == pytest.approx(found.y[0] - found.low[0]) == pytest.approx(1.0075 * half)


DRAWS = {
    "normal": lambda rng, shape: rng.normal(0.6, 0.08, shape),
    "exponential": lambda rng, shape: rng.exponential(1.0, shape),
    "bounded": lambda rng, shape: rng.beta(19, 1, shape),
}
TRUE_MEANS = {"normal": 0.6, "exponential": 1.0, "bounded": 0.95}


@pytest.mark.parametrize("runs", [3, 5, 10])
@pytest.mark.parametrize("law", DRAWS)
def test_interval_over_runs_covers_true_mean(law, runs):
    """A percentile bootstrap of 3, 5 and 10 normal runs covers the mean only in 73, 83 and 89 % of cases."""
    rng = np.random.default_rng(0)
    sample, other = (DRAWS[law](rng, (runs, 8000)) for _ in range(2))
    trimmed = stats.trim_mean(DRAWS[law](rng, 400_000), 0.25) if runs >= 4 else TRUE_MEANS[law]
    for statistic, truth in (("mean", TRUE_MEANS[law]), ("iqm", trimmed)):
        low, high = interval_over_runs([sample], statistic)
        least = 0.91 if (law, runs) == ("exponential", 3) else 0.92
        assert ((low <= truth) & (truth <= high)).mean() >= least, statistic
        low, high = interval_over_runs([sample, other], statistic)
        assert ((low <= 0) & (high >= 0)).mean() >= 0.94, "of a difference"
    if law == "normal":
        low, high = interval_over_runs([sample], "mean")
        student = 2 * stats.t.ppf(0.975, runs - 1) * sample.std(0, ddof=1) / runs**0.5
        assert (high - low).mean() <= 1.301 * student.mean()


def test_single_run_has_no_interval_and_empty_group_no_curve():
    found = middle([run("a", [1.0, 3.0])], "return", "mean")
    assert found.low is found.y is found.high and middle([run("a")], "return", "mean") is None


def test_long_runs_are_binned_and_cut_to_common_length():
    found = middle([run("a", np.arange(600.0)), run("b", np.arange(900.0))], "return", "mean")
    assert len(found.x) == BINS and found.x[-1] == 600_000 and found.x[0] == 1000
    assert found.y == pytest.approx(found.x / 1000 - 1, abs=6), "a straight line stays one"


def test_evaluation_curve_is_named_after_opponent():
    cells = ((0, 0.1, 0.0, 0.3), (9, 0.4, 0.2, 0.6))
    rows = [dict(zip(NUMBERS, map(str, row), strict=True)) | {"rival": "easy"} for row in cells]
    found = middle([Run("a", {}, [], rows)], "easy", "mean")
    assert found.x.tolist() == [0, 9] and found.y.tolist() == [0.1, 0.4]
    assert found.low.tolist() == [0.0, 0.2] and found.high.tolist() == [0.3, 0.6], "over its battles"

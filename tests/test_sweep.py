"""`benchmarks/sweep.py` runs missing rows and makes the tables from the rows."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from echelon.env.tasks.task import latest
from echelon.learn.train_flags import read_config
from echelon.runtime.errors import ConfigError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def sweep():
    """Import the module; it imports its neighbours."""
    places = [str(BENCHMARKS), str(BENCHMARKS / "baselines")]
    sys.path[:0] = places
    yield importlib.import_module("sweep")
    for place in places:
        sys.path.remove(place)


def small_table(sweep):
    return sweep.Table(
        name="mine",
        about="which is better",
        task=latest("small-5v5"),
        agent_steps=700,
        seeds=(0, 1),
        battles=2,
        flags=("--preset", "quick", "--num-envs", "4", "--ppo.minibatches", "2"),
        rows={"as it is": (), "gamma 0.9": ("--env.reward.gamma", "0.9")},
    )


def row_of(sweep, table, name, seed, rate):
    command = " ".join(["python pipelines/train.py", *table.flags_of(name, seed)])
    opponents = {"heuristic:easy": {"win_rate": rate}, "heuristic:hard": {"win_rate": rate / 2}}
    return {
        **{"table": table.name, "row": name, "seed": seed, "command": command, "commit": "abc", "clean": True},
        **{"agent_steps": 700, "opponents": opponents},
    }


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long), 12])
def test_each_row_of_each_table_is_a_valid_train_command(sweep, every):
    """The usual tier checks every twelfth row of a table."""
    for table in sweep.TABLES.values():
        for name in [*table.rows][::every]:
            config = read_config(table.flags_of(name, table.seeds[0]))
            assert (config.seed, config.total_agent_steps) == (table.seeds[0], table.agent_steps)


def test_tables_have_means_over_seeds_and_flags_of_each_row(sweep, monkeypatch):
    table = small_table(sweep)
    monkeypatch.setattr(sweep, "TABLES", {"mine": table})
    rows = [row_of(sweep, table, "as it is", seed, rate) for seed, rate in enumerate((0.4, 0.6))]
    rows += [row_of(sweep, table, "gamma 0.9", 0, 1.0)]
    text = "\n".join(sweep.tables(rows))
    assert "|as it is||2|50 (40 to 60)|25 (20 to 30)|" in text
    assert "|gamma 0.9|`--env.reward.gamma 0.9`|1|100|50|" in text
    assert "--total-agent-steps 700 --seed SEED" in text and "commits abc " in text


def test_row_with_changed_flags_counts_as_not_run(sweep):
    table = small_table(sweep)
    row = row_of(sweep, table, "gamma 0.9", 0, 1.0)
    assert list(sweep.finished_runs(table, [row])) == [("gamma 0.9", 0)]
    assert sweep.finished_runs(table, [{**row, "command": row["command"].replace("0.9", "0.8")}]) == {}
    assert sweep.finished_runs(table, [{**row, "table": "another"}]) == {}


def test_unknown_table_is_refused(sweep):
    with pytest.raises(ConfigError, match="--table must be one of"):
        sweep.main(sweep.Args(table="none"))


@pytest.mark.long
def test_missing_rows_run_in_pieces_and_only_once(sweep, tmp_path, monkeypatch):
    table = small_table(sweep)
    monkeypatch.setattr(sweep, "TABLES", {"mine": table})
    page, results = tmp_path / "page.md", tmp_path / "rows.jsonl"
    page.write_text(f"before\n{sweep.BEGIN}\n{sweep.END}\nbehind\n")
    args = sweep.Args(table="mine", folder=str(tmp_path / "runs"), results=results, page=page)
    assert sweep.main(args) == 0
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert {(row["row"], row["seed"]) for row in rows} == {(name, seed) for name in table.rows for seed in (0, 1)}
    assert all(row["agent_steps"] >= 700 and len(row["opponents"]) == 4 for row in rows)
    assert "## mine: which is better" in page.read_text() and page.read_text().endswith("behind\n")
    before = results.read_bytes()
    assert sweep.main(args) == 0 and results.read_bytes() == before
    results.write_bytes(b"\n".join(before.splitlines()[:3]) + b"\n")
    assert sweep.main(sweep.Args(table="mine", minutes=1e-9, results=results, page=page)) == sweep.UNFINISHED

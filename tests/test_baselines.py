"""The programs of `benchmarks/baselines/`: each baseline makes a row, and the table is made from the rows."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from brief_strangers import BATTLES, TASK, play_one_piece

from echelon.arena.strangers.leaderboard import read_table
from echelon.env.tasks.task import latest, tasks
from echelon.runtime.errors import ConfigError

ROOT = Path(__file__).parents[1]
SMALL, STANDARD = latest("small-5v5"), latest("standard-10v10")


@pytest.fixture(scope="module")
def baselines():
    """Make their modules importable."""
    place = str(ROOT / "benchmarks" / "baselines")
    sys.path.insert(0, place)
    yield
    sys.path.remove(place)


@pytest.fixture(scope="module")
def run(baselines):
    """Import the module `run` of the baselines."""
    return importlib.import_module("run")


def args_of(run, path, baseline, **changes):
    given = {"task": SMALL, "num_envs": 4, "agent_steps": 700, "battles": 2, "out": path, "seed": (1,)}
    return run.Args(**{**given, "baseline": (baseline,), **changes})


@pytest.mark.long
@pytest.mark.parametrize(
    "baseline",
    ["ippo-gru", "mappo-lstm", "mappo-mlp", "torchrl-ppo", "torchrl-ppo-multi-discrete", "qmix", "bc-hard"],
)
def test_each_baseline_makes_a_row(run, tmp_path, baseline):
    out = tmp_path / "rows.jsonl"
    out.write_text('{"task": "earlier"}\n')
    assert run.main(args_of(run, out, baseline, save=str(tmp_path / "policies"))) == 0
    earlier, line = (json.loads(each) for each in out.read_text().splitlines())
    assert earlier == {"task": "earlier"}
    assert (line["task"], line["baseline"], line["seed"]) == (SMALL, baseline, 1)
    assert line["agent_steps"] >= 700 and line["train_s"] > 0 and line["curve"] and not line["by_protocol"]
    for name, row in line["opponents"].items():
        assert name.startswith("heuristic:") and len(row["pairs"]) == 1 and int(row["pairs"]) == row["wins"]
    assert f"--baseline {baseline} --seed 1 --agent-steps 700 --num-envs 4 --battles 2" in line["command"]
    assert [path.name for path in (tmp_path / "policies").iterdir()] == [f"{SMALL}_{baseline}_1.safetensors"]


def test_factor_categorical_is_a_product_of_masked_categoricals(baselines):
    factored, sizes = importlib.import_module("factored"), (3, 2, 4)
    torch.manual_seed(0)
    logits, mask = torch.randn(50, 9), torch.rand(50, 9) < 0.6
    mask[:, [0, 3, 5]] = True
    policy = factored.FactorCategorical(logits, mask, sizes)
    own = [
        torch.log_softmax(part.masked_fill(~free, -torch.inf), -1)
        for part, free in zip(logits.split(sizes, -1), mask.split(sizes, -1), strict=True)
    ]
    for action in (policy.sample(), policy.deterministic_sample):
        chosen = [part.gather(-1, action[:, [f]]) for f, part in enumerate(own)]
        torch.testing.assert_close(policy.log_prob(action), torch.cat(chosen, -1).sum(-1))
    assert torch.equal(policy.deterministic_sample, torch.stack([part.argmax(-1) for part in own], -1))
    entropy = sum(-(part.exp() * part.clamp(min=-1e9)).sum(-1) for part in own)
    torch.testing.assert_close(policy.entropy(), entropy)


@pytest.mark.long
def test_baseline_among_strangers_makes_a_leaderboard_row(run, tmp_path, monkeypatch):
    """Both of its runs are evaluated together; the row was verified before it was added."""
    play_one_piece(monkeypatch)
    table = tmp_path / "leaderboard.json"
    args = args_of(run, tmp_path / "none.jsonl", "bc-hard", agent_steps=200, battles=0, seed=(1, 2))
    args = dataclasses.replace(args, task=TASK.name, leaderboard=table, folder=str(tmp_path))
    assert run.main(args) == 0
    (row,) = read_table(table)
    assert (row["name"], row["unit"], len(row["runs"])) == ("bc-hard, 200 agent-steps", "run", 2)
    assert row["verified"]["replayed"] == min(64, 2 * (BATTLES - 2))
    assert "--baseline bc-hard --seed 1 2 --agent-steps 200 --num-envs 4" in row["command"]
    assert not args.out.exists() and (tmp_path / "bc-hard.json").exists()
    with pytest.raises(ConfigError, match="--battles"):
        run.main(dataclasses.replace(args, battles=2))
    with pytest.raises(ConfigError, match="--ray"):
        run.main(dataclasses.replace(args, cluster=dataclasses.replace(args.cluster, ray="local")))


@pytest.mark.long
def test_run_in_pieces_equals_uninterrupted_run(run, tmp_path):
    """Each piece is one iteration and resumes exactly."""
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    assert run.main(args_of(run, whole, "ippo-mlp", agent_steps=2000)) == 0
    piece = args_of(run, parts, "ippo-mlp", agent_steps=2000, minutes=1e-9, folder=str(tmp_path / "run"))
    statuses = [run.main(piece)]
    while statuses[-1] == run.UNFINISHED and len(statuses) < 9:
        statuses.append(run.main(piece))
    assert statuses[-1] == 0 and len(statuses) > 1
    one, other = (json.loads(path.read_text()) for path in (whole, parts))
    for name in ("opponents", "agent_steps", "curve"):
        assert one[name] == other[name], name


def test_interquartile_means_over_runs(baselines):
    """The interval over equal runs is a point. Over other runs it contains the mean and is within their range."""
    interquartile = importlib.import_module("interquartile")
    assert interquartile.interquartile_mean(np.array([0.0, 0.4, 0.6, 100.0])) == 0.5
    assert np.allclose(interquartile.bootstrap(np.tile([0.1, 0.2, 0.9, 0.8], (3, 1))), 0.5)
    middle, low, high = interquartile.bootstrap(np.array([[0.1, 0.2], [0.3, 0.4], [0.8, 0.9]]))
    assert 0.15 <= low < middle < high <= 0.85
    assert middle == pytest.approx(np.mean([0.2, 0.3, 0.4, 0.8]))


def line_of(**changes):
    """Return a row of two opponents in the format of `run.py`."""
    rates = changes.pop("rates", (0.5, 0.25))
    line = {
        "task": SMALL,
        "fingerprint": tasks()[SMALL].fingerprint,
        "baseline": "qmix",
        "seed": 0,
        "command": f"python benchmarks/baselines/run.py --task {SMALL} --baseline qmix --seed 0 --agent-steps 1000",
        "commit": "abc",
        "clean": True,
        "agent_steps": 1024,
        "train_s": 10.0,
        "by_protocol": True,
        "curve": [{"agent_steps": 512, "won": 0.1}, {"agent_steps": 1024, "won": 0.2}],
    }
    names = ("heuristic:easy", "heuristic:hard")
    return line | {"opponents": {name: {"win_rate": rate} for name, rate in zip(names, rates, strict=True)}} | changes


def test_table_has_complete_rows_only(baselines, tmp_path):
    """A row needs three seeds, the protocol, a clean commit and the current task. A repeated seed counts once."""
    table = importlib.import_module("table")
    good = [line_of(seed=seed, rates=(rate, 0.0)) for seed, rate in enumerate((0.2, 0.3, 0.4))]
    again = line_of(seed=0, rates=(0.5, 0.0), train_s=30.0, commit="def")
    bad = [
        *(line_of(seed=seed, baseline="bc-hard") for seed in range(2)),
        *(line_of(seed=seed, baseline="bc-hard") for seed in range(2)),
        line_of(seed=2, baseline="bc-hard", by_protocol=False),
        line_of(seed=2, baseline="bc-hard", clean=False),
        line_of(seed=2, baseline="bc-hard", fingerprint="0" * 16),
    ]
    args = table.Args(tmp_path / "rows.jsonl", tmp_path / "page.md", str(tmp_path / "curves.png"))
    args.rows.write_text("".join(json.dumps(line) + "\n" for line in (*good, again, *bad)))
    args.page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.main(args)
    page = args.page.read_text()
    assert page.startswith("before\n") and page.endswith("\nafter\n") and "old" not in page
    (row,) = [line for line in page.splitlines() if line.startswith("|`")]
    assert row.startswith("|`qmix`|1,024|3|40.0 (30.0 to 50.0)|0.0 (0.0 to 0.0)|")
    assert "|10 to 30 s|`def`, `abc`|" in row and "--seed SEED --agent-steps 1000" in page
    assert "without a row here were not run" in page and "`bc-hard`" not in page
    table.main(args)
    assert args.page.read_text() == page, "written again, it is the same"
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_page_matches_the_rows(baselines, tmp_path):
    """`docs/BASELINES.md` equals the output of the program and names each baseline."""
    table, recipes = importlib.import_module("table"), importlib.import_module("recipes")
    page = table.Args().page.read_text()
    copy = tmp_path / "page.md"
    copy.write_text(page)
    table.main(table.Args(page=copy))
    assert copy.read_text() == page, "python benchmarks/baselines/table.py makes it true"
    assert set(recipes.ABOUT) == set(recipes.RECIPES)
    assert all(f"|`{name}`|{about}|" in page for name, about in recipes.ABOUT.items())

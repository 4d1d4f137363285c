"""`benchmarks/costs.py`, at a tiny size."""

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def costs():
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("costs")
    sys.path.remove(str(BENCHMARKS))


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_growing_database(costs, capsys):
    costs.main(costs.Args(parts=("database",), matches=512))
    grown, closed = lines(capsys)
    assert grown["matches"] == closed["matches"] == 512
    assert grown["bytes_a_match"] > 1000 and grown["writes_a_second"] > 0


@pytest.mark.long
def test_gradients_battles_tasks_and_tournaments(costs, capsys):
    pytest.importorskip("ray")
    parts = ("learner", "battles", "tasks", "tournament")
    costs.main(costs.Args(parts=parts, num_envs=4, battles=4, seeds=1, repeats=1))
    found = lines(capsys)
    assert [line["workers"] for line in found if line["benchmark"] == "tournament"] == [0, 1, 2]
    assert {line["battles"] for line in found if line["benchmark"] == "tournament"} == {20}
    first = found[0]
    assert first["preset"] == "quick" and first["bytes"]["learner.safetensors"] > first["gradient_bytes"]

"""TorchRL's distributed collectors, with the example that the documentation names."""

import subprocess
import sys

import pytest
from patience import STUCK_S
from programs import ROOT

pytestmark = pytest.mark.long


def run(*arguments: str) -> list[str]:
    """Return the lines that the example prints about its batches."""
    words = [sys.executable, "tests/examples/collectors.py", *arguments]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=STUCK_S)
    assert ran.returncode == 0, ran.stderr
    return [line for line in ran.stdout.splitlines() if line.startswith("(")]


def test_processes_of_one_machine():
    lines = run()
    assert [line.rpartition(" ")[0] for line in lines] == ["(2, 4, 8)"] * 3
    assert len({line.rpartition(" ")[2] for line in lines}) == 3, "battles continue"


def test_workers_of_a_cluster():
    pytest.importorskip("ray")
    from ray_clusters import machines

    with machines(3) as cluster:
        lines = run(cluster.address)
    assert [line.rpartition(" ")[0] for line in lines] == ["(2, 4, 8)"] * 3

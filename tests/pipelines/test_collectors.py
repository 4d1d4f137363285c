"""TorchRL's distributed collectors, with the programs of the documentation page."""

import subprocess
import sys

import pytest
from page_commands import blocks_of
from patience import STUCK_S
from programs import ROOT

pytestmark = pytest.mark.long
SETUP, RAY = blocks_of("MANY_MACHINES.md", "python")


def run(folder, text: str) -> list[str]:
    """Return the lines that a program prints about its batches."""
    program = folder / "collect.py"
    program.write_text(text)
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=ROOT, timeout=STUCK_S)
    assert ran.returncode == 0, ran.stderr
    return [line for line in ran.stdout.splitlines() if line.startswith("(")]


def test_processes_of_one_machine(tmp_path):
    lines = run(tmp_path, SETUP)
    assert [line.rpartition(" ")[0] for line in lines] == ["(2, 4, 8)"] * 3
    assert len({line.rpartition(" ")[2] for line in lines}) == 3, "battles continue"


def test_workers_of_a_cluster(tmp_path):
    pytest.importorskip("ray")
    from ray_clusters import machines

    with machines(3) as cluster:
        program = RAY.replace('ray.init("auto")', f'ray.init("{cluster.address}", log_to_driver=False)')
        assert program != RAY
        made = SETUP.partition("    collector = ")[0]
        lines = run(tmp_path, f"{made}\n{program}")
    assert [line.rpartition(" ")[0] for line in lines] == ["(2, 4, 8)"] * 3

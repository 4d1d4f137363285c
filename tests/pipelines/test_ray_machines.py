"""A Ray cluster of three machines with separate networks, by the documented commands; one loses power."""

import json
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from leagues import BRIEF, checkpoint_of, recorded
from nodes import Node, can_make_networks, network
from page_commands import command, with_flags
from patience import STUCK_S

from echelon.league.store import Store

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not can_make_networks(), reason="needs root, for networks of its own"),
]
PAGE = "MANY_MACHINES.md"


@pytest.fixture
def machines(tmp_path):
    """Machines on which the documented `ray start` has run."""
    short = Path("/tmp") / f"ech-{uuid.uuid4().hex[:8]}"
    with network(tmp_path, 3) as nodes:
        for node in nodes:
            # Socket paths have at most 107 characters.
            node.variables["RAY_TMPDIR"] = str(short / node.name)
            (short / node.name).mkdir(parents=True)
            part = "ray start --head" if node is nodes[0] else "ray start --address"
            own = ["--num-cpus", "1", "--object-store-memory", "100000000", "--disable-usage-stats"]
            output_of(node.start(*command(PAGE, part), *own, "--node-ip-address", address_of(node)))
        yield nodes
    shutil.rmtree(short)


def address_of(node: Node) -> str:
    return node.start("getent", "hosts", node.name).communicate()[0].split()[0]


def output_of(process: subprocess.Popen[str]) -> str:
    said, errors = process.communicate(timeout=STUCK_S)
    assert process.returncode == 0, errors
    return said


def arena(node: Node, part: str, league: Path, *more: str) -> subprocess.Popen[str]:
    """Run a documented command on a machine."""
    words = with_flags(command(PAGE, part), {"--league": str(league)})
    return node.start("python", "pipelines/arena.py", *words[1:], "--batch", "4", "--json", *more)


def test_tournament_survives_power_loss_of_a_machine(machines, tmp_path):
    first, _, third = machines
    store = Store.create(tmp_path / "league", BRIEF)
    checkpoint = checkpoint_of(tmp_path, 1)
    store.add(checkpoint)
    store.close()
    shutil.copytree(tmp_path / "league", tmp_path / "alone")
    process = arena(first, "tournament --league", tmp_path / "league")
    while not recorded(tmp_path / "league"):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    third.lose_power()
    said = output_of(process)
    alone = [*with_flags(command(PAGE, "tournament --league"), {"--league": str(tmp_path / "alone")})[1:-2], "--json"]
    expected = output_of(first.start("python", "pipelines/arena.py", *alone, "--device", "cpu"))
    assert said == expected and recorded(tmp_path / "league") == recorded(tmp_path / "alone")

    (first.work / "runs").mkdir()
    (first.work / "runs" / "mine").symlink_to(checkpoint)
    found = json.loads(
        output_of(arena(first, "evaluate runs/mine", tmp_path / "league", "--opponents", "heuristic:easy"))
    )
    assert [result["battles"] for result in found["opponents"].values()] == [8]

"""Several processes learn the same as one process with all their battles."""

import socket
from pathlib import Path

import pytest
import safetensors.torch
import torch
from half_a_batch import learn_from
from nodes import network
from patience import STUCK_S
from programs import Program

from echelon.runtime.distributed import ALONE

HERE = Path(__file__).parent
TOLERANCE = 2e-6
"""Largest difference of a weight after three steps of 1e-3, from another order of summation."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(rank: int, size: int, port: int, *words: str) -> Program:
    """Start a process as `torchrun` would."""
    told = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return Program(*words, PYTHONPATH=str(HERE.parent), **{name: str(value) for name, value in told.items()})


@pytest.fixture(scope="module")
def halves(tmp_path_factory) -> list[dict[str, torch.Tensor]]:
    """Results of two processes, each with half of the teams."""
    folder, port = tmp_path_factory.mktemp("halves"), free_port()
    files = [folder / f"{rank}.safetensors" for rank in range(2)]
    processes = [start(rank, 2, port, str(HERE / "half_a_batch.py"), str(files[rank])) for rank in range(2)]
    for process in processes:
        _, said = process.communicate()
        assert process.returncode == 0, said
    return [safetensors.torch.load(file.read_bytes()) for file in files]


@pytest.mark.requirement("R48")
def test_two_processes_equal_one_with_both_halves(halves):
    whole = learn_from(ALONE)
    for name, value in whole.items():
        first, second = (half[f"three.{name}"] for half in halves)
        assert torch.equal(first, second), name
        if name.startswith(("weight", "norm")):
            assert (first - value).abs().max() < TOLERANCE, name
        else:
            torch.testing.assert_close(first, value, rtol=1e-4, atol=1e-5, msg=name)
    fresh = learn_from(ALONE, epochs=1)
    moved = max((whole[name] - fresh[name]).abs().max() for name in whole if name.startswith("weight"))
    assert moved > 100 * TOLERANCE, "the weights changed"


@pytest.mark.requirement("R48")
def test_processes_stop_early_at_the_same_epoch(halves):
    """Of three epochs the third is skipped; the first starts at the rollout's policy."""
    assert [half["stopped.told.epochs"].item() for half in halves] == [2, 2]


@pytest.mark.requirement("R48")
def test_nonfinite_gradient_on_one_rank_skips_the_step_on_all(halves):
    for half in halves:
        assert not half["spoilt.changed"] and half["spoilt.skipped"] == 1


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 3])
def test_machines_equal_one_process_with_all_teams(count, tmp_path):
    """Each machine, with a separate network, has a half or a third of the teams."""
    with network(tmp_path, count) as nodes:
        launch = ["torchrun", "--nnodes", str(count), "--nproc-per-node", "1"]
        launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "first:29500"]
        files = [tmp_path / f"{node.name}.safetensors" for node in nodes]
        for node, file in zip(nodes, files, strict=True):
            node.variables["PYTHONPATH"] += f":{HERE.parent}"
            node.start(*launch, "tests/learn/half_a_batch.py", str(file))
        for node in nodes:
            _, errors = node.started[0].communicate(timeout=STUCK_S)
            assert node.started[0].returncode == 0, errors
    whole = learn_from(ALONE)
    for file in files:
        found = safetensors.torch.load(file.read_bytes())
        for name, value in whole.items():
            if name.startswith(("weight", "norm")):
                assert (found[f"three.{name}"] - value).abs().max() < TOLERANCE, name
            else:
                torch.testing.assert_close(found[f"three.{name}"], value, rtol=1e-4, atol=1e-5, msg=name)

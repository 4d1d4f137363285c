"""Parts of minibatches in several processes give equal results, even if a process dies."""

import logging
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from patience import STUCK_S
from tensordict import TensorDictBase
from tiny_runs import make_rollout

from echelon.learn.config import PPOConfig
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.ppo import forked_parts
from echelon.learn.ppo.advantage import NormalizedGAE
from echelon.learn.ppo.forked_parts import CAN_FORK, ForkedParts, Part, SharedMemory, WorkerProcess
from echelon.learn.ppo.update import PPO
from echelon.runtime import fallback

pytestmark = [pytest.mark.quick, pytest.mark.skipif(not CAN_FORK, reason="processes are forked on Linux alone")]

SETTINGS = {"rollout_decisions": 16, "chunk_decisions": 8, "minibatches": 2, "epochs": 2, "target_kl": 0.0}
Learnt = tuple[list[torch.Tensor], dict[str, torch.Tensor]]


def learnt(threads: int, trace: Path, spoil=lambda: None, accumulate: int = 4) -> tuple[Learnt, list[int]]:
    """Return weights and report after an update with this number of processes, and the process id of each part. Forked
    processes call `spoil` for every part."""
    rollout = make_rollout()
    batch, memory = rollout.collect(), rollout.memory
    NormalizedGAE(gamma=0.99, lmbda=0.95, normalizer=ValueNorm())(batch)
    ppo = PPO(rollout.policy, PPOConfig(**SETTINGS, accumulate=accumulate))
    ppo.threads, loss, own = threads, ppo.loss, os.getpid()
    trace.unlink(missing_ok=True)

    def observed(part: TensorDictBase) -> TensorDictBase:
        with trace.open("a") as lines:
            lines.write(f"{os.getpid()}\n")
        if os.getpid() != own:
            spoil()
        return loss(part)

    ppo.loss = observed
    torch.manual_seed(0)
    report = ppo.update(batch, memory)
    assert not ppo.side_by_side.workers
    return ([*ppo.policy.parameters()], report), [int(line) for line in trace.read_text().split()]


def equal(one: Learnt, other: Learnt) -> bool:
    """Return whether weights and reports are bitwise equal."""
    assert len(one[0]) == len(other[0]) and one[1].keys() == other[1].keys()
    same_report = all(torch.equal(one[1][name], other[1][name]) for name in one[1])
    return same_report and all(torch.equal(a, b) for a, b in zip(one[0], other[0], strict=True))


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Learnt:
    """Result of a single process."""
    return learnt(1, tmp_path_factory.mktemp("alone") / "trace")[0]


@pytest.fixture
def lines(monkeypatch, caplog) -> list[str]:
    """Log lines about a fallback."""
    monkeypatch.setattr(fallback, "REASONS", [])
    caplog.set_level(logging.WARNING)
    return fallback.REASONS


@pytest.mark.parametrize("threads", [2, 3])
def test_update_is_bit_equal_for_any_number_of_processes(threads, alone, tmp_path, lines):
    """Parts are added in order, so a resumed run may have another number of cores."""
    found, processes = learnt(threads, tmp_path / "trace")
    assert equal(found, alone) and not lines
    assert len(set(processes)) == threads and len(processes) == 2 * 2 * 4
    steps, of_main = 2 * 2, processes.count(os.getpid())
    assert of_main == steps * len(range(0, 4, threads)), "each process computes every size-th part"


@pytest.mark.usual
def test_resumed_update_can_use_another_number_of_processes(tmp_path):
    """The second update of a policy whose weights are in shared memory."""
    rollout, results = make_rollout(), []
    batch, memory = rollout.collect(), rollout.memory
    NormalizedGAE(gamma=0.99, lmbda=0.95, normalizer=ValueNorm())(batch)
    start = {name: value.clone() for name, value in rollout.policy.state_dict().items()}
    for counts in ((1, 1), (2, 2), (1, 2), (2, 1)):
        rollout.policy.load_state_dict(start)
        ppo = PPO(rollout.policy, PPOConfig(**SETTINGS, accumulate=2))
        torch.manual_seed(0)
        for ppo.threads in counts:
            report = ppo.update(batch, memory)
        results.append(([p.detach().clone() for p in rollout.policy.parameters()], report))
    assert all(equal(result, results[0]) for result in results[1:])


@pytest.mark.usual
def test_update_in_parts_equals_whole_minibatches(tmp_path):
    """Gradients have the weight's memory layout, whichever operation produced them."""
    (whole, of_whole), (parts, of_parts) = (learnt(1, tmp_path / "trace", accumulate=n)[0] for n in (1, 3))
    for ours, theirs in zip(parts, whole, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=0)
    torch.testing.assert_close(of_parts, of_whole, atol=1e-5, rtol=1e-4)


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def failed():
    raise ValueError("of this process alone")


def stuck():
    time.sleep(10 * STUCK_S)


@pytest.mark.parametrize(
    ("spoil", "ending"),
    [(killed, "signal 9"), (failed, "status 1"), (stuck, "signal 9")],
    ids=("killed", "failed", "stuck"),
)
def test_parts_of_a_dead_worker_are_recomputed(spoil, ending, alone, tmp_path, lines, monkeypatch):
    if spoil is stuck:
        monkeypatch.setattr(forked_parts, "PATIENCE_S", 0.05)
    found, processes = learnt(2, tmp_path / "trace", spoil)
    assert equal(found, alone)
    assert lines == [f"learning on one core: a worker process for minibatch parts ended with {ending}"]
    assert processes.count(os.getpid()) == 2 * 2 * 4


def test_without_fork_one_process_computes_all_parts(alone, tmp_path, lines, monkeypatch):
    def refuse():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    found, processes = learnt(2, tmp_path / "trace")
    assert equal(found, alone) and set(processes) == {os.getpid()}
    cause = "[Errno 11] Resource temporarily unavailable"
    assert lines == [f"learning on one core: cannot fork a process ({cause})"]


def test_loss_error_is_raised_and_workers_end():
    def failing(index: torch.Tensor, number: int, parts: int) -> Part:
        raise ValueError(f"part {number}")

    weights = [torch.nn.Parameter(torch.zeros(3))]
    with ForkedParts(failing, SharedMemory(weights, 4, 2), 2) as side_by_side:
        process = side_by_side.workers[1].process
        with pytest.raises(ValueError, match="part 0"):
            side_by_side.compute(torch.arange(4), 2)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_worker_ends_with_its_parent():
    """The child ends although its parent was killed."""
    told, tell = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            worker = WorkerProcess(
                SharedMemory([torch.nn.Parameter(torch.zeros(3))], 4, 2), lambda *_: Part(torch.zeros(1), []), 1, 2
            )
            os.write(tell, worker.process.to_bytes(4, "little"))
        finally:
            os._exit(0)
    os.waitpid(middle, 0)
    process, until = int.from_bytes(os.read(told, 4), "little"), time.monotonic() + STUCK_S
    os.close(told)
    os.close(tell)
    while Path(f"/proc/{process}/stat").exists() and Path(f"/proc/{process}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < until, "the process is still alive"
        time.sleep(0.01)


def test_missing_gradients_stay_none_and_parameters_keep_identity():
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in (3, (2, 5), ())]
    before = [weight.detach().clone() for weight in weights]
    memory = SharedMemory(weights, 4, 2)
    assert all(torch.equal(weight, old) for weight, old in zip(weights, before, strict=True))
    assert all(weight.data_ptr() % 64 == 0 for weight in weights), "rounding of matrix products depends on alignment"

    def compute(index: torch.Tensor, number: int, parts: int) -> Part:
        value = index.float().sum() + number
        return Part(torch.stack((value, value + parts)), [torch.full((3,), value), None, weights[2].detach() + 1])

    with ForkedParts(compute, memory, 2) as side_by_side:
        weights[2].data.fill_(5.0)  # after the fork
        parts = side_by_side.compute(torch.tensor([3, 4]), 2)
    for number, part in enumerate(parts):
        assert part.report.tolist() == [7.0 + number, 9.0 + number]
        assert torch.equal(part.gradients[0], torch.full((3,), 7.0 + number)) and part.gradients[1] is None
        assert part.gradients[2] == 6.0

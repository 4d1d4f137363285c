"""What `gpu.py` runs, as data: a command a step, its time, and the figures that are taken from the JSON it prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MANY = (8192, 1024, 32768, 16384, 4096)
"""Battles of the environment, those that matter most first, for time may run out."""


@dataclass(frozen=True)
class Figure:
    """A number of a JSON line."""

    label: str
    """What it is; names in braces are those of the line."""
    name: str
    """Its name in the line."""
    unit: str
    needs_gpu: bool = False
    """Whether it is null on a CPU."""


@dataclass(frozen=True)
class Step:
    """One command, in a process of its own."""

    name: str
    words: Sequence[str]
    """Arguments of Python."""
    limit_s: float


FIGURES = {
    "env": (
        Figure("environment, {num_envs:,} battles", "agent_steps_per_s", "agent-steps/s"),
        Figure("environment, {num_envs:,} battles, first decision", "first_decision_s", "s"),
        Figure("environment, {num_envs:,} battles, memory", "peak_memory_gib", "GiB", needs_gpu=True),
    ),
    "rollout": (
        Figure("with a policy, {num_envs:,} battles", "agent_steps_per_s", "agent-steps/s"),
        Figure("with a policy, {num_envs:,} battles, memory", "peak_memory_gib", "GiB", needs_gpu=True),
    ),
    "train": (
        Figure("training, {num_envs:,} battles, {precision}", "agent_steps_per_s", "agent-steps/s"),
        Figure("training, environment", "env_us_per_agent_step", "us an agent-step"),
        Figure("training, acting", "act_us_per_agent_step", "us an agent-step"),
        Figure("training, learning", "learn_us_per_agent_step", "us an agent-step"),
        Figure("training, memory", "peak_memory_gib", "GiB", needs_gpu=True),
    ),
    "gpu_launches": (
        Figure("kernels a decision of a rollout", "kernels_per_decision", "kernels", needs_gpu=True),
        Figure("launches a decision of a rollout", "launches_per_decision", "launches", needs_gpu=True),
        Figure("waits while collecting", "collect_waits", "waits a rollout", needs_gpu=True),
        Figure("waits while updating", "update_waits", "waits an update", needs_gpu=True),
        Figure("waits as errors: the first", "first_wait", "", needs_gpu=True),
        Figure("memory of training, as estimated", "estimated_memory_gib", "GiB"),
    ),
    "stack": (Figure("stacked policies over a loop of them", "ratio", "times as fast"),),
    "arena": (
        Figure("arena, {battles:,} battles at once", "battles_per_s", "battles/s"),
        Figure("arena, memory", "peak_memory_gib", "GiB", needs_gpu=True),
    ),
}
"""By the `benchmark` of a line."""


def steps_of(device: str, tiny: bool) -> list[Step]:
    """All steps in the order in which they run.

    Args:
        device: of every step.
        tiny: whether sizes are those that a CPU runs through in a minute.
    """
    where, small = ("--device", device), ("--preset", "small", "--num-envs", "4")

    def program(name: str, *words: str) -> tuple[str, ...]:
        return (f"benchmarks/{name}.py", *words, *where)

    def env(battles: int) -> Step:
        sizes = ("--preset", "standard", "--num-envs", str(battles))
        # A size of its own is a graph of its own to compile.
        return Step(f"env {battles}", program("env", *sizes, "--modes", "compiled"), limit_s=150)

    if tiny:
        run: tuple[str, ...] = ("--preset", "quick", "--num-envs", "4", "--minibatches", "2", "--epochs", "1")
        few = ("--battles", "2", "--policies", "2", "--rows", "2", "--parts", "stack", "match")
        return [
            Step("tests", ("-m", "pytest", "-m", "gpu", "tests/learn/test_gpu.py"), limit_s=120),
            Step("env 4", program("env", *small, "--modes", "compiled", "--decisions", "2"), limit_s=120),
            Step("train", program("train", *run, "--iterations", "1", "--compile-policy", "auto"), limit_s=120),
            Step("launches", program("gpu_launches", *run), limit_s=120),
            Step("rollout", program("rollout", *small, "--hidden", "16", "--decisions", "1"), limit_s=120),
            Step("arena", program("arena", *few), limit_s=240),
        ]
    first, *rest = map(env, MANY)
    run, sizes = ("--preset", "standard"), ("--preset", "standard", "--num-envs", "8192")
    fast = ("--iterations", "3", "--compile-policy", "auto")
    match = ("--battles", "1024", "--parts", "stack", "match", "--warm-up", "--compiled")
    return [
        Step("tests", ("-m", "pytest", "-m", "gpu", "tests"), limit_s=300),
        first,
        Step("train", program("train", *run, *fast), limit_s=240),
        Step("launches", program("gpu_launches", *run), limit_s=200),
        Step("rollout", program("rollout", *sizes), limit_s=120),
        Step("arena", program("arena", *match), limit_s=150),
        *rest,
    ]

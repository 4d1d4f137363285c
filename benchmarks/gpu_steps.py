"""The steps of `gpu.py` as data: command, time limit, and the figures taken from the JSON output."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Minutes = Literal[3, 10, 30]
RESERVE_S = 15
"""Seconds reserved for starting and stopping the steps."""
TINY_S = 900
"""Seconds of each step at a tiny size; a busy CPU is slow."""


@dataclass(frozen=True)
class Figure:
    """A number in a JSON line."""

    label: str
    """Its description; names in braces are keys of the line."""
    name: str
    """Its key in the line."""
    unit: str
    needs_gpu: bool = False
    """True if it is null on a CPU."""


@dataclass(frozen=True)
class Step:
    """One command, run in its own process."""

    name: str
    words: Sequence[str]
    """Arguments for Python."""
    limit_s: float
    """Time limit, s; unused time of earlier steps is added."""


FIGURES = {
    "gpu_first": (
        Figure("first contact, {step}", "status", ""),
        Figure("first contact, {step}, captured", "agent_steps_per_s", "agent-steps/s"),
    ),
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
"""Figures, keyed by the `benchmark` of a line."""


def steps_of(device: str, tiny: bool, minutes: Minutes) -> list[Step]:
    """Return all steps, most important first; their limits add up to the available time.

    Args:
        device: device of all steps.
        tiny: whether to return all steps with sizes that a CPU runs in a minute.
        minutes: time for all steps.
    """
    device_flag, small = ("--device", device), ("--preset", "small", "--num-envs", "4")

    def program(name: str, *words: str) -> tuple[str, ...]:
        return (f"benchmarks/{name}.py", *words, *device_flag)

    def cases(*words: str) -> tuple[str, ...]:
        return ("-m", "pytest", "benchmarks", "--benchmark-only", *device_flag, *words)

    measure = Step("loops or graph", ("-m", "echelon", "doctor", "--measure", *device_flag), limit_s=150)
    if tiny:
        run: tuple[str, ...] = ("--preset", "quick", "--num-envs", "4", "--minibatches", "2", "--epochs", "1")
        few_battles = ("--battles", "2", "--policies", "2", "--rows", "2", "--parts", "stack", "match")
        brief = ("--benchmark-max-time", "0.01", "--benchmark-min-rounds", "1", "-k", "heat")
        return [
            Step("first contact", program("gpu_first", "--seconds", str(TINY_S - 20)), TINY_S),
            Step("train", program("train", *run, "--iterations", "1", "--compile-policy", "auto"), TINY_S),
            dataclasses.replace(measure, limit_s=TINY_S),
            Step("env 4", program("env", *small, "--modes", "compiled", "--decisions", "2"), TINY_S),
            Step("tests", ("-m", "pytest", "-m", "gpu", "tests/learn/test_gpu.py"), TINY_S),
            Step("arena", program("arena", *few_battles), TINY_S),
            Step("launches", program("gpu_launches", *run), TINY_S),
            Step("rollout", program("rollout", *small, "--hidden", "16", "--decisions", "1"), TINY_S),
            Step("cases", cases(*brief), TINY_S),
        ]
    run, fast = ("--preset", "standard"), ("--iterations", "3", "--compile-policy", "auto")
    sizes = ("--preset", "standard", "--num-envs", "8192")
    match = ("--battles", "1024", "--parts", "stack", "match", "--warm-up")
    first = Step("first contact", program("gpu_first", "--seconds", "90"), limit_s=100)
    # These steps compile nothing.
    quick = ("-k", "not environment and not rollout and not update and not checkpoint")
    # Compiling a whole run took at least 230 s on two CPU cores.
    if minutes == 3:
        plain = ("--iterations", "2", "--compile-policy", "off", "--backend", "eager", "--num-envs", "1024")
        return [first, Step("train uncompiled", program("train", *run, *plain), limit_s=65)]
    if minutes == 10:
        return [
            first,
            Step("train", program("train", *run, *fast), limit_s=365),
            Step("cases", cases(*quick), limit_s=120),
        ]
    # After training, torch has its graphs on disk, so the same graphs compile faster.
    return [
        first,
        Step("train", program("train", *run, *fast), limit_s=420),
        measure,
        Step("env 8192", program("env", *sizes, "--modes", "compiled"), limit_s=220),
        Step("tests", ("-m", "pytest", "-m", "gpu", "tests"), limit_s=200),
        Step("arena", program("arena", *match), limit_s=140),
        Step("launches", program("gpu_launches", *run), limit_s=150),
        Step("rollout", program("rollout", *sizes), limit_s=145),
        Step("cases", cases(), limit_s=260),
    ]

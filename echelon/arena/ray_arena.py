"""Battles handed out to the workers of a Ray cluster."""

from __future__ import annotations

import functools
import itertools
import time
import uuid
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from echelon.agents.team_policy import TeamPolicy
from echelon.arena.batch_arena import BatchArena, BatchResult, Battle, Policies, StepSink
from echelon.arena.config import ArenaConfig
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import require
from echelon.runtime.imports import allow_module, allowed_modules, import_module
from echelon.runtime.ray_tasks import RayTasks, import_ray

TASKS_A_WORKER = 4
"""Tasks of a CPU that each worker gets of some battles at least, so that none waits long for the last one."""
LEAST = 32
"""Battles of a task of a CPU, unless there are fewer: 8 at once take four fifths of the time of 32."""
KEPT_POLICIES = 64
"""Policies that a worker keeps."""


class RayArena(BatchArena):
    """A `BatchArena` whose battles are played by the workers of a Ray cluster, at most `batch` in a task.

    On CPUs and uncompiled a battle has the result that it has in this process, whatever workers there are; networks on
    the same kind of processor, see `BatchArena`. This process plays nothing.

    Args:
        policies: maps a name to its policy on the CPU, which Ray copies to the workers: its class is in a module that
            they can import, or in the program itself.
        settings: how the workers compute, on the device that `tasks` tells.
    """

    def __init__(self, env: EnvConfig, policies: Policies, tasks: RayTasks, settings: ArenaConfig) -> None:
        self.tasks = tasks
        recipe = Recipe(env, settings, str(tasks.args.device), allowed_modules())
        self.recipe = (uuid.uuid4().hex, tasks.share(recipe))
        [(_, (definite, processor))] = tasks.results(describe, [self.recipe], ["describe a worker"])
        super().__init__(env, policies, replace(definite, device=torch.device("cpu")))
        self.processor = processor
        self.shared: dict[str, Any] = {}
        """What Ray calls the policies that workers were given, by name."""

    def play(
        self, battles: Sequence[Battle], recorder: Recorder | None = None, sink: StepSink | None = None
    ) -> BatchResult:
        """Play one batch, as `BatchArena.play`, in one task."""
        [(_, result)] = self._play(battles, [0, len(battles)], recorder, sink)
        return result

    def play_batches(
        self, battles: Sequence[Battle], recorder: Recorder | None = None, sink: StepSink | None = None
    ) -> Generator[tuple[int, BatchResult], None, None]:
        """As `BatchArena.play_batches`: batches end in any order. Their seconds are those since the one before."""
        size = min(self.settings.batch, max(LEAST, -(-len(battles) // (TASKS_A_WORKER * self.tasks.slots))))
        size = self.settings.batch if self.tasks.args.ray_gpus > 0 else size
        first = size if recorder is None else max(size, min(max(recorder.battles) + 1, self.settings.batch))
        starts = [0, *range(first, len(battles), size), len(battles)]
        yield from self._play(battles, starts, recorder, sink)

    def _play(
        self, battles: Sequence[Battle], starts: Sequence[int], recorder: Recorder | None, sink: StepSink | None
    ) -> Generator[tuple[int, BatchResult], None, None]:
        """Play the battles between each two of `starts`; the first of these batches, if it is recorded, first."""
        require(sink is None, "sink", "None where workers play the battles", sink)
        chunks = [battles[start:end] for start, end in itertools.pairwise(starts)]
        calls = [self._call(chunk, recorder if number == 0 else None) for number, chunk in enumerate(chunks)]
        names = [f"{len(chunk)} battles from number {start}" for chunk, start in zip(chunks, starts, strict=False)]
        pending: list[tuple[int, BatchResult]] = []
        start_s = time.perf_counter()
        for number, (results, worker_recorder) in self.tasks.results(play_on_worker, calls, names):
            now_s = time.perf_counter()
            pending.append((starts[number], BatchResult(results, now_s - start_s)))
            start_s = now_s
            if recorder is not None and worker_recorder is not None:
                # Recorded far away: what was written there is what this one holds.
                vars(recorder).update(vars(worker_recorder))
                pending, recorder = [pending[-1], *pending[:-1]], None
            if recorder is None:
                yield from pending
                pending = []

    def _call(self, battles: Sequence[Battle], recorder: Recorder | None) -> tuple[Any, ...]:
        """Arguments of the task that plays these battles."""
        for name in {name for battle in battles for name in battle[:2]} - self.shared.keys():
            self.shared[name] = self.tasks.share(self.policies(name))
        policies = {name: self.shared[name] for battle in battles for name in battle[:2]}
        return (*self.recipe, policies, [tuple(battle) for battle in battles], recorder)


@dataclass(frozen=True)
class Recipe:
    """How a worker makes its arena, on which device, and modules of the user's to import."""

    env: EnvConfig
    settings: ArenaConfig
    device: str
    modules: tuple[str, ...]

    def build(self) -> BatchArena:
        for module in self.modules:
            allow_module(module)
            import_module(module, f"--allow-module {module}")
        settings = replace(self.settings, device=resolve_device(self.device))
        return BatchArena(self.env, dict[str, TeamPolicy]().__getitem__, settings)


_arenas: dict[str, BatchArena] = {}
"""The arena of this worker, which is kept for the next task of the same driver, by the driver's key."""


def arena_of(key: str, recipe: Recipe) -> BatchArena:
    """The arena that a driver calls `key`."""
    if key not in _arenas:
        _arenas.clear()
        _arenas[key] = recipe.build()
    return _arenas[key]


@functools.lru_cache(KEPT_POLICIES)
def policy_on(device: str, shared: Any) -> TeamPolicy:
    """A policy that the driver shared, on the device of this worker."""
    policy: TeamPolicy = import_ray().get(shared)
    return policy.to(device).eval() if isinstance(policy, nn.Module) else policy


def describe(key: str, recipe: Recipe) -> tuple[ArenaConfig, str]:
    """Settings and processor of a worker's arena, told to the driver."""
    arena = arena_of(key, recipe)
    return arena.settings, arena.processor


def play_on_worker(
    key: str,
    recipe: Recipe,
    policies: dict[str, Any],
    battles: Sequence[tuple[str, str, int]],
    recorder: Recorder | None,
) -> tuple[Any, Recorder | None]:
    """Play a batch on a worker: its results, and the recorder with what it saw.

    Args:
        policies: by name, what Ray calls the policies.
    """
    arena = arena_of(key, recipe)
    arena.policies = lambda name: policy_on(str(arena.device), policies[name])
    return arena.play([Battle(*battle) for battle in battles], recorder).results, recorder


def make_arena(env: EnvConfig, policies: Policies, settings: ArenaConfig, tasks: RayTasks | None) -> BatchArena:
    """A `RayArena` where there are `tasks`, whose policies are then on the CPU, else one that plays on a device."""
    return BatchArena(env, policies, settings) if tasks is None else RayArena(env, policies, tasks, settings)

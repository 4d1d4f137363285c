"""Distributes battles to the workers of a Ray cluster."""

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
"""Smallest number of CPU tasks per worker, so that no worker waits long for the last task."""
LEAST = 32
"""Smallest number of battles in a CPU task, unless there are fewer: 8 battles take four fifths of the time of 32."""
KEPT_POLICIES = 64
"""Number of policies that a worker caches."""


class RayArena(BatchArena):
    """A `BatchArena` whose battles run on the workers of a Ray cluster, in tasks of at most `batch` battles.

    On CPUs and without compilation, a battle has the same result as in this process, whatever the workers. With
    networks, results are the same only if the workers have the same kind of processor, see `BatchArena`. The process
    that owns the `RayArena` plays no battles itself.

    Args:
        policies: maps a name to its policy on the CPU. Ray copies the policy to the workers, so its class must be in a
            module that the workers can import, or in the program itself.
        settings: settings of the workers' arenas. The device is that of `tasks`, and `settings.device` is ignored.
    """

    def __init__(self, env: EnvConfig, policies: Policies, tasks: RayTasks, settings: ArenaConfig) -> None:
        self.tasks = tasks
        recipe = Recipe(env, settings, str(tasks.args.device), allowed_modules())
        self.recipe = (uuid.uuid4().hex, tasks.share(recipe))
        [(_, (definite, processor))] = tasks.results(describe, [self.recipe], ["describe a worker"])
        super().__init__(env, policies, replace(definite, device=torch.device("cpu")))
        self.processor = processor
        self.shared: dict[str, Any] = {}
        """Ray's references of the policies that workers have received, by name."""

    def play(
        self, battles: Sequence[Battle], recorder: Recorder | None = None, sink: StepSink | None = None
    ) -> BatchResult:
        """Play one batch in one task, as `BatchArena.play` does."""
        [(_, result)] = self._play(battles, [0, len(battles)], recorder, sink)
        return result

    def play_batches(
        self, battles: Sequence[Battle], recorder: Recorder | None = None, sink: StepSink | None = None
    ) -> Generator[tuple[int, BatchResult], None, None]:
        """Play batches like `BatchArena.play_batches`, but in any order; `seconds` is the time since the previous
        batch.
        """
        size = min(self.settings.batch, max(LEAST, -(-len(battles) // (TASKS_A_WORKER * self.tasks.slots))))
        size = self.settings.batch if self.tasks.args.ray_gpus > 0 else size
        first = size if recorder is None else max(size, min(max(recorder.battles) + 1, self.settings.batch))
        starts = [0, *range(first, len(battles), size), len(battles)]
        yield from self._play(battles, starts, recorder, sink)

    def _play(
        self, battles: Sequence[Battle], starts: Sequence[int], recorder: Recorder | None, sink: StepSink | None
    ) -> Generator[tuple[int, BatchResult], None, None]:
        """Play one batch per pair of consecutive `starts`; if the first batch is recorded, yield it first."""
        require(sink is None, "sink", "None, because workers of a Ray cluster play the battles", sink)
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
                # The Ray worker filled a copy of the recorder, so copy its content into the caller's recorder.
                vars(recorder).update(vars(worker_recorder))
                pending, recorder = [pending[-1], *pending[:-1]], None
            if recorder is None:
                yield from pending
                pending = []

    def _call(self, battles: Sequence[Battle], recorder: Recorder | None) -> tuple[Any, ...]:
        """Return the arguments of the task that plays these battles."""
        for name in {name for battle in battles for name in battle[:2]} - self.shared.keys():
            self.shared[name] = self.tasks.share(self.policies(name))
        policies = {name: self.shared[name] for battle in battles for name in battle[:2]}
        return (*self.recipe, policies, [tuple(battle) for battle in battles], recorder)


@dataclass(frozen=True)
class Recipe:
    """What a worker needs to create its arena: battle config, settings, device, and the user's modules to import."""

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
"""This worker's arena, cached for the next task of the same driver, by the driver's key."""


def arena_of(key: str, recipe: Recipe) -> BatchArena:
    """Return this worker's arena for the driver with this key; create it from `recipe` at the first call."""
    if key not in _arenas:
        _arenas.clear()
        _arenas[key] = recipe.build()
    return _arenas[key]


@functools.lru_cache(KEPT_POLICIES)
def policy_on(device: str, shared: Any) -> TeamPolicy:
    """Return a policy, which the driver put into Ray's object store, on this worker's device."""
    policy: TeamPolicy = import_ray().get(shared)
    return policy.to(device).eval() if isinstance(policy, nn.Module) else policy


def describe(key: str, recipe: Recipe) -> tuple[ArenaConfig, str]:
    """Return settings and processor of a worker's arena, for the driver."""
    arena = arena_of(key, recipe)
    return arena.settings, arena.processor


def play_on_worker(
    key: str,
    recipe: Recipe,
    policies: dict[str, Any],
    battles: Sequence[tuple[str, str, int]],
    recorder: Recorder | None,
) -> tuple[Any, Recorder | None]:
    """Play a batch on a worker; return its results and the filled recorder.

    Args:
        policies: references to the policies in Ray's object store, keyed by name.
    """
    arena = arena_of(key, recipe)
    arena.policies = lambda name: policy_on(str(arena.device), policies[name])
    return arena.play([Battle(*battle) for battle in battles], recorder).results, recorder


def make_arena(env: EnvConfig, policies: Policies, settings: ArenaConfig, tasks: RayTasks | None) -> BatchArena:
    """Create a `RayArena` if `tasks` are given (policies must then be on the CPU), else a `BatchArena`."""
    return BatchArena(env, policies, settings) if tasks is None else RayArena(env, policies, tasks, settings)

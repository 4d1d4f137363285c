"""Kernels and bytes of a decision on a GPU, counted without a GPU in the code that Inductor generates.

python benchmarks/launches.py --preset standard --num-envs 16384 --kernels 10

Needs a torch built with CUDA, and no GPU (tests/README.md says how to install one). Each function of a decision is
traced on fake CUDA tensors and compiled for an H100 or H200 (sm_90) up to its Triton code, which is counted and not
run. Eager operations are counted when they are called. `GB` is read and written by the kernels, each buffer at most
once a kernel; indexed buffers count at most a sector of 32 bytes a cell. `whole_GB` counts indexed buffers whole, as
Inductor does. Prints a JSON line for each function, and one for the decision: what `TeamCollector` captures, acting for
one team and writing included. The opponent is not counted.

With `--functions loops judge restart` the last line is the environment in loops (`backend="loops"`). For terrain, `GB`
counts the bit columns once and no changes by hits; `whole_GB` counts all of it, read and written. Scratch memory of the
concurrent blocks counts once in and out, although each block plays several battles in it: how much of it leaves the
caches is unknown.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch
from eager import Launches
from generated import Graph, generate, leaves, pretend_a_gpu, with_leaves
from measure import report
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torchrl.data import Composite

from echelon import EchelonEnv
from echelon.env import decision
from echelon.env.blocks import Blocks
from echelon.env.loops.play import Loops
from echelon.env.observation import layout
from echelon.env.restart import NextMemory, reset_into_buffers
from echelon.env.static_battles import StaticBattles
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.ppo.collector import TeamCollector
from echelon.rules import actions
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.runtime import cuda_graphs
from echelon.runtime.command_line import settings
from echelon.sim import step
from echelon.sim.loops import lanes
from echelon.views.group_policy import memory_spec

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fakecuda.fakes import CUDA, Fakes, without_a_driver

PLAYED = 118
"""Number of battles of the real environment. No other axis has this size or half of it, so battle axes are known."""
Name = Literal["decode", "play", "score_observe_reward", "restart", "rollout", "loops", "judge"]
TOTALS = {
    frozenset({"decode", "play", "score_observe_reward", "restart", "rollout"}): "decision",
    frozenset({"loops", "judge", "restart"}): "environment in loops",
}
"""Names of sums over sets of functions."""
BLOCKS_AT_ONCE = 132 * 8
"""Concurrent blocks of the kernel of loops, on an H100 or H200."""


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["small", "standard", "large"] = "standard"
    num_envs: int = 16384
    functions: tuple[Name, ...] = ("decode", "play", "score_observe_reward", "restart", "rollout")
    """Functions of a decision; the whole decision is printed if all are counted."""
    kernels: int = 0
    """Number of kernels to list for each function, by bytes."""


@dataclass(frozen=True)
class Count:
    """Launches and GB of a function."""

    launches: int
    moved: float
    whole: float

    @classmethod
    def of(cls, graph: Graph) -> Count:
        """Return the launches and bytes of a graph."""
        return cls(graph.launches, graph.moved_gb, graph.whole_gb)

    def __add__(self, other: Count) -> Count:
        return Count(self.launches + other.launches, self.moved + other.moved, self.whole + other.whole)

    def __mul__(self, times: int) -> Count:
        return Count(self.launches * times, self.moved * times, self.whole * times)


def functions(env: EchelonEnv) -> dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]]:
    """Return the compiled functions of a decision, keyed by name: number of calls, function, arguments."""
    config, sim_model, state = env.config, env.sim_model, env.state
    action = torch.zeros(env.num_envs, config.num_mechs, layout.action_width(config.comm_dim), device=CUDA)
    orders = actions.decode(action, state.focus_slots, sim_model.roster, config.features)
    static = StaticBattles(env, env._empty())
    buffers, mask = static.buffers, torch.zeros(env.num_envs, dtype=torch.bool, device=CUDA)
    state_copy, outputs = state.clone(), {key: leaf.clone() for key, leaf in buffers.leaves.items()}
    half = env.num_envs // 2
    # One team a battle, as the learner plays.
    remembered = [
        NextMemory(key, start, leaf[start : start + half].clone())
        for key, leaf in buffers.memories.items()
        for start in [0 if key[0] == "blue" else half]
    ]
    return {
        "decode": (1, actions.decode, (action, state.focus_slots, sim_model.roster, config.features)),
        "play": (config.rules.decision_repeat, step.play, (state, orders, sim_model)),
        "score_observe_reward": (1, decision.score_observe_reward, (state, state, orders, sim_model, static.streams)),
        "judge": (1, decision.judge_and_reward, (state, state, static.streams, sim_model)),
        "restart": (1, reset_into_buffers, (mask, state_copy, outputs, remembered, buffers, *env._map_source)),
    }


class Measured(Loops):
    """Loops that record the bytes of their arguments and do not run."""

    def _loop(
        self, plays: bool, arguments: tuple[Any, ...], streams: Any, spans: list[slice], log: Any, *others: Any
    ) -> None:
        # Not available without loops.
        from echelon.env.loops.on_device import OF_LANES

        actions, focus_slots, before, after, rest = arguments[:5]
        scratch = self._scratch(before)
        self.of_block = num_bytes(scratch)
        for name, fields in OF_LANES.items():
            of_lane = sum(num_bytes(getattr(getattr(scratch, name), field)) for field in fields)
            self.of_block += of_lane * (lanes.LANES - 1)
        self.streamed = num_bytes((actions, focus_slots, before, after, rest.messages, rest.focus_slots, streams))
        self.columns = num_bytes((rest.solid, rest.opaque, rest.rubble))
        self.ground = self.columns + num_bytes(rest.damage)


def num_bytes(values: Any) -> int:
    """Return the bytes of an array, or of all arrays in nested tuples."""
    return sum(map(num_bytes, values)) if isinstance(values, tuple) else int(values.nbytes)


def loops_count(config: EnvConfig, num_envs: int) -> Count:
    """Count a decision in loops on an H100 or H200. Shared maps are not counted."""
    # Not available without loops.
    from echelon.env.loops.on_device import DeviceLoops

    env = EchelonEnv(config, PLAYED, device="cpu", seed=1, backend="eager")
    action = torch.zeros(PLAYED, config.num_mechs, layout.action_width(config.comm_dim))
    measured = Measured(env.sim_model, Blocks(PLAYED, env.device))
    measured.play(env.state, action)
    loops, launches = DeviceLoops(env.sim_model, env.engine.blocks, env.device), Launches()
    with without_a_driver(), FakeTensorMode() as mode:
        loops, state, action = Fakes(mode)((loops, env.state, action))
        with launches:
            loops.play(state, action)
    scratch = 2 * measured.of_block * BLOCKS_AT_ONCE
    moved = scratch + (measured.streamed + measured.columns) * num_envs / PLAYED
    whole = scratch + (measured.streamed + 2 * measured.ground) * num_envs / PLAYED
    return Count(launches.launches.total(), moved / 1e9, whole / 1e9)


class NoOpPolicy:
    """A commander without cost."""

    def __init__(self, launches: Launches, width: int) -> None:
        self.launches, self.width = launches, width

    def __call__(self, team: Any) -> Any:
        """Return zero actions."""
        with self.launches.paused():
            return team.set("action", torch.zeros(*team.shape, self.width, device=team.device))

    def memory_spec(self) -> Composite:
        """Return an empty spec."""
        return Composite()


class Calls:
    """A function, and the arguments of its last call."""

    def __init__(self, function: Callable[..., Any], launches: Launches) -> None:
        self.function, self.called, self.given = function, launches.uncounted(function), ()

    def __call__(self, *args: Any) -> Any:
        self.given = args
        return self.called(*args)


def learner(config: EnvConfig) -> ActorCritic:
    """Return the acting policy."""
    return LSTMConfig(hidden=128).build(PolicySpecs(config.comm_dim))


def rollout(config: EnvConfig, num_envs: int, mode: FakeTensorMode) -> tuple[Count, list[Graph]]:
    """Return a decision of the collector without the environment: acting for one team, values, writing."""
    launches, policy = Launches(), learner(config)
    policy.network.compute = torch.bfloat16
    absent = NoOpPolicy(launches, layout.action_width(config.comm_dim))
    assignment = PolicyAssignment(policy, [OpponentGroup("absent", absent, PLAYED)])
    env = EchelonEnv(
        dataclasses.replace(config, map_pool=8), PLAYED, "cpu", seed=1, backend="eager", memory=assignment.memory
    )
    eager = mock.patch.object(torch.compiler, "is_compiling", lambda: False)
    with mock.patch.object(cuda_graphs, "has_graphs", lambda device: False), without_a_driver():
        with eager:
            collector = TeamCollector(env, assignment, 4, 2, ValueNorm(), cuda_graph=True)
            Fakes(mode)(collector)
            for name in ("decode", "play", "score_observe_reward", "reset_into_buffers"):
                setattr(env.engine, name, launches.uncounted(getattr(env.engine, name)))
            policy.act = acting = Calls(policy.network.forward, launches)
            collector._write_step = writing = Calls(collector._write_step, launches)
            collector.views.concat_pieces = laying = Calls(collector.views.concat_pieces, launches)
            with mode, torch.no_grad():
                collector._begin_rollout()
                collector._decide()
                with launches:
                    collector._decide()
        with mode:
            pieces = [laying, acting, writing]
            graphs = [generate(piece.function, enlarged(piece.given, num_envs)) for piece in pieces]
    gigabytes = launches.moved.total() * num_envs / PLAYED / 1e9
    total = Count(launches.launches.total(), gigabytes, gigabytes)
    for graph in graphs:
        total += Count.of(graph)
    return total, graphs


def enlarged(given: tuple[Any, ...], num_envs: int) -> tuple[Any, ...]:
    """Return arguments with `num_envs` battles in place of `PLAYED`."""
    sizes = {PLAYED: num_envs, PLAYED // 2: num_envs // 2}

    def larger(tensor: Tensor) -> Tensor:
        return torch.empty([sizes.get(size, size) for size in tensor.shape], dtype=tensor.dtype, device=CUDA)

    enlarged_arguments: tuple[Any, ...] = with_leaves(given, map(larger, leaves(given)))
    return enlarged_arguments


def counts(args: Args) -> Iterator[tuple[str, int, Count, list[Graph]]]:
    """Yield each function: name, number of calls, launches, and graphs."""
    config = ENV_PRESETS[args.preset]()
    mode = FakeTensorMode()
    env = EchelonEnv(config, PLAYED, device="cpu", seed=1, backend="eager", memory=memory_spec(learner=learner(config)))
    with without_a_driver(), mode:
        # First arguments without a battle axis.
        Fakes(mode)(env.map_pool)
        Fakes(mode, (PLAYED, args.num_envs))(env)
        by_name = functions(env)
        for name in args.functions:
            if name in by_name:
                times, function, arguments = by_name[name]
                graph = generate(function, arguments)
                yield name, times, Count.of(graph), [graph]
    if "rollout" in args.functions:
        yield "rollout", 1, *rollout(config, args.num_envs, FakeTensorMode())
    if "loops" in args.functions:
        yield "loops", 1, loops_count(config, args.num_envs), []


def main(args: Args) -> None:
    """Count all functions."""
    pretend_a_gpu()
    sizes = {"preset": args.preset, "num_envs": args.num_envs}
    names: set[str] = set()
    total = Count(0, 0.0, 0.0)
    for name, times, launch_count, graphs in counts(args):
        print_line(name, times, launch_count, sizes)
        kernels = [kernel for graph in graphs for kernel in graph.kernels]
        for kernel in sorted(kernels, key=lambda kernel: -kernel.moved)[: args.kernels]:
            buffers = {name: round(num_bytes / 1e6) for name, num_bytes in list(kernel.buffers.items())[:4]}
            print(f"{kernel.moved / 1e6:8.1f} MB  {kernel.operations:3} operations  {kernel.name[:40]:40} {buffers}")
        total, names = total + launch_count * times, names | {name}
    if frozenset(names) in TOTALS:
        print_line(TOTALS[frozenset(names)], 1, total, sizes)


def print_line(name: str, times: int, counted: Count, sizes: dict[str, Any]) -> None:
    """Print one JSON line."""
    numbers = {"kernels": counted.launches, "GB": round(counted.moved, 3), "whole_GB": round(counted.whole, 3)}
    report("launches", torch.device("cpu"), function=name, times=times, **numbers, **sizes)


if __name__ == "__main__":
    main(settings(Args, __doc__))

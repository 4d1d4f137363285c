"""Rehearsal before training on a GPU: compare each compiled function with its dense form (torch operations), and test
whether decisions can be captured as CUDA graphs.

If a function differs or fails, the next simpler form replaces it: eager mode replaces graphs and loops, and a normal
call of a decision replaces a captured graph.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensor_collection
from torch import Tensor

from echelon.env import decision
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.env.observation.build import initial_observation
from echelon.env.restart import reset_by_mask
from echelon.env.static_battles import StaticBattles
from echelon.rules import actions
from echelon.rules.actions import TRIGGER_COLUMNS, Act, Orders
from echelon.runtime import exact, noise
from echelon.runtime.cuda_graphs import GraphedFunction
from echelon.runtime.errors import ConfigError
from echelon.runtime.fallback import cause_of, fall_back
from echelon.runtime.noise import Stream
from echelon.sim import step
from echelon.sim.model import SimModel
from echelon.state import State

BATTLES = 64
"""Number of battles to compare, the first ones of the environment."""
DECISIONS = 8
ABSOLUTE, RELATIVE = 1e-3, 1e-4
"""Tolerances of one call, for fused multiply-add and another order of sums."""
MAX_MISMATCH_SHARE = 0.005
"""Share of a call's battles that may differ by more, because the last bit may decide whether a shot hits."""
CROWDED = 0.3
"""Factor on the distances between mechs."""


def _score_observe_reward(
    before: State, after: State, orders: Orders, sim_model: SimModel, out: Any
) -> decision.DecisionResult:
    """Call `score_observe_reward` with new tensors, so that it does not overwrite the compared tensors."""
    return decision.score_observe_reward(before, after, orders, sim_model)


def dense_decision(env: EchelonEnv) -> Callable[..., decision.DecisionResult]:
    """Return the dense form of `Engine.decide_in_loops`, in eager mode."""
    sim_model, extra = env.sim_model, env.engine.extra_rewards

    def decide(before: State, action: Tensor, *others: Any) -> decision.DecisionResult:
        orders = actions.decode(action, before.focus_slots, sim_model.roster, sim_model.config.features)
        result = decision.score_observe_reward(
            before, step.decide(before, orders, sim_model, step.play), orders, sim_model
        )
        return decision.add_extra_reward_terms(before, result, sim_model, extra)

    return decide


COMPARED: dict[str, tuple[Callable[..., Any], int]] = {
    "decode": (actions.decode, 2),
    "play": (step.play, 2),
    "score_observe_reward": (_score_observe_reward, 3),
    "reset_by_mask": (reset_by_mask, 4),
    "initial_observation_dense": (initial_observation, 1),
}
"""By the name of a compiled function in `Engine`: its dense form, and how many of its first arguments have a row per
battle."""


@dataclasses.dataclass(frozen=True)
class RehearsalResult:
    captures: bool
    """Whether a decision can be captured and its replays are correct; False if not requested."""
    line: str
    """The resulting forms, in one line."""


def should_rehearse(env: EchelonEnv) -> bool:
    """Return whether to rehearse an environment before use: on a GPU, unless an observer would receive the calls."""
    return env.device.type == "cuda" and env.observer is None


def rehearse(env: EchelonEnv, captures: bool = False) -> RehearsalResult:
    """Play some decisions of crowded battles, compare functions with their dense forms, and fall back to a simpler form
    if a function differs or fails.

    Afterwards, the environment is in the state after construction, with the same seeds. The rehearsal compiles the
    functions that the first step would otherwise compile.

    Args:
        env: the environment.
        captures: whether decisions will be captured as CUDA graphs.

    Raises:
        ConfigError: if an error made the device unusable for this process.
    """
    began, next_seed, requested = time.perf_counter(), env.next_seed, env.form
    action = random_actions(env)
    final: State | None = None
    if env.form in ("graph", "loops"):
        try:
            final = _play_compared(env, action, captures)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            # On any compiler error, log it and fall back to eager mode.
            _require_alive(env.device, error)
            env.run_eagerly()
            fall_back(f"the simulation runs eager instead of {requested}: {cause_of(error)}")
    if captures:
        env.open_battles(next_seed)
        captures = _captures(env, action, next_seed, final if env.form == requested else None)
    env.open_battles(next_seed)
    seconds = time.perf_counter() - began
    forms = [env.form] + ["captured decisions"] * captures
    return RehearsalResult(captures, f"rehearsed {DECISIONS} decisions in {seconds:.1f} s: {', '.join(forms)}")


class Mismatch(Exception):
    """Raised if a function differs from its dense form in too many battles."""


class Comparison:
    """Counts the battles in which a function differs from its dense form. Each call reads tensors on the host."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, int]] = {}
        """Number of battles that differed and that were compared, summed over calls, by function."""

    def wrap(
        self, name: str, function: Callable[..., Any], dense: Callable[..., Any], batched: int
    ) -> Callable[..., Any]:
        """Return `function`, wrapped so that each call is compared with `dense`; `batched` is the number of first
        arguments that have a row per battle."""

        def call(*arguments: Any) -> Any:
            # Copy the arguments before the call, because the call changes terrain in place.
            rows = [first_rows(argument) for argument in arguments[:batched]]
            result = function(*arguments)
            self.compare(name, result, dense(*rows, *arguments[batched:]))
            return result

        return call

    def compare(self, name: str, result: Any, expected: Any) -> None:
        """Compare the first battles of a result with the expected result."""
        expected_leaves = dict(leaves(expected))
        differences = {
            leaf: differs(value[: len(expected_leaves[leaf])], expected_leaves[leaf])[..., None].flatten(1).any(1)
            for leaf, value in leaves(result)
        }
        rows = torch.stack(list(differences.values()))
        differing, *counts = torch.cat([rows.any(0)[None], rows]).count_nonzero(1).tolist()
        mismatches, compared = self.counts.get(name, (0, 0))
        self.counts[name] = mismatches, compared = mismatches + differing, compared + rows.shape[1]
        if mismatches > MAX_MISMATCH_SHARE * max(compared, BATTLES * DECISIONS):
            worst = max(zip(counts, differences, strict=True))
            raise Mismatch(f"{name} differs in {mismatches} of {compared} battles, last in {worst[1]} of {worst[0]}")


def first_rows(value: Any) -> Any:
    """Return copies of the first battles of a tensor, or of a container of tensors `[B, ...]`."""
    if isinstance(value, Tensor) or is_tensor_collection(value):
        return value[:BATTLES].clone()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{name: first_rows(leaf) for name, leaf in vars(value).items()})
    return {key: first_rows(leaf) for key, leaf in value.items()}


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a result with their dotted names."""
    if isinstance(value, Tensor):
        yield name, value
        return
    if isinstance(value, State):
        value = value.to_tensordict()
    if is_tensor_collection(value):
        items: Mapping[Any, Any] = dict(value.items(True, True))
    elif isinstance(value, Mapping):
        items = value
    else:
        items = value._asdict() if hasattr(value, "_asdict") else vars(value)
    for key, item in items.items():
        key_name = ".".join(key) if isinstance(key, tuple) else key
        yield from leaves(item, f"{name}.{key_name}" if name else key_name)


def differs(value: Tensor, other: Tensor) -> Tensor:
    """Return a mask of the elements that differ by more than the rounding of compiled code can explain."""
    if not value.is_floating_point():
        return value != other
    is_near = (value - other).abs() <= ABSOLUTE + RELATIVE * other.abs()
    return (value != other) & ~is_near


def random_actions(env: EchelonEnv) -> Tensor:
    """Return random actions `[decisions, B, N, D]` in -1..1, biased to keep the heading and to fire."""
    shape = env.num_envs, env.config.num_mechs, layout.action_width(env.config.comm_dim)
    count = shape[1] * shape[2]
    draws = [noise.uniform(env.next_seed, tick, Stream.ACTION, count).view(shape) for tick in range(DECISIONS)]
    action = 2 * torch.stack(draws) - 1
    action[..., Act.YAW_RATE] *= 0.1
    action[..., list(TRIGGER_COLUMNS.values())] += 0.8
    action[..., Act.SPECIAL] -= 1.6
    return action.clamp(-1, 1)


def crowded(env: EchelonEnv) -> TensorDictBase:
    """Reset to battles in which the teams are close and face each other, and some end; return the observation."""
    tensordict = env.reset()
    mechs, rules = env.state.mechs, env.config.rules
    centre = exact.mean(mechs.pos, 1)[:, None]
    mechs.pos[..., :2] = (centre + CROWDED * (mechs.pos - centre))[..., :2]
    blue, red = (exact.mean(mechs.pos[:, span], 1) for span in env.teams.values())
    for span, direction in zip(env.teams.values(), (red - blue, blue - red), strict=True):
        mechs.yaw[:, span] = exact.atan2(direction[:, 1], direction[:, 0])[:, None]
    mechs.hp[:, ::3] *= 0.02
    env.state.tick[::4] = max(0, rules.max_decisions - DECISIONS // 2) * rules.decision_repeat
    return tensordict


def with_actions(observation: TensorDictBase, env: EchelonEnv, decisions: Tensor) -> TensorDictBase:
    """Set the actions `[B, N, D]` of both teams in `observation`, and return it."""
    for group, span in env.teams.items():
        observation.set((group, "action"), decisions[:, span])
    return observation


def _play(env: EchelonEnv, observation: TensorDictBase, decisions: Tensor) -> None:
    """Play decisions with the actions `[T, B, N, D]`, starting from `observation`."""
    for action in decisions:
        observation = env.step_and_maybe_reset(with_actions(observation, env, action))[1]


def _play_compared(env: EchelonEnv, decisions: Tensor, into_buffers: bool) -> State:
    """Play decisions with the environment's own functions, compare each call, and return the final state.

    Args:
        env: the environment.
        decisions: actions of T decisions, `[T, B, N, D]`.
        into_buffers: whether streams are written to fixed buffers, as in captured decisions. With fixed buffers,
            another graph is compiled, which takes as long as the graph without buffers.
    """
    comparison, loops_dense = Comparison(), dense_decision(env)

    def compare(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if name == "decide_in_loops":
            return lambda loops, *given: comparison.wrap("loops", functools.partial(function, loops), loops_dense, 2)(
                *given
            )
        return comparison.wrap(name, function, *COMPARED[name])

    try:
        env.engine.compare = compare
        tensordict = crowded(env)
        if into_buffers:
            env.stream_buffers = {
                name: torch.cat([tensordict.get((group, "observation", name)) for group in env.teams], 1)
                for name in layout.STREAMS
            }
        _play(env, tensordict, decisions)
    finally:
        env.stream_buffers = env.engine.compare = None
    return env.state


def decision_in_place(env: EchelonEnv, action: Tensor) -> tuple[GraphedFunction, Tensor]:
    """Return a function that plays a decision of crowded battles in fixed buffers as a CUDA graph, and the buffer
    for its actions, a copy of `action`."""
    static, inputs = StaticBattles(env, crowded(env)), action.clone()

    def decide() -> None:
        static.restart(static.step(with_actions(static.current.copy(), env, inputs)))

    return GraphedFunction(decide, env.device, "a rehearsed decision"), inputs


def _captures(env: EchelonEnv, decisions: Tensor, next_seed: Tensor, played: State | None) -> bool:
    """Return whether replays of a captured decision lead to the same state as normal calls. The captured graph is
    discarded afterwards."""
    if played is None:
        _play(env, crowded(env), decisions)
        played = env.state
        env.open_battles(next_seed)
    try:
        graphed, inputs = decision_in_place(env, decisions[0])
        for action in decisions:
            inputs.copy_(action)
            graphed("rehearsal")
        if graphed.is_graphed:
            Comparison().compare("a replay", env.state, first_rows(played))
        return graphed.is_graphed
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        _require_alive(env.device, error)
        fall_back(f"decisions run without CUDA graphs: {cause_of(error)}")
        return False


def _require_alive(device: torch.device, problem: Exception) -> None:
    """Raise `ConfigError` if an error left the device unusable."""
    if device.type != "cuda":
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        message = f"{device}: this process can no longer use it: {cause_of(problem)}"
        raise ConfigError(f"{message}; restart with ECHELON_BACKEND=eager") from problem

"""Compute decisions of an environment's battles with numba loops, with graphs of torch.compile, or in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env import decision
from echelon.env.areas import has_areas
from echelon.env.blocks import Blocks, no_grad_outside_inference_mode
from echelon.env.decision import DecisionResult
from echelon.env.first_compile import announce_compile, compile_process, loops_ready, wait_for_loops
from echelon.env.form import Backend, form_of
from echelon.env.loops.play import Loops
from echelon.env.observation.build import Observation, initial_observation, write_streams
from echelon.env.orders import commander_view, issue
from echelon.env.restart import (
    ResetResult,
    Selection,
    reset_battles,
    reset_by_mask,
    reset_into_buffers,
    restore_ground,
    with_initial_observations,
)
from echelon.env.reward import RewardTerm
from echelon.rules import actions
from echelon.rules.actions import Orders
from echelon.runtime import exact
from echelon.runtime.compile import fused
from echelon.runtime.profiling import part
from echelon.sim import step
from echelon.sim.model import SimModel
from echelon.state import State

Compare = Callable[[str, Callable[..., Any]], Callable[..., Any]]
"""Maps a function of a decision, by its name in `Engine`, to one that calls it and compares the result."""
COMPILED = (
    *("decode", "score_observe_reward", "judge", "apply_commands", "command_view", "play", "logged_substep"),
    *("reset_by_mask", "reset_into_buffers", "initial_observation_dense"),
)
"""Attributes that `Engine._compile` sets."""


class StepObserver(Protocol):
    """Observer of an environment's battles, such as `echelon.replay.recorder.Recorder`. It must change nothing."""

    def opening(self, sim_model: SimModel, state: State, streams: Mapping[str, Tensor]) -> None:
        """Receive the start of all battles: constants, state, and the observation of this state."""

    def tick(self, state: State, log: step.Log) -> None:
        """Receive the state after a substep, and its events. If decisions run in loops, this method is called for
        all substeps at the end of a decision, and each state contains the terrain after the last substep."""

    def moment(
        self,
        state: State,
        orders: Orders,
        streams: Mapping[str, Tensor],
        outcome: TensorDictBase,
        commands: Tensor | None,
    ) -> None:
        """Receive a decision: the state and the observation after the decision, the orders of the mechs, `outcome`
        (outcomes of battles that ended, and the `reward [B, N]` of every mech), and the `commands` passed to
        `Engine.decide`."""


class Engine:
    """Computes decisions and restarts of B battles on a device, in the form that the backend selects (loops, graphs or
    eager).

    Args:
        sim_model: rules, roster and maps.
        num_envs: number of battles, B.
        device: device of the battles.
        backend: as in `EchelonEnv`.
        is_watched: whether an observer receives every substep, with all battles in one batch.
        extra_rewards: additional reward terms by name.
    """

    def __init__(
        self,
        sim_model: SimModel,
        num_envs: int,
        device: torch.device,
        backend: Backend,
        is_watched: bool,
        extra_rewards: Mapping[str, RewardTerm],
    ) -> None:
        self.sim_model, self.device, self.extra_rewards = sim_model, device, extra_rewards
        self.compare: Compare | None = None
        """Set while functions of a decision are compared with their dense forms."""
        self.form = form_of(device, backend)
        in_loops = self.form == "loops"
        self.may_wait = in_loops and device.type == "cpu" and backend == "auto"
        """Whether battles run in the dense form until another process has compiled the loops."""
        if self.may_wait:
            compile_process()
        elif in_loops and device.type == "cpu":
            announce_compile()
        self.blocks = Blocks(num_envs, device, num_envs if in_loops else None, whole=is_watched and not in_loops)
        self.dense_blocks = Blocks(num_envs, device, whole=is_watched) if self.may_wait else self.blocks
        self.loops = self._loops() if in_loops else None
        self.last_ran_loops = False
        """Whether the last decision ran in loops, whose tensors may be modified in place."""
        self._compile()

    def _loops(self) -> Loops:
        """Return the numba loops for this device."""
        if self.device.type == "cpu":
            return Loops(self.sim_model, self.blocks)
        from echelon.env.loops.on_device import DeviceLoops

        return DeviceLoops(self.sim_model, self.blocks, self.device)

    def _compile(self) -> None:
        """Set the functions that compute a decision. Each function is compiled at its first call, so an unused function
        costs nothing.

        With loops on a GPU, functions without a loop run as graphs of torch.compile.
        """
        is_graph = self.form == "graph" or (self.form == "loops" and self.device.type != "cpu")

        def prepared(function: Callable[..., Any]) -> Callable[..., Any]:
            return fused(function, self.device, exact=True) if is_graph else function

        self.decode, self.score_observe_reward = prepared(actions.decode), prepared(decision.score_observe_reward)
        self.judge: Callable[..., DecisionResult] = prepared(decision.judge_and_reward)
        self.apply_commands: Callable[..., tuple[State, Tensor]] = prepared(issue.apply_commands)
        self.command_view: Callable[..., dict[tuple[str, ...], Tensor]] = prepared(commander_view.command_view)
        self.play: step.Play = prepared(step.play)
        self.logged_substep = prepared(step.logged_substep)
        self.reset_by_mask: Callable[..., ResetResult] = prepared(reset_by_mask)
        self.reset_into_buffers: Callable[..., None] = prepared(reset_into_buffers)
        self.initial_observation_dense: Callable[..., tuple[State, Observation]] = prepared(initial_observation)

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function of a decision with this name; if `compare` is set, its results are compared at each
        call."""
        function: Callable[..., Any] = getattr(self, name)
        return function if self.compare is None else self.compare(name, function)

    def usable_loops(self) -> Loops | None:
        """Return the loops if they can run now, else None.

        Under torch.compile, only loops on a GPU can run, because they are a custom operator. Loops on a CPU can run
        once they are compiled.
        """
        if self.device.type == "cpu" and (torch.compiler.is_compiling() or (self.may_wait and not loops_ready())):
            return None
        return self.loops

    def wait_for_loops(self) -> None:
        """Wait until another process has compiled the loops, if this engine uses them."""
        if self.may_wait:
            wait_for_loops()

    def run_eagerly(self) -> None:
        """Switch to eager mode."""
        self.form, self.loops = "eager", None
        self._compile()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without compiled functions, which cannot be pickled; each process compiles its own
        functions."""
        return {name: value for name, value in self.__dict__.items() if name not in COMPILED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See `__getstate__`."""
        self.__dict__.update(state)
        self._compile()

    def initial_observation(self, state: State) -> tuple[State, Observation]:
        """Return the state of battles with filled contact slots, and the initial observation of the battles."""
        loops = self.usable_loops()
        if loops is not None:
            return loops.observe(state, self.sim_model.maps)
        first: tuple[State, Observation] = self.function("initial_observation_dense")(state, self.sim_model)
        return first

    def cached_initial_observation(self, state: State, initial_observations: TensorDict) -> Mapping[str, Tensor]:
        """Return the initial observation of battles: cached per map, or computed if mechs spawn at random places."""
        return (
            self.initial_observation(state)[1] if has_areas(self.sim_model.maps) else initial_observations[state.map_id]
        )

    def restart(self, selection: Selection, *arguments: Any) -> ResetResult:
        """Restart the selected battles; their terrain is changed in place. The arguments are those of
        `reset_battles`."""
        terrain = arguments[1].terrain
        if selection.rows is None:
            restarted: ResetResult = self.function("reset_by_mask")(selection.mask, *arguments)
            assert selection.mask is not None
            restore_ground(terrain, selection.mask, restarted.state.map_id, self.sim_model.maps)
        else:
            restarted = reset_battles(selection, *arguments)
            selection.restore(terrain, restarted.fresh.terrain)
        if not has_areas(self.sim_model.maps):
            return restarted
        # With random spawn places, the initial observation differs between battles on one map, so it is not cached.
        return with_initial_observations(
            restarted, selection, *self.initial_observation(restarted.fresh), self.sim_model.roster.teams
        )

    def decide(
        self,
        before: State,
        action: Tensor,
        observer: StepObserver | None = None,
        buffers: Observation | None = None,
        commands: Tensor | None = None,
    ) -> DecisionResult:
        """Play one decision of all battles. The terrain of `before` is changed in place.

        Args:
            before: state of the battles before the decision.
            action: actions of both teams, `[B, N, D]`.
            observer: receives every substep and the decision.
            buffers: buffers for the observation streams, `[B, N, ...]` each; by default new tensors.
            commands: commands of the commanders, as in `echelon.env.orders.issue.apply_commands`.
        """
        if self.sim_model.config.command.enabled:
            with no_grad_outside_inference_mode():
                before, action = self.apply_commands(before, action, commands, self.sim_model)
        # The numba loops on a GPU cannot call an observer (`StepObserver`).
        loops = self.usable_loops() if observer is None or self.device.type == "cpu" else None
        self.last_ran_loops = loops is not None
        if loops is not None:
            decide: Callable[..., DecisionResult] = self.function("decide_in_loops")
            result = decide(loops, before, action, observer, buffers)
        else:

            def play(battles: slice) -> DecisionResult:
                out = None if buffers is None else {name: buffer[battles] for name, buffer in buffers.items()}
                return self.decide_dense(before[battles], action[battles], observer, out)

            with no_grad_outside_inference_mode():
                result = decision.concat_blocks(self.dense_blocks.play(play), before.terrain)
        if observer is not None:
            reward = exact.sum(result.reward_terms, -1)
            summary = TensorDict({**result.outcome, "reward": reward}, reward.shape[:1], device=self.device)
            orders = self.decode(action, before.focus_slots, self.sim_model.roster, self.sim_model.config.features)
            observer.moment(result.state, orders, result.streams, summary, commands)
        return result

    def decide_in_loops(
        self, loops: Loops, before: State, action: Tensor, observer: StepObserver | None, buffers: Observation | None
    ) -> DecisionResult:
        """Play a decision of all battles in numba loops."""
        with no_grad_outside_inference_mode():
            watch = None if observer is None else observer.tick
            if loops.judges:
                with part("play"):
                    result = loops.decide(before, action, watch)
            else:
                with part("play"):
                    state, streams = loops.play(before, action, watch)
                with part("judge"):
                    result = self.judge(before, state, streams, self.sim_model, loops.statistics)
            if buffers is not None:
                result = replace(result, streams=write_streams(result.streams, buffers))
            with part("judge"):
                return decision.add_extra_reward_terms(before, result, self.sim_model, self.extra_rewards)

    def decide_dense(
        self, before: State, action: Tensor, observer: StepObserver | None = None, buffers: Observation | None = None
    ) -> DecisionResult:
        """Play a decision of a block of battles with torch operations."""
        sim_model = self.sim_model

        def watched(state: State, orders: Orders, sim_model: SimModel) -> State:
            assert observer is not None
            after, log = self.logged_substep(state, orders, step.draw(state, sim_model), sim_model)
            observer.tick(after, log)
            return after  # type: ignore[no-any-return]

        with part("orders"):
            orders: Orders = self.function("decode")(
                action, before.focus_slots, sim_model.roster, sim_model.config.features
            )
        with part("substeps"):
            after = step.decide(before, orders, sim_model, self.function("play") if observer is None else watched)
        with part("score_observe_reward"):
            result: DecisionResult = self.function("score_observe_reward")(before, after, orders, sim_model, buffers)
            return decision.add_extra_reward_terms(before, result, sim_model, self.extra_rewards)

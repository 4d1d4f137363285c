"""Echelon as a TorchRL environment: specs, reset and step. The rules are in `echelon.sim`."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Composite

from echelon.env.arguments import (
    check_options,
    joined_actions,
    joined_commands,
    number_of_battles,
    seed_or_seeds,
)
from echelon.env.battle_states import (
    BATTLES,
    FINGERPRINT,
    MAP_SEED,
    NEXT_SEED,
    SHOWN,
    STATE,
    check_battles,
    check_entries,
    checked_rows,
    restored,
)
from echelon.env.blocks import no_grad_outside_inference_mode, one_thread
from echelon.env.decision import DecisionResult
from echelon.env.edited_states import fingerprint
from echelon.env.engine import Engine, StepObserver
from echelon.env.env_info import EnvInfo, deprecated_observed
from echelon.env.footprint import require_memory
from echelon.env.form import Backend, Form
from echelon.env.leaves import Leaves, Shown, nested
from echelon.env.map_pool import MapPool
from echelon.env.observation.stream import Observation
from echelon.env.observation.streams.registry import names_of, streams_of
from echelon.env.orders.commander_view import commander_groups, commanders_of
from echelon.env.outcome import Winner
from echelon.env.partial import STEP, PartialEnv, mask_of, restore_entries, restore_state
from echelon.env.restart import Selection, cleared, open_on_map
from echelon.env.reward import NO_EXTRA_TERMS, RewardTerm, check_extra_terms
from echelon.env.specs import DONE_KEYS, Specs
from echelon.rules.config import EnvConfig
from echelon.rules.roster import build_roster
from echelon.runtime import exact, noise
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import require
from echelon.runtime.profiling import part
from echelon.runtime.renamed import warn_renamed
from echelon.sim.model import SimModel, build_model
from echelon.state import Maps
from echelon.world.authored_maps import maps_of


class EchelonEnv(EnvInfo, PartialEnv):
    """A TorchRL environment that runs B mech battles in parallel.

    The batch is `[num_envs]`. The two teams are agent groups `blue` and `red` (`group_map`) of A mechs each:

    - in the input, `(group, "action") [B, A, 18 + comm_dim]` float32 in [-1, 1];
    - in the output, the float32 streams under `(group, "observation")`, which are `contacts [B, A, C, F]`,
      `squad [B, A, S, F]`, `ego [B, A, F]`, `comms [B, A, 5, comm_dim]` and `local_map [B, A, 11, 11]`, with
      `contacts_mask` and `squad_mask` bool; `(group, "mask") [B, A]` bool (alive mechs), `(group, "reward") [B, A, 1]`,
      and `(group, "reward_terms") [B, A, K]`, which sum to the reward (their names are `env.reward_terms`);
    - at the root, `telemetry [B, 16, 16]`, `is_init [B, 1]`, and `done`, `terminated`, `truncated` `[B, 1]` bool;
    - for a finished battle, `("next", "outcome")` with `winner`, `reason` `[B, 1]` int8, `score [B, 2]` s,
      `decisions [B, 1]`, `idle_s [B, 1]` (time without damage or score at its end) and `stats [B, 2, K]`
      (`env.stat_names`). In a running battle, `winner` is -1 and all other entries of the outcome are 0. TorchRL
      copies the outcome and the reward terms to the root, where a reset clears them.

    `env.describe()` returns the meaning, unit and range of every column.

    Finished battles restart on the device without a host read; `("next", ...)` keeps their true last observation. A
    battle can be saved, restored and forked (`get_state`, `set_state`, `fork`). A saved battle is complete: mechs,
    shots, voxels, seeds, the last observation and the memory of policies. After `set_state`, the same actions lead to
    the same battle, bit for bit, in any row of any batch. If the environment has not been reset yet, saving resets it
    first.

    `reset(seed=5)` equals `set_seed(5)` followed by `reset()`; `reset` takes no other keyword.

    If `EnvConfig.command` is enabled, commanders send orders to packs of mechs (`docs/COMMAND.md`). The commanders are
    the agents in the groups of `command_map`, and mechs also observe the stream `order [B, A, F]`.

    Args:
        config: the battle configuration; see `EnvConfig.small`, `.standard` and `.large`.
        num_envs: number of battles, B.
        device: device of all tensors; by default a GPU if there is one.
        seed: one integer, from which each battle gets its own seed, or `[B]` int64 seeds. A battle depends only on its
            seed, not on its row in the batch.
        memory: spec of the policies' recurrent state for one mech, with float leaves, such as
            `Composite(h=Unbounded((64,)))`. The state is stored under `(group, "memory", ...)` and is zero at the start
            of a battle.
        maps: a map pool made earlier for the same config and split, to share it between environments.
        backend: how a decision runs, as `loops` (numba, or numba-cuda on a GPU, with the extra `gpu`), `graph` (graphs
            of torch.compile, which round differently), `eager` (single torch operations, bit-identical to the loops),
            or `auto`. The backend `auto` is `ECHELON_BACKEND` if set; else `loops` on a CPU, or `eager` without numba;
            and on a GPU `graph`, or `loops` if a measurement found them faster.
        observer: object that receives every substep and decision and changes nothing
            (`echelon.env.engine.StepObserver`).
        info: whether the output contains `outcome` and `reward_terms`.
        extra_rewards: additional reward terms by name, mixed within the team like those of `RewardConfig`.

    Raises:
        ConfigError: if an argument has a wrong type or is out of range, this machine lacks the device, or the battles
            do not fit into its memory. `step` raises `ConfigError` if an action is missing or has a wrong shape.
    """

    next_seed: Tensor
    """`[B]` int64 seeds of the battles that begin next, each placed in the config's split when it begins."""
    _last_observation: TensorDictBase | Callable[[], TensorDictBase] | None
    """The last observation of every battle. A partial reset returns it unchanged for the other battles."""
    restarts_by_row = True
    """Whether a restart on a CPU computes only the rows that restart. Tests set False to test the form for a GPU."""

    def __init__(
        self,
        config: EnvConfig = EnvConfig(),
        num_envs: int = 1,
        device: torch.device | str | None = None,
        seed: int | Tensor | None = None,
        memory: Composite | None = None,
        maps: Maps | None = None,
        backend: Backend = "auto",
        observer: StepObserver | None = None,
        info: bool = True,
        extra_rewards: Mapping[str, RewardTerm] = NO_EXTRA_TERMS,
    ) -> None:
        check_options(config, memory, maps, backend, info, extra_rewards)
        num_envs = number_of_battles(num_envs)
        device = resolve_device("auto" if device is None or device == "" else device)
        require_memory(config, num_envs, device, makes_maps=maps is None)
        super().__init__(device=device, batch_size=torch.Size([num_envs]))
        self.config, self.num_envs, self.info = config, num_envs, info
        self.memory = Composite() if memory is None else memory
        self.backend, self.observer = backend, observer
        check_extra_terms(extra_rewards)
        self.extra_rewards = dict(extra_rewards)
        self._owns_maps = maps is None
        self._build(maps)
        self.set_seed(seed if seed is not None else random.getrandbits(31))
        self.open_battles(self.next_seed)

    def open_battles(self, next_seed: Tensor) -> None:
        """Return to the state after construction; the next reset starts new battles.

        Args:
            next_seed: seeds of the battles that the next reset starts, `[B]` int64.
        """
        self.next_seed, self._last_observation = next_seed, None
        with no_grad_outside_inference_mode():
            # Clone the seeds: a graph compiled with one tensor as two arguments does not accept two different tensors.
            self.state = open_on_map(next_seed.clone(), *self._map_source)

    def run_eagerly(self) -> None:
        """Switch to eager mode, after a backend failed."""
        self.backend = "eager"
        self.engine.run_eagerly()

    def _build(self, maps: Maps | None) -> None:
        """Build roster, maps, specs and compiled functions: everything on the device except the battles."""
        roster = build_roster(self.config, self.device)
        with one_thread(self.device):
            maps = maps_of(self.config, self.device) if maps is None else maps
            self.sim_model: SimModel = build_model(self.config, roster, maps)
        self.teams, self.command_map = roster.teams, commanders_of(self.config)
        self.group_map = {g: [f"{g}_{i}" for i in range(s.stop - s.start)] for g, s in self.teams.items()}
        is_watched = self.observer is not None
        self.engine = Engine(self.sim_model, self.num_envs, self.device, self.backend, is_watched, self.extra_rewards)
        self.map_pool = MapPool(self.sim_model, self.engine.usable_loops)
        self._last_observation = None
        self.stream_buffers: Observation | None = None
        """`[B, N, ...]` buffers that a step writes the streams to, if a caller provides them."""
        self.stream_names = names_of(streams_of(self.config))
        groups = {**self.group_map, **self.command_map}
        self.group_sizes = {group: torch.Size((self.num_envs, len(names))) for group, names in groups.items()}
        """Batch sizes of the groups."""
        self._make_specs()

    @property
    def game(self) -> SimModel:
        """Return `sim_model`. This name is deprecated and will be removed in 2.0."""
        warn_renamed("EchelonEnv.game", "EchelonEnv.sim_model")
        return self.sim_model

    @property
    def form(self) -> Form:
        """The form in which decisions run on this device, as selected by `backend`."""
        return self.engine.form

    def _make_specs(self) -> None:
        sizes = {group: len(names) for group, names in self.group_map.items()}
        terms = len(self.reward_terms)
        specs = Specs(
            self.config, sizes, self.memory, self.num_envs, self.device, self.info, terms, has_commanders=True
        )
        self.observation_spec, self.action_spec = specs.observation(), specs.action()
        self.reward_spec, self.done_spec = specs.reward(), specs.done()
        observation_keys = self.observation_spec.keys(include_nested=True, leaves_only=True)
        keys = [(key,) if isinstance(key, str) else key for key in observation_keys]
        self._renewed = [key for key in keys if key != ("is_init",) and "memory" not in key[:2]]
        """Keys of a tensordict that a restart writes, except flags and memories."""

    # Saved battles

    def get_state(self, rows: Sequence[int] | Tensor | None = None) -> TensorDict:
        """Return copies of some battles, on the environment's device.

        Args:
            rows: row indices of the battles, `[R]` int64, without duplicates; by default all.

        Returns:
            A TensorDict of batch `[R]`, which may be indexed, expanded, moved to another device and saved. Its entries
            are `state`, `next_seed`, `shown` (observations, flags and memories), `map_seed`, by which `set_state` finds
            the maps, and `fingerprint`, by which `set_state` detects edits.

        Raises:
            ConfigError: if a row is out of range or occurs twice.
        """
        index = self._checked_rows(rows)
        with no_grad_outside_inference_mode():
            saved = TensorDict(
                {
                    STATE: self.state[index].to_tensordict(),
                    NEXT_SEED: self.next_seed[index],
                    MAP_SEED: self.sim_model.maps.seed[self.state.map_id[index]],
                    SHOWN: self.last_observation()[index].to_tensordict(),
                },
                [len(index)],
                device=self.device,
            )
            return saved.set(FINGERPRINT, fingerprint(saved))

    def set_state(self, saved: TensorDictBase, rows: Sequence[int] | Tensor | None = None) -> TensorDictBase:
        """Replace battles of this environment by saved battles.

        A battle that was not edited continues as the original battle, bit for bit. For a battle with an edited `state`,
        the state is validated, and its observation and outcome are computed again.

        Call this method between decisions, because it reads tensors on the host to validate the saved battles and to
        find their maps.

        Args:
            saved: the result of `get_state` of an environment with the same config, batch `[R]`.
            rows: rows to replace, `[R]` int64, without duplicates; by default all.

        Returns:
            The current observation of all battles, in the format that `reset` returns.

        Raises:
            ConfigError: for a wrong number of battles, wrong entries, an index out of range, NaN or infinity, a map
                that is not in this environment's pool, or an invalid edited state: hulls that overlap or are in
                terrain, timers, hit points, heat or a clock out of range, a wreck with hit points.
        """
        index = self._checked_rows(rows)
        check_battles(saved, index.shape)
        saved = saved.to(self.device)
        check_entries(saved, self.get_state(index[:1]))
        with no_grad_outside_inference_mode():
            fields, observed = restored(saved, self.state, self.agent_names, self.sim_model)
            selection = Selection(rows=index)
            selection.restore(self.state.terrain, fields.pop("terrain"))
            self.state = self.state.replace(
                **{name: selection.replaced(getattr(self.state, name), leaves) for name, leaves in fields.items()}
            )
            self.next_seed = selection.replaced(self.next_seed, saved.get(NEXT_SEED))
            self._last_observation = self.last_observation().apply(selection.replaced, observed)
        return self.last_observation()

    def fork(self, row: int, times: int) -> EchelonEnv:
        """Return an environment of `times` copies of the battle in row `row`.

        Both environments share the maps, so do not renew the maps while the fork is in use.

        To copy a battle into an existing fork, call `forked.set_state(env.get_state([row]).expand(times))`.

        Args:
            row: row of the battle.
            times: number of copies.

        Raises:
            ConfigError: if `row` is out of range, or `times` is below 1.
        """
        saved, forked = self.get_state([row]), self._another(times)
        forked.set_state(saved.expand(times))
        return forked

    def state_dict(self, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Any]:
        """Return all battles under one key, `battles`, in the format of `get_state`."""
        return OrderedDict({BATTLES: self.get_state()})

    def load_state_dict(  # type: ignore[override]
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> None:
        """Restore the battles that `state_dict` returned.

        An empty dict changes nothing; TorchRL's `Collector` saves an empty dict for an environment without transforms.
        """
        require(isinstance(state_dict, Mapping), "state_dict", "what state_dict returned", state_dict)
        if BATTLES in state_dict:
            self.set_state(state_dict[BATTLES])

    def _checked_rows(self, rows: Sequence[int] | Tensor | None) -> Tensor:
        """Return validated rows `[R]` int64, without duplicates; reset the environment first if necessary."""
        if self._last_observation is None:
            self.reset()
        if rows is None:
            return torch.arange(self.num_envs, device=self.device)
        return checked_rows(rows, self.num_envs, self.device)

    # Copies

    def _another(self, num_envs: int) -> EchelonEnv:
        """Return an environment with the same settings and maps, but with battles of its own."""
        other = type(self)(
            self.config,
            num_envs,
            device=self.device,
            seed=0,
            memory=self.memory.clone(),
            maps=self.sim_model.maps,
            backend=self.backend,
            info=self.info,
            extra_rewards=self.extra_rewards,
        )
        # Copy the map pool too, because its maps may have been replaced or weighted since construction.
        other.map_pool.take_over(self.map_pool)
        return other

    def to(self, device: torch.device | str) -> EchelonEnv:
        """Move maps, specs and running battles to another device, in place.

        Args:
            device: the target device.

        Returns:
            This environment.

        Raises:
            ConfigError: if this machine lacks the device.
        """
        device = resolve_device(device)
        if device == self.device:
            return self
        pool, state, next_seed, shown = self.map_pool, self.state, self.next_seed, self._last_observation is not None
        observed = self.last_observation()
        super().to(device)
        self._build(self.sim_model.maps.to(device))
        self.map_pool.take_over(pool)
        self.state, self.next_seed = state.to(device), next_seed.to(device)
        self._last_observation = observed.to(device) if shown else None
        return self

    # Seeds and observations

    def _set_seed(self, seed: int | Tensor | None) -> None:
        """Set `next_seed [B]` int64, the seeds of the battles that the next reset starts."""
        seed = seed_or_seeds(seed, self.num_envs)
        self._seed_given: int | str = "one a battle" if isinstance(seed, Tensor) else seed
        if isinstance(seed, Tensor):
            self.next_seed = seed.to(self.device)
        else:
            self.next_seed = noise.battle_seeds(seed, self.num_envs, self.device)

    def set_seed(self, seed: int | Tensor | None = None, static_seed: bool = False) -> int | None:
        """Set the seeds of the battles that the next reset starts.

        Args:
            seed: one integer or `[B]` int64, as in the class.
            static_seed: as in TorchRL, whether to return the same seed.

        Returns:
            A seed for another environment, as in TorchRL; None if `seed` is a tensor `[B]`.

        Raises:
            ConfigError: if `seed` is neither a 63-bit integer nor a tensor `[B]` int64.
        """
        seed = seed_or_seeds(seed, self.num_envs)
        if isinstance(seed, Tensor):
            self._set_seed(seed)
            return None
        return super().set_seed(seed, static_seed)

    @property
    def _map_source(self) -> tuple[SimModel, Tensor, Mapping[str, Tensor]]:
        """Arguments of `reset_battles` that depend on the maps."""
        return self.sim_model, self.map_pool.map_slots, dict(self.map_pool.initial_observations.items())

    def renew_maps(self) -> int:
        """Replace the spare maps of the pool by newly generated maps, on which new battles can then start.

        Call this method between rollouts, because it reads tensors on the host. Running battles keep their maps; a
        spare map that a running battle uses is replaced at a later call.

        Returns:
            Number of new maps; 0 without `EnvConfig.map_spares`.

        Raises:
            ConfigError: if the maps were passed to this environment, so another environment may be using them.
        """
        require(
            self._owns_maps,
            "maps",
            "maps that this environment generated itself, because only such maps can be renewed",
            "maps made elsewhere",
        )
        return self.map_pool.renew(self.state.map_id)

    # TorchRL's interface

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        restarts = self._reset_mask(tensordict, **kwargs)
        if restarts is not None:
            return self._restart(restarts, self.last_observation())
        all_battles = torch.ones((*self.batch_size, 1), dtype=torch.bool, device=self.device)
        first = self._restart(all_battles, self._empty())
        if self.observer is not None:
            observation = self.engine.cached_initial_observation(self.state, self.map_pool.initial_observations)
            self.observer.opening(self.sim_model, self.state, observation)
        return first

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Restart the battles that are done, without a host read on a GPU."""
        with part("restart"):
            return self._restart(tensordict.get("done"), tensordict)

    @property
    def may_read_host(self) -> bool:
        """Whether a restart may read on the host which battles restart: only on a CPU, and not under torch.compile."""
        in_rows = self.restarts_by_row and self.form != "graph" and not torch.compiler.is_compiling()
        return in_rows and self.device.type == "cpu"

    def _restart(self, restarts: Tensor, td: TensorDictBase) -> TensorDictBase:
        """Restart the battles where `restarts [B, 1]` is True: set state, initial observation, memory and flags."""
        mask = restarts[:, 0]
        selection = Selection.by_row(mask) if self.may_read_host else Selection(mask)
        if selection.rows is not None and not len(selection.rows):
            return self._flagged(td, restarts)
        leaves = {key: td.get(key) for key in self._renewed}
        with no_grad_outside_inference_mode():
            restarted = self.engine.restart(selection, self.next_seed, self.state, leaves, *self._map_source)
        self.next_seed, self.state = restarted.next_seed, restarted.state
        for key, value in restarted.leaves.items():
            td.set(key, value)
        for group in self.group_map:
            for key in self._memory_keys(group):
                # Battles that continue keep their policy memory, and gradients flow through it.
                td.set(key, cleared(td.get(key), mask))
        return self._flagged(td, restarts)

    def _flagged(self, td: TensorDictBase, restarts: Tensor) -> TensorDictBase:
        """Set the flags of all battles in `td`, cache `td` as the last observation, and return it."""
        is_init = td.get("is_init", None)
        td.set("is_init", restarts.clone() if is_init is None else is_init | restarts)
        for flag in DONE_KEYS:
            td.set(flag, torch.zeros_like(restarts))
        self.cache_observation(td)
        return td

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        moves = mask_of(tensordict, STEP, self.batch_size)
        return self._step_all(tensordict) if moves is None else self._partial_step(tensordict, moves)

    def _partial_step(self, tensordict: TensorDictBase, moves: Tensor) -> TensorDictBase:
        """Step the battles where `moves [B, 1]` is True. All battles are stepped; the other battles are restored
        afterwards."""
        observed, before = self.last_observation(), self.state
        if self.observer is not None:
            are_over = bool((moves | observed.get("done")).all())
            require(
                are_over,
                STEP,
                "True for every battle that has not ended, because a recorder needs all decisions of a battle",
                moves,
            )
        for group in self.group_map:
            for leaf in self._memory_keys(group):
                observed.set(leaf, self._remembered(tensordict, leaf))
        with no_grad_outside_inference_mode():
            before = before.replace(terrain=before.terrain.clone())
        output = self._step_all(tensordict)
        with no_grad_outside_inference_mode():
            self.state = restore_state(moves, before, self.state)
        reward_keys = [(group, name) for group in self.group_map for name in ("reward", "reward_terms")]
        reward_keys += [(group, "reward") for group in self.command_map]
        paid: list[tuple[str, ...]] = [key for key in reward_keys if self.info or key[1] == "reward"]
        restore_entries(moves, output, observed, paid)
        self.cache_observation(output)
        return output

    def _step_all(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Step all battles."""
        output = self.tensordict_after(self.play(tensordict), tensordict)
        self.cache_observation(output)
        return output

    def play(self, decided: Shown) -> DecisionResult:
        """Play one decision of all battles, without restarts and without caching the observation.

        The classes in `echelon.env.static_battles` restart battles and cache the observation themselves.

        Args:
            decided: contains `(group, "action")` of both teams, and of commanders if commanders are enabled.
        """
        action = joined_actions(decided, self.group_map, self.batch_size, self.config.comm_dim)
        commands = joined_commands(decided, self.action_spec, self.command_map) if self.command_map else None
        result = self.engine.decide(self.state, action, self.observer, self.stream_buffers, commands)
        self.state = result.state
        return result

    def shown_after(self, result: DecisionResult) -> Leaves:
        """Return observations of both groups, outcomes and flags after a decision, by key; the tensors are views of
        `result`."""
        mask, paid = result.state.mechs.alive, result.reward_terms
        shown: Leaves = {}
        for group, span in self.teams.items():
            for name in self.stream_names:
                shown[group, "observation", name] = result.streams[name][:, span]
            shown[group, "mask"] = mask[:, span]
            if self.info:
                shown[group, "reward_terms"] = paid[:, span]
        if self.info:
            shown |= {("outcome", name): value for name, value in result.outcome.items()}
        return shown | {(name,): flag for name, flag in result.flags.items()}

    def tensordict_after(self, played: DecisionResult, tensordict: Shown) -> TensorDict:
        """Return the result of a decision as a TensorDict for TorchRL, with the next memories from `tensordict`."""
        state, rewards = played.state, exact.sum(played.reward_terms, -1, keepdim=True)
        out = nested(self.shown_after(played), self.batch_size, self.device, self.group_sizes)
        for group, span in self.teams.items():
            out.set((group, "reward"), rewards[:, span])
            for leaf in self._memory_keys(group):
                next_memory = tensordict.get(("next", *leaf), None)
                out.set(leaf, self._remembered(tensordict, leaf) if next_memory is None else next_memory)
        if self.command_map:
            out.update(
                commander_groups(self.engine.command_view(state, self.sim_model), rewards.squeeze(-1), self.sim_model)
            )
        out.set("telemetry", self.sim_model.maps.telemetry[state.map_id])
        out.set("is_init", torch.zeros_like(played.flags["done"]))
        return out

    def _remembered(self, tensordict: Shown, leaf: tuple[str, ...]) -> Tensor:
        """Return the memory that the caller passed, or else the memory in the last observation."""
        passed: Tensor | None = tensordict.get(leaf, None)
        return self.last_observation().get(leaf) if passed is None else passed

    def cache_observation(self, observed: TensorDictBase) -> None:
        """Cache the last observation of all battles for `last_observation()`."""
        self._last_observation = observed.clone(recurse=False)

    def cache_observation_lazily(self, observed: Callable[[], TensorDictBase]) -> None:
        """Cache a function that computes the last observation; the next read calls this function."""
        self._last_observation = observed

    def last_observation(self) -> TensorDictBase:
        """Return the last observation of all battles, batch `[B]`, as a shallow copy; all zeros before the first
        reset."""
        if self._last_observation is None:
            return self._empty()
        cached = self._last_observation
        self._last_observation = observed = cached if isinstance(cached, TensorDictBase) else cached()
        keys = self.observation_spec.keys(include_nested=True, leaves_only=True)
        return observed.select(*keys, *DONE_KEYS)

    observed = deprecated_observed

    def _empty(self) -> TensorDict:
        """Return an observation of zeros, which a full reset fills afterwards."""
        empty = self.observation_spec.zero()
        if self.info:
            winner = empty.get(("outcome", "winner"))
            empty.set(("outcome", "winner"), torch.full_like(winner, int(Winner.RUNNING)))
        # As in a step, both teams are views of one tensor; other strides would trigger a recompilation.
        for name in {key[1:] for key in self._renewed if key[0] in self.teams}:
            both_teams = torch.cat([empty.get((group, *name)) for group in self.teams], 1)
            for group, span in self.teams.items():
                empty.set((group, *name), both_teams[:, span])
        return empty

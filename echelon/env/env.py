"""Echelon as a TorchRL environment: specs, reset and step. The rules live in `echelon.sim`."""

from __future__ import annotations

import random
import warnings
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
    places_of,
    restored,
)
from echelon.env.blocks import no_grad_outside_inference_mode, one_thread
from echelon.env.decision import DecisionResult
from echelon.env.edited_states import fingerprint
from echelon.env.engine import Engine, StepObserver
from echelon.env.env_info import EnvInfo
from echelon.env.footprint import require_memory
from echelon.env.form import Backend, Form
from echelon.env.leaves import Leaves, Shown, nested
from echelon.env.map_pool import MapPool
from echelon.env.observation.stream import Observation
from echelon.env.observation.streams.registry import names_of, streams_of
from echelon.env.orders.commander_view import commander_groups, commanders_of
from echelon.env.outcome import Winner
from echelon.env.partial import STEP, PartialEnv, held_state, hold, mask_of
from echelon.env.restart import Selection, cleared, open_on_map
from echelon.env.reward import NO_EXTRA_TERMS, RewardTerm, check_extra_terms
from echelon.env.specs import DONE_KEYS, Specs
from echelon.rules.config import EnvConfig
from echelon.rules.roster import build_roster
from echelon.runtime import exact, noise
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import require
from echelon.runtime.profiling import part
from echelon.sim.model import SimModel, build_model
from echelon.state import Maps
from echelon.world.authored_maps import maps_of


class EchelonEnv(EnvInfo, PartialEnv):
    """B mech battles side by side.

    The batch is `[num_envs]`. The two teams are agent groups `blue` and `red` (`group_map`) of A mechs each:

    - in: `(group, "action") [B, A, 18 + comm_dim]` float32 in [-1, 1];
    - out: `(group, "observation", stream)` float32: `contacts [B, A, C, F]`, `squad [B, A, S, F]`, `ego [B, A, F]`,
      `comms [B, A, 5, comm_dim]`, `local_map [B, A, 11, 11]`, with `contacts_mask` and `squad_mask` bool;
      `(group, "mask") [B, A]` bool (alive), `(group, "reward") [B, A, 1]`, `(group, "reward_terms") [B, A, K]`, which
      sum to the reward (their names are `env.reward_terms`);
      and at the root `telemetry [B, 16, 16]`, `is_init [B, 1]`, `done`, `terminated`, `truncated` `[B, 1]` bool;
    - a finished battle's `("next", "outcome")`: `winner`, `reason` `[B, 1]` int8, `score [B, 2]` s, `decisions [B, 1]`,
      `idle_s [B, 1]` without damage or score at its end,
      `stats [B, 2, K]` (`env.stat_names`); winner -1 and zeros where the battle goes on. TorchRL carries the
      outcome and the reward terms on to the root, where a reset clears them.

    `env.describe()` tells what every column of these means, with its unit and range.

    Battles that end restart on the device without a host read; `("next", ...)` keeps their true last observation.
    A battle can be saved, restored and forked (`get_state`, `set_state`, `fork`). A saved battle has all that it goes
    on from: mechs, shots, voxels, seeds, the last observation and the memory of policies. The same actions then lead
    to the same battle, bit by bit, in any place of any batch. Saving begins the battles of an environment that was not
    reset yet.

    `reset(seed=5)` is `set_seed(5)` and then `reset()`; it takes no other keyword.

    With `EnvConfig.command` on, packs can be given orders (`docs/COMMAND.md`): commanders are the groups of
    `command_map`, and mechs observe the stream `order [B, A, F]` besides.

    Args:
        config: the battle; see `EnvConfig.small`, `.standard` and `.large`.
        num_envs: battles, B.
        device: where everything lives; by default a GPU where there is one.
        seed: one number, spread to a seed for each battle, or `[B]` int64 seeds. A battle depends on its own seed
            alone, not on its place in the batch.
        memory: what policies remember from one decision to the next, as float leaves for one mech, such as
            `Composite(h=Unbounded((64,)))`. It travels under `(group, "memory", ...)`, zero when a battle begins.
        maps: a pool made earlier for the same config and split, to share it between environments.
        backend: how a decision runs. `loops`: by numba, on a GPU by numba-cuda (the extra `gpu`). `graph`: graphs of
            torch.compile, which round otherwise. `eager`: by single operations, to the bit as loops. `auto`: what
            `ECHELON_BACKEND` names, else loops on a CPU with numba, eager without, graph or measured loops on a GPU.
        observer: watches every substep and decision, an `echelon.env.engine.StepObserver`; it changes nothing.
        info: whether `outcome` and `reward_terms` are there.
        extra_rewards: reward terms of the user's by name, mixed within the team as those of `RewardConfig` are.

    Raises:
        ConfigError: an argument is of another type or outside its limits, the device is not of this machine, or so many
            battles do not fit into its memory. `step` raises it where an action is missing or of another shape.
    """

    next_seed: Tensor
    """`[B]` int64 seeds of the battles that begin next, each placed in the config's split when it begins."""
    _observed: TensorDictBase | Callable[[], TensorDictBase] | None
    """What was last observed of every battle: a reset of some battles shows it again of the others."""
    restarts_by_row = True
    """Whether a restart on a CPU works on the battles that begin anew alone; False for tests of a GPU's form."""

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
        """Be as a new environment: with battles that nobody has played, and that the first reset begins.

        Args:
            next_seed: `[B]` int64 seeds of the battles that it begins.
        """
        self.next_seed, self._observed = next_seed, None
        with no_grad_outside_inference_mode():
            # A copy, for a graph that is compiled for one tensor in two places does not fit two tensors.
            self.state = open_on_map(next_seed.clone(), *self._map_source)

    def run_eagerly(self) -> None:
        """Play on operation by operation: for a backend that fails here."""
        self.backend = "eager"
        self.engine.run_eagerly()

    def _build(self, maps: Maps | None) -> None:
        """Everything on the device but the battles: roster, maps, specs and compiled functions."""
        roster = build_roster(self.config, self.device)
        with one_thread(self.device):
            maps = maps_of(self.config, self.device) if maps is None else maps
            self.sim_model: SimModel = build_model(self.config, roster, maps)
        self.teams, self.command_map = roster.teams, commanders_of(self.config)
        self.group_map = {g: [f"{g}_{i}" for i in range(s.stop - s.start)] for g, s in self.teams.items()}
        is_watched = self.observer is not None
        self.engine = Engine(self.sim_model, self.num_envs, self.device, self.backend, is_watched, self.extra_rewards)
        self.map_pool = MapPool(self.sim_model, self.engine.usable_loops)
        self._observed = None
        self.stream_buffers: Observation | None = None
        """`[B, N, ...]` where a step writes the streams, while somebody lends that."""
        self.stream_names = names_of(streams_of(self.config))
        groups = {**self.group_map, **self.command_map}
        self.group_sizes = {group: torch.Size((self.num_envs, len(names))) for group, names in groups.items()}
        """Batch sizes of the groups."""
        self._make_specs()

    @property
    def game(self) -> SimModel:
        """The old name of `sim_model`; valid until 2.0."""
        warnings.warn(
            "EchelonEnv.game is EchelonEnv.sim_model now; the old name works until 2.0", FutureWarning, stacklevel=2
        )
        return self.sim_model

    @property
    def form(self) -> Form:
        """How a decision runs here: what `backend` comes to."""
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
        """Entries of a tensordict that a restart renews, beside flags and memories."""

    # Saved battles

    def get_state(self, rows: Sequence[int] | Tensor | None = None) -> TensorDict:
        """Copies of some battles, on the environment's device.

        Args:
            rows: places of the battles, `[R]` int64, each once; all by default.

        Returns:
            A TensorDict of batch `[R]`, which may be indexed, expanded, moved to another device and saved: `state`,
            `next_seed`, `shown` (observations, flags and memories), `map_seed`, by which `set_state` finds the maps,
            and `fingerprint`, by which it knows what was edited.

        Raises:
            ConfigError: no such place, or one twice.
        """
        index = self._places(rows)
        with no_grad_outside_inference_mode():
            saved = TensorDict(
                {
                    STATE: self.state[index].to_tensordict(),
                    NEXT_SEED: self.next_seed[index],
                    MAP_SEED: self.sim_model.maps.seed[self.state.map_id[index]],
                    SHOWN: self.observed()[index].to_tensordict(),
                },
                [len(index)],
                device=self.device,
            )
            return saved.set(FINGERPRINT, fingerprint(saved))

    def set_state(self, saved: TensorDictBase, rows: Sequence[int] | Tensor | None = None) -> TensorDictBase:
        """Put saved battles into places of this environment, in place of those that are there.

        A battle that was not edited goes on bit for bit. One whose `state` was is checked, observed and judged anew.

        For between decisions: it reads the host, to check what was saved and to find the maps.

        Args:
            saved: what `get_state` returned here or in an environment of the same config, batch `[R]`.
            rows: places, `[R]` int64, each once; all by default.

        Returns:
            What is now observed of all battles, to go on from, as from `reset`.

        Raises:
            ConfigError: another number of battles, other entries, an index out of its range, what is no number, a map
                that is not in this environment's pool, or an edited state that cannot stand: hulls that overlap or are
                in terrain, timers, hit points, heat or a clock beyond their limits, a wreck with hit points.
        """
        index = self._places(rows)
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
            self._observed = self.observed().apply(selection.replaced, observed)
        return self.observed()

    def fork(self, row: int, times: int) -> EchelonEnv:
        """An environment of `times` battles that are all as the battle in place `row` is now.

        It shares the maps, which must not be renewed while it is in use.

        To fork again into it: `forked.set_state(env.get_state([row]).expand(times))`.

        Raises:
            ConfigError: no such battle, or `times` is below 1.
        """
        saved, forked = self.get_state([row]), self._another(times)
        forked.set_state(saved.expand(times))
        return forked

    def state_dict(self, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Any]:
        """All battles, as `get_state` returns them: one entry, `battles`."""
        return OrderedDict({BATTLES: self.get_state()})

    def load_state_dict(  # type: ignore[override]
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> None:
        """Restore what `state_dict` returned.

        An empty one, which is what TorchRL's `Collector` saves of an environment without transforms, changes nothing.
        """
        require(isinstance(state_dict, Mapping), "state_dict", "what state_dict returned", state_dict)
        if BATTLES in state_dict:
            self.set_state(state_dict[BATTLES])

    def _places(self, rows: Sequence[int] | Tensor | None) -> Tensor:
        """`[R]` int64 places, each within the batch and there once, of an environment whose battles have begun."""
        if self._observed is None:
            self.reset()
        if rows is None:
            return torch.arange(self.num_envs, device=self.device)
        return places_of(rows, self.num_envs, self.device)

    # Copies

    def _another(self, num_envs: int) -> EchelonEnv:
        """An environment with the same settings and maps, and other battles."""
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
        # Maps may have been renewed, and weighted.
        other.map_pool.take_over(self.map_pool)
        return other

    def to(self, device: torch.device | str) -> EchelonEnv:
        """Move maps, specs and the battles being fought to another device, in place.

        Raises:
            ConfigError: the device is not of this machine.
        """
        device = resolve_device(device)
        if device == self.device:
            return self
        pool, state, next_seed, shown = self.map_pool, self.state, self.next_seed, self._observed is not None
        observed = self.observed()
        super().to(device)
        self._build(self.sim_model.maps.to(device))
        self.map_pool.take_over(pool)
        self.state, self.next_seed = state.to(device), next_seed.to(device)
        self._observed = observed.to(device) if shown else None
        return self

    # Seeds and openings

    def _set_seed(self, seed: int | Tensor | None) -> None:
        """Seeds of the battles that the next reset begins, `next_seed [B]` int64."""
        seed = seed_or_seeds(seed, self.num_envs)
        self._seed_given: int | str = "one a battle" if isinstance(seed, Tensor) else seed
        if isinstance(seed, Tensor):
            self.next_seed = seed.to(self.device)
        else:
            self.next_seed = noise.battle_seeds(seed, self.num_envs, self.device)

    def set_seed(self, seed: int | Tensor | None = None, static_seed: bool = False) -> int | None:
        """Seed the battles that the next reset begins.

        Args:
            seed: one number or `[B]` int64, as in the class.
            static_seed: as in TorchRL: whether the seed that is returned is the same one.

        Returns:
            A seed that a further environment may take; None after `[B]` seeds.

        Raises:
            ConfigError: it is neither an integer of 63 bits nor `[B]` int64.
        """
        seed = seed_or_seeds(seed, self.num_envs)
        if isinstance(seed, Tensor):
            self._set_seed(seed)
            return None
        return super().set_seed(seed, static_seed)

    @property
    def _map_source(self) -> tuple[SimModel, Tensor, Mapping[str, Tensor]]:
        """What battles that begin need of the maps, as `begin` takes it."""
        return self.sim_model, self.map_pool.map_slots, dict(self.map_pool.initial_observations.items())

    def renew_maps(self) -> int:
        """Make the spare maps anew and let battles that begin draw them, each in the place of an old one.

        For between rollouts: it reads the host. Battles that are being fought keep their maps, and a spare that one of
        them is fought on is left for the next time.

        Returns:
            How many fresh maps are drawn from now on; 0 without `EnvConfig.map_spares`.

        Raises:
            ConfigError: the maps were given to this environment, so another one may be fighting on them.
        """
        require(self._owns_maps, "maps", "the environment's own to be renewed", "maps made elsewhere")
        return self.map_pool.renew(self.state.map_id)

    # TorchRL's interface

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        restarts = self._reset_mask(tensordict, **kwargs)
        if restarts is not None:
            return self._restart(restarts, self.observed())
        all_battles = torch.ones((*self.batch_size, 1), dtype=torch.bool, device=self.device)
        first = self._restart(all_battles, self._empty())
        if self.observer is not None:
            observation = self.engine.cached_initial_observation(self.state, self.map_pool.initial_observations)
            self.observer.opening(self.sim_model, self.state, observation)
        return first

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Restart the battles that are done, without asking the host which."""
        with part("restart"):
            return self._restart(tensordict.get("done"), tensordict)

    @property
    def may_ask_host(self) -> bool:
        """Whether a restart may ask which battles begin: on a CPU, not in a GPU's form or while a caller traces."""
        in_rows = self.restarts_by_row and self.form != "graph" and not torch.compiler.is_compiling()
        return in_rows and self.device.type == "cpu"

    def _restart(self, restarts: Tensor, td: TensorDictBase) -> TensorDictBase:
        """Begin anew where `restarts [B, 1]`: state, first observation, memory and flags."""
        mask = restarts[:, 0]
        selection = Selection.by_row(mask) if self.may_ask_host else Selection(mask)
        if selection.rows is not None and not len(selection.rows):
            return self._flagged(td, restarts)
        leaves = {key: td.get(key) for key in self._renewed}
        with no_grad_outside_inference_mode():
            begun = self.engine.restart(selection, self.next_seed, self.state, leaves, *self._map_source)
        self.next_seed, self.state = begun.next_seed, begun.state
        for key, value in begun.leaves.items():
            td.set(key, value)
        for group in self.group_map:
            for key in self._memory_keys(group):
                # Gradients go on through the memories of battles that do.
                td.set(key, cleared(td.get(key), mask))
        return self._flagged(td, restarts)

    def _flagged(self, td: TensorDictBase, restarts: Tensor) -> TensorDictBase:
        """`td` with the flags of battles that go on or began anew, kept as what was last observed."""
        is_init = td.get("is_init", None)
        td.set("is_init", restarts.clone() if is_init is None else is_init | restarts)
        for flag in DONE_KEYS:
            td.set(flag, torch.zeros_like(restarts))
        self.show(td)
        return td

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        moves = mask_of(tensordict, STEP, self.batch_size)
        return self._decided(tensordict) if moves is None else self._partial_step(tensordict, moves)

    def _partial_step(self, tensordict: TensorDictBase, moves: Tensor) -> TensorDictBase:
        """A step of the battles `moves [B, 1]`; the others are played too, and put back."""
        observed, before = self.observed(), self.state
        if self.observer is not None:
            are_over = bool((moves | observed.get("done")).all())
            require(are_over, STEP, "True for battles that go on, while they are recorded", moves)
        for group in self.group_map:
            for leaf in self._memory_keys(group):
                observed.set(leaf, self._remembered(tensordict, leaf))
        with no_grad_outside_inference_mode():
            before = before.replace(terrain=before.terrain.clone())
        output = self._decided(tensordict)
        with no_grad_outside_inference_mode():
            self.state = held_state(moves, before, self.state)
        reward_keys = [(group, name) for group in self.group_map for name in ("reward", "reward_terms")]
        reward_keys += [(group, "reward") for group in self.command_map]
        hold(moves, output, observed, [key for key in reward_keys if self.info or key[1] == "reward"])
        self.show(output)
        return output

    def _decided(self, tensordict: TensorDictBase) -> TensorDictBase:
        """A step of all battles."""
        output = self.tensordict_after(self.play(tensordict), tensordict)
        self.show(output)
        return output

    def play(self, decided: Shown) -> DecisionResult:
        """Play a decision of all battles, without what TorchRL does beside: restarts, and what is observed, are left to
        the caller (`echelon.env.static_battles`).

        Args:
            decided: has `(group, "action")` of both teams, and those of commanders if they speak.
        """
        action = joined_actions(decided, self.group_map, self.batch_size, self.config.comm_dim)
        commands = joined_commands(decided, self.action_spec, self.command_map) if self.command_map else None
        result = self.engine.decide(self.state, action, self.observer, self.stream_buffers, commands)
        self.state = result.state
        return result

    def shown_after(self, result: DecisionResult) -> Leaves:
        """What a decision shows to both groups, and the ends of battles: views of `result`, by key."""
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
        """A decision as TorchRL has it, memories of `tensordict` passed on."""
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
        """A memory that the caller passed, or else as it was last observed."""
        passed: Tensor | None = tensordict.get(leaf, None)
        return self.observed().get(leaf) if passed is None else passed

    def show(self, observed: TensorDictBase) -> None:
        """Cache the last observation of all battles for `observed()`."""
        self._observed = observed.clone(recurse=False)

    def show_later(self, observed: Callable[[], TensorDictBase]) -> None:
        """Replace what `show` stores by a function that makes it, called at the next read."""
        self._observed = observed

    def observed(self) -> TensorDictBase:
        """What was last observed of all battles, batch `[B]`; zeros before the first reset. A shallow copy."""
        if self._observed is None:
            return self._empty()
        observed = self._observed if isinstance(self._observed, TensorDictBase) else self._observed()
        self._observed = observed
        keys = self.observation_spec.keys(include_nested=True, leaves_only=True)
        return observed.select(*keys, *DONE_KEYS)

    def _empty(self) -> TensorDict:
        """An observation of nothing, for a full reset to fill."""
        empty = self.observation_spec.zero()
        if self.info:
            winner = empty.get(("outcome", "winner"))
            empty.set(("outcome", "winner"), torch.full_like(winner, int(Winner.RUNNING)))
        # Parts of tensors of all mechs, as a step shows them: of other strides another graph would be compiled.
        for name in {key[1:] for key in self._renewed if key[0] in self.teams}:
            both_teams = torch.cat([empty.get((group, *name)) for group in self.teams], 1)
            for group, span in self.teams.items():
                empty.set((group, *name), both_teams[:, span])
        return empty

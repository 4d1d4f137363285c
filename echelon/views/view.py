"""A view of the environment in which the user commands some mechs, in custom groups, with flat or structured
observations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Composite

from echelon.agents.team_policy import TeamPolicy, is_policy
from echelon.env.arguments import lookup_actions, lookup_factors, real_action
from echelon.env.battle_states import BATTLES, check_battles, check_entries, check_sides
from echelon.env.discrete import ActionMasks, FactorTable, action_table, factors_of
from echelon.env.env import EchelonEnv
from echelon.env.env_info import EnvInfo, deprecated_observed
from echelon.env.leaves import Shown
from echelon.env.observation.layout import GROUPS, STREAMS
from echelon.env.outcome import Winner
from echelon.env.partial import RESET, STEP, PartialEnv, mask_of
from echelon.env.restart import Selection, cleared
from echelon.env.specs import DONE_KEYS
from echelon.runtime import exact
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import ConfigError, require
from echelon.views.commanded import AllMechs, InsideTeams, OneTeam
from echelon.views.group_form import DTYPES, ActionForm, ObservationForm, PerGroup, ViewSpecs, common_form, group_forms
from echelon.views.transforms import FlatObservation

MEMORIES, SIDE = "memories", "is_red"


class View(EnvInfo, PartialEnv):
    """A TorchRL environment with some mechs of an `EchelonEnv`, in groups of the user's choice; create it with `versus`
    or `teams`.

    The batch is `[B]`. Each group has, for its k mechs:

    - in the input, `(group, "action")` as `[B, k, D]` float32 in [-1, 1]; as `[B, k]` int64, an index into
      `echelon.env.discrete.ACTIONS`; or as `[B, k, F]` int64, an option of each of `echelon.env.discrete.factors`;
    - in the output, `(group, "observation")` as `[B, k, F]` of `dtype`, or as streams in float32;
      `(group, "mask") [B, k]` bool (alive mechs); `(group, "reward") [B, k, 1]`; on request
      `(group, "action_mask") [B, k, 64]` (with factors, the concatenated masks of their options) and
      `(group, "memory", ...)`;
    - at the root `telemetry [B, 16, 16]`, `is_init`, `done`, `terminated`, `truncated` `[B, 1]`, on request
      `state [B, S]`, and the `outcome` of `EchelonEnv`, with `won [B, 1]` if there is an opponent.

    For a different `observation`, `action` or `memory` in each group, pass a mapping from group name to value.

    Args:
        env: the environment of the battles, created without `memory`.
        commanded: the mechs of each battle that the view's user commands.
        opponent: policy of the other team; None if the user commands all mechs.
        group_map: names of the commanded mechs in each group.
        observation: form of observations, `flat` for one vector per mech (see `FlatObservation`), or `structured` for
            streams by name.
        action: form of actions, `continuous`, `discrete` or `multi_discrete`.
        state: whether there is a global `state`: the ego streams of all mechs, the user's team first.
        memory: memory spec of the user's policies, as in `EchelonEnv`.
        dtype: dtype to which flat observations and the `state` are rounded, one of `torch.float32`, `torch.bfloat16`
            and `torch.float16`.
        partner: policy of the team's remaining mechs; None if the user commands the whole team.

    Raises:
        ConfigError: if an argument is invalid; in `step`, if an action is missing or has another shape.
    """

    def __init__(
        self,
        env: EchelonEnv,
        commanded: OneTeam | AllMechs,
        opponent: TeamPolicy | None,
        group_map: Mapping[str, Sequence[str]],
        observation: PerGroup[ObservationForm] = "flat",
        action: PerGroup[ActionForm] = "continuous",
        state: bool = False,
        memory: PerGroup[Composite] | None = None,
        dtype: torch.dtype = torch.float32,
        partner: TeamPolicy | None = None,
    ) -> None:
        forms = group_forms(group_map, commanded.names, observation, action, memory)
        require(dtype in DTYPES, "dtype", ", ".join(map(str, DTYPES)), dtype)
        is_used = dtype == torch.float32 or any(form.is_flat for form in forms.values())
        require(is_used, "dtype", "torch.float32 with structured observations", dtype)
        require(isinstance(state, bool), "state", "True or False", state)
        is_one = is_policy(opponent) if isinstance(commanded, OneTeam) else opponent is None
        require(is_one, "opponent", "a team policy, or None if both teams are commanded", opponent)
        is_shared = isinstance(commanded, OneTeam) and commanded.places is not None
        limit = "a team policy if only a part of the team is commanded, else None"
        require(is_policy(partner) if is_shared else partner is None, "partner", limit, partner)
        require(
            len(env.memory.keys()) == 0, "env", "an environment without memory; pass memory= to the view instead", env
        )
        super().__init__(device=env.device, batch_size=self._batch(env.num_envs, commanded.count))
        self.env = env
        self.commanded = commanded
        self.opponent, self.partner = opponent, partner
        self.group_map = {group: list(names) for group, names in group_map.items()}
        self.config, self.num_envs = env.config, env.num_envs
        self.info, self.extra_rewards = env.info, env.extra_rewards
        self.forms, self.has_state, self.observation_dtype = forms, state, dtype
        self._prepare()

    def _batch(self, num_envs: int, count: int) -> torch.Size:
        return torch.Size([num_envs])

    def _prepare(self) -> None:
        """Create the tensors on the device, the policies' runner and the specs."""
        order = [row for form in self.forms.values() for row in form.rows]
        is_ordered = order == list(range(len(order)))
        self._place = None if is_ordered else torch.tensor(order, device="cpu").argsort().to(self.device)
        """`[n]` int64: index of each commanded mech among the mechs of all groups; None if the order is the same."""
        self._index = {group: form.index(self.device) for group, form in self.forms.items()}
        comm_dim, forms = self.config.comm_dim, {form.action for form in self.forms.values()}
        self._masks = {
            form: ActionMasks(self.env.sim_model, factors_of(form, comm_dim)) for form in forms if form != "continuous"
        }
        self._table = action_table(comm_dim, self.device)
        self._factors = FactorTable(comm_dim, self.device)
        self._shows_flat = any(form.is_flat for form in self.forms.values())
        own_size, other_size = self._team_sizes()
        inside = {"opponent": self.opponent, "partner": self.partner}
        of_team = {}
        if isinstance(self.commanded, OneTeam):
            of_team = {"opponent": self.commanded.of_other, "partner": self.commanded.of_team}
        self._inside = InsideTeams(self.env, inside, {"opponent": other_size, "partner": own_size}, of_team)
        self._group_memories: dict[str, TensorDictBase] = {
            group: form.memory.expand((self.num_envs, len(form.rows))).to(self.device).zero()
            for group, form in self.forms.items()
            if form.has_memory
        }
        """Last memory of each group's policies."""
        specs = ViewSpecs(self.env, self.forms, self.observation_dtype, self.has_state, self.opponent is not None)
        self._set_specs(specs.observation(), specs.action(), specs.specs.reward(), specs.specs.done())

    def _team_sizes(self) -> tuple[int, int]:
        """Return the numbers of mechs in the user's team and in the other team."""
        blue, red = (len(names) for names in self.env.group_map.values())
        return (red, blue) if getattr(self.commanded, "is_red", False) is True else (blue, red)

    # Attributes that other libraries expect

    @property
    def agent_names(self) -> list[str]:
        """Names of the commanded mechs."""
        return list(self.commanded.names)

    @property
    def n_agents(self) -> int:
        """Number of commanded mechs."""
        return self.commanded.count

    @property
    def rows(self) -> dict[str, list[int]]:
        """Indices of each group's mechs among all commanded mechs."""
        return {group: list(form.rows) for group, form in self.forms.items()}

    @property
    def is_flat(self) -> bool:
        """Whether observations are one vector per mech. Raises `ConfigError` if the groups differ; see `forms`."""
        return common_form(self.forms, "is_flat", "observation")

    @property
    def is_discrete(self) -> bool:
        """Whether actions are indices of options instead of vectors. Raises `ConfigError` if the groups differ; see
        `forms`."""
        return common_form(self.forms, "is_discrete", "action")

    @property
    def memory(self) -> Composite:
        """Spec of the memory of one mech's policy. Raises `ConfigError` if the groups differ; see `forms`."""
        return common_form(self.forms, "memory", "memory")

    def render(self, mode: str = "rgb_array", **kwargs: Any) -> Any:  # type: ignore[override]
        """Render one battle from above; see `EchelonEnv.render`."""
        return self.env.render(mode, **kwargs)

    def __repr__(self) -> str:
        inside = {"opponent": self.opponent, "partner": self.partner}
        policies = "".join(f", {role}={type(policy).__name__}" for role, policy in inside.items() if policy is not None)
        return f"{type(self).__name__}({', '.join(self.group_map)}{policies}, {self.env!r})"

    def to(self, device: torch.device | str) -> View:
        """Move the battles and the opponent to another device, in place."""
        device = resolve_device(device)
        if device == self.device:
            return self
        inside, remembered = self._inside.memory, self._group_memories
        super().to(device)
        self.env.to(device)
        self.commanded = self.commanded.to(device)
        for policy in (self.opponent, self.partner):
            if isinstance(policy, torch.nn.Module):
                policy.to(device)
        self._prepare()
        self._inside.memory = inside.to(device)
        self._group_memories = {group: value.to(device) for group, value in remembered.items()}
        return self

    # Saved battles

    def last_observation(self) -> TensorDict:
        """Return the last observation of all battles; a policy can continue from it with `step`."""
        return self._to_tensordict(self.env.last_observation())

    observed = deprecated_observed

    def _memories(self) -> TensorDict:
        """Return the memory of opponent, partner and the user's policies, batch `[B]`."""
        inside = {"opponent": {}, **self._inside.memory, "groups": self._group_memories}
        return TensorDict(inside, [self.num_envs], device=self.device)

    def _restore_memories(self, memories: TensorDictBase) -> None:
        """Restore memories that `_memories` returned."""
        self._inside.memory, self._group_memories = memories, dict(memories.get("groups").items())

    def _is_red(self, index: Tensor) -> Tensor:
        """Return in which of the battles `index [R]` the user commands only the red team, `[R]` bool."""
        is_red = getattr(self.commanded, "is_red", False)
        return is_red[index] if isinstance(is_red, Tensor) else torch.full_like(index, is_red, dtype=torch.bool)

    def get_state(self, rows: Sequence[int] | Tensor | None = None) -> TensorDict:
        """Copy some battles, with the memory of the opponent, the partner and the user's policies.

        Args:
            rows: indices of the battles, `[R]` int64 without duplicates; by default all battles.

        Returns:
            A TensorDict of batch `[R]` with the entries of `EchelonEnv.get_state`, the policies' `memories`, and
            `is_red`, the user's side.

        Raises:
            ConfigError: if a battle does not exist or occurs twice in `rows`.
        """
        index = self.env._checked_rows(rows)
        saved = self.env.get_state(index)
        return saved.update({MEMORIES: self._memories()[index].clone(), SIDE: self._is_red(index)})

    def set_state(self, saved: TensorDictBase, rows: Sequence[int] | Tensor | None = None) -> TensorDict:
        """Replace battles of this view by saved battles.

        Args:
            saved: result of `get_state` of this or a similar view, batch `[R]`.
            rows: indices of the replaced battles, `[R]` int64 without duplicates; by default all battles. In each
                replaced battle, the user must command the same side as in the saved battle.

        Returns:
            The observation of all battles, in the form that `reset` returns.

        Raises:
            ConfigError: in the cases of `EchelonEnv.set_state`, or if the saved memories or sides do not match this
                view.
        """
        index = self.env._checked_rows(rows)
        check_battles(saved, index.shape)
        memories, is_red = saved.get(MEMORIES, None), saved.get(SIDE, None)
        is_of_view = isinstance(memories, TensorDictBase) and isinstance(is_red, Tensor)
        require(
            is_of_view, "saved", f"the result of a view's get_state, with {MEMORIES} and {SIDE}", list(saved.keys())
        )
        check_entries(memories, self._memories())
        check_sides(is_red, self._is_red(index))
        self.env.set_state(saved.exclude(MEMORIES, SIDE), index)
        selection = Selection(rows=index)
        self._restore_memories(self._memories().apply(selection.replaced, memories.to(self.device)))
        return self.last_observation()

    def fork(self, row: int, times: int) -> View:
        """Create a view of `times` copies of the battle with index `row`; see `EchelonEnv.fork`.

        The copies share the maps and the policies of opponent and partner, and continue from the policies' current
        memory.

        Raises:
            ConfigError: if the battle does not exist, or `times` is below 1.
        """
        saved, forms = self.get_state([row]), self.forms
        commanded = self.commanded
        if isinstance(commanded, OneTeam):
            commanded = replace(commanded, is_red=saved.get(SIDE).expand(times))
        forked = type(self)(
            self.env.fork(row, times),
            commanded,
            self.opponent,
            self.group_map,
            {group: "flat" if form.is_flat else "structured" for group, form in forms.items()},
            {group: form.action for group, form in forms.items()},
            self.has_state,
            {group: form.memory.clone() for group, form in forms.items()},
            self.observation_dtype,
            self.partner,
        )
        forked._restore_memories(saved.get(MEMORIES).expand(times).clone())
        return forked

    def state_dict(self, *args: Any, **kwargs: Any) -> OrderedDict[str, Any]:
        """Return a dict of all battles (`battles`), all policies' memory (`memories`), and the weights of the
        opponent if it is a module."""
        weights = super().state_dict(*args, **kwargs)
        return OrderedDict({**weights, BATTLES: self.env.get_state(), MEMORIES: self._memories().clone()})

    def load_state_dict(  # type: ignore[override]
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> None:
        """Restore the result of `state_dict`, including the value of `last_observation`. An empty dict changes nothing.

        Raises:
            ConfigError: if battles or memories come from another kind of view; see `EchelonEnv.set_state`.
        """
        require(isinstance(state_dict, Mapping), "state_dict", "the result of state_dict", state_dict)
        weights = {key: value for key, value in state_dict.items() if key not in (BATTLES, MEMORIES)}
        if BATTLES in state_dict:
            memories: Any = state_dict.get(MEMORIES)
            is_valid = isinstance(memories, TensorDictBase) and memories.shape == (self.num_envs,)
            require(is_valid, f"state_dict: {MEMORIES}", f"a TensorDict of {self.num_envs} battles", memories)
            check_entries(memories, self._memories())
            self.env.load_state_dict(state_dict)
            self._restore_memories(self._memories().clone(recurse=False).update(memories.to(self.device).clone()))
        if weights:
            super().load_state_dict(weights, strict, assign)

    def _set_specs(self, observation: Composite, action: Composite, reward: Composite, done: Composite) -> None:
        self.observation_spec, self.action_spec = observation, action
        self.reward_spec, self.done_spec = reward, done

    # TorchRL's interface

    def _set_seed(self, seed: int | Tensor | None) -> None:
        self.env._set_seed(seed)

    def set_seed(self, seed: int | Tensor | None = None, static_seed: bool = False) -> int | None:
        """Set the seeds of the battles; see `EchelonEnv`."""
        return self.env.set_seed(seed, static_seed)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        mask = self._reset_mask(tensordict, **kwargs)
        if mask is None:
            return self._reset_memories(self.env._reset(), None)
        restarts = self._whole_battles(RESET, mask)
        reset = TensorDict({RESET: restarts}, [self.num_envs], device=self.device)
        return self._reset_memories(self.env._reset(reset), restarts)

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Restart finished battles without copying their mask to the host."""
        restarts = self._per_battle(tensordict.get("done"))
        observed = self.env.maybe_reset(self.env.last_observation())
        return tensordict.update(self._reset_memories(observed, restarts))

    def _reset_memories(self, td: TensorDictBase, restarts: Tensor | None) -> TensorDictBase:
        """Clear the policies' memory in restarted battles, or in all battles if `restarts` is None; return the
        view's TensorDict."""
        all_battles = torch.ones((self.num_envs, 1), dtype=torch.bool, device=self.device)
        mask = (all_battles if restarts is None else restarts)[:, 0]
        self._restore_memories(self._memories().apply(lambda values: cleared(values, mask)))
        return self._to_tensordict(td)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = mask_of(tensordict, STEP, self.batch_size)
        memory = self._inside.memory
        blue, red = self._team_actions(self._own_actions(tensordict))
        actions = TensorDict({"blue": {"action": blue}, "red": {"action": red}}, [self.num_envs], device=self.device)
        moves = None
        if mask is not None:
            actions.set(STEP, self._whole_battles(STEP, mask))
            moves = Selection(actions.get(STEP)[:, 0])
            self._inside.memory = moves.replaced(memory, self._inside.memory)
        self._store_memories(tensordict, moves)
        result = self.env._step(actions)
        output = self._to_tensordict(result)
        reward = self.commanded.gather(*(result.get((group, "reward")) for group in GROUPS))
        for group, index in self._index.items():
            output.set(self._key(group, "reward"), reward[:, index])
        return output

    def _store_memories(self, tensordict: TensorDictBase, moves: Selection | None) -> None:
        """Store the next memory of the user's policies. Keep the current memory if a policy wrote none, and in
        battles that do not step."""
        for group, remembered in self._group_memories.items():
            key = self._key(group, "memory")
            current = tensordict.get(key, remembered)
            memory = tensordict.get(("next", *key), current)
            self._group_memories[group] = memory if moves is None else moves.replaced(current, memory)

    def play(self, action: Tensor) -> dict[str, Any]:
        """Step all battles as `step` does, but without TensorDicts, which take most of the time of a step with a single
        battle.

        Args:
            action: actions of all commanded mechs, `[B, n, D]`, `[B, n]` or `[B, n, F]`, in a view of one group without
                memory.

        Returns:
            A dict with `observation` (`[B, n, F]`, or streams by name), `mask [B, n]`, `reward [B, n]`, with index
            actions `action_mask [B, n, S]`, on request `state [B, S]`, `done`, `terminated`, `truncated` `[B, 1]`, and
            the `outcome`, a dict of tensors.

        Raises:
            ConfigError: if the action has another shape or kind.
        """
        ((group, form),) = self.forms.items()
        blue, red = self._team_actions(self._own_actions({self._key(group, "action"): action}))
        env, decided = self.env, {("blue", "action"): blue, ("red", "action"): red}
        result = env.play(decided)
        env.cache_observation_lazily(partial(env.tensordict_after, result, decided))

        own = partial(self.commanded.among_all, teams=env.teams)

        streams: Any = {name: own(result.streams[name]) for name in env.stream_names}
        played = {
            "observation": FlatObservation.of(streams, self.observation_dtype) if form.is_flat else streams,
            "mask": own(result.state.mechs.alive),
            "reward": own(exact.sum(result.reward_terms, -1)),
            "outcome": result.outcome,
        }
        if form.action != "continuous":
            played["action_mask"] = own(self._masks[form.action](result.state))
        if self.has_state:
            played["state"] = self._state(*(result.streams["ego"][:, span] for span in env.teams.values()))
        return played | result.flags

    # Conversion between tensors of both teams and of the commanded mechs

    def _team_actions(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Add the actions of opponent and partner to the actions of the commanded mechs; return the actions of blue
        and red."""
        other_actions = None if self.opponent is None else self._inside.decide("opponent")
        if self.partner is not None:
            assert isinstance(self.commanded, OneTeam) and self.commanded.places is not None
            actions = self._inside.decide("partner").index_copy(1, self.commanded.places, actions)
        return self.commanded.split(actions, other_actions)

    def _own_actions(self, tensordict: Shown) -> Tensor:
        """Return the actions `[B, n, D]` of the commanded mechs."""
        by_group = []
        for group, form in self.forms.items():
            key, width = self._key(group, "action"), len(form.rows)
            action = tensordict.get(key, None)
            if action is None:
                raise ConfigError(f"{key} is missing: step requires the actions of {', '.join(map(repr, self.forms))}")
            expected = self.full_action_spec[key].shape
            if action.shape != expected:
                raise ConfigError(f"{key} must have shape {tuple(expected)}, got {tuple(action.shape)}")
            if form.action == "discrete":
                action = lookup_actions(key, self._table, action)
            elif form.action == "multi_discrete":
                action = lookup_factors(key, self._factors, action)
            else:
                action = real_action(key, action)
            by_group.append(action.view(self.num_envs, width, action.shape[-1]))
        actions = by_group[0] if len(by_group) == 1 else torch.cat(by_group, 1)
        if self._place is not None:
            actions = actions[:, self._place]
        return actions

    def _to_tensordict(self, td: TensorDictBase) -> TensorDict:
        """Build the view's TensorDict from the environment's TensorDict, without rewards."""
        gather = self.commanded.gather
        streams = {name: gather(*(td.get((group, "observation", name)) for group in GROUPS)) for name in STREAMS}
        entries: dict[str, Tensor | TensorDict] = {"mask": gather(*(td.get((group, "mask")) for group in GROUPS))}
        structured = TensorDict(streams, entries["mask"].shape, device=self.device)
        flat = FlatObservation.of(structured, self.observation_dtype) if self._shows_flat else None
        if self.info:
            entries["reward_terms"] = gather(*(td.get((group, "reward_terms")) for group in GROUPS))
        masks = {}
        for action, masks_of in self._masks.items():
            mask = masks_of(self.env.state)
            masks[action] = gather(*(mask[:, span] for span in self.env.teams.values()))
        output = TensorDict({}, self.batch_size, device=self.device)
        for group, form in self.forms.items():
            index = self._index[group]
            team = {name: value[:, index] for name, value in entries.items()}
            if form.action != "continuous":
                team["action_mask"] = masks[form.action][:, index]
            team["observation"] = (structured if flat is None or not form.is_flat else flat)[:, index]
            if form.has_memory:
                team["memory"] = self._group_memories[group]
            self._set_group(output, group, TensorDict(team, team["mask"].shape, device=self.device))
        for name in ("telemetry", "is_init", *DONE_KEYS):
            self._set_root(output, name, td.get(name))
        if self.has_state:
            egos = (td.get((group, "observation", "ego")) for group in GROUPS)
            self._set_root(output, "state", self._state(*egos))
        if self.info:
            self._set_root(output, "outcome", self._outcome(td.get("outcome")))
        return output

    def _state(self, *egos: Tensor) -> Tensor:
        """Return the global state `[B, N * F]`, the ego streams of blue and red, `[B, A, F]` each, with the user's
        team first."""
        if isinstance(self.commanded, OneTeam):
            egos = self.commanded.split(*egos)
        return torch.cat(egos, 1).flatten(1).to(self.observation_dtype)

    def _outcome(self, outcome: TensorDictBase) -> TensorDictBase:
        """Add to the outcome whether the commanded team won."""
        if not isinstance(self.commanded, OneTeam):
            return outcome
        winner = outcome.get("winner")[:, 0]
        is_blue, is_red = winner == int(Winner.BLUE), winner == int(Winner.RED)
        return outcome.copy().set("won", self.commanded.of_team(is_blue, is_red)[:, None])

    # Keys and shapes of tensordict entries; `echelon.views.build.MechView` overrides these methods.

    def _key(self, group: str, name: str) -> tuple[str, ...]:
        return (group, name)

    def _set_group(self, td: TensorDict, group: str, team: TensorDict) -> None:
        td.set(group, team)

    def _set_root(self, td: TensorDict, name: str, value: Tensor | TensorDictBase) -> None:
        td.set(name, value)

    def _per_battle(self, flag: Tensor) -> Tensor:
        return flag.view(self.num_envs, 1)

    def _whole_battles(self, name: str, mask: Tensor) -> Tensor:
        """Convert a caller's mask of battles to shape `[B, 1]`, bool."""
        return self._per_battle(mask)

"""An environment for the commanders of one team. Each agent commands a pack (a squad of mechs) and sends it one
order per step; policies control the mechs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Bounded, Composite, Unbounded

from echelon.agents.team_policy import TeamPolicy
from echelon.env.arguments import real_action
from echelon.env.blocks import one_thread
from echelon.env.env import EchelonEnv
from echelon.env.env_info import EnvInfo
from echelon.env.observation.layout import COMMAND, GROUPS
from echelon.env.outcome import Winner
from echelon.env.partial import STEP, PartialEnv, mask_of
from echelon.env.restart import cleared, select
from echelon.env.specs import DONE_KEYS
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError, require
from echelon.views.build import Opponent, env_of, team_policy
from echelon.views.commanded import InsideTeams, OneTeam, Side

GROUP = "commanders"
STREAMS = ("packs", "tracks", "tracks_mask", "situation")


class CommandersView(EnvInfo, PartialEnv):
    """A view of an `EchelonEnv` in which the agents command the packs of one team; create it with `commanders`.

    The batch is `[B]`. The one group `commanders` has an agent for each of the team's P packs:

    - in the input, `("commanders", "action") [B, P, D]` float32 in [-1, 1], the order to each pack;
    - in the output, `("commanders", "observation")` as `[B, P, F]` float32, or as the streams `packs`, `tracks`,
      `tracks_mask` and `situation`; `("commanders", "mask") [B, P]` bool (the pack has living mechs); and
      `("commanders", "reward") [B, P, 1]`, the mean reward of the team's mechs, summed over the decisions of the step
      and discounted by `RewardConfig.gamma`;
    - at the root `is_init`, `done`, `terminated`, `truncated` `[B, 1]` and the `outcome` of `EchelonEnv`, with `won`.

    A step takes `CommandConfig.period` decisions, so use the property `gamma` as the discount factor per step.

    Args:
        env: the environment, with orders enabled, created with `info` and without `memory`.
        side: the commanded team, as in `versus` or as a `OneTeam`.
        subordinates: policy of the commanded team's mechs.
        opponent: policy of the other team.
        is_flat: whether an observation is one vector per pack; if False, it consists of the streams by name.
    """

    def __init__(
        self,
        env: EchelonEnv,
        side: Side | OneTeam,
        subordinates: TeamPolicy,
        opponent: TeamPolicy,
        is_flat: bool = True,
    ) -> None:
        require(len(env.command_map) > 0, "config.command.enabled", "True for commanders", False)
        require(env.info, "info", "True for commanders", env.info)
        super().__init__(device=env.device, batch_size=torch.Size([env.num_envs]))
        self.env, self.config, self.num_envs = env, env.config, env.num_envs
        self.info, self.extra_rewards, self.command_map = env.info, env.extra_rewards, {}
        self.subordinates, self.opponent, self.is_flat = subordinates, opponent, is_flat
        self.override_actions: Callable[[Tensor], Tensor] | None = None
        """Maps the `subordinates` actions `[B, A, D]` to the actions to play, if a person drives a mech."""
        self.on_decision: Callable[[TensorDictBase], None] | None = None
        """Called after every decision with the result of `EchelonEnv.step` and the actions of mechs and commanders."""
        self.team = side if isinstance(side, OneTeam) else OneTeam.of(side, env.group_map, env.num_envs, env.device)
        names = env.command_map[COMMAND["red" if self.team.is_red is True else "blue"]]
        self.group_map = {GROUP: [f"pack_{i}" for i in range(len(names))]}
        sizes = {"subordinates": self.team.count, "opponent": env.config.num_mechs - self.team.count}
        of_team = {"subordinates": self.team.of_team, "opponent": self.team.of_other}
        self.inside = InsideTeams(env, {"subordinates": subordinates, "opponent": opponent}, sizes, of_team)
        self._make_specs()

    @property
    def gamma(self) -> float:
        """Discount factor per step: the discount factor per decision, to the power of the number of decisions per
        step."""
        return float(self.config.reward.gamma**self.config.command.period)

    def _make_specs(self) -> None:
        env, batch = self.env, (self.num_envs,)
        packs = len(self.group_map[GROUP])
        source = COMMAND["red" if self.team.is_red is True else "blue"]
        spec = env.observation_spec[source]

        def root(**leaves: object) -> Composite:
            return Composite(**leaves, shape=batch, device=self.device)

        streams = spec["observation"].clone()
        if self.is_flat:
            width = sum(streams[name].shape[2:].numel() for name in STREAMS)
            streams = Unbounded((*batch, packs, width), device=self.device, dtype=torch.float32)
        group = Composite(observation=streams, mask=spec["mask"].clone(), shape=(*batch, packs), device=self.device)
        outcome = env.observation_spec["outcome"].clone()
        outcome["won"] = env.done_spec["done"].clone()
        self.observation_spec = root(
            **{GROUP: group, "is_init": env.observation_spec["is_init"].clone(), "outcome": outcome}
        )
        width = env.action_spec[source, "action"].shape[-1]
        action = Bounded(-1.0, 1.0, (*batch, packs, width), device=self.device, dtype=torch.float32)
        reward = Unbounded((*batch, packs, 1), device=self.device, dtype=torch.float32)
        inner = {"shape": (*batch, packs), "device": self.device}
        self.action_spec = root(**{GROUP: Composite(action=action, **inner)})
        self.reward_spec = root(**{GROUP: Composite(reward=reward, **inner)})
        self.done_spec = env.done_spec.clone()

    # Attributes that other libraries expect

    @property
    def n_agents(self) -> int:
        """Number of packs."""
        return len(self.group_map[GROUP])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.agent_names)}, {self.env!r})"

    # Copies

    def last_observation(self) -> TensorDict:
        """Return the current observation of all battles, in the form that `reset` returns."""
        return self._to_tensordict(self.env.last_observation())

    def fork(self, row: int, times: int) -> CommandersView:
        """Create a view of `times` copies of the battle with index `row`; see `EchelonEnv.fork`.

        The copies share the maps and the policies, and each policy continues from its current memory.

        Raises:
            ConfigError: if the battle does not exist, or `times` is below 1.
        """
        team, memory = self.team, self.inside.memory[row : row + 1].expand(times).clone()
        if isinstance(team.is_red, Tensor):
            team = replace(team, is_red=team.is_red[row : row + 1].expand(times))
        forked = CommandersView(self.env.fork(row, times), team, self.subordinates, self.opponent, self.is_flat)
        forked.inside.memory = memory
        return forked

    def _set_seed(self, seed: int | Tensor | None) -> None:
        self.env._set_seed(seed)

    def set_seed(self, seed: int | Tensor | None = None, static_seed: bool = False) -> int | None:
        """Set the seeds of the battles; see `EchelonEnv`."""
        return self.env.set_seed(seed, static_seed)

    # TorchRL's interface

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        mask = self._reset_mask(tensordict, **kwargs)
        if mask is None:
            return self._reset_memories(
                self.env._reset(), torch.ones((self.num_envs, 1), dtype=torch.bool, device=self.device)
            )
        reset = TensorDict({"_reset": mask}, self.batch_size, device=self.device)
        return self._reset_memories(self.env._reset(reset), mask)

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Restart finished battles without copying their mask to the host."""
        done = tensordict.get("done")
        observed = self.env.last_observation()
        observed.set("done", done)
        return tensordict.update(self._reset_memories(self.env.maybe_reset(observed), done))

    def _reset_memories(self, td: TensorDictBase, which: Tensor) -> TensorDictBase:
        self.inside.memory = self.inside.memory.apply(lambda values: cleared(values, which[:, 0]))
        return self._to_tensordict(td)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        require(
            mask_of(tensordict, STEP, self.batch_size) is None,
            STEP,
            "absent, because a view of commanders always steps all battles",
            "one",
        )
        key = (GROUP, "action")
        action, expected = tensordict.get(key, None), self.full_action_spec[key].shape
        if action is None or action.shape != expected:
            actual = "none" if action is None else tuple(action.shape)
            raise ConfigError(f"{key} must have shape {tuple(expected)}, got {actual}: docs/COMMAND.md")
        orders: Tensor | None = real_action(key, action)
        total: TensorDict | None = None
        for i in range(self.config.command.period):
            result = self.decide(orders)
            reward = self.team.gather(*(result.get((COMMAND[team], "reward")) for team in GROUPS))
            current, orders = self._to_tensordict(result), None
            current.set((GROUP, "reward"), reward)
            total = current if total is None else self._add_decision(total, current, self.config.reward.gamma**i)
        assert total is not None
        return total

    def decide(self, orders: Tensor | None) -> TensorDictBase:
        """Advance both teams by one decision, with new orders `[B, P, D]` or without."""
        with one_thread(self.device):
            return self._decide(orders)

    def _decide(self, orders: Tensor | None) -> TensorDictBase:
        env, subordinates, opponent = self.env, self.inside.decide("subordinates"), self.inside.decide("opponent")
        subordinates = subordinates if self.override_actions is None else self.override_actions(subordinates)
        blue, red = self.team.split(subordinates, opponent)
        by_group: dict[str, Any] = {"blue": {"action": blue}, "red": {"action": red}}
        if orders is not None:
            silence = torch.zeros_like(orders)
            for team, side in zip(GROUPS, self.team.split(orders, silence), strict=True):
                # The other team sends no orders. The shape of its action depends on its packs and enemies.
                shape = env.action_spec[COMMAND[team], "action"].shape
                by_group[COMMAND[team]] = {
                    "action": side if side.shape == shape else torch.zeros(shape, device=self.device)
                }
        actions = TensorDict(by_group, self.batch_size, device=self.device)
        before = env.last_observation() if self.on_decision is not None else None
        result = env._step(actions)
        if self.on_decision is not None and before is not None:
            self.on_decision(before.update(actions).set("next", result))
        return result

    def _add_decision(self, earlier: TensorDict, later: TensorDict, discount: float) -> TensorDict:
        """Add the next decision to a step's result; battles that have ended keep their last state."""
        is_over = earlier.get("done")[:, 0]
        reward = earlier.get((GROUP, "reward")) + discount * cleared(later.get((GROUP, "reward")), is_over)
        merged = later.apply(lambda new, old: select(is_over, old, new), earlier)
        merged.set((GROUP, "reward"), reward)
        return merged

    def _to_tensordict(self, td: TensorDictBase) -> TensorDict:
        """Build the commanders' TensorDict from the environment's TensorDict."""
        groups = [td.get(COMMAND[team]) for team in GROUPS]

        def gathered(*key: str) -> Tensor:
            if isinstance(self.team.is_red, bool):
                return groups[int(self.team.is_red)].get(key)
            return self.team.gather(*(group.get(key) for group in groups))

        streams = {name: gathered("observation", name) for name in STREAMS}
        mask = gathered("mask")
        observation: Tensor | TensorDict = TensorDict(streams, mask.shape, device=self.device)
        if self.is_flat:
            observation = torch.cat([value.flatten(2).to(torch.float32) for value in streams.values()], -1)
        group = TensorDict({"observation": observation, "mask": mask}, mask.shape, device=self.device)
        winner = td.get(("outcome", "winner"))[:, 0]
        won = self.team.gather(winner == int(Winner.BLUE), winner == int(Winner.RED))
        outcome = td.get("outcome").copy().set("won", won[:, None])
        flags = {name: td.get(name) for name in ("is_init", *DONE_KEYS)}
        return TensorDict({GROUP: group, "outcome": outcome, **flags}, self.batch_size, device=self.device)


def commanders(
    config: EnvConfig = EnvConfig(),
    subordinates: Opponent = "heuristic:hard",
    opponent: Opponent = "heuristic:hard",
    num_envs: int = 1,
    device: torch.device | str | None = None,
    seed: int | Tensor | None = None,
    *,
    side: Side = "both",
    observation: Literal["flat", "structured"] = "flat",
    **settings: Any,
) -> CommandersView:
    """Create an environment for the commanders of one team, with an agent per pack.

    In each step, every agent sends an order to its pack; a step takes `CommandConfig.period` decisions of the mechs.

    Args:
        config: the battle, with `EnvConfig.command` enabled.
        subordinates: policy of the team's mechs, in one of the forms of `opponent` in `versus`.
        opponent: policy of the other team, which has no commander.
        num_envs, device, seed, side, settings: see `versus`.
        observation: form of observations, `flat` for one vector per pack, or `structured` for the streams by name.

    Returns:
        The environment, batch `[B]`.

    Raises:
        ConfigError: if orders are disabled, a setting is out of range, a policy is a network in training mode, or
            `side` is `both` and the teams differ in size.
        FileError: if a path contains no checkpoint for battles of `config`.
    """
    require(observation in ("flat", "structured"), "observation", "flat or structured", observation)
    env = env_of(commanders, config, num_envs, device, seed, settings)
    inner = team_policy(subordinates, config, env.device, "subordinates")
    return CommandersView(env, side, inner, team_policy(opponent, config, env.device), observation == "flat")

"""One battle as a PettingZoo environment: each mech is a named agent, and all act at once.

>>> env = parallel_env(EnvConfig.small(), death="terminates")
>>> observations, infos = env.reset(seed=0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.arguments import FURTHER_OF_MECHS, check_further
from echelon.env.outcome import Winner
from echelon.integrations import missing
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.views.build import MechView, Opponent, mechs
from echelon.views.commanded import AllMechs
from echelon.views.view import ActionForm, ObservationForm

try:
    import numpy as np
    from gymnasium import spaces
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils.conversions import parallel_to_aec
except ModuleNotFoundError as error:
    raise missing("pettingzoo", error) from None

from echelon.integrations.spaces import arrays_of, bad_actions, space_of
from echelon.integrations.window import RENDER_MODES, Rendered, render_fps

Death = Literal["stays", "terminates"]
MaskPlace = Literal["observation", "infos"]
AFTER_END = ("alive", "action_mask")
"""Infos of a reset after the end of a battle."""


def parallel_env(
    config: EnvConfig = EnvConfig(),
    death: Death = "stays",
    *,
    opponent: Opponent | None = None,
    side: Literal["blue", "red"] = "blue",
    observation: ObservationForm = "flat",
    action: ActionForm = "continuous",
    masks: MaskPlace = "observation",
    seed: int | None = None,
    device: torch.device | str = "cpu",
    render_mode: str | None = None,
    **settings: Any,
) -> ParallelBattle:
    """Create one battle in which all mechs act at once.

    Args:
        config: the battle; see `EnvConfig.small`, `.standard` and `.large`.
        death: handling of dead mechs. `stays`: it remains an agent until the battle ends, with the observation of dead
            mechs and its team's rewards; its actions have no effect. `terminates`: it is `terminated` at the decision
            in which it dies and is no longer an agent, so it does not receive the end of the battle.
        opponent: None for all mechs as agents, `blue_0`, `red_0` and so on; or the commander of the other team, as in
            `echelon.versus`, for agents `agent_0` and so on.
        side: team of the agents, if there is an opponent.
        observation: `flat`, a `Box [F]`, or `structured`, a `Dict` of streams.
        action: `continuous`, a `Box [D]` in [-1, 1]; `discrete`, a `Discrete(64)`; or `multi_discrete`, a
            `MultiDiscrete [F]`.
        masks: place of the `action_mask [S]` int8 of index actions, with S = 64 or the options of all factors: in an
            `observation`, a `Dict` of `observation` and `action_mask`, or in the `infos`, as AgileRL expects it.
        seed: seed of the first battle, if `reset` receives none; by default a different one each time.
        device: device of the simulation; one battle is fastest on a CPU.
        render_mode: `rgb_array`, `human` (a window) or None.
        settings: further arguments of `echelon.mechs`: `backend`, `maps`, `extra_rewards`.

    Returns:
        The environment.
    """
    check_further(parallel_env, settings, FURTHER_OF_MECHS)
    view = mechs(
        config, opponent, 1, device, seed, side=side, observation=observation, action=action, state=True, **settings
    )
    return ParallelBattle(view, death, render_mode, masks)


def env(*args: Any, **settings: Any) -> AECEnv:
    """Create the same battle for code in which agents act in turn; arguments as in `parallel_env`."""
    check_further(parallel_env, settings, FURTHER_OF_MECHS, "env")
    return parallel_to_aec(parallel_env(*args, **settings))


class ParallelBattle(Rendered, ParallelEnv):
    """One battle of a `MechView`; use `parallel_env` to create one.

    Infos of an agent are `alive`, `bad_actions` (how many non-finite numbers were in its actions in this battle, each
    replaced by 0) and, for the end of a battle, `winner` (an `echelon.env.outcome.Winner`, -1 before) and `won`,
    whether that is the agent's team. A reset after the end of a battle has neither, because vectorizers such as
    SuperSuit merge its infos into those of the last step.
    """

    def __init__(
        self, view: MechView, death: Death = "stays", render_mode: str | None = None, masks: MaskPlace = "observation"
    ) -> None:
        require(death in ("stays", "terminates"), "death", "stays or terminates", death)
        require(masks in ("observation", "infos"), "masks", "observation or infos", masks)
        require(render_mode in (None, *RENDER_MODES), "render_mode", "rgb_array, human or None", render_mode)
        require(view.num_envs == 1 and view.has_state and view.info, "view", "one battle, with state and info", view)
        self.metadata = {
            "name": "echelon",
            "render_modes": list(RENDER_MODES),
            "render_fps": render_fps(view.config),
            "is_parallelizable": True,
        }
        self.view, self.death, self.render_mode = view, death, render_mode
        self.observes_masks = view.is_discrete and masks == "observation"
        self.possible_agents = view.agent_names
        self.agents: list[str] = []
        self._rows = {name: row for row, name in enumerate(self.possible_agents)}
        obs_spec = view.observation_spec[0]
        self.observation_spaces = {name: self._observation_space(obs_spec[row]) for name, row in self._rows.items()}
        act_spec = view.full_action_spec[0]
        self.action_spaces = {name: space_of(act_spec[row]["action"]) for name, row in self._rows.items()}
        self.state_space = space_of(view.observation_spec[0, 0]["state"])
        self._state = np.zeros(self.state_space.shape, np.float32)
        self.is_over = False
        """Whether the battle has ended."""

    def _observation_space(self, spec: Mapping[str, Any]) -> spaces.Space:
        space = space_of(spec["observation"])
        if not self.observes_masks:
            return space
        return spaces.Dict({"observation": space, "action_mask": space_of(spec["action_mask"])})

    def observation_space(self, agent: str) -> spaces.Space:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[dict, dict]:
        """Start a battle, the one of `seed` or the next. `options` are ignored; PettingZoo's tests pass some."""
        if seed is not None:
            self.view.set_seed(seed)
        self.agents = list(self.possible_agents)
        td = self.view.reset()
        observations, infos = self._results(td[0], self.agents)
        if self.is_over:
            infos = {name: {key: info[key] for key in AFTER_END if key in info} for name, info in infos.items()}
        self.is_over = False
        self._show()
        return observations, infos

    def step(self, actions: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        if not self.agents and not actions:
            return {}, {}, {}, {}, {}
        agents = self.agents
        action = TensorDict({"action": self._action(actions)}, self.view.batch_size, device=self.view.device)
        next_td = self.view.step(action)["next"][0]
        observations, infos = self._results(next_td, agents)
        self.is_over = bool(next_td["done"].any())
        rewards = self._of(agents, next_td["reward"][:, 0])
        terminated, truncated = (self._of(agents, next_td[flag][:, 0]) for flag in ("terminated", "truncated"))
        if self.death == "terminates":
            terminated = {name: ended or not infos[name]["alive"] for name, ended in terminated.items()}
        self.agents = [name for name in agents if not (terminated[name] or truncated[name])]
        self._show()
        return observations, rewards, terminated, truncated, infos

    def _action(self, actions: Mapping[str, Any]) -> Tensor:
        """Return the agents' actions `[1, n, D]`, `[1, n]` or `[1, n, F]`, with zeros for agents that are gone."""
        require(len(self.agents) > 0, "step", "after reset, in a running battle", "the battle is over")
        names = sorted(map(str, actions))
        is_complete = set(self.agents) <= set(names) <= set(self.possible_agents)
        require(is_complete, "actions", f"one for each of {', '.join(self.agents)}", names)
        space = self.action_spaces[self.agents[0]]
        rows = np.zeros((len(self.possible_agents), *space.shape), space.dtype)
        for name in self.agents:
            array = np.asarray(actions[name])
            require(array.shape == space.shape, f"action of {name}", f"of shape {space.shape}", array.shape)
            is_of_kind = np.can_cast(array.dtype, rows.dtype, "same_kind")
            require(is_of_kind, f"action of {name}", f"{rows.dtype} numbers", array.dtype)
            rows[self._rows[name]] = array
        return torch.from_numpy(rows).to(self.view.device)[None]

    def state(self) -> np.ndarray:
        """Return the global state `[S]` float32 of the last observation: the ego streams of all mechs."""
        return self._state.copy()

    def _results(self, td: TensorDictBase, agents: Sequence[str]) -> tuple[dict, dict]:
        """Return observations and infos of some agents, from the TensorDict `[n]` of all mechs."""
        self._state = arrays_of(td["state"][0])
        observations = [arrays_of(row) for row in td["observation"].unbind(0)]
        alive, winner = td["mask"].tolist(), int(td["outcome", "winner"][0])
        bad = bad_actions(self.view)[0].tolist()
        rows = {name: self._rows[name] for name in agents}
        infos = {
            name: {"alive": alive[row], "bad_actions": bad[row], "winner": winner, "won": winner == self._side(row)}
            for name, row in rows.items()
        }
        if self.view.is_discrete:
            masks = arrays_of(td["action_mask"])
            if self.observes_masks:
                shown = zip(observations, masks, strict=True)
                observations = [{"observation": own, "action_mask": mask} for own, mask in shown]
            else:
                infos = {name: {**info, "action_mask": masks[rows[name]]} for name, info in infos.items()}
        return {name: observations[row] for name, row in rows.items()}, infos

    def _side(self, row: int) -> Winner:
        commanded = self.view.commanded
        if isinstance(commanded, AllMechs):
            return Winner.BLUE if row < commanded.num_blue else Winner.RED
        return Winner.RED if commanded.is_red else Winner.BLUE

    def _of(self, agents: Sequence[str], values: Tensor) -> dict[str, Any]:
        """Select some agents' values, by name, from those of all mechs, `[n]`."""
        host = values.tolist()
        return {name: host[self._rows[name]] for name in agents}

"""One battle as a PettingZoo environment: each mech is a named agent, and all act at once.

>>> env = parallel_env(EnvConfig.small(), death="terminates")
>>> observations, infos = env.reset(seed=0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from echelon.env.arguments import FURTHER_OF_MECHS, check_further
from echelon.env.outcome import Winner
from echelon.env.specs import DONE_KEYS
from echelon.integrations import missing
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError, require
from echelon.views.build import MechView, Opponent, mechs
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
        death: what happens to dead mechs. With `stays`, a dead mech remains an agent until the battle ends, with the
            observation of dead mechs and its team's rewards; its actions have no effect. With `terminates`, a dead
            mech is `terminated` at the decision in which it dies and is no longer an agent, so it does not receive the
            end of the battle.
        opponent: if None, all mechs are agents, named `blue_0`, `red_0` and so on; else the commander of the other
            team, as in `echelon.versus`, and the agents are named `agent_0` and so on.
        side: team of the agents, if there is an opponent.
        observation: either `flat`, a `Box [F]`, or `structured`, a `Dict` of observation streams.
        action: one of `continuous`, a `Box [D]` in [-1, 1], `discrete`, a `Discrete(64)`, and `multi_discrete`, a
            `MultiDiscrete [F]`.
        masks: where the `action_mask [S]` int8 of discrete actions is (S is 64, or the number of options of all
            factors). With `observation`, an observation is a `Dict` of `observation` and `action_mask`; with `infos`,
            the mask is in the infos, as AgileRL expects.
        seed: seed of the first battle, if `reset` receives none; by default a different one each time.
        device: device of the simulation; one battle is fastest on a CPU.
        render_mode: one of `rgb_array`, `human` (a window) and None.
        settings: further arguments (`backend`, `maps`, `extra_rewards`) of `echelon.mechs`.

    Returns:
        The environment.
    """
    check_further(parallel_env, settings, FURTHER_OF_MECHS)
    view = mechs(
        config, opponent, 1, device, seed, side=side, observation=observation, action=action, state=True, **settings
    )
    return ParallelBattle(view, death, render_mode, masks)


def env(*args: Any, **settings: Any) -> AECEnv:
    """Create the same battle as an AEC environment, in which agents act in turn; arguments as in `parallel_env`."""
    check_further(parallel_env, settings, FURTHER_OF_MECHS, "env")
    return parallel_to_aec(parallel_env(*args, **settings))


class ParallelBattle(Rendered, ParallelEnv):
    """One battle of a `MechView`; use `parallel_env` to create one.

    Infos of an agent are `alive`, `bad_actions` (the number of non-finite values in its actions during this battle;
    each was replaced by 0), `winner` (an `echelon.env.outcome.Winner`, -1 while the battle runs) and `won`, whether the
    winner is the agent's team. The infos of a reset after the end of a battle contain no `winner` and no `won`, because
    vectorizers such as SuperSuit merge infos of a reset into those of the last step.
    """

    def __init__(
        self, view: MechView, death: Death = "stays", render_mode: str | None = None, masks: MaskPlace = "observation"
    ) -> None:
        require(death in ("stays", "terminates"), "death", "stays or terminates", death)
        require(masks in ("observation", "infos"), "masks", "observation or infos", masks)
        require(render_mode in (None, *RENDER_MODES), "render_mode", "rgb_array, human or None", render_mode)
        require(
            view.num_envs == 1 and view.has_state and view.info,
            "view",
            "a view of one battle (num_envs=1) with state=True and info=True",
            view,
        )
        self.metadata = {"name": "echelon", "render_modes": list(RENDER_MODES), "is_parallelizable": True}
        self.metadata["render_fps"] = render_fps(view.config)
        self.view, self.death, self.render_mode = view, death, render_mode
        self.observes_masks = view.is_discrete and masks == "observation"
        self.possible_agents = view.agent_names
        self.agents: list[str] = []
        self._rows = {name: row for row, name in enumerate(self.possible_agents)}
        teams = zip(view.env.group_map.values(), (Winner.BLUE, Winner.RED), strict=True)
        sides = (torch.full((1, len(team)), int(side)) for team, side in teams)
        self._sides = view.commanded.gather(*sides)[0].tolist()
        obs_spec, act_spec = view.observation_spec[0], view.full_action_spec[0]
        self.observation_spaces = {name: self._observation_space(obs_spec[row]) for name, row in self._rows.items()}
        self.action_spaces = {name: space_of(act_spec[row]["action"]) for name, row in self._rows.items()}
        self.state_space: Any = space_of(obs_spec[0]["state"])
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
        """Start the battle of `seed`, or the next battle.

        `options` are ignored, because PettingZoo's tests pass some.
        """
        td, self.agents = self.view.reset(seed=seed), list(self.possible_agents)
        self._state = arrays_of(td["state"][0, 0])
        observations, infos = self._results(td, int(Winner.RUNNING))
        if self.is_over:
            infos = {name: {key: info[key] for key in AFTER_END if key in info} for name, info in infos.items()}
        self.is_over = False
        self._show()
        return observations, infos

    def step(self, actions: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        if not self.agents and not actions:
            return {}, {}, {}, {}, {}
        played, agents = self.view.play(self._action(actions)), self.agents
        self._state = arrays_of(played["state"][0])
        observations, infos = self._results(played, int(played["outcome"]["winner"]))
        self.is_over, is_terminated, is_truncated = (bool(played[flag]) for flag in DONE_KEYS)
        paid, may_leave = played["reward"][0].tolist(), self.death == "terminates"
        terminated = {name: is_terminated or (may_leave and not infos[name]["alive"]) for name in agents}
        self.agents = [name for name in agents if not (terminated[name] or is_truncated)]
        self._show()
        rewards = {name: paid[self._rows[name]] for name in agents}
        return observations, rewards, terminated, dict.fromkeys(agents, is_truncated), infos

    def _action(self, actions: Mapping[str, Any]) -> Tensor:
        """Return the agents' actions `[1, n, D]`, `[1, n]` or `[1, n, F]`, with zeros for agents that have left."""
        require(len(self.agents) > 0, "step", "after reset, in a running battle", "the battle is over")
        is_complete = set(self.agents) <= actions.keys() <= self._rows.keys()
        require(is_complete, "actions", f"one for each of {', '.join(self.agents)}", sorted(map(str, actions)))
        space: Any = self.action_spaces[self.agents[0]]
        rows = np.zeros((len(self.possible_agents), *space.shape), space.dtype)
        for name in self.agents:
            array = np.asarray(actions[name])
            if array.shape != space.shape or not np.can_cast(array.dtype, rows.dtype, "same_kind"):
                wanted, actual = (f"{values.dtype} of shape {values.shape}" for values in (space, array))
                raise ConfigError(f"action of {name} must be {wanted}, got {actual}")
            rows[self._rows[name]] = array
        return torch.from_numpy(rows).to(self.view.device)[None]

    def state(self) -> np.ndarray:
        """Return the global state `[S]` float32 of the last observation: the ego streams of all mechs."""
        return self._state.copy()

    def _results(self, shown: Any, winner: int) -> tuple[dict, dict]:
        """Return observations and infos of the agents; arrays are rows of one array of all mechs, without copies."""
        every, alive = arrays_of(shown["observation"]), shown["mask"][0].tolist()
        bad = bad_actions(self.view)[0].tolist()
        masks: Any = arrays_of(shown["action_mask"])[0] if self.view.is_discrete else None
        observations, infos = {}, {}
        for name in self.agents:
            row = self._rows[name]
            own = {key: array[0, row] for key, array in every.items()} if isinstance(every, dict) else every[0, row]
            info = {"alive": alive[row], "bad_actions": bad[row], "winner": winner, "won": winner == self._sides[row]}
            if self.observes_masks:
                own = {"observation": own, "action_mask": masks[row]}
            elif masks is not None:
                info["action_mask"] = masks[row]
            observations[name], infos[name] = own, info
        return observations, infos

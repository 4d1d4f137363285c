"""One team as an environment for EPyMARL and PyMARL2: a registered Gymnasium id, or SMAC's interface.

>>> env = gymnasium.make("echelon.integrations.epymarl:Echelon-team-v0", config=EnvConfig.small())
>>> env = SmacBattle(EnvConfig.small(), "heuristic:normal")  # get_obs, get_state, get_avail_actions, step
"""

from __future__ import annotations

from typing import Any, Literal

from echelon.env.discrete import ACTIONS
from echelon.integrations import missing, require_no_options
from echelon.rules.config import EnvConfig, env_from_json
from echelon.runtime.errors import require

try:
    import gymnasium
    import numpy as np
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise missing("gymnasium", error) from None

import torch
from tensordict import TensorDict, TensorDictBase

from echelon.views.build import Opponent, mechs


class SmacBattle:
    """One battle of a team of n mechs with SMAC's interface, for QMIX and similar algorithms.

    Each mech has the 64 discrete actions of `echelon.env.discrete`; the team's reward is the mean of its mechs'
    rewards.

    Args:
        config: as in `echelon.versus`, or the JSON values of `EnvConfig.signature`, for example from YAML.
        opponent, side, seed: see `echelon.versus`.
        settings: further arguments (`backend`, `maps`, `extra_rewards`) of `echelon.mechs`.
    """

    def __init__(
        self,
        config: EnvConfig | dict[str, Any] = EnvConfig(),
        opponent: Opponent = "heuristic:normal",
        side: Literal["blue", "red"] = "blue",
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        require(side in ("blue", "red"), "side", "blue or red", side)
        config = env_from_json(config) if isinstance(config, dict) else config
        settings = {"device": "cpu", **settings, "action": "discrete", "state": True}
        self.view = mechs(config, opponent, 1, seed=seed, side=side, **settings)
        self.n_agents, self.n_actions = self.view.n_agents, len(ACTIONS)
        self.episode_limit = self.view.max_steps
        self._td: TensorDictBase | None = None

    @property
    def _now(self) -> TensorDictBase:
        """The last TensorDict of all mechs, with batch size `[n]`."""
        if self._td is None:
            self.reset()
        assert self._td is not None
        return self._td

    def reset(self, seed: int | None = None) -> tuple[list[np.ndarray], np.ndarray]:
        """Start the battle of `seed`, or the next battle; return the mechs' observations and the global state."""
        if seed is not None:
            self.view.set_seed(seed)
        self._td = self.view.reset()[0]
        return self.get_obs(), self.get_state()

    def step(self, actions: Any) -> tuple[float, bool, dict[str, Any]]:
        """Play one decision with `actions [n]`; return the team's reward, whether the battle is over, and infos.

        Infos contain `battle_won` at the end and, after a time limit, `episode_limit` = True, so that the trainer
        bootstraps the value.
        """
        index = torch.as_tensor(np.asarray(actions, np.int64)).view(1, self.n_agents)
        self._td = self.view.step(TensorDict({"action": index}, self.view.batch_size))["next"][0]
        truncated, done = (bool(self._td[flag][0]) for flag in ("truncated", "done"))
        info: dict[str, Any] = {"battle_won": bool(self._td["outcome", "won"][0])} if done else {}
        return float(self._td["reward"].mean()), done, info | ({"episode_limit": True} if truncated else {})

    def get_obs(self) -> list[np.ndarray]:
        """Return the observation of each mech, a vector `[F]` float32."""
        return list(self._now["observation"].numpy())

    def get_obs_agent(self, agent_id: int) -> np.ndarray:
        return self._now["observation"][agent_id].numpy()

    def get_obs_size(self) -> int:
        return int(self.view.observation_spec["observation"].shape[-1])

    def get_state(self) -> np.ndarray:
        """Return the global state `[S]` float32: the ego streams (own condition) of all mechs."""
        return self._now["state"][0].numpy()

    def get_state_size(self) -> int:
        return int(self.view.observation_spec["state"].shape[-1])

    def get_avail_actions(self) -> list[np.ndarray]:
        """Return the action mask of each mech, `[64]` int64: 1 for an available action, else 0."""
        return list(self._now["action_mask"].long().numpy())

    def get_avail_agent_actions(self, agent_id: int) -> np.ndarray:
        return self.get_avail_actions()[agent_id]

    def get_total_actions(self) -> int:
        return self.n_actions

    def get_env_info(self) -> dict[str, int]:
        """Return sizes and the episode limit under SMAC's names."""
        return {
            "state_shape": self.get_state_size(),
            "obs_shape": self.get_obs_size(),
            "n_actions": self.n_actions,
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }

    def get_stats(self) -> dict[str, float]:
        return {}

    def render(self) -> np.ndarray:
        """Render the battle from above as `[H, W, 3]` uint8."""
        return self.view.render()

    def close(self) -> None:
        self._td = None

    def get_print_info(self) -> None:
        """Return None, because there is nothing to print; PyMARLzoo+ calls this method."""

    def save_replay(self) -> None:
        """Do nothing; SMAC's programs call this to save replays."""


class TeamOfAgents(gymnasium.Env):
    """`SmacBattle` as a Gymnasium environment with a registered id, for EPyMARL's `gymma`.

    This environment has `Tuple` spaces, a list of rewards, and one terminated and one truncated flag. `unwrapped` has
    `n_agents` and `get_avail_actions`; infos contain only numbers and flags.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        require(render_mode in (None, "rgb_array"), "render_mode", "rgb_array or None", render_mode)
        self.battle, self.render_mode = SmacBattle(**settings), render_mode
        self.n_agents, size = self.battle.n_agents, self.battle.get_obs_size()
        box = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.observation_space = spaces.Tuple([box] * self.n_agents)
        self.action_space = spaces.Tuple([spaces.Discrete(self.battle.n_actions)] * self.n_agents)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[tuple, dict[str, Any]]:
        require_no_options(options)
        super().reset(seed=seed)
        return tuple(self.battle.reset(seed)[0]), {}

    def step(self, action: Any) -> tuple[tuple, Any, bool, bool, dict[str, Any]]:
        _, done, info = self.battle.step(action)
        rewards = self.battle._now["reward"][:, 0].tolist()
        is_truncated = info.pop("episode_limit", False)
        return tuple(self.battle.get_obs()), rewards, done and not is_truncated, is_truncated, info

    def get_avail_actions(self) -> list[np.ndarray]:
        """Return the action masks from `SmacBattle.get_avail_actions`."""
        return self.battle.get_avail_actions()

    def render(self) -> np.ndarray | None:
        return self.battle.render() if self.render_mode else None


gymnasium.register("Echelon-team-v0", "echelon.integrations.epymarl:TeamOfAgents", disable_env_checker=True)

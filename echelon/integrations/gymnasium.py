"""Battles as gymnasium environments: every mech as one environment of a vector, or a team as a single agent.

>>> envs = make_vec(EnvConfig.small(), "heuristic:normal", battles=64)
>>> env = gymnasium.make("echelon.integrations.gymnasium:Echelon-v0", opponent="heuristic:easy")
>>> envs = gymnasium.make_vec("echelon.integrations.gymnasium:Echelon-v0", num_envs=64)
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Categorical, MultiCategorical, TensorSpec

from echelon.env.arguments import FURTHER, FURTHER_OF_MECHS, check_further, one_seed
from echelon.integrations import missing, require_no_options
from echelon.rules.config import EnvConfig, env_from_json
from echelon.runtime.errors import require
from echelon.views.build import Opponent, mechs, partners, versus
from echelon.views.commanded import Side
from echelon.views.view import ActionForm, ObservationForm

try:
    import gymnasium
    import numpy as np
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode
except ModuleNotFoundError as error:
    raise missing("gymnasium", error) from None

from echelon.integrations.spaces import arrays_of, bad_actions, space_of
from echelon.integrations.vector import MechVectorEnv
from echelon.integrations.window import RENDER_MODES, Rendered, render_fps


def make_vec(
    config: EnvConfig = EnvConfig(),
    opponent: Opponent | None = "heuristic:normal",
    battles: int = 1,
    device: torch.device | str | None = None,
    seed: int | None = None,
    *,
    side: Side = "both",
    observation: ObservationForm = "flat",
    action: ActionForm = "continuous",
    render_mode: Literal["rgb_array"] | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    **settings: Any,
) -> MechVectorEnv:
    """Create a vector of environments for single-agent code: one environment per commanded mech of B battles.

    Args:
        config: the battle; see `EnvConfig.small`, `.standard` and `.large`.
        opponent: commander of the other team, as in `echelon.versus`; None if the user commands all mechs.
        battles: number of battles B, for B * n environments with n commanded mechs each.
        device: device of the simulation; by default a GPU if there is one.
        seed: seed of the first battles, if `reset` receives none.
        side, observation, action: see `echelon.mechs`; `structured` observations are a `Dict` space.
        render_mode: either `rgb_array` or None.
        autoreset_mode: when ended battles restart, one of gymnasium's `AutoresetMode`; see `MechVectorEnv`.
        settings: further arguments (`backend`, `maps`, `extra_rewards`) of `echelon.mechs`.

    Returns:
        The vector environment.
    """
    check_further(make_vec, settings, FURTHER_OF_MECHS)
    view = mechs(config, opponent, battles, device, seed, side=side, observation=observation, action=action, **settings)
    return MechVectorEnv(view, render_mode, autoreset_mode)


def make_team_vec(
    config: EnvConfig | dict[str, Any] = EnvConfig(),
    opponent: Opponent = "heuristic:normal",
    side: Literal["blue", "red"] = "blue",
    *,
    num_envs: int = 1,
    action: ActionForm = "continuous",
    seed: int | None = None,
    device: torch.device | str | None = None,
    render_mode: Literal["rgb_array"] | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **settings: Any,
) -> TeamVectorEnv:
    """Create the vector environment for `gymnasium.make_vec("Echelon-v0", num_envs)`.

    The B battles are those of `TeamEnv`, in one batch.

    Args:
        config, opponent, side, action, seed: see `TeamEnv`.
        num_envs: number of battles and environments B.
        device, render_mode: see `make_vec`.
        autoreset_mode: see `MechVectorEnv`; by default that of gymnasium's own vector environments.
        settings: further arguments (`backend`, `maps`, `extra_rewards`) of `echelon.mechs`.

    Returns:
        The vector environment.
    """
    check_further(make_team_vec, settings)
    require(side in ("blue", "red"), "side", "blue or red", side)
    config = env_from_json(config) if isinstance(config, dict) else config
    view = mechs(config, opponent, num_envs, device, seed, side=side, action=action, **settings)
    return TeamVectorEnv(view, render_mode, autoreset_mode)


def team_spaces(observation: TensorSpec, action: TensorSpec) -> tuple[spaces.Space, spaces.Space]:
    """Return the observation and the action space of a team of A mechs.

    The observation is a `Box [A * F]`, the action a `Box [A * D]` or a `MultiDiscrete`.

    Args:
        observation: spec of the mechs' observations, `[A, F]`.
        action: spec of the mechs' actions, `[A, D]`, `[A]` or, for actions in factors, `[A, F]`.
    """
    space: Any = space_of(observation)
    flat = spaces.Box(space.low.ravel(), space.high.ravel(), dtype=np.float32)
    if isinstance(action, MultiCategorical):
        return flat, spaces.MultiDiscrete(action.nvec.cpu().numpy().ravel())
    if isinstance(action, Categorical):
        return flat, spaces.MultiDiscrete([action.n] * action.shape.numel())
    return flat, spaces.Box(-1.0, 1.0, (action.shape.numel(),), np.float32)


class TeamVectorEnv(MechVectorEnv):
    """A vector of `TeamEnv` battles: environment b is battle b, in which an agent commands a team of A mechs.

    Unlike in `MechVectorEnv`, an environment observes and acts for all mechs of the team, its reward is the mean over
    the team's mechs, and infos about mechs have an axis A.
    """

    def _environments(self) -> int:
        return self.view.num_envs

    def _spaces(self) -> tuple[spaces.Space, spaces.Space]:
        view = self.view
        return team_spaces(view.observation_spec[0]["observation"], view.full_action_spec[0]["action"])

    def _of_mechs(self, values: Tensor | TensorDictBase) -> Any:
        return values

    def _of_battles(self, values: Tensor) -> Tensor:
        return values[:, 0]

    def _observed(self, td: TensorDictBase) -> Any:
        return td["observation"].flatten(1)

    def _paid(self, reward: Tensor) -> Tensor:
        return reward.mean((1, 2))

    def _by_mech(self, flags: np.ndarray) -> np.ndarray:
        return flags[:, None]


class TeamEnv(Rendered, gymnasium.Env):
    """One battle for a single agent that commands a team of A mechs against an opponent.

    The observation is the concatenation of the mechs' observations, a `Box [A * F]`. The action contains the actions of
    all mechs: a `Box [A * D]` in [-1, 1], a `MultiDiscrete [A]` of 64 actions each, or a `MultiDiscrete [A * F]` of F
    factors per mech; the reward is the mean of the mechs' rewards. With one mech per team (`EnvConfig(blue=("medium",),
    red=("medium",))`) a battle is a duel. Infos are `alive [A]`, `bad_actions [A]` (the number of non-finite values in
    each mech's actions during this battle; each was replaced by 0), `action_mask [A, S]` int8 if actions are discrete,
    `winner` (-1 while the battle runs) and `won`.

    Args:
        config: as in `echelon.versus`, or the JSON values of `EnvConfig.signature`, which an `EnvSpec` can store.
        opponent, side: see `echelon.versus`.
        action: one of `continuous`, `discrete` and `multi_discrete`.
        seed: seed of the first battle, if `reset` receives none.
        device: device of the simulation; one battle is fastest on a CPU.
        render_mode: one of `rgb_array`, `human` (a window) and None.
        settings: further arguments (`backend`, `maps`, `extra_rewards`) of `echelon.versus`; if `mine` is given, those
            of `echelon.partners`, whose `partner` commands the other mechs of the team.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": render_fps(EnvConfig())}  # noqa: RUF012

    def __init__(
        self,
        config: EnvConfig | dict[str, Any] = EnvConfig(),
        opponent: Opponent = "heuristic:normal",
        side: Literal["blue", "red"] = "blue",
        *,
        action: ActionForm = "continuous",
        seed: int | None = None,
        device: torch.device | str = "cpu",
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        require(render_mode in (None, *RENDER_MODES), "render_mode", "rgb_array, human or None", render_mode)
        require(side in ("blue", "red"), "side", "blue or red", side)
        check_further(type(self), settings, (*FURTHER, "mine", "partner"))
        self.render_mode = render_mode
        config = env_from_json(config) if isinstance(config, dict) else config
        settings |= {"num_envs": 1, "device": device, "seed": seed, "side": side, "action": action}
        make = partners if "mine" in settings else versus
        self.view = make(config, opponent=opponent, **settings)
        require(self.view.info, "info", "True, for the infos of ended battles", self.view.info)
        self.metadata = {**self.metadata, "render_fps": render_fps(config)}
        self._action_shape = self.view.full_action_spec["agents", "action"].shape
        observation = self.view.observation_spec[0]["agents"]["observation"]
        self.observation_space, self.action_space = team_spaces(
            observation, self.view.full_action_spec[0]["agents"]["action"]
        )
        self._is_over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start the battle of `seed`, or the next battle; `options` must be empty."""
        require_no_options(options)
        seed = None if seed is None else one_seed(seed)
        super().reset(seed=seed)
        if seed is not None:
            self.view.set_seed(seed)
        td = self.view.reset()[0]
        self._is_over = False
        self._show()
        return self._observation(td), self._info(td)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        require(not self._is_over, "step", "after reset, in a running battle", "the battle is over")
        shape = self.action_space.shape
        require(np.shape(action) == shape, "action", f"of shape {shape}", np.shape(action))
        action_tensor = torch.as_tensor(action, device=self.view.device).view(self._action_shape)
        team = TensorDict({"action": action_tensor}, self._action_shape[:2])
        next_td = self.view.step(TensorDict({"agents": team}, self.view.batch_size, device=self.view.device))["next"][0]
        terminated, truncated = (bool(next_td[flag]) for flag in ("terminated", "truncated"))
        self._is_over = terminated or truncated
        self._show()
        reward = float(next_td["agents", "reward"].mean())
        return self._observation(next_td), reward, terminated, truncated, self._info(next_td)

    def _observation(self, td: TensorDictBase) -> np.ndarray:
        return td["agents", "observation"].flatten().cpu().numpy()

    def _info(self, td: TensorDictBase) -> dict[str, Any]:
        info = {
            "alive": td["agents", "mask"].cpu().numpy(),
            "bad_actions": bad_actions(self.view)[0],
            "winner": int(td["outcome", "winner"]),
            "won": bool(td["outcome", "won"]),
        }
        if self.view.is_discrete:
            info["action_mask"] = arrays_of(td["agents", "action_mask"])
        return info


gymnasium.register(
    "Echelon-v0",
    "echelon.integrations.gymnasium:TeamEnv",
    vector_entry_point="echelon.integrations.gymnasium:make_team_vec",
)

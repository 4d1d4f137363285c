"""Battles as gymnasium environments: every mech as one of a vector of environments, or a team as a single agent.

>>> envs = make_vec(EnvConfig.small(), "heuristic:normal", battles=64)
>>> env = gymnasium.make("echelon.integrations.gymnasium:Echelon-v0", opponent="heuristic:easy")
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.arguments import FURTHER, FURTHER_OF_MECHS, check_further, one_seed
from echelon.env.discrete import ACTIONS
from echelon.integrations import missing, require_no_options
from echelon.rules.config import EnvConfig, env_from_json
from echelon.runtime.errors import ConfigError, require
from echelon.views.build import MechView, Opponent, mechs, partners, versus
from echelon.views.commanded import Side
from echelon.views.view import ActionForm, ObservationForm

try:
    import gymnasium
    import numpy as np
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise missing("gymnasium", error) from None

from echelon.integrations.spaces import arrays_of, bad_actions, space_of
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
    **settings: Any,
) -> MechVectorEnv:
    """Every commanded mech of B battles as an environment of its own, for single-agent code.

    Args:
        config: the battle; see `EnvConfig.small`, `.standard` and `.large`.
        opponent: who commands the other team, as in `echelon.versus`; None for a user who commands all mechs.
        battles: B, for B times n environments of n commanded mechs each.
        device: where the battles are simulated; by default a GPU where there is one.
        seed: of the first battles, where `reset` is given none.
        side, observation, action: as in `echelon.mechs`; `structured` observations are a `Dict` space.
        render_mode: `rgb_array`, or None.
        settings: further arguments of `echelon.mechs`: `backend`, `maps`, `extra_rewards`.
    """
    check_further(make_vec, settings, FURTHER_OF_MECHS)
    view = mechs(config, opponent, battles, device, seed, side=side, observation=observation, action=action, **settings)
    return MechVectorEnv(view, render_mode)


class MechVectorEnv(VectorEnv):
    """The mechs of a `MechView` as a vector of environments; use `make_vec` to create one.

    Environment `b * n + i` is mech i of battle b. All mechs of a battle end with it, the dead as well, and it begins
    anew in the same step: what is then observed is the next battle, and `infos` has, as gymnasium's `SAME_STEP` says,
    `final_obs` (an array of objects) and `final_info`, with the `outcome` of `EchelonEnv` by name. Infos of every
    step are `alive`, `bad_actions` (how many numbers of a mech's actions in this battle were not finite, each of which
    counted as 0; in `final_info` those of the battle that ended) and, with discrete actions, `action_mask
    [num_envs, 64]` int8.
    """

    def __init__(self, view: MechView, render_mode: str | None = None) -> None:
        require(render_mode in (None, "rgb_array"), "render_mode", "rgb_array or None", render_mode)
        require(view.info, "info", "True: what ends a battle is told", view.info)
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "render_modes": ["rgb_array"],
            "render_fps": render_fps(view.config),
        }
        self.view, self.render_mode = view, render_mode
        self.num_envs = view.batch_size.numel()
        self.single_observation_space = space_of(view.observation_spec[0, 0]["observation"])
        self.single_action_space = space_of(view.full_action_spec[0, 0]["action"])
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._td: TensorDictBase | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        is_one = seed is None or np.ndim(seed) == 0
        require(is_one, "seed", "one number, from which each battle's follows", seed)
        seed = None if seed is None else one_seed(seed)
        require(
            "reset_mask" not in (options or {}), "options", "without reset_mask: battles restart by themselves", options
        )
        require_no_options(options)
        super().reset(seed=seed)
        if seed is not None:
            self.view.set_seed(seed)
        self._td = self.view.reset()
        return self._observation(self._td), self._infos(self._td, bad_actions(self.view).ravel())

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._td is None:
            raise ConfigError("step must be after reset, got it before")
        shape = self.action_space.shape
        require(np.shape(actions) == shape, "actions", f"of shape {shape}", np.shape(actions))
        action = torch.as_tensor(actions, device=self.view.device).view(self.view.full_action_spec["action"].shape)
        stepped = self.view.step(self._td.set("action", action))
        bad = bad_actions(self.view).ravel()
        self._td = self.view.maybe_reset(self.view.step_mdp(stepped))
        next_td = stepped["next"]
        ended = self._flat(next_td["done"])
        infos = self._infos(self._td, np.where(ended, 0, bad))
        if ended.any():
            infos.update(self._final(next_td, ended, bad))
        rewards, terminated, truncated = (self._flat(next_td[key]) for key in ("reward", "terminated", "truncated"))
        return self._observation(self._td), rewards.astype(np.float64), terminated, truncated, infos

    def _final(self, played: TensorDictBase, ended: np.ndarray, bad: np.ndarray) -> dict[str, Any]:
        """What of battles that ended would be lost by their restart."""
        rows = np.flatnonzero(ended)
        last = played.reshape(-1)[torch.from_numpy(rows).to(self.view.device)]
        arrays = arrays_of(last["observation"])
        final_obs = np.full(self.num_envs, None, dtype=object)
        for index, row in enumerate(rows):
            final_obs[row] = (
                {key: array[index] for key, array in arrays.items()} if isinstance(arrays, dict) else arrays[index]
            )
        info: dict[str, Any] = {"bad_actions": np.where(ended, bad, 0), "_bad_actions": ended.copy()}
        for name, value in {"alive": last["mask"], **dict(last["outcome"].items())}.items():
            array = value.cpu().numpy().reshape(len(rows), *(side for side in value.shape[1:] if side > 1))
            info[name] = np.zeros((self.num_envs, *array.shape[1:]), array.dtype)
            info[name][rows], info[f"_{name}"] = array, ended.copy()
        return {"final_obs": final_obs, "_final_obs": ended.copy(), "final_info": info, "_final_info": ended.copy()}

    def _observation(self, td: TensorDictBase) -> Any:
        return arrays_of(td["observation"].reshape(self.num_envs, *td["observation"].shape[2:]))

    def _infos(self, td: TensorDictBase, bad: np.ndarray) -> dict[str, Any]:
        everyone = np.ones(self.num_envs, dtype=bool)
        infos = {"alive": td["mask"].flatten().cpu().numpy(), "_alive": everyone}
        infos |= {"bad_actions": bad, "_bad_actions": everyone.copy()}
        if self.view.is_discrete:
            infos |= {"action_mask": arrays_of(td["action_mask"].flatten(0, 1)), "_action_mask": everyone.copy()}
        return infos

    def _flat(self, values: Tensor) -> np.ndarray:
        return values.flatten().cpu().numpy()

    def render(self) -> tuple[np.ndarray, ...] | None:
        """The battle of each environment from above; None without a `render_mode`."""
        if self.render_mode is None:
            return None
        battles, mechs = self.view.batch_size
        frames = [self.view.render(battle=battle) for battle in range(battles)]
        return tuple(frame for frame in frames for _ in range(mechs))


class TeamEnv(Rendered, gymnasium.Env):
    """One battle for a single agent that commands a team of A mechs against an opponent.

    It observes what its mechs see, one after another, `Box [A * F]`, acts for all of them, `Box [A * D]` in [-1, 1]
    or `MultiDiscrete [A]` of 64 actions each, and is paid the mean of their rewards. With one mech a team
    (`EnvConfig(blue=("medium",), red=("medium",))`) it is a duel. Infos are `alive [A]`, `bad_actions [A]` (how many
    numbers of a mech's actions in this battle were not finite, each of which counted as 0), `action_mask [A, 64]` int8
    with discrete actions and, for the end of a battle, `winner` (-1 before it) and `won`.

    Args:
        config: as in `echelon.versus`, or the JSON values of `EnvConfig.signature`, which an `EnvSpec` can hold.
        opponent, side: as in `echelon.versus`.
        action: `continuous` or `discrete`.
        seed: of the first battle, where `reset` is given none.
        device: where the battle is simulated; one battle is fastest on a CPU.
        render_mode: `rgb_array`, `human` (a window) or None.
        settings: further arguments of `echelon.versus`: `backend`, `maps`, `extra_rewards`; with `mine`, of
            `echelon.partners`, whose `partner` then commands the other mechs of the team.
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
        require(self.view.info, "info", "True: what ends a battle is told", self.view.info)
        self.metadata = {**self.metadata, "render_fps": render_fps(config)}
        agents_spec = self.view.observation_spec[0]["agents"]
        space = space_of(agents_spec["observation"])
        self.observation_space = spaces.Box(space.low.ravel(), space.high.ravel(), dtype=np.float32)
        self._action_shape = self.view.full_action_spec["agents", "action"].shape
        if self.view.is_discrete:
            self.action_space: spaces.Space = spaces.MultiDiscrete([len(ACTIONS)] * self.view.n_agents)
        else:
            self.action_space = spaces.Box(-1.0, 1.0, (self._action_shape.numel(),), np.float32)
        self._is_over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a battle, the one of `seed` or the next; there are no `options`."""
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
        require(not self._is_over, "step", "after reset, of a battle that goes on", "the battle is over")
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


gymnasium.register("Echelon-v0", "echelon.integrations.gymnasium:TeamEnv")

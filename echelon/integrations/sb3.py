"""Every mech as an environment of a Stable-Baselines3 `VecEnv`.

>>> model = PPO("MlpPolicy", vec_env(EnvConfig.small(), "heuristic:normal", battles=64))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from echelon.integrations import missing, require_no_options

try:
    import numpy as np
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise missing("sb3", error) from None

from echelon.env.arguments import FURTHER_OF_MECHS, check_further
from echelon.integrations.gymnasium import MechVectorEnv, make_vec
from echelon.runtime.errors import require


def vec_env(*args: Any, **settings: Any) -> MechVecEnv:
    """Create a `VecEnv` with one environment per commanded mech; arguments as in `gymnasium.make_vec`."""
    check_further(make_vec, settings, FURTHER_OF_MECHS, "vec_env")
    return MechVecEnv(make_vec(*args, **settings))


class MechVecEnv(VecEnv):
    """A `MechVectorEnv` as a Stable-Baselines3 `VecEnv`; use `vec_env` to create one.

    Infos of an environment are `alive` and `bad_actions`, as in `MechVectorEnv`. At the end of a battle, infos also
    contain `terminal_observation`, `TimeLimit.truncated` and the values of the `outcome` of `EchelonEnv`, such as
    `won`. With discrete actions, `env_method("action_masks")` returns the masks for `sb3_contrib.MaskablePPO`.
    """

    def __init__(self, envs: MechVectorEnv) -> None:
        self.envs = envs
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self._actions: np.ndarray | None = None
        self._masks: np.ndarray | None = None

    def reset(self) -> Any:
        """Start all battles: the battles of the seed that was passed to `seed`, or the next battles."""
        for options in self._options:
            require_no_options(options)
        observations, infos = self.envs.reset(seed=self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = self._infos(infos)
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observations, rewards, terminated, truncated, env_infos = self.envs.step(self._actions)
        infos = self._infos(env_infos)
        ended = terminated | truncated
        for row in np.flatnonzero(ended):
            infos[row]["terminal_observation"] = env_infos["final_obs"][row]
            infos[row]["TimeLimit.truncated"] = bool(truncated[row] and not terminated[row])
            infos[row].update({k: v[row] for k, v in env_infos["final_info"].items() if not k.startswith("_")})
        return observations, rewards.astype(np.float32), ended, infos

    def _infos(self, info: dict[str, Any]) -> list[dict[str, Any]]:
        self._masks = info.get("action_mask")
        counts = zip(info["alive"].tolist(), info["bad_actions"].tolist(), strict=True)
        return [{"alive": alive, "bad_actions": bad} for alive, bad in counts]

    def action_masks(self) -> np.ndarray:
        if self._masks is None:
            raise AttributeError("action_masks")
        return self._masks.astype(bool)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return the value of an attribute of the vector environment, once per chosen environment."""
        rows = list(self._get_indices(indices))
        if attr_name == "action_masks":
            return [self.action_masks] * len(rows) if self.envs.view.is_discrete else self._absent(attr_name)
        return [getattr(self.envs, attr_name)] * len(rows)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the vector environment; the value is the same for all environments."""
        setattr(self.envs, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Return the action masks of the chosen environments; `action_masks` is the only method that they have."""
        if method_name != "action_masks":
            self._absent(method_name)
        require(not args and not kwargs, method_name, "called without arguments", (*args, *kwargs))
        masks = self.action_masks()
        return [masks[row] for row in self._get_indices(indices)]

    @staticmethod
    def _absent(name: str) -> list[Any]:
        raise AttributeError(f"the environments of one mech have no {name}")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Render the battle of each environment from above; None for each one without a `render_mode`."""
        return self.envs.render() or [None] * self.num_envs

    def close(self) -> None:
        self.envs.close()

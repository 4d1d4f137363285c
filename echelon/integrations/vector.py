"""Battles as a vector of gymnasium environments, with all three of gymnasium's autoreset modes."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.env.arguments import one_seed
from echelon.env.partial import RESET, STEP
from echelon.integrations import missing, require_no_options
from echelon.runtime.errors import ConfigError, require
from echelon.views.build import MechView

try:
    import numpy as np
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise missing("gymnasium", error) from None

from echelon.integrations.spaces import arrays_of, bad_actions, space_of
from echelon.integrations.window import render_fps

RESET_MASK = "reset_mask"
SAME_STEP, NEXT_STEP, DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED


class MechVectorEnv(VectorEnv):
    """The mechs of a `MechView` as a vector of environments; use `make_vec` to create one.

    Environment `b * n + i` is mech i of battle b. All environments of a battle end at the same step, also those of dead
    mechs. Infos of every step are `alive`, `bad_actions` (the number of non-finite values in a mech's actions during
    this battle; each was replaced by 0) and, if actions are discrete, `action_mask [num_envs, S]` int8. The
    `autoreset_mode` determines how an ended battle restarts:

    - `SAME_STEP`: in the step that ends it. The observation is then that of the next battle, and `infos` has
      gymnasium's `final_obs` (an array of objects) and `final_info`, with the `outcome` of `EchelonEnv` by name.
    - `NEXT_STEP`: in the next step, whose actions are ignored and whose reward is 0. The step that ends the battle
      returns its last observation, and has the `outcome` in its `infos`.
    - `DISABLED`: by `reset(options={"reset_mask": mask})`, `[num_envs]` bool and equal for all mechs of a battle,
      before the next step. The step that ends a battle is as with `NEXT_STEP`.
    """

    def __init__(
        self, view: MechView, render_mode: str | None = None, autoreset_mode: AutoresetMode | str = SAME_STEP
    ) -> None:
        require(render_mode in (None, "rgb_array"), "render_mode", "rgb_array or None", render_mode)
        require(view.info, "info", "True, because the final infos of battles come from it", view.info)
        modes = [mode.value for mode in AutoresetMode]
        is_mode = autoreset_mode in (*AutoresetMode, *modes)
        require(is_mode, "autoreset_mode", f"an AutoresetMode or one of {', '.join(modes)}", autoreset_mode)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": render_fps(view.config)}
        self.metadata["autoreset_mode"] = self.autoreset_mode
        self.view, self.render_mode = view, render_mode
        self.num_envs = self._environments()
        self.single_observation_space, self.single_action_space = self._spaces()
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._td: TensorDictBase | None = None
        self._over = np.zeros(self.num_envs, dtype=bool)
        """Environments whose battle has ended and not restarted."""

    # Each mech counts as one environment; `TeamVectorEnv` overrides these methods.

    def _environments(self) -> int:
        return self.view.batch_size.numel()

    def _spaces(self) -> tuple[spaces.Space, spaces.Space]:
        """Return the observation space and the action space of one environment."""
        view = self.view
        return space_of(view.observation_spec[0, 0]["observation"]), space_of(view.full_action_spec[0, 0]["action"])

    def _of_mechs(self, values: Tensor | TensorDictBase) -> Any:
        """Convert values per mech, `[B, n, ...]`, to values per environment, `[num_envs, ...]`."""
        return values.flatten(0, 1)

    def _of_battles(self, values: Tensor) -> Tensor:
        """Convert values that are equal for all mechs of a battle, `[B, n, ...]`, to values per environment."""
        return values.flatten(0, 1)

    def _observed(self, td: TensorDictBase) -> Any:
        values = td["observation"]
        return values.reshape(self.num_envs, *values.shape[2:])

    def _paid(self, reward: Tensor) -> Tensor:
        return reward.flatten()

    # Gymnasium's interface

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start all battles: those of `seed`, or the next ones.

        With `DISABLED`, only battles in `options["reset_mask"]` restart.
        """
        is_one = seed is None or np.ndim(seed) == 0
        require(is_one, "seed", "one number, from which all battles' seeds are derived", seed)
        seed = None if seed is None else one_seed(seed)
        options = dict(options or {})
        mask = options.pop(RESET_MASK, None)
        limit, is_allowed = f"without {RESET_MASK}: battles restart automatically", self.autoreset_mode == DISABLED
        require(mask is None or is_allowed, "options", limit, options | {RESET_MASK: mask})
        require_no_options(options)
        super().reset(seed=seed)
        if seed is not None:
            self.view.set_seed(seed)
        if mask is None or self._td is None:
            self._td, self._over = self.view.reset(), np.zeros(self.num_envs, dtype=bool)
        else:
            is_mask = isinstance(mask, np.ndarray) and mask.dtype == bool and mask.shape == (self.num_envs,)
            require(is_mask, RESET_MASK, f"an array [{self.num_envs}] of bool", mask)
            self._begin_anew(mask)
        return arrays_of(self._observed(self._td)), self._infos(self._td, self._bad_actions())

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._td is None:
            raise ConfigError("step must be called after reset, got no reset before")
        shape, given = self.action_space.shape, np.shape(actions)
        require(given == shape, "actions", f"of shape {shape}", given)
        action = torch.as_tensor(actions, device=self.view.device).view(self.view.full_action_spec["action"].shape)
        td = self._restarted().set("action", action)
        stepped = self.view.step(td)
        stepped.pop(STEP, None)
        bad, next_td = self._bad_actions(), stepped["next"]
        ended = self._flags(next_td["done"])
        is_same = self.autoreset_mode == SAME_STEP
        self._td = self.view.maybe_reset(self.view.step_mdp(stepped)) if is_same else self.view.step_mdp(stepped)
        self._over = self._over if is_same else ended
        infos = self._infos(self._td, np.where(self._by_mech(ended), 0, bad) if is_same else bad)
        if ended.any():
            outcome = self._outcome(next_td, ended)
            if is_same:
                outcome |= {"bad_actions": np.where(self._by_mech(ended), bad, 0), "_bad_actions": ended.copy()}
                infos |= {**self._final(next_td, ended), "final_info": outcome, "_final_info": ended.copy()}
            else:
                infos = {**outcome, **infos}
        rewards = self._paid(next_td["reward"]).cpu().numpy().astype(np.float64)
        terminated, truncated = (self._flags(next_td[key]) for key in ("terminated", "truncated"))
        return arrays_of(self._observed(self._td)), rewards, terminated, truncated, infos

    def _restarted(self) -> TensorDictBase:
        """Return the TensorDict for the next step.

        Battles that ended in the last step are reset, and do not play the next one.
        """
        assert self._td is not None
        if not self._over.any():
            return self._td
        limit, ended = f"after a reset with {RESET_MASK} of the battles that ended", np.flatnonzero(self._over).tolist()
        require(self.autoreset_mode == NEXT_STEP, "step", limit, f"environments {ended} that ended")
        waits = self._rows_of(self._over)
        return self._begin_anew(self._over).set(STEP, ~waits)

    def _begin_anew(self, mask: np.ndarray) -> TensorDictBase:
        """Restart the battles that a mask `[num_envs]` selects; return the new TensorDict of all battles."""
        assert self._td is not None
        td: TensorDictBase = self.view.reset(self._td.copy().set(RESET, self._rows_of(mask)))
        td.pop(RESET, None)
        self._td, self._over = td, self._over & ~mask
        return td

    def _rows_of(self, mask: np.ndarray) -> Tensor:
        """Convert a mask `[num_envs]` to one per mech, `[B, n, 1]` bool."""
        by_battle = torch.from_numpy(mask.copy()).to(self.view.device).view(self.view.num_envs, -1, 1)
        return by_battle.expand(*self.view.batch_size, 1)

    def _by_mech(self, flags: np.ndarray) -> np.ndarray:
        """Return flags `[num_envs]` in a shape that broadcasts with the result of `_of_mechs`."""
        return flags

    def _final(self, played: TensorDictBase, ended: np.ndarray) -> dict[str, Any]:
        """Return the last observations of ended battles, before their restart replaces them."""
        final_obs = np.full(self.num_envs, None, dtype=object)
        rows = np.flatnonzero(ended)
        arrays = arrays_of(self._observed(played)[torch.from_numpy(rows).to(self.view.device)])
        is_dict = isinstance(arrays, dict)
        for index, row in enumerate(rows):
            final_obs[row] = {key: own[index] for key, own in arrays.items()} if is_dict else arrays[index]
        return {"final_obs": final_obs, "_final_obs": ended.copy()}

    def _outcome(self, played: TensorDictBase, ended: np.ndarray) -> dict[str, Any]:
        """Return the outcome of ended battles by name, `[num_envs, ...]`.

        The key `_name` is the mask of the environments in which `name` has a value.
        """
        alive = self._of_mechs(played["mask"]).cpu().numpy()
        info: dict[str, Any] = {"alive": np.where(self._by_mech(ended), alive, False), "_alive": ended.copy()}
        for name, value in played["outcome"].items():
            array = self._of_battles(value).cpu().numpy()
            array = array.reshape(self.num_envs, *(side for side in array.shape[1:] if side > 1))
            info[name], info[f"_{name}"] = np.zeros_like(array), ended.copy()
            info[name][ended] = array[ended]
        return info

    def _bad_actions(self) -> np.ndarray:
        return self._of_mechs(torch.from_numpy(bad_actions(self.view))).numpy()

    def _infos(self, td: TensorDictBase, bad: np.ndarray) -> dict[str, Any]:
        everyone = np.ones(self.num_envs, dtype=bool)
        infos = {"alive": self._of_mechs(td["mask"]).cpu().numpy(), "_alive": everyone}
        infos |= {"bad_actions": bad, "_bad_actions": everyone.copy()}
        if self.view.is_discrete:
            infos |= {"action_mask": arrays_of(self._of_mechs(td["action_mask"])), "_action_mask": everyone.copy()}
        return infos

    def _flags(self, values: Tensor) -> np.ndarray:
        return self._of_battles(values).flatten().cpu().numpy()

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Render the battle of each environment from above; return None without a `render_mode`."""
        if self.render_mode is None:
            return None
        frames = [self.view.render(battle=battle) for battle in range(self.view.num_envs)]
        return tuple(frame for frame in frames for _ in range(self.num_envs // self.view.num_envs))

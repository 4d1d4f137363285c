"""Information about an environment: names, sizes, the meaning of its columns, and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torchrl.data import Composite

from echelon.env.describe.columns import SPECS, describe_specs
from echelon.env.describe.description import Description
from echelon.env.outcome import stat_names
from echelon.env.reward import TERMS, RewardTerm, term_weights
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.runtime.renamed import warn_renamed
from echelon.sim.model import SimModel
from echelon.state import State


def deprecated_observed(self: Any) -> Any:
    """Return `last_observation()`. This name is deprecated and will be removed in 2.0."""
    name = type(self).__name__
    warn_renamed(f"{name}.observed", f"{name}.last_observation")
    return self.last_observation()


class EnvInfo:
    """Read-only properties and methods that `EchelonEnv` and its views share."""

    config: EnvConfig
    num_envs: int
    sim_model: SimModel
    state: State
    group_map: dict[str, list[str]]
    command_map: Mapping[str, list[str]] = MappingProxyType({})
    """Commanders by group, one per pack; empty unless `EnvConfig.command` is on."""
    extra_rewards: dict[str, RewardTerm]
    memory: Composite
    device: torch.device
    _seed_given: int | str

    def __repr__(self) -> str:
        """Return config, number of battles, device and seed as text."""
        battles = f"{self.config.title}, num_envs={self.num_envs}, device={self.device}, seed={self._seed_given}"
        return f"{type(self).__name__}({battles})"

    @property
    def agent_names(self) -> list[str]:
        """Names of all mechs, `blue_0` to `red_{A - 1}`, as in `group_map`."""
        return [name for names in self.group_map.values() for name in names]

    def _memory_keys(self, group: str) -> list[tuple[str, ...]]:
        leaves = self.memory.keys(include_nested=True, leaves_only=True)
        return [(group, "memory", *((key,) if isinstance(key, str) else key)) for key in leaves]

    @property
    def reward_terms(self) -> tuple[str, ...]:
        """Names of the reward terms, in the order of the last axis of `(group, "reward_terms")`."""
        return (*TERMS, *self.extra_rewards)

    @property
    def stat_names(self) -> tuple[str, ...]:
        """Names of the statistics, in the order of the last axis of `("outcome", "stats")`."""
        return stat_names(self.config.catalog)

    def describe(self) -> Description:
        """Describe every column of actions, observations, rewards, done flags and outcomes.

        Returns:
            A `Description` with a `Leaf` for each tensor except memories. A leaf has the tensor's shape and a `Column`
            for each index of its last axis, with name, unit, range, meaning, and the `FeaturesConfig` switches that the
            column needs.
        """
        weights = term_weights(self.config.reward, self.extra_rewards)
        specs = {kind: getattr(self, f"full_{kind}_spec") for kind in SPECS}
        return describe_specs(specs, (*self.group_map, *self.command_map), self.config, weights)

    @property
    def n_agents(self) -> int:
        """Number of mechs, N."""
        return self.config.num_mechs

    @property
    def max_steps(self) -> int:
        """Number of decisions in the longest battle."""
        return self.config.rules.max_decisions

    def render(
        self,
        mode: str = "rgb_array",
        battle: int = 0,
        side_px: int = 400,
        env_index: int | None = None,
        agent_index_focus: Any = None,
        visualize_when_rgb: Any = None,
    ) -> np.ndarray:
        """Draw the current state of one battle from above. Reads tensors from the device and changes nothing.

        Args:
            mode: only `rgb_array` is supported.
            battle: index of the battle, 0..B - 1.
            side_px: length of the map's longer side in the picture, 32..4096 px, rounded to an even number. A picture
                at least 340 px wide has an additional 44 px at the top for the clock and the scores.
            env_index: the same as `battle`, under the name that VMAS uses.
            agent_index_focus, visualize_when_rgb: arguments of VMAS, which have no effect here.

        Returns:
            The picture, `[H, W, 3]` uint8 with even H and W; the map's y axis points up.

        Raises:
            ConfigError: if the mode is not supported, or `battle` or `side_px` is out of range.
        """
        # Imported here, because only rendering needs Pillow.
        from echelon.env.render import render

        index = battle if env_index is None else env_index
        require(mode == "rgb_array", "mode", "'rgb_array'", mode)
        require(index in range(self.num_envs), "battle", f"0..{self.num_envs - 1}", index)
        require(side_px in range(32, 4097), "side_px", "32..4096 px", side_px)
        return render(self.state, self.sim_model, int(index), int(side_px))

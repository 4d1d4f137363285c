"""What other programs ask an environment: names, sizes, what its columns mean, a picture."""

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
from echelon.sim.model import SimModel
from echelon.state import State


class EnvInfo:
    """The part of `EchelonEnv` that tells about it, and changes nothing."""

    config: EnvConfig
    num_envs: int
    sim_model: SimModel
    state: State
    group_map: dict[str, list[str]]
    command_map: Mapping[str, list[str]] = MappingProxyType({})
    """Of an `EchelonEnv` the commanders by group, one a pack; nobody unless `EnvConfig.command` is on."""
    extra_rewards: dict[str, RewardTerm]
    memory: Composite
    device: torch.device
    _seed_given: int | str

    def __repr__(self) -> str:
        """The battle, how many of them, where, and from which seed."""
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
        """Tell what every column of actions, observations, rewards, ends and outcomes means.

        Returns:
            A `Leaf` by key for each tensor but the memory of policies, with its shape and a `Column` for each place of
            its last axis: name, unit, range, meaning, and the `FeaturesConfig` switches that it needs.
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
        """Decisions in the longest battle."""
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
        """Draw one battle from above, as it is now. Reads the device; changes nothing.

        Args:
            mode: `rgb_array`.
            battle: which, 0..B - 1.
            side_px: longer side of the field in the picture, 32..4096 px, rounded to even; the other side follows. From
                340 px of width on, 44 px above the field tell the clock and the scores.
            env_index: `battle`, as VMAS calls it.
            agent_index_focus, visualize_when_rgb: arguments of VMAS, which change nothing here.

        Returns:
            `[H, W, 3]` uint8, H and W even; +y is up.

        Raises:
            ConfigError: another mode, no such battle, or a side outside its limits.
        """
        # A program that asks for no picture needs no Pillow.
        from echelon.env.render import render

        index = battle if env_index is None else env_index
        require(mode == "rgb_array", "mode", "'rgb_array'", mode)
        require(index in range(self.num_envs), "battle", f"0..{self.num_envs - 1}", index)
        require(side_px in range(32, 4097), "side_px", "32..4096 px", side_px)
        return render(self.state, self.sim_model, int(index), int(side_px))

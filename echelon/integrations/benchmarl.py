"""Battles as BenchMARL tasks: one team against an opponent, or both teams as two learning groups.

>>> task = EchelonTask.VERSUS.get_task(dict(config=EnvConfig.small(), opponent="heuristic:normal"))
>>> Experiment(task, MappoConfig.get_from_yaml(), MlpConfig.get_from_yaml(), seed=0, config=experiment_config).run()
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.data import Composite
from torchrl.envs import EnvBase, ExcludeTransform, Transform

from echelon.env.outcome import Winner
from echelon.integrations import missing
from echelon.runtime.errors import require
from echelon.views.build import teams, versus
from echelon.views.view import View

try:
    from benchmarl.environments import Task, TaskClass
except ModuleNotFoundError as error:
    raise missing("benchmarl", error) from None

VIEWS: dict[str, Callable[..., View]] = {"VERSUS": versus, "TEAMS": teams}
"""Views by the name of the task."""
UNREAD = ("telemetry", ("outcome", "stats"), ("outcome", "score"), ("outcome", "idle_s"), ("outcome", "reason"))
"""Keys that no algorithm of BenchMARL reads, and that a replay buffer would store twice per frame."""


class BattleTask(TaskClass):
    """A BenchMARL task of Echelon, created by `EchelonTask.VERSUS.get_task` or `EchelonTask.TEAMS.get_task`.

    Args:
        name: either `VERSUS` or `TEAMS`.
        config: keyword arguments of `echelon.versus` or `echelon.teams`, such as `config` (an `EnvConfig`), `opponent`,
            `side`, `groups`, `group_map`, `backend` and `extra_rewards`. BenchMARL itself sets the number of battles,
            the device, the seed, and whether actions are discrete. The global `state` is included unless the config
            sets it to `False`.
    """

    def __init__(self, name: str, config: dict[str, Any] | None = None) -> None:
        require(name in VIEWS, "task", " or ".join(VIEWS), name)
        super().__init__(name, dict(config or {}))
        for key in ("num_envs", "device", "seed", "action", "observation", "info", "memory"):
            require(
                key not in self.config,
                "config",
                f"a config without the key {key}, which BenchMARL sets itself",
                self.config.get(key),
            )

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: torch.device | str
    ) -> Callable[[], EnvBase]:
        """Return a function that creates an environment with `num_envs` battles."""
        action = "continuous" if continuous_actions else "discrete"
        options = {"state": True, **self.config, "num_envs": num_envs, "device": device, "seed": seed, "action": action}
        return functools.partial(VIEWS[self.name], **options)

    def supports_continuous_actions(self) -> bool:
        return True

    def supports_discrete_actions(self) -> bool:
        return True

    def max_steps(self, env: EnvBase) -> int:
        return int(env.max_steps)

    def has_render(self, env: EnvBase) -> bool:
        return True

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        return dict(env.group_map)

    def observation_spec(self, env: EnvBase) -> Composite:
        return self._of_groups(env, "observation")

    def action_mask_spec(self, env: EnvBase) -> Composite | None:
        """Return the spec of `(group, "action_mask")`, `[k, 64]` bool for the k mechs of a group.

        The spec is None for continuous actions, which have no mask.
        """
        return self._of_groups(env, "action_mask") if env.is_discrete else None

    def info_spec(self, env: EnvBase) -> Composite | None:
        return None

    def state_spec(self, env: EnvBase) -> Composite | None:
        if not env.has_state:
            return None
        return Composite(state=env.full_observation_spec_unbatched["state"].clone())

    def action_spec(self, env: EnvBase) -> Composite:
        return env.full_action_spec_unbatched

    def _of_groups(self, env: EnvBase, name: str) -> Composite:
        spec = env.full_observation_spec_unbatched
        return Composite(
            {
                group: Composite({name: spec[group, name].clone()}, shape=(len(names),))
                for group, names in env.group_map.items()
            }
        )

    def get_env_transforms(self, env: EnvBase) -> list[Transform]:
        terms = [(group, "reward_terms") for group in env.group_map]
        return [ExcludeTransform(*UNREAD, *terms)]

    @staticmethod
    def env_name() -> str:
        return "echelon"

    @staticmethod
    def log_info(batch: TensorDictBase) -> dict[str, float]:
        """Return the number of ended battles and their win rate (the learner's, or blue's if both teams learn)."""
        ended = batch["next", "done"][..., 0]
        outcome = batch["next", "outcome"]
        is_win = outcome["won"] if "won" in outcome.keys() else outcome["winner"] == int(Winner.BLUE)
        count = int(ended.sum())
        logged = {"collection/battles": float(count)}
        return logged if count == 0 else {**logged, "collection/win_rate": float(is_win[..., 0][ended].float().mean())}


class EchelonTask(Task):
    """Tasks of Echelon; `get_task(config)` takes the keyword arguments of `echelon.versus` or `echelon.teams`."""

    VERSUS = None
    TEAMS = None

    @staticmethod
    def associated_class() -> type[BattleTask]:
        return BattleTask

    def get_from_yaml(self, path: str | None = None) -> TaskClass:
        """Return the task with default arguments; a YAML file cannot represent an `EnvConfig`."""
        require(path is None, "path", "None (pass settings to get_task)", path)
        return self.get_task({})

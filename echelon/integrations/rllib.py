"""One battle as a `MultiAgentEnv` of RLlib: an agent per mech, for one team or both.

>>> config = PPOConfig().environment(BattleEnv, env_config=dict(config=EnvConfig.small(), opponent="heuristic:easy"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

try:
    from gymnasium import spaces
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"echelon.integrations.rllib needs {error.name}, which is not installed: pip install 'ray[rllib]' pettingzoo",
        name=error.name,
    ) from None

from echelon.integrations.pettingzoo import parallel_env
from echelon.runtime.errors import ConfigError, require

ALL = "__all__"
OBSERVATIONS = "observations"
"""Key of the observation beside `action_mask`, as in RLlib's module for action masks."""


class BattleEnv(MultiAgentEnv):
    """One battle whose mechs are the agents. A time limit truncates the battle; it does not terminate it.

    RLlib bootstraps the values of agents whose battle is truncated. Only `__all__` marks the end of a battle: if each
    mech had its own flag, RLlib would count every battle as terminated. With `death="terminates"`, a dead mech is
    `terminated` and leaves the battle; with the default `stays`, a dead mech receives its team's rewards until the
    battle ends.

    With `action="discrete"`, an observation is a `Dict` of `observations` and `action_mask [64]`, for
    `ActionMaskingTorchRLModule` in RLlib's examples; with `multi_discrete`, the mask contains the options of all
    factors. Infos are those of `parallel_env`, such as `alive`, `winner` and `won`.

    Args:
        config: RLlib's `env_config`: a mapping with the arguments of `echelon.integrations.pettingzoo.parallel_env`.
            Without `opponent`, the mechs of both teams are agents (`blue_0`, `red_0` and so on), for `self_play` or a
            custom mapping.

    Raises:
        ConfigError: if an argument is out of range, or is not an argument of `parallel_env`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.battle = parallel_env(**dict(config or {}))
        self.possible_agents = list(self.battle.possible_agents)
        self.agents = list(self.possible_agents)
        super().__init__()
        self.render_mode, self.metadata = self.battle.render_mode, self.battle.metadata
        names = self.possible_agents
        self.observation_spaces = {name: self._space(self.battle.observation_space(name)) for name in names}
        self.action_spaces = {name: self.battle.action_space(name) for name in names}
        self.observation_space = spaces.Dict(self.observation_spaces)
        self.action_space = spaces.Dict(self.action_spaces)

    def _space(self, space: spaces.Space) -> spaces.Space:
        return self._renamed(space, spaces.Dict)

    def _renamed(self, value: Any, as_dict: Callable[[dict], Any] = dict) -> Any:
        """Rename the keys of an observation, or of its space, to those of RLlib."""
        if not self.battle.observes_masks:
            return value
        return as_dict({OBSERVATIONS: value["observation"], "action_mask": value["action_mask"]})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start the battle of `seed`, or the next battle; RLlib's `options` are ignored."""
        observations, infos = self.battle.reset(seed)
        self.agents = list(self.battle.agents)
        return {name: self._renamed(own) for name, own in observations.items()}, infos

    def step(self, action_dict: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        observations, rewards, terminated, truncated, infos = self.battle.step(action_dict)
        self.agents = list(self.battle.agents)
        is_over = self.battle.is_over
        is_truncated = is_over and any(truncated.values())
        died = {name: True for name, is_done in terminated.items() if is_done and not infos[name]["alive"]}
        gone = died if self.battle.death == "terminates" else {}
        return (
            {name: self._renamed(own) for name, own in observations.items()},
            rewards,
            {**gone, ALL: is_over and not is_truncated},
            {ALL: is_truncated},
            infos,
        )

    def render(self) -> Any:
        return self.battle.render()

    def close(self) -> None:
        self.battle.close()


def self_play(learner: str = "learner", opponent: str = "opponent") -> Callable[..., str]:
    """Return a `policy_mapping_fn` for battles between two policies; each policy commands blue in half of the episodes.

    Args:
        learner, opponent: names of the two policies; the opponent may be a policy that is not in `policies_to_train`.
    """
    require(learner != opponent, "opponent", "another policy than the learner", opponent)

    def policy_of(agent_id: str, episode: Any, **_: Any) -> str:
        team = agent_id.partition("_")[0]
        if team not in ("blue", "red"):
            raise ConfigError(f"self_play must have agents of both teams, got {agent_id!r}: leave out `opponent`")
        is_blue = hash(episode.id_) % 2 == 0
        return learner if (team == "blue") == is_blue else opponent

    return policy_of

"""The opponent `scenario:TIER`: in each battle the commander that its scenario names."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.data import Composite, Unbounded

from echelon.agents.heuristic import MEMORY, Heuristic, scripted
from echelon.env.env import EchelonEnv
from echelon.rules.config import EnvConfig

SCENARIO = "scenario"
"""Prefix of the name."""
POSITION = "position"
"""Memory entry: index of the battle's position, counted from 1; 0 before the first decision."""


class ScenarioOpponents(TensorDictModuleBase):
    """A team policy that plays the commander named by each battle's position.

    A team recognises the position by the first observation of its mechs.

    Args:
        config: config of the battles.
        default: commander of positions that name none, and of battles without positions.
    """

    of_position: Tensor

    def __init__(self, config: EnvConfig, default: str) -> None:
        super().__init__()
        names = [position.opponent or default for position in config.positions] or [default]
        self.commanders = nn.ModuleDict()
        for name in dict.fromkeys(names):
            self.commanders[name] = scripted(name, config, torch.device("cpu"))
        self.in_keys = [*Heuristic(config).in_keys, ("memory", POSITION)]
        self.out_keys = ["action", *(("next", "memory", name) for name in (*MEMORY, POSITION))]
        indices = {name: index for index, name in enumerate(self.commanders)}
        of_position = torch.tensor([indices[name] for name in names], device="cpu")
        self.register_buffer("of_position", of_position, persistent=False)
        env = EchelonEnv(config, 1, "cpu", seed=0, backend="eager")
        ego = env.map_pool.initial_observations["ego"]
        for team, span in env.teams.items():
            self.register_buffer(f"first_of_{team}", ego[: len(names), span].clone(), persistent=False)
        self.teams = list(env.teams)

    def memory_spec(self) -> Composite:
        """Return the memory of the scripted commanders, and the position."""
        spec = next(iter(self.commanders.values())).memory_spec()  # type: ignore[operator]
        return Composite(**dict(spec.items()), **{POSITION: Unbounded((1,), device="cpu", dtype=torch.float32)})

    def graph_key(self) -> Hashable:
        """Return a constant, because the captured kernels are the same in every call."""
        return ()

    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for `[B, A]` mechs.

        Every commander decides for all battles, and each battle keeps the decision of its own. Selecting the battles
        of a commander first would read the positions on the host.
        """
        stored = team.get(("memory", POSITION))
        found = self.recognise(team.get(("observation", "ego")))[:, None, None] + 1.0
        position = torch.where(stored == 0, found, stored)
        index = self.of_position[position[:, 0, 0].long() - 1][:, None, None]
        decided = [commander(team.copy()) for commander in self.commanders.values()]
        for key in ["action", *(("next", "memory", name) for name in MEMORY)]:
            chosen = decided[0].get(key)
            for number, other in enumerate(decided[1:], 1):
                chosen = torch.where(index == number, other.get(key), chosen)
            team.set(key, chosen)
        return team.set(("next", "memory", POSITION), position)

    def recognise(self, ego: Tensor) -> Tensor:
        """Return the index of the position with the most similar first observation, `[B]`, to `ego [B, A, F]`.

        The distance of two observations is their largest absolute difference.
        """
        firsts = [self.get_buffer(f"first_of_{team}") for team in self.teams]
        distances = [
            (ego[:, None] - first).abs().flatten(2).amax(-1) for first in firsts if first.shape[1] == ego.shape[1]
        ]
        return torch.stack(distances).amin(0).argmin(1)


def scenario_opponents_factory(tier: str) -> Callable[[EnvConfig], ScenarioOpponents]:
    """Return a factory of the commander `scenario:TIER`."""
    scripted(tier, EnvConfig.small(), torch.device("cpu"))
    return lambda config: ScenarioOpponents(config, f"heuristic:{tier}")

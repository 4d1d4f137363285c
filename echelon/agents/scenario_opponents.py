"""The opponent `scenario:TIER`: in each battle the commander that its scenario names."""

from __future__ import annotations

from collections.abc import Callable

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
        numbers = {name: number for number, name in enumerate(self.commanders)}
        of_position = torch.tensor([numbers[name] for name in names], device="cpu")
        self.register_buffer("of_position", of_position, persistent=False)
        env = EchelonEnv(config, 1, "cpu", seed=0, backend="eager")
        first = env.map_pool.initial_observations["ego"]
        self.first = [first[:, span] for span in env.teams.values()]
        """First observation of each team at each position, `[M, A, F]`."""

    def memory_spec(self) -> Composite:
        """Return the memory of the scripted commanders, and the position."""
        spec = next(iter(self.commanders.values())).memory_spec()  # type: ignore[operator]
        return Composite(**dict(spec.items()), **{POSITION: Unbounded((1,), device="cpu", dtype=torch.float32)})

    def graph_key(self) -> None:
        """Return None, because decisions read the positions on the host."""
        return None

    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for `[B, A]` mechs."""
        position = team.get(("memory", POSITION)).clone()
        begins = (position[:, 0, 0] == 0).nonzero()[:, 0]
        if len(begins) > 0:
            position[begins] = self.recognise(team.get(("observation", "ego"))[begins])[:, None, None] + 1.0
        which = self.of_position[position[:, 0, 0].long() - 1]
        decided: list[TensorDictBase] = []
        for number, commander in enumerate(self.commanders.values()):
            rows = (which == number).nonzero()[:, 0]
            if len(rows) > 0:
                row = rows[:, None].expand(-1, team.shape[1])
                decided.append(commander(team[rows]).select("action", "next").set("row", row))
        outputs = torch.cat(decided)
        order = outputs.get("row")[:, 0].argsort()
        team.update(outputs.exclude("row")[order])
        return team.set(("next", "memory", POSITION), position)

    def recognise(self, ego: Tensor) -> Tensor:
        """Return the index of the position with the most similar first observation, `[R]`, to `ego [R, A, F]`."""
        distances = [
            torch.cdist(ego.flatten(1), first.to(ego).flatten(1))
            for first in self.first
            if first.shape[1] == ego.shape[1]
        ]
        return torch.stack(distances).amin(0).argmin(1)


def scenario_opponents_factory(tier: str) -> Callable[[EnvConfig], ScenarioOpponents]:
    """Return a factory of the commander `scenario:TIER`."""
    scripted(tier, EnvConfig.small(), torch.device("cpu"))
    return lambda config: ScenarioOpponents(config, f"heuristic:{tier}")

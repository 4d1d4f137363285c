"""A view whose batch are the commanded mechs themselves: what belongs to a battle is expanded to its mechs."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Composite

from echelon.env.battle_states import require_whole_battles
from echelon.env.team_view import View


class MechView(View):
    """Every commanded mech as a row of the batch `[B, n]`; use `mechs` to create one.

    Keys are as in `View`, without a group: `observation [B, n, F]`, `action [B, n, D]`, `reward [B, n, 1]`, `mask
    [B, n]`. What belongs to a battle is expanded to its mechs: `telemetry [B, n, 16, 16]`, `done [B, n, 1]`.
    """

    def _batch(self, num_envs: int, count: int) -> torch.Size:
        return torch.Size([num_envs, count])

    def _set_specs(self, observation: Composite, action: Composite, reward: Composite, done: Composite) -> None:
        (group,) = self.forms
        root = {name: observation[name] for name in observation.keys() if name != group}
        merged = observation[group].clone()
        for name, spec in root.items():
            merged[name] = self._expanded(spec)
        flags = Composite({name: self._expanded(done[name]) for name in done.keys()}, shape=self.batch_size)
        super()._set_specs(merged, action[group].clone(), reward[group].clone(), flags.to(self.device))

    def _expanded(self, spec: Any) -> Any:
        """The spec of something of a battle, of shape `[B, ...]`, for each of its mechs."""
        return spec.unsqueeze(1).expand(*self.batch_size, *spec.shape[1:]).clone()

    def _key(self, group: str, name: str) -> tuple[str, ...]:
        return (name,)

    def _set_group(self, shown: TensorDict, group: str, team: TensorDict) -> None:
        shown.update(team)

    def _set_root(self, shown: TensorDict, name: str, value: Tensor | TensorDictBase) -> None:
        shown.set(name, value.unsqueeze(1).expand(*self.batch_size, *value.shape[1:]))

    def _per_battle(self, flag: Tensor) -> Tensor:
        return flag.view(*self.batch_size, 1)[:, 0]

    def _whole_battles(self, name: str, mask: Tensor) -> Tensor:
        require_whole_battles(name, mask)
        return self._per_battle(mask)

"""What is to be learnt on each map: prioritised level replay (Jiang et al. 2021).

The score of a map is its learnability, p (1 - p) of the share p of battles that the learner wins there (Rutherford et
al. 2024): nothing on a map on which it always or never wins, the most where it wins every other battle.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.agents.env_teams import size
from echelon.learn.opponents.assignment import PolicyAssignment
from echelon.runtime.files import expect
from echelon.runtime.tensor_files import StateDict

WINDOW = 32
"""Battles on a map after which older ones count less."""
FADE = 0.5
"""Factor on the counts of a map whenever they are of so many battles."""


class LevelScores:
    """Battles that ended and were won on each of M maps, counted on the device and never read from it.

    Battles of the learner against itself do not count: it wins half of them on any map.

    Args:
        seeds: `[M]` int64 seeds of the maps, which tell a map from another one that took its place.
    """

    def __init__(self, seeds: Tensor, assignment: PolicyAssignment) -> None:
        self.assignment = assignment
        empty = torch.zeros(2, len(seeds), dtype=torch.float32, device=seeds.device)
        self.tensors = {
            "ended": empty,  # [2, M] battles and wins since the last update
            "kept": empty.clone(),  # [2, M] the same before, older ones discounted
            "idle": empty[0].clone(),  # [M] updates since a battle ended there
            "seeds": seeds.clone(),
        }
        rows = sum(size(battles) for battles in assignment.opponent_rows.values())
        self.judged = torch.zeros(rows, dtype=torch.float32, device=seeds.device)
        """`[G]` 1 for teams of the learner that do not fight against itself, else 0."""
        for opponent, teams in assignment.opponent_rows.items():
            self.judged[teams] = float(opponent in assignment.policies)

    def count(self, map_id: Tensor, after: TensorDictBase) -> None:
        """Count the battles that a decision ended, on the maps `map_id [B]`."""
        ended = self.assignment.each_team(after.get("done")[:, 0]) * self.judged
        won, _ = self.assignment.won_and_lost(after.get("outcome").get("winner")[:, 0])
        self.tensors["ended"].index_add_(1, self.assignment.each_team(map_id), torch.stack([ended, ended * won]))

    def update(self, seeds: Tensor) -> None:
        """Take what was counted into account, and forget maps whose seed `[M]` is another one now."""
        ended, kept, idle = (self.tensors[name] for name in ("ended", "kept", "idle"))
        is_fresh = seeds != self.tensors["seeds"]
        is_full = kept[0] >= WINDOW
        kept.copy_(torch.where(is_fresh, 0.0, torch.where(is_full, FADE * kept, kept) + ended))
        idle.copy_(torch.where(is_fresh | (ended[0] > 0), 0.0, idle + 1))
        ended.zero_()
        self.tensors["seeds"].copy_(seeds)

    def clear(self) -> None:
        """Forget all battles."""
        for name in ("ended", "kept", "idle"):
            self.tensors[name].zero_()

    def learnability(self) -> Tensor:
        """`[M]` p (1 - p), with p the mean of its posterior under a uniform prior: 1 / 4 before the first battle."""
        battles, won = self.tensors["kept"]
        share = (won + 1) / (battles + 2)
        return share * (1 - share)

    def weights(self, active: Tensor, uniform: float, stale: float) -> Tensor:
        """`[T]` share of the battles to begin on each of the maps `active [T]`.

        Args:
            uniform: part of these shares that is alike on all maps.
            stale: part that follows the updates since a battle ended on a map; alike on all while each was 0.
        """
        even = torch.full_like(self.tensors["idle"][active], 1 / len(active))
        scores, idle = self.learnability()[active], self.tensors["idle"][active]
        waiting = torch.where(idle.sum() > 0, idle / idle.sum().clamp_min(1), even)
        return (1 - uniform - stale) * scores / scores.sum() + stale * waiting + uniform * even

    def restore(self, stored: StateDict) -> None:
        """Restore `tensors` from a checkpoint."""
        stored.check(self.tensors)
        battles, won = stored.tensors["kept"]
        is_valid = bool(((won >= 0) & (won <= battles)).all() and (stored.tensors["idle"] >= 0).all())
        expect(is_valid, f"{stored.name}.kept and .idle", ">= 0, and not more wins than battles", is_valid)
        for name, value in stored.tensors.items():
            self.tensors[name].copy_(value)

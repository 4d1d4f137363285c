"""Learnability of each map: prioritised level replay (Jiang et al. 2021).

The score of a map is p (1 - p), where p is the learner's win rate on the map (Rutherford et al. 2024). The score is 0
if the learner always or never wins, and largest at a win rate of one half.
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
"""Number of battles on a map after which older ones are discounted."""
FADE = 0.5
"""Factor on the counts of a map each time they reach `WINDOW`."""


class LevelScores:
    """Counts of finished and won battles on each of M maps, kept on the device and never copied to the host.

    Self-play battles do not count, because the learner wins half of them on any map.

    Args:
        seeds: seeds of the maps, `[M]` int64; a changed seed marks a replaced map.
    """

    def __init__(self, seeds: Tensor, assignment: PolicyAssignment) -> None:
        self.assignment = assignment
        empty = torch.zeros(2, len(seeds), dtype=torch.float32, device=seeds.device)
        self.tensors = {
            "ended": empty,  # [2, M] battles and wins per map since the last update
            "kept": empty.clone(),  # [2, M] discounted counts of earlier battles and wins
            "idle": empty[0].clone(),  # [M] number of updates since the last battle on the map
            "seeds": seeds.clone(),
        }
        rows = sum(size(battles) for battles in assignment.opponent_rows.values())
        self.judged = torch.zeros(rows, dtype=torch.float32, device=seeds.device)
        """`[G]` 1 for learner teams that do not play self-play, else 0."""
        for opponent, teams in assignment.opponent_rows.items():
            self.judged[teams] = float(opponent in assignment.policies)

    def count(self, map_id: Tensor, after: TensorDictBase) -> None:
        """Count the battles that a decision ended; `map_id [B]` is the map of each battle."""
        ended = self.assignment.each_team(after.get("done")[:, 0]) * self.judged
        won, _ = self.assignment.won_and_lost(after.get("outcome").get("winner")[:, 0])
        self.tensors["ended"].index_add_(1, self.assignment.each_team(map_id), torch.stack([ended, ended * won]))

    def update(self, seeds: Tensor) -> None:
        """Add the counts since the last update to the scores, and reset maps whose seed in `seeds [M]` has changed."""
        ended, kept, idle = (self.tensors[name] for name in ("ended", "kept", "idle"))
        is_fresh = seeds != self.tensors["seeds"]
        is_full = kept[0] >= WINDOW
        kept.copy_(torch.where(is_fresh, 0.0, torch.where(is_full, FADE * kept, kept) + ended))
        idle.copy_(torch.where(is_fresh | (ended[0] > 0), 0.0, idle + 1))
        ended.zero_()
        self.tensors["seeds"].copy_(seeds)

    def clear(self) -> None:
        """Reset all counts."""
        for name in ("ended", "kept", "idle"):
            self.tensors[name].zero_()

    def learnability(self) -> Tensor:
        """Return the score p (1 - p) of each map, `[M]`, where p is the posterior mean of the win rate under a uniform
        prior; 1 / 4 for a map without battles.
        """
        battles, won = self.tensors["kept"]
        share = (won + 1) / (battles + 2)
        return share * (1 - share)

    def weights(self, active: Tensor, uniform: float, stale: float) -> Tensor:
        """Return the fraction of new battles to play on each of the maps `active [T]`, as a tensor `[T]`.

        Args:
            uniform: part of the battles that is split equally among all maps.
            stale: part that is split in proportion to the number of updates since a battle ended on the map, or equally
                if all these numbers are 0.
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

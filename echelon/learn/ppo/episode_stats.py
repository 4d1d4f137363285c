"""What came of the battles that ended in a rollout, summed on the device."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.env.outcome import STATS
from echelon.env.reward import TERMS
from echelon.learn.opponents.assignment import PolicyAssignment
from echelon.learn.opponents.scripted import SLOT, ScriptedOpponents

SUMS = ("battles", "won", "lost", "decisions")
RIVAL_SUMS = ("battles", "won")


class EpisodeStats:
    """Sums over the battles that ended, one entry for each team the learner commands.

    `SUMS`, `stats [len(STATS)]`, `returns [len(TERMS)]` what each term paid a mech from beginning to end, and by rival
    `battles_NAME` and `won_NAME`; of a scripted one those only that met its newest tier.
    """

    def __init__(self, device: torch.device, seats: PolicyAssignment) -> None:
        self.seats = seats
        zero = torch.zeros((), device=device)
        self.sums = {name: zero.clone() for name in SUMS}
        self.sums |= {f"{name}_{rival}": zero.clone() for rival in seats.met for name in RIVAL_SUMS}
        self.sums["stats"] = torch.zeros(len(STATS), device=device)
        self.sums["returns"] = torch.zeros(len(TERMS), device=device)

    def count(self, now: TensorDictBase, after: TensorDictBase, returns: Tensor) -> None:
        """Add the battles that ended between `now` and `after`; `returns [G, len(TERMS)]` is 0 for the others."""
        seats, outcome = self.seats, after.get("outcome")
        done = after.get("done")[:, 0].float()
        won, lost = seats.won_and_lost(outcome.get("winner")[:, 0])
        stats, decisions = outcome.get("stats"), outcome.get("decisions")[:, 0].float()
        ended = seats.each_team(done)
        self.sums["battles"] += ended.sum()
        self.sums["won"] += won.sum()
        self.sums["lost"] += lost.sum()
        self.sums["decisions"] += seats.each_team(decisions).sum()
        self.sums["stats"] += seats.rows({"blue": stats[:, 0], "red": stats[:, 1]}).sum(0)
        self.sums["returns"] += returns.sum(0)
        for rival, teams in seats.of_rival.items():
            counts = self.against_newest(rival, now) * ended[teams]
            self.sums[f"battles_{rival}"] += counts.sum()
            self.sums[f"won_{rival}"] += (counts * won[teams]).sum()

    def against_newest(self, rival: str, now: TensorDictBase) -> Tensor:
        """`[]` or `[G']` 1 for the teams that met the rival as it is for battles that begin now."""
        policy = self.seats.policies.get(rival)
        if not isinstance(policy, ScriptedOpponents):
            return torch.ones((), device=now.device)
        parts = [now.get((group, "memory", rival, SLOT))[battles, 0, 0] for group, battles in self.seats.places[rival]]
        return (torch.cat(parts) == policy.newest + 1).float()

"""Whom the learner meets: scripted commanders and frozen policies, one a battle from its beginning to its end.

Each holds two slots. A battle takes the newest slot when it begins and remembers which, so an opponent that is put in
place never enters a battle being fought; a slot is filled anew only when no battle reads it.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite, Unbounded

from echelon.agents.heuristic import Heuristic
from echelon.agents.tiers import TIERS
from echelon.rules.config import EnvConfig
from echelon.runtime.files import FileError
from echelon.runtime.state_dict import StateDict

SLOTS = 2
SLOT = "slot"
"""What a mech remembers of its commander: 0 until its battle's first decision, then 1 or 2."""


def taken(memory: Tensor, newest: Tensor | int) -> Tensor:
    """`[B, A, 1]` the slot of each battle, 1 or 2: the remembered one, or the newest where the battle begins."""
    return torch.where(memory == 0, newest + 1, memory)


class ScriptedOpponents:
    """The scripted commander of some battles, of a tier and a handicap that may change from battle to battle.

    Args:
        env: the battle.
        tier, weapon_use: as in `Heuristic`.
    """

    def __init__(self, env: EnvConfig, tier: str, weapon_use: float, device: torch.device) -> None:
        self.device = device
        self.slots = [Heuristic(env, tier).to(device) for _ in range(SLOTS)]
        self.tiers = [tier, tier]
        self.weapon_use = weapon_use
        self.newest = 0
        self.old_is_read = False
        self.wanted = (tier, weapon_use)
        self.env = env

    def memory_spec(self) -> Composite:
        """That of a heuristic, and what its battle drew."""
        drawn = {SLOT: Unbounded((1,)), "weapon_use": Unbounded((1,))}
        return Composite(**dict(self.slots[0].memory_spec().items()), **drawn)

    def meet(self, tier: str, weapon_use: float) -> None:
        """Let battles that begin from now on meet this tier, as soon as there is a slot for it."""
        self.wanted = (tier, weapon_use)
        self._fill()

    def readers(self, memory: TensorDictBase) -> Tensor:
        """`[1, 2]` battles that read each slot, from the memory `[B, A]` of the teams it commands."""
        slot = memory.get(SLOT)[:, :1, 0]
        return torch.stack([(slot == number + 1).sum() for number in range(SLOTS)])[None]

    def refresh(self, readers: list[list[int]]) -> None:
        """Take note of what `readers` counted: between rollouts."""
        self.old_is_read = readers[0][1 - self.newest] > 0
        self._fill()

    def _fill(self) -> None:
        tier, weapon_use = self.wanted
        if tier == self.tiers[self.newest]:
            self.weapon_use = weapon_use
        elif not self.old_is_read:
            self.newest = 1 - self.newest
            self._put(self.newest, tier)
            self.weapon_use = weapon_use
            self.old_is_read = True

    def _put(self, slot: int, tier: str) -> None:
        self.slots[slot] = Heuristic(self.env, tier).to(self.device)
        self.tiers[slot] = tier

    def state_dict(self) -> StateDict:
        """Tiers in the slots, and the tier to come."""
        tier, weapon_use = self.wanted
        facts = {"tiers": list(self.tiers), "newest": self.newest, "old_is_read": self.old_is_read}
        shares = {"weapon_use": float(self.weapon_use), "next_weapon_use": float(weapon_use)}
        return StateDict(facts={**facts, **shares, "next_tier": tier})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a state."""
        tiers = [*state_dict.row("tiers", str, SLOTS), state_dict.fact("next_tier", str)]
        shares = [state_dict.fact(key, float) for key in ("weapon_use", "next_weapon_use")]
        if not set(tiers) <= TIERS.keys() or not all(0 <= share <= 1 for share in shares):
            raise FileError(f"{state_dict.name} must name {tuple(TIERS)} and shares 0..1, got {tiers} and {shares}")
        for slot, tier in enumerate(tiers[:SLOTS]):
            self._put(slot, tier)
        self.newest, self.old_is_read = state_dict.whole("newest", 0, SLOTS - 1), state_dict.fact("old_is_read", bool)
        self.weapon_use, self.wanted = shares[0], (tiers[SLOTS], shares[1])

    def __call__(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for `[B, A]` mechs."""
        begins = team.get(("memory", SLOT)) == 0
        slot = taken(team.get(("memory", SLOT)), self.newest)
        weapon_use = torch.where(begins, self.weapon_use, team.get(("memory", "weapon_use")))
        decided = self._ask(self.newest, team.copy(), weapon_use)
        if self.old_is_read:
            other = self._ask(1 - self.newest, team.copy(), weapon_use)
            is_new = slot == self.newest + 1
            decided = decided.apply(lambda new, old: torch.where(is_new, new, old), other)
        team.set("action", decided.get("action"))
        team.set(("next", "memory"), decided.get(("next", "memory")))
        return team.set(("next", "memory", SLOT), slot).set(("next", "memory", "weapon_use"), weapon_use)

    def _ask(self, slot: int, team: TensorDictBase, weapon_use: Tensor) -> TensorDictBase:
        commander = self.slots[slot]
        commander.weapon_use = weapon_use
        return commander(team).select("action", ("next", "memory"))

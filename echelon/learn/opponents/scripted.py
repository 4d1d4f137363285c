"""Scripted commanders as opponents, whose tier may change during a run."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite, Unbounded

from echelon.agents.heuristic import Heuristic
from echelon.agents.tiers import TIERS
from echelon.learn.opponents.slots import SLOT, SLOTS, count_readers, current_slot
from echelon.rules.config import EnvConfig
from echelon.runtime.files import FileError
from echelon.runtime.state_dict import StateDict


class ScriptedOpponents:
    """Scripted commander with a tier and weapon use that may change from battle to battle.

    Args:
        env: config of the battles.
        tier, weapon_use: initial values, as in `Heuristic`.
    """

    def __init__(self, env: EnvConfig, tier: str, weapon_use: float, device: torch.device) -> None:
        self.device = device
        self.slots = [Heuristic(env, tier).to(device) for _ in range(SLOTS)]
        self.tiers = [tier, tier]
        self.weapon_use = weapon_use
        self.newest = 0
        self.old_is_read = False
        self.requested = (tier, weapon_use)
        self.env = env

    def memory_spec(self) -> Composite:
        """Memory of `Heuristic`, and the slot and weapon use of the battle."""
        per_battle = {SLOT: Unbounded((1,)), "weapon_use": Unbounded((1,))}
        return Composite(**dict(self.slots[0].memory_spec().items()), **per_battle)

    def set_tier(self, tier: str, weapon_use: float) -> None:
        """Set tier and weapon use for new battles; takes effect as soon as a slot is free."""
        self.requested = (tier, weapon_use)
        self._update_slots()

    def readers(self, memory: TensorDictBase) -> Tensor:
        """`[1, 2]` number of battles that use each slot, from the memory (batch `[B, A]`) of the teams it commands."""
        return count_readers(memory, blocks=1)

    def refresh(self, readers: list[list[int]]) -> None:
        """Fill a free slot with the requested tier. To be called between rollouts.

        Args:
            readers: `[1, 2]` as returned by the method `readers`.
        """
        self.old_is_read = readers[0][1 - self.newest] > 0
        self._update_slots()

    def _update_slots(self) -> None:
        tier, weapon_use = self.requested
        if tier == self.tiers[self.newest]:
            self.weapon_use = weapon_use
        elif not self.old_is_read:
            self.newest = 1 - self.newest
            self._set_slot(self.newest, tier)
            self.weapon_use = weapon_use
            self.old_is_read = True

    def _set_slot(self, slot: int, tier: str) -> None:
        self.slots[slot] = Heuristic(self.env, tier).to(self.device)
        self.tiers[slot] = tier

    def state_dict(self) -> StateDict:
        """Tiers in the slots, and the requested tier."""
        tier, weapon_use = self.requested
        facts = {"tiers": list(self.tiers), "newest": self.newest, "old_is_read": self.old_is_read}
        shares = {"weapon_use": float(self.weapon_use), "next_weapon_use": float(weapon_use)}
        return StateDict(facts={**facts, **shares, "next_tier": tier})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the state from a checkpoint.

        Raises:
            FileError: a tier is unknown, or a number is outside its range.
        """
        tiers = [*state_dict.row("tiers", str, SLOTS), state_dict.fact("next_tier", str)]
        shares = [state_dict.fact(key, float) for key in ("weapon_use", "next_weapon_use")]
        if not set(tiers) <= TIERS.keys() or not all(0 <= share <= 1 for share in shares):
            raise FileError(f"{state_dict.name} must name {tuple(TIERS)} and shares 0..1, got {tiers} and {shares}")
        for slot, tier in enumerate(tiers[:SLOTS]):
            self._set_slot(slot, tier)
        self.newest, self.old_is_read = state_dict.whole("newest", 0, SLOTS - 1), state_dict.fact("old_is_read", bool)
        self.weapon_use, self.requested = shares[0], (tiers[SLOTS], shares[1])

    def __call__(self, team: TensorDictBase) -> TensorDictBase:
        """Act for `[B, A]` mechs."""
        begins = team.get(("memory", SLOT)) == 0
        slot = current_slot(team.get(("memory", SLOT)), self.newest)
        weapon_use = torch.where(begins, self.weapon_use, team.get(("memory", "weapon_use")))
        decided = self._act(self.newest, team.copy(), weapon_use)
        if self.old_is_read:
            other = self._act(1 - self.newest, team.copy(), weapon_use)
            is_new = slot == self.newest + 1
            decided = decided.apply(lambda new, old: torch.where(is_new, new, old), other)
        team.set("action", decided.get("action"))
        team.set(("next", "memory"), decided.get(("next", "memory")))
        return team.set(("next", "memory", SLOT), slot).set(("next", "memory", "weapon_use"), weapon_use)

    def _act(self, slot: int, team: TensorDictBase, weapon_use: Tensor) -> TensorDictBase:
        commander = self.slots[slot]
        commander.weapon_use = weapon_use
        return commander(team).select("action", ("next", "memory"))

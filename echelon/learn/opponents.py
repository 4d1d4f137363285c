"""Whom the learner meets: scripted commanders and frozen policies, one a battle from its beginning to its end.

Each holds two slots. A battle takes the newest slot when it begins and remembers which, so an opponent that is put in
place never enters a battle being fought; a slot is filled anew only when no battle reads it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.data import Composite, Unbounded

from echelon.agents.heuristic import Heuristic
from echelon.agents.tiers import TIERS
from echelon.env.observation import layout
from echelon.learn.distribution import SquashedNormal
from echelon.learn.policy import MechPolicy, Network, think_together
from echelon.rules.config import EnvConfig
from echelon.runtime.files import FileError
from echelon.runtime.state_dict import Kept

SLOTS = 2
SLOT = "slot"
"""What a mech remembers of its commander: 0 until its battle's first decision, then 1 or 2."""


class Challenger(NamedTuple):
    """A frozen policy to meet."""

    name: str
    weights: Mapping[str, Tensor]
    """As in `MechPolicy.state_dict`, of the learner's own `ModelConfig`."""


DrawOpponent = Callable[[], Challenger | None]
"""Asked for whom a block of battles meets next; the league has one of its own. None leaves it to the learner."""


def taken(memory: Tensor, newest: Tensor | int) -> Tensor:
    """`[B, A, 1]` the slot of each battle, 1 or 2: the remembered one, or the newest where the battle begins."""
    return torch.where(memory == 0, newest + 1, memory)


class ScriptedRivals(TensorDictModuleBase):
    """The scripted commander of some battles, of a tier and a handicap that may change from battle to battle.

    Args:
        env: the battle.
        tier, weapon_use: as in `Heuristic`.
    """

    def __init__(self, env: EnvConfig, tier: str, weapon_use: float) -> None:
        super().__init__()
        self.slots = torch.nn.ModuleList([Heuristic(env, tier), Heuristic(env, tier)])
        self.tiers = [tier, tier]
        self.weapon_use = weapon_use
        self.newest = 0
        self.old_is_read = False
        self.wanted = (tier, weapon_use)
        self.env = env
        self.in_keys, self.out_keys = ["observation"], ["action"]

    def memory_spec(self) -> Composite:
        """That of a heuristic, and what its battle drew."""
        drawn = {SLOT: Unbounded((1,)), "weapon_use": Unbounded((1,))}
        return Composite(**dict(self._commander(0).memory_spec().items()), **drawn)

    def _commander(self, slot: int) -> Heuristic:
        commander = self.slots[slot]
        assert isinstance(commander, Heuristic)
        return commander

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
            self._seat(self.newest, tier)
            self.weapon_use = weapon_use
            self.old_is_read = True

    def _seat(self, slot: int, tier: str) -> None:
        self.slots[slot] = Heuristic(self.env, tier).to(self._commander(0).size.device)
        self.tiers[slot] = tier

    def keep(self) -> Kept:
        """Who sits in the slots, and who is to come."""
        tier, weapon_use = self.wanted
        facts = {"tiers": list(self.tiers), "newest": self.newest, "old_is_read": self.old_is_read}
        shares = {"weapon_use": float(self.weapon_use), "next_weapon_use": float(weapon_use)}
        return Kept(facts={**facts, **shares, "next_tier": tier})

    def go_on(self, kept: Kept) -> None:
        """Seat them again."""
        tiers = [*kept.row("tiers", str, SLOTS), kept.fact("next_tier", str)]
        shares = [kept.fact(key, float) for key in ("weapon_use", "next_weapon_use")]
        if not set(tiers) <= TIERS.keys() or not all(0 <= share <= 1 for share in shares):
            raise FileError(f"{kept.name} must name {tuple(TIERS)} and shares 0..1, got {tiers} and {shares}")
        for slot, tier in enumerate(tiers[:SLOTS]):
            self._seat(slot, tier)
        self.newest, self.old_is_read = kept.whole("newest", 0, SLOTS - 1), kept.fact("old_is_read", bool)
        self.weapon_use, self.wanted = shares[0], (tiers[SLOTS], shares[1])

    def forward(self, team: TensorDictBase) -> TensorDictBase:
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
        commander = self._commander(slot)
        commander.weapon_use = weapon_use
        return commander(team).select("action", ("next", "memory"))


class FrozenRivals(TensorDictModuleBase):
    """Frozen policies in equal blocks of battles, all of them in one batched forward over stacked weights.

    Args:
        like: a policy of the architecture they share; its weights are the first in every slot.
        blocks: how many are met at a time, K.
        draw: asked for the next whenever a block has a slot that no battle reads.
    """

    newest: Tensor

    def __init__(self, like: MechPolicy, blocks: int, draw: Callable[[], Challenger]) -> None:
        super().__init__()
        self.blocks = blocks
        self.draw = draw
        device = next(like.parameters()).device
        self.base = Network(like.model, like.comm_dim).to(device)
        self.base.compute = like.network.compute
        self.base.requires_grad_(False)
        self.spec = like.memory_spec()
        self.state = like.state
        self.weights = {
            name: value.detach()[None].repeat(SLOTS * blocks, *[1] * value.dim())
            for name, value in like.network.state_dict().items()
        }
        """`[2K, ...]`: slots of the first block, of the second, and so on."""
        self.names = [["", ""] for _ in range(blocks)]
        self.newest_of = [0] * blocks
        self.register_buffer("newest", torch.zeros(blocks, device=device), persistent=False)
        self.in_keys, self.out_keys = ["observation"], ["action"]
        self.refresh([[1, 0] for _ in range(blocks)])

    def memory_spec(self) -> Composite:
        """That of the policies, and the slot a battle drew."""
        return Composite(**dict(self.spec.items()), **{SLOT: Unbounded((1,))})

    def readers(self, memory: TensorDictBase) -> Tensor:
        """`[K, 2]` battles that read each slot, from the memory `[B, A]` of the teams it commands."""
        slot = memory.get(SLOT)[:, 0, 0].view(self.blocks, -1)
        return torch.stack([(slot == number + 1).sum(1) for number in range(SLOTS)], 1)

    @torch.no_grad()
    def refresh(self, readers: list[list[int]]) -> None:
        """Draw whom each block meets next where its older slot is free: between rollouts."""
        for block, counts in enumerate(readers):
            old = 1 - self.newest_of[block]
            if counts[old] > 0:
                continue
            challenger = self.draw()
            for name, stack in self.weights.items():
                stack[SLOTS * block + old].copy_(challenger.weights[f"network.{name}"])
            self.names[block][old] = challenger.name
            self.newest_of[block] = old
        self.newest.copy_(torch.tensor(self.newest_of))

    def keep(self) -> Kept:
        """The policies in the slots, and which are the newest."""
        return Kept(
            self.weights, {"names": [name for pair in self.names for name in pair], "newest": list(self.newest_of)}
        )

    @torch.no_grad()
    def go_on(self, kept: Kept) -> None:
        """Seat them again."""
        kept.check(self.weights)
        names, newest = kept.row("names", str, SLOTS * self.blocks), kept.row("newest", int, self.blocks)
        if not set(newest) <= set(range(SLOTS)):
            raise FileError(f"{kept.name}.newest must hold 0..{SLOTS - 1}, got {newest}")
        for name, stack in self.weights.items():
            stack.copy_(kept.tensors[name])
        self.names = [names[at : at + SLOTS] for at in range(0, len(names), SLOTS)]
        self.newest_of = newest
        self.newest.copy_(torch.tensor(newest))

    @torch.no_grad()
    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for `[B, A]` mechs."""
        newest = self.newest.repeat_interleave(team.shape[0] // self.blocks)[:, None, None]
        slot = taken(team.get(("memory", SLOT)), newest)

        def blocked(leaf: Tensor) -> Tensor:
            """`[2K, B / K, ...]`: each block of battles twice, for its two slots."""
            return leaf.unflatten(0, (self.blocks, -1)).repeat_interleave(SLOTS, 0)

        streams = tuple(blocked(team.get(("observation", name))) for name in layout.STREAMS)
        h, c = (blocked(leaf) for leaf in self.state(team))
        telemetry = blocked(team.get("telemetry")[:, 0])
        thoughts = think_together(self.base, self.weights, streams, telemetry, h, c)
        second = slot == SLOTS

        def chosen(leaf: Tensor) -> Tensor:
            """`[B, A, ...]` what the battle's own slot says."""
            both = leaf.unflatten(0, (self.blocks, SLOTS))
            return torch.where(second, both[:, 1].flatten(0, 1), both[:, 0].flatten(0, 1))

        loc, scale, h, c = (chosen(leaf) for leaf in thoughts)
        team.set("action", SquashedNormal(loc, scale).rsample().tanh())
        if "h" in self.spec.keys():
            team.set(("next", "memory", "h"), h).set(("next", "memory", "c"), c)
        return team.set(("next", "memory", SLOT), slot)


class PastSelves:
    """Earlier selves of a learner, of which any is drawn as often as any other.

    Args:
        kept: how many are remembered; a new one takes the place of the oldest.
        seed: of the draws, each of which follows from it and from how many there were before.
    """

    def __init__(self, kept: int, seed: int) -> None:
        self.kept = kept
        self.seed = seed
        self.draws = 0
        self.selves: list[Challenger] = []

    def join(self, name: str, policy: MechPolicy) -> None:
        """Remember a policy as it is now."""
        weights = {key: value.detach().clone() for key, value in policy.state_dict().items()}
        self.selves = [*self.selves, Challenger(name, weights)][-self.kept :]

    def __call__(self) -> Challenger:
        """Draw one."""
        chance = random.Random(f"{self.seed} {self.draws}")
        self.draws += 1
        return chance.choice(self.selves)

    def keep(self) -> Kept:
        """All of them, their weights side by side `[K, ...]`."""
        stacks = {key: torch.stack([past.weights[key] for past in self.selves]) for key in self.selves[0].weights}
        return Kept(stacks, {"names": [past.name for past in self.selves], "draws": self.draws})

    def go_on(self, kept: Kept) -> None:
        """Remember them in the place of those that joined so far, of which there must be one."""
        names, newest = kept.row("names", str), self.selves[-1].weights
        if not names:
            raise FileError(f"{kept.name}.names must name at least one, got none")
        kept.check({key: value.expand(len(names), *value.shape) for key, value in newest.items()})
        self.draws = kept.whole("draws", 0, 2**62)
        stacks = {key: stack.to(newest[key].device) for key, stack in kept.tensors.items()}
        selves = [Challenger(name, {k: stack[i] for k, stack in stacks.items()}) for i, name in enumerate(names)]
        self.selves = selves[-self.kept :]

"""Frozen policies as opponents, computed in one batched forward pass."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Sequence

import torch
from tensordict import TensorDictBase
from torchrl.data import Composite, Unbounded

from echelon.agents.stacked import StackedForward
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.distribution import ActionDistribution
from echelon.learn.opponents.assignment import SLOT, current_slot
from echelon.learn.opponents.snapshot_pool import ROUNDING, OpponentPool
from echelon.runtime.json_checks import integer, number, of_type, table
from echelon.runtime.tensor_files import StateDict

MOST_SHARES = 1 << 20
NO_SLOT = -1
"""Slot index of a block without a retiring slot."""


class FrozenOpponents:
    """K blocks of battles with S slots each; a battle plays against the frozen policy in one slot of its block.

    All policies run in one forward pass, with `torch.vmap` over stacked weights. At its start, a battle draws a slot
    with the probabilities of the pool's shares. The battle keeps the slot to its end, see
    `echelon.learn.opponents.assignment`. When the shares change, each block retires a slot: new battles no longer draw
    it. When the last battle against the retired slot has ended, another opponent is drawn for the slot.

    Args:
        like: a policy of the common architecture; its weights initialise every slot.
        slots: number of slots per block, S, at least 2.
        pool: the opponents and their shares, which sum to 1.
        seed: seed for drawing opponents; each draw depends on the seed and the number of earlier draws.
        compiled: whether torch.compile makes one graph of the forward pass.
    """

    def __init__(
        self, like: ActorCritic, blocks: int, slots: int, pool: OpponentPool, seed: int = 0, compiled: bool = False
    ) -> None:
        self.blocks, self.num_slots, self.pool, self.seed = blocks, slots, pool, seed
        device = next(like.parameters()).device
        self.forward = StackedForward(like, device, like.network.compute, compiled, threads=1)
        self.base = self.forward.base
        self.keys = like.keys
        self.weights = {
            name: value.detach()[None].repeat(slots * blocks, *[1] * value.dim())
            for name, value in like.network.state_dict().items()
        }
        """`[KS, ...]` stacked weights: all slots of the first block, then of the second, and so on."""
        self.names = [[""] * slots for _ in range(blocks)]
        """`[K, S]` name of the opponent in each slot."""
        self.newest = [slots - 1] * blocks
        """`[K]` most recently filled slot."""
        self.retiring = [NO_SLOT] * blocks
        """`[K]` slot that new battles no longer draw, or `NO_SLOT`."""
        self.draws = 0
        self.shares: dict[str, float] = dict(pool.shares)
        self.edges = torch.zeros(blocks, slots - 1, dtype=torch.float32, device=device)
        """`[K, S - 1]` cumulative probabilities of a block's slots, without the last, which is 1."""
        for slot in range(slots):
            for block in range(blocks):
                self._fill(block, slot)
        self._update_edges()

    def memory_spec(self) -> Composite:
        return Composite(
            **dict(self.base.memory.spec().items()),
            **{SLOT: Unbounded((1,), device="cpu", dtype=torch.float32)},
        )

    def graph_key(self) -> Hashable:
        """Key under which a CUDA graph is reused: the numbers of blocks and slots. Weights and probabilities are not
        part of the key, because they change in place.
        """
        return self.blocks, self.num_slots

    def refresh(self, readers: Sequence[Sequence[int]]) -> None:
        """Read the pool's shares; retire and fill slots. Call this between rollouts.

        Args:
            readers: number of battles that use each slot, `[K, S]`, see `count_readers`.
        """
        shares = dict(self.pool.shares)
        if shares != self.shares:
            self.shares = shares
            for block in range(self.blocks):
                if self.retiring[block] == NO_SLOT:
                    self.retiring[block] = self._least_wanted(block)
        for block, counts in enumerate(readers):
            slot = self.retiring[block]
            if slot != NO_SLOT and counts[slot] == 0:
                self._fill(block, slot)
                self.newest[block], self.retiring[block] = slot, NO_SLOT
        self._update_edges()

    def _least_wanted(self, block: int) -> int:
        """Return the first slot whose opponent has left the pool, or else the least recently filled slot."""
        by_age = [(self.newest[block] + i) % self.num_slots for i in range(1, self.num_slots + 1)]
        return next((slot for slot in by_age if self.names[block][slot] not in self.shares), by_age[0])

    @torch.no_grad()
    def _fill(self, block: int, slot: int) -> None:
        """Draw an opponent for a slot, and prefer opponents with fewer slots than their share: whole missing slots
        count first, then fractions (residual resampling). In this way, few slots hold many different opponents.
        """
        self.names[block][slot] = ""
        counts, total = Counter(name for row in self.names for name in row), self.blocks * self.num_slots
        gaps = [max(total * share - counts[name], 0.0) for name, share in self.shares.items()]
        whole = [int(gap + ROUNDING) for gap in gaps]
        name = random.Random(f"{self.seed} {self.draws}").choices(list(self.shares), whole if any(whole) else gaps)[0]
        self.draws += 1
        weights = self.pool.weights_of(name)
        for key, stack in self.weights.items():
            stack[self.num_slots * block + slot].copy_(weights[f"network.{key}"])
        self.names[block][slot] = name

    def _update_edges(self) -> None:
        """Divide each opponent's share among its slots; retiring slots and opponents outside the pool get none."""
        active = [
            ["" if slot == self.retiring[block] else name for slot, name in enumerate(row)]
            for block, row in enumerate(self.names)
        ]
        counts = Counter(name for row in active for name in row)
        rows = []
        for row in active:
            weights = [self.shares.get(name, 0.0) / counts[name] for name in row]
            # If all opponents of this row have left the pool, keep playing them until a slot gets a new opponent.
            weights = weights if sum(weights) > 0 else [float(name != "") for name in row]
            rows.append([sum(weights[: i + 1]) / sum(weights) for i in range(self.num_slots - 1)])
        self.edges.copy_(torch.tensor(rows, dtype=torch.float32, device="cpu"))

    def state_dict(self) -> StateDict:
        """Return weights and names in all slots, the newest and retiring slots, and the shares."""
        names = [name for row in self.names for name in row]
        facts = {"names": names, "newest": self.newest, "retiring": self.retiring}
        return StateDict(self.weights, {**facts, "shares": self.shares, "draws": self.draws})

    @torch.no_grad()
    def load_state_dict(self, state_dict: StateDict) -> None:
        state_dict.check(self.weights)
        names = state_dict.row("names", of_type(str), self.num_slots * self.blocks)
        newest = state_dict.row("newest", integer(0, self.num_slots - 1), self.blocks)
        retiring = state_dict.row("retiring", integer(NO_SLOT, self.num_slots - 1), self.blocks)
        shares = state_dict.fact("shares", table(number(0, 1), MOST_SHARES, of_type(str)))
        draws = state_dict.fact("draws", integer(0))
        for name, stack in self.weights.items():
            stack.copy_(state_dict.tensors[name])
        self.names = [names[start : start + self.num_slots] for start in range(0, len(names), self.num_slots)]
        self.newest, self.retiring, self.shares, self.draws = newest, retiring, dict(shares), draws
        self._update_edges()

    @torch.no_grad()
    def __call__(self, team: TensorDictBase) -> TensorDictBase:
        battles, edges = team.shape[0], self.edges
        draw = torch.rand(battles, 1, dtype=torch.float32, device=edges.device)
        drawn_slot = (draw >= edges.repeat_interleave(battles // self.blocks, 0)).sum(1)
        slot = current_slot(team.get(("memory", SLOT)), drawn_slot[:, None, None].float())
        inputs = tuple(self.keys.inputs(team, self.keys.layout(team, is_sequence=False)))
        loc, scale, memory = self.forward.by_slot(self.weights, self.blocks, slot[:, 0, 0].long() - 1, inputs)
        team.set("action", ActionDistribution(loc, scale).rsample().tanh())
        for name, leaf in memory.items():
            team.set(("next", "memory", name), leaf)
        return team.set(("next", "memory", SLOT), slot)

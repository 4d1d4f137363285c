"""Frozen policies as opponents, computed in one batched forward pass."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from tensordict.utils import expand_as_right
from torch import Tensor
from torch.utils._pytree import tree_map
from torchrl.data import Composite, Unbounded

from echelon.learn.models.actor_critic import ActorCritic, ActorNetwork, batched_forward
from echelon.learn.models.distribution import SquashedNormal
from echelon.learn.opponents.slots import SLOT, SLOTS, count_readers, current_slot
from echelon.learn.opponents.snapshot_pool import Snapshot
from echelon.runtime.files import FileError
from echelon.runtime.state_dict import StateDict


class FrozenOpponents:
    """K blocks of battles, each against its own frozen policy; one forward pass with `torch.vmap` over stacked weights.

    Each block has two slots, see `echelon.learn.opponents.slots`.

    Args:
        like: a policy of the common architecture; its weights initialise every slot.
        blocks: number of blocks K.
        draw: returns the next opponent of a block; called whenever a block has a slot that no battle reads.
    """

    def __init__(self, like: ActorCritic, blocks: int, draw: Callable[[], Snapshot]) -> None:
        self.blocks = blocks
        self.draw = draw
        device = next(like.parameters()).device
        self.base: ActorNetwork = like.model.build(like.specs).to(device).requires_grad_(False).network
        self.base.compute = like.network.compute
        self.keys = like.keys
        self.weights = {
            name: value.detach()[None].repeat(SLOTS * blocks, *[1] * value.dim())
            for name, value in like.network.state_dict().items()
        }
        """`[2K, ...]` stacked weights: both slots of the first block, of the second, and so on."""
        self.names = [["", ""] for _ in range(blocks)]
        self.newest_of = [0] * blocks
        self.newest = torch.zeros(blocks, device=device)
        self.refresh([[1, 0] for _ in range(blocks)])

    def memory_spec(self) -> Composite:
        """Memory of the policies, and the slot of the battle."""
        return Composite(**dict(self.base.memory.spec().items()), **{SLOT: Unbounded((1,))})

    def readers(self, memory: TensorDictBase) -> Tensor:
        """`[K, 2]` number of battles that use each slot, from the memory (batch `[B, A]`) of the teams it commands."""
        return count_readers(memory, self.blocks)

    @torch.no_grad()
    def refresh(self, readers: list[list[int]]) -> None:
        """Draw a new opponent for each block whose older slot is free. To be called between rollouts.

        Args:
            readers: `[K, 2]` as returned by the method `readers`.
        """
        for block, counts in enumerate(readers):
            old = 1 - self.newest_of[block]
            if counts[old] > 0:
                continue
            snapshot = self.draw()
            for name, stack in self.weights.items():
                stack[SLOTS * block + old].copy_(snapshot.weights[f"network.{name}"])
            self.names[block][old] = snapshot.name
            self.newest_of[block] = old
        self.newest.copy_(torch.tensor(self.newest_of))

    def state_dict(self) -> StateDict:
        """Weights and names in all slots, and the newest slot of each block."""
        return StateDict(
            self.weights, {"names": [name for pair in self.names for name in pair], "newest": list(self.newest_of)}
        )

    @torch.no_grad()
    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the state from a checkpoint.

        Raises:
            FileError: it does not fit these blocks.
        """
        state_dict.check(self.weights)
        names, newest = state_dict.row("names", str, SLOTS * self.blocks), state_dict.row("newest", int, self.blocks)
        if not set(newest) <= set(range(SLOTS)):
            raise FileError(f"{state_dict.name}.newest must hold 0..{SLOTS - 1}, got {newest}")
        for name, stack in self.weights.items():
            stack.copy_(state_dict.tensors[name])
        self.names = [names[at : at + SLOTS] for at in range(0, len(names), SLOTS)]
        self.newest_of = newest
        self.newest.copy_(torch.tensor(newest))

    @torch.no_grad()
    def __call__(self, team: TensorDictBase) -> TensorDictBase:
        """Act for `[B, A]` mechs."""
        newest = self.newest.repeat_interleave(team.shape[0] // self.blocks)[:, None, None]
        slot = current_slot(team.get(("memory", SLOT)), newest)

        def blocked(leaf: Tensor) -> Tensor:
            """`[2K, B / K, ...]` from `[B, ...]`: each block of battles twice, once per slot."""
            return leaf.unflatten(0, (self.blocks, -1)).repeat_interleave(SLOTS, 0)

        inputs = self.keys.inputs(team, self.keys.layout(team, is_sequence=False))
        blocks = tree_map(blocked, tuple(inputs))
        output = batched_forward(self.base, self.weights, *blocks)
        is_second = slot[..., 0] == SLOTS

        def chosen(leaf: Tensor) -> Tensor:
            """`[B, A, ...]` output of the slot that the battle uses, from `[2K, B / K, A, ...]`."""
            both = leaf.unflatten(0, (self.blocks, SLOTS))
            first, second = both[:, 0].flatten(0, 1), both[:, 1].flatten(0, 1)
            return torch.where(expand_as_right(is_second, first), second, first)

        distribution = SquashedNormal(chosen(output.loc), chosen(output.scale))
        team.set("action", distribution.rsample().tanh())
        for name, leaf in output.memory.items():
            team.set(("next", "memory", name), chosen(leaf))
        return team.set(("next", "memory", SLOT), slot)

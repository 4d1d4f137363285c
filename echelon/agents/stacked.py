"""Run networks of one architecture in one batched forward pass over their stacked weights.

The teams of each policy are arranged in blocks of `SLOTS` teams, and each block has one set of weights. The slot of a
team depends only on its own battle. A batched matrix product is bit-reproducible if shape and slot are the same, for
any number of blocks, so a battle has the same result alone and among hundreds of others.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeGuard

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_map

from echelon.agents.runner import Decider, Part, TeamObservation, TeamSeat
from echelon.agents.team_policy import TeamPolicy
from echelon.env.blocks import workers
from echelon.runtime.compile import fused

SLOTS = 8
"""Teams per block. Smaller blocks have fewer empty slots, but their matrix products are slower."""
CHUNK = 32
"""Blocks per forward pass where the shape is fixed: in a compiled graph, and on a GPU, where the number of blocks
selects the matrix kernel."""


class Stackable(Protocol):
    """A team policy whose network can run together with others of the same `architecture`."""

    network: Any
    """A module called with streams, telemetry and memory. It returns an object with `loc`, `scale`, `embed` and
    `memory`. Its own `memory` has `spec()` and `supports_vmap`."""

    act: Callable[..., Any]
    """The function for deciding alone: `network.forward`, or a compiled graph of it."""

    @property
    def comm_dim(self) -> int:
        """Count of numbers in a mech's message, as in `EnvConfig.comm_dim`."""

    @property
    def architecture(self) -> Hashable | None:
        """A key that is equal for policies whose networks differ only in weights; None for a policy that runs alone."""

    def __call__(self, team: TensorDictBase, /) -> TensorDictBase:
        """Decide for every mech of a team, batch `[B, A]`."""

    def frozen_network(self, device: torch.device) -> Any:
        """Return a network of the same architecture, in evaluation mode and without gradients. The network's weights
        need not be those of this policy."""

    @staticmethod
    def actions(loc: Tensor, scale: Tensor, normals: Tensor) -> Tensor:
        """Return the actions `[..., D]` in (-1, 1) for standard normal samples."""


def is_stackable(policy: TeamPolicy) -> TypeGuard[Stackable]:
    """Return whether a policy's network can run together with others of its architecture."""
    return getattr(policy, "architecture", None) is not None


def batched_forward(base: Any, weights: dict[str, Tensor], *inputs: object) -> Any:
    """Run n networks of `base`'s architecture: in one `torch.vmap`, or in a loop if the network's memory module does
    not support vmap.

    Args:
        weights: stacked parameters, `[n, ...]` each, named as in `base.state_dict()`.
        inputs: arguments of the network, `[n, ...]` each.
    """

    def single(own_weights: dict[str, Tensor], *own_inputs: object) -> Any:
        return functional_call(base, own_weights, own_inputs)

    if base.memory.supports_vmap:
        return torch.vmap(single)(weights, *inputs)
    n = len(next(iter(weights.values())))
    outputs = [single(*tree_map(lambda leaf, i=i: leaf[i], (weights, *inputs))) for i in range(n)]
    return tree_map(lambda *leaves: torch.stack(leaves), *outputs)


def blocks_of(seats: Sequence[TeamSeat]) -> list[list[TeamSeat | None]]:
    """Arrange teams in blocks of `SLOTS`, each team in its slot; None marks an empty slot."""
    height = max(Counter(seat.place for seat in seats).values())
    blocks: list[list[TeamSeat | None]] = [[None] * SLOTS for _ in range(height)]
    counts: Counter[int] = Counter()
    for seat in seats:
        blocks[counts[seat.place]][seat.place] = seat
        counts[seat.place] += 1
    return blocks


class StackedForward:
    """Forward pass of one architecture over the stacked weights of several policies, compiled at most once.

    Args:
        compute: dtype of matrix products, the attribute `compute` of a network.
        compiled: whether to use `torch.compile`, as one graph of a fixed shape.
        threads: number of CPU threads among which the networks of a `StackedPolicies` are split; by default torch's
            thread count.
    """

    def __init__(
        self,
        template: Stackable,
        device: torch.device,
        compute: torch.dtype,
        compiled: bool,
        threads: int | None = None,
    ) -> None:
        self.base: Any = template.frozen_network(device)
        self.base.compute = compute
        self.actions = template.actions
        has_shape = compiled or device.type != "cpu"
        self.chunk = CHUNK if has_shape else None
        """Blocks per call; None to split the blocks evenly over the CPU threads."""
        self.threads = 1 if has_shape else threads or torch.get_num_threads()
        # `functional_call` swaps the network's weights during a call, so each thread needs its own network.
        self.bases = [self.base, *(copy.deepcopy(self.base) for _ in range(1, self.threads))]
        self.device = device
        self.call: Callable[..., Any] = fused(batched_forward, device) if compiled else batched_forward

    def by_slot(
        self, weights: dict[str, Tensor], blocks: int, slot: Tensor, inputs: tuple[Any, ...]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return `loc`, `scale` and next memory of R rows in K equal blocks. Each block has S networks, of which `slot`
        selects one for each row.

        Args:
            weights: stacked weights, `[KS, ...]` each: all networks of the first block, then of the second block, and
                so on.
            slot: index of each row's network in its block, `[R]` int64.
            inputs: arguments of the network, `[R, ...]` each.
        """
        row, size = torch.arange(len(slot), device=slot.device), len(slot) // blocks
        block, offset, slots = row // size, row % size, len(next(iter(weights.values()))) // blocks

        def blocked(leaf: Tensor) -> Tensor:
            """Repeat each block of rows once per network, from shape `[R, ...]` to `[KS, R / K, ...]`."""
            return leaf.unflatten(0, (blocks, -1)).repeat_interleave(slots, 0)

        def chosen(leaf: Tensor) -> Tensor:
            """Select the output of each row's own network, from shape `[KS, R / K, A, ...]` to `[R, A, ...]`."""
            return leaf.unflatten(0, (blocks, slots))[block, slot, offset]

        output = self.call(self.base, weights, *tree_map(blocked, inputs))
        return chosen(output.loc), chosen(output.scale), {name: chosen(leaf) for name, leaf in output.memory.items()}


def with_constants(network: nn.Module) -> dict[str, Tensor]:
    """Return the weights of a network and the constants that its modules compute from weights alone.

    A module provides constants in a method `constants`, which returns a dict keyed by buffer name.
    """
    weights = dict(network.state_dict())
    with torch.no_grad():
        for name, module in network.named_modules():
            constants: dict[str, Tensor] = getattr(module, "constants", dict)()
            weights |= {f"{name}.{key}": leaf for key, leaf in constants.items()}
    return weights


class StackedPolicies(Decider):
    """Computes the actions of policies of one architecture, for the teams that these policies command."""

    def __init__(
        self,
        forward: StackedForward,
        policies: Sequence[Stackable],
        slots: Sequence[Sequence[TeamSeat]],
        mechs: int,
    ) -> None:
        self.forward, self.policies, self.mechs, device = forward, policies, mechs, forward.device
        blocks_by_policy = [blocks_of(policy_slots) for policy_slots in slots]
        # Only a CPU in eager mode reads precomputed constants; compiled graphs and GPUs compute them in the products.
        read = with_constants if forward.chunk is None else nn.Module.state_dict
        policy_states = [{k: v.to(device) for k, v in read(policy.network).items()} for policy in policies]
        states = [state for state, rows in zip(policy_states, blocks_by_policy, strict=True) for _ in rows]
        blocks = [block for per_policy in blocks_by_policy for block in per_policy]
        chunk = forward.chunk or -(-len(blocks) // forward.threads)
        # Pad the last chunk to full size with blocks of empty slots.
        spare = -len(blocks) % chunk
        states += states[-1:] * spare
        places = [seat for block in blocks for seat in block] + [None] * (spare * SLOTS)
        weights = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        rows = torch.tensor([0 if seat is None else seat.row for seat in places], device=device)
        self.chunks = [slice(start, start + chunk) for start in range(0, len(states), chunk)]
        self.weights = [{name: stack[chunk_slice] for name, stack in weights.items()} for chunk_slice in self.chunks]
        """Stacked weights per chunk, `[n, ...]` for n blocks."""
        self.index = [rows.view(-1, SLOTS)[chunk_slice] for chunk_slice in self.chunks]
        """Rows of the pool per chunk, `[n, SLOTS]` int64; 0 for an empty slot, whose action is dropped."""
        self.memory = forward.base.memory.spec().expand((len(places), mechs)).to(device).zero()
        """Memory of the mechs, block by block, `[n * SLOTS, A]`."""
        commanded = [seat for seat in places if seat is not None]
        self.commanded = [seat.row for seat in commanded]
        """Rows of the G commanded teams, on the host, in the order of the policies."""
        ends = [sum(len(policy_slots) for policy_slots in slots[: number + 1]) for number in range(len(slots))]
        self.places = [range(end - len(policy_slots), end) for end, policy_slots in zip(ends, slots, strict=True)]
        """For each policy, the positions of its teams in `commanded`."""
        self.part = Part.of(commanded, mechs, device)
        self.keeps_embed = False
        """Whether to store `embed`, for critics that read it."""
        self.embed: Tensor | None = None
        """`[G, A, hidden]` embeddings of the last decision."""
        used = [place for place, seat in enumerate(places) if seat is not None]
        self.used = torch.tensor(used, device=device)
        self.rows = rows[self.used]
        """`[G]` int64, rows of the commanded teams."""

    def distribution(self, observation: TeamObservation) -> tuple[Tensor, Tensor]:
        """Return loc and scale `[G, A, D]` of the Gaussian before tanh, for the teams in `rows`. Updates `memory`."""
        numbers, threads = range(len(self.chunks)), self.forward.threads
        run = workers(threads).map if threads > 1 and len(numbers) > 1 else map
        outputs = list(run(lambda number: self._forward_chunk(number, observation), numbers))

        def commanded(leaf: str) -> Tensor:
            return torch.cat([getattr(output, leaf).flatten(0, 1) for output in outputs])[self.used]

        if self.keeps_embed:
            self.embed = commanded("embed")
        return commanded("loc"), commanded("scale")

    @torch.inference_mode()
    def _forward_chunk(self, number: int, observation: TeamObservation) -> Any:
        """Run the forward pass of one chunk of blocks; on a CPU, each chunk runs in its own thread. Updates
        `memory`."""
        base, index = self.forward.bases[number % len(self.forward.bases)], self.index[number]
        streams = tuple(observation.streams[name][index] for name in base.streams)
        rows = slice(self.chunks[number].start * SLOTS, self.chunks[number].stop * SLOTS)
        weights, memory = self.weights[number], {k: v[rows].unflatten(0, (-1, SLOTS)) for k, v in self.memory.items()}
        output = self.forward.call(base, weights, streams, observation.telemetry[index], memory)
        for name, leaf in memory.items():
            leaf.copy_(output.memory[name])
        return output

    def graph_key(self) -> Hashable:
        """Return an empty key, because decisions depend only on weights, memory and noise, all updated in place."""
        return ()

    def decide(self, observation: TeamObservation) -> Tensor:
        """Return sampled actions `[G, A, D]` in (-1, 1) for the teams in `rows`."""
        assert observation.noise is not None
        loc, scale = self.distribution(observation)
        return self.forward.actions(loc, scale, observation.noise[self.rows])

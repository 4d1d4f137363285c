"""Runs many policies in one batch of battles, each for its own teams.

A batch of B battles has 2B teams: the blue team of battle b is row b, the red one is row b + B. Networks of one
architecture share one forward pass over stacked weights, in blocks of `SLOTS` teams of one policy each. The slot of a
team depends only on its own battle. A batched matrix product is bit-reproducible if shape and slot are the same,
whatever the number of blocks, so a battle has the same result alone and among hundreds of others.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.agents.runner import team_input
from echelon.agents.team_policy import TeamPolicy, draws_actions, graph_key_of, memory_spec_of, reads_action_mask
from echelon.env.blocks import workers
from echelon.env.observation.layout import STREAMS
from echelon.learn.models.actor_critic import ActorCritic, ActorNetwork, Critic, PolicyOutput, batched_forward
from echelon.learn.models.memory import MemoryState
from echelon.runtime.compile import fused
from echelon.runtime.errors import ConfigError

SLOTS = 8
"""Number of teams in a block: blocks of fewer fill more evenly, and products of few rows are slower."""
CHUNK = 32
"""Blocks per forward pass where the shape must not change: in a compiled graph, and on a GPU, where the choice of the
matrix kernel depends on the number of blocks."""


@dataclass(frozen=True)
class SharedTeam:
    """A team of two policies, each of which decides as if it commanded all of it.

    Args:
        own, rest: names of the policies, different ones.
        places: mechs of the team that `own` commands; `rest` commands the others.
    """

    own: str
    rest: str
    places: tuple[int, ...]

    def members(self, mechs: int) -> dict[str, tuple[int, ...]]:
        """The mechs of a team of `mechs` that each commands, by name."""
        partners = tuple(mech for mech in range(mechs) if mech not in self.places)
        return {self.own: self.places, self.rest: partners}


class BatchSlot(NamedTuple):
    """Position of a team in the batch."""

    row: int
    """Row of the batch: b for blue, b + B for red."""
    place: int
    """Slot within its block, 0 .. `SLOTS` - 1."""
    mechs: tuple[int, ...] | None = None
    """Which mechs of the team the policy commands, by their place in it; None for all of them."""


class Part(NamedTuple):
    """The mechs for which a decider acts, where they are not all of its teams'."""

    rows: Tensor
    """`[K]` int64, rows of the batch."""
    teams: Tensor
    """`[K]` int64, where each stands among the teams of the decider."""
    mechs: Tensor
    """`[K]` int64, places in the team."""

    @staticmethod
    def of(slots: Sequence[BatchSlot], count: int, device: torch.device) -> Part | None:
        """The part that teams of `count` mechs in this order are, None for all of them."""
        if all(slot.mechs is None for slot in slots):
            return None
        all_mechs = tuple(range(count))
        listed = [
            (slot.row, team, mech)
            for team, slot in enumerate(slots)
            for mech in (all_mechs if slot.mechs is None else slot.mechs)
        ]
        return Part(*torch.tensor(listed, device=device).T)


class BatchObservation(NamedTuple):
    """Observations of all 2B teams of a batch, of A mechs each; the smaller teams of unequal ones are padded."""

    streams: Mapping[str, Tensor]
    """`[2B, A, ...]` observation streams by name."""
    mask: Tensor
    """`[2B, A]` bool, which mechs are alive."""
    telemetry: Tensor
    """`[2B, 16, 16]` team telemetry."""
    noise: Tensor
    """`[2B, A, D]` standard normal samples, derived from the seed of each battle."""
    action_mask: Tensor | None = None
    """`[2B, A, 64]` bool, the discrete actions that a mech can carry out; None where no policy reads it."""


def blocks_of(slots: Sequence[BatchSlot]) -> list[list[int]]:
    """Arrange teams in blocks: lists of `SLOTS` rows, each row in its slot, -1 for an empty slot."""
    height = max(Counter(slot.place for slot in slots).values())
    blocks = [[-1] * SLOTS for _ in range(height)]
    counts: Counter[int] = Counter()
    for slot in slots:
        blocks[counts[slot.place]][slot.place] = slot.row
        counts[slot.place] += 1
    return blocks


class StackedForward:
    """Forward pass of one architecture over the stacked weights of several policies. Compiled at most once.

    Args:
        compute: dtype of matrix products, as in `ActorNetwork.compute`.
        compiled: whether to run through `torch.compile`, as one graph of a fixed shape.
    """

    def __init__(self, template: ActorCritic, device: torch.device, compute: torch.dtype, compiled: bool) -> None:
        frozen = template.model.build(template.specs).to(device).requires_grad_(False).eval()
        self.base: ActorNetwork = frozen.network
        self.base.compute = compute
        has_shape = compiled or device.type != "cpu"
        self.chunk = CHUNK if has_shape else None
        """Blocks per call; None for equal shares of the threads of a CPU."""
        self.threads = 1 if has_shape else torch.get_num_threads()
        # A call gives its network other weights for as long as it takes: each thread needs a network of its own.
        self.bases = [self.base, *(copy.deepcopy(self.base) for _ in range(1, self.threads))]
        self.device = device
        self.call: Callable[..., PolicyOutput] = fused(batched_forward, device) if compiled else batched_forward


class StackedPolicies:
    """Policies of one architecture and the teams they command in a batch."""

    def __init__(
        self,
        forward: StackedForward,
        policies: Sequence[ActorCritic],
        slots: Sequence[Sequence[BatchSlot]],
        mechs: int,
    ) -> None:
        self.forward, self.mechs, device = forward, mechs, forward.device
        blocks_by_policy = [blocks_of(policy_slots) for policy_slots in slots]
        policy_states = [{k: v.to(device) for k, v in policy.network.state_dict().items()} for policy in policies]
        states = [state for state, rows in zip(policy_states, blocks_by_policy, strict=True) for _ in rows]
        blocks = [block for per_policy in blocks_by_policy for block in per_policy]
        chunk = forward.chunk or -(-len(blocks) // forward.threads)
        # The last chunk is padded with blocks of empty slots.
        spare = -len(blocks) % chunk
        states, blocks = states + states[-1:] * spare, blocks + [[-1] * SLOTS] * spare
        weights = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        index = torch.tensor(blocks, device=device)
        self.chunks = [slice(start, start + chunk) for start in range(0, len(blocks), chunk)]
        self.weights = [{name: stack[chunk_slice] for name, stack in weights.items()} for chunk_slice in self.chunks]
        """Stacked weights per chunk, `[n, ...]` for n blocks."""
        self.index = [index[chunk_slice].clamp_min(0) for chunk_slice in self.chunks]
        """Rows of the batch per chunk, `[n, SLOTS]` int64; 0 for an empty slot, whose action is dropped."""
        spec = forward.base.memory.spec()
        self.memory: list[MemoryState] = [
            {
                name: torch.zeros(*slot_index.shape, mechs, *leaf.shape, dtype=torch.float32, device=device)
                for name, leaf in spec.items()
            }
            for slot_index in self.index
        ]
        """What the mechs remember per chunk, `[n, SLOTS, A, *shape]` by name."""
        self.commanded = [row for block in blocks for row in block if row >= 0]
        """Rows of the teams commanded, on the host: G of them, in the order of the policies."""
        ends = [sum(len(policy_slots) for policy_slots in slots[: number + 1]) for number in range(len(slots))]
        self.places = [range(end - len(policy_slots), end) for end, policy_slots in zip(ends, slots, strict=True)]
        """Of each policy the places of its teams in `commanded`."""
        self.part = Part.of(self._in_order(slots), mechs, device)
        self.keeps_embed = False
        """Whether `embed` is kept, for critics that read it."""
        self.embed: Tensor | None = None
        """`[G, A, hidden]` embeddings of the last decision."""
        self.used = (index.flatten() >= 0).nonzero()[:, 0]
        self.rows = index.flatten()[self.used]
        """`[G]` int64 rows of the teams commanded."""

    def _in_order(self, slots: Sequence[Sequence[BatchSlot]]) -> list[BatchSlot]:
        """Slots of all policies in the order of `commanded`."""
        by_row = [{slot.row: slot for slot in policy_slots} for policy_slots in slots]
        return [
            slot_of[self.commanded[index]]
            for slot_of, indices in zip(by_row, self.places, strict=True)
            for index in indices
        ]

    def distribution(self, observation: BatchObservation) -> tuple[Tensor, Tensor]:
        """`[G, A, D]` loc and scale of the Gaussian before tanh, for the rows `rows`. Updates `memory`."""
        numbers, threads = range(len(self.chunks)), self.forward.threads
        run = workers(threads).map if threads > 1 and len(numbers) > 1 else map
        outputs = list(run(lambda number: self._forward_chunk(number, observation), numbers))

        def commanded(leaf: str) -> Tensor:
            return torch.cat([getattr(output, leaf).flatten(0, 1) for output in outputs])[self.used]

        if self.keeps_embed:
            self.embed = commanded("embed")
        return commanded("loc"), commanded("scale")

    @torch.inference_mode()
    def _forward_chunk(self, number: int, observation: BatchObservation) -> PolicyOutput:
        """The forward pass of a chunk, in a thread of its own on a CPU. Updates its `memory`."""
        base, index = self.forward.bases[number % len(self.forward.bases)], self.index[number]
        streams = tuple(observation.streams[name][index] for name in STREAMS)
        weights, memory = self.weights[number], self.memory[number]
        output = self.forward.call(base, weights, streams, observation.telemetry[index], memory)
        for name, leaf in memory.items():
            leaf.copy_(output.memory[name])
        return output

    def memories(self) -> TensorDictBase:
        """Copies of what the mechs of the teams in `rows` remember, batch `[G, A]`."""
        chunks = [
            TensorDict(leaves, [*index.shape, self.mechs])
            for leaves, index in zip(self.memory, self.index, strict=True)
        ]
        return torch.cat([chunk.flatten(0, 1) for chunk in chunks])[self.used]

    def remember(self, memories: TensorDictBase) -> None:
        """Let the teams in `rows` remember what `memories` returned."""
        start = 0
        for leaves, index in zip(self.memory, self.index, strict=True):
            in_chunk = (self.used >= start) & (self.used < start + index.numel())
            for name, leaf in leaves.items():
                leaf.flatten(0, 1)[self.used[in_chunk] - start] = memories.get(name)[in_chunk]
            start += index.numel()

    def graph_key(self) -> Hashable:
        """Nothing: weights, memory and noise lie where they are."""
        return ()

    def decide(self, observation: BatchObservation) -> Tensor:
        """`[G, A, D]` sampled actions in (-1, 1) for the rows `rows`."""
        loc, scale = self.distribution(observation)
        return (loc + scale * observation.noise[self.rows]).tanh()


class PolicySlots:
    """Teams of A mechs of a policy that cannot be stacked: a scripted commander, or any other `TeamPolicy`.

    Args:
        call: what decides as the policy does, such as a graph of it; the policy itself by default.
        least: teams to decide for at least: a graph has a shape. The first row of the batch fills them up.
    """

    def __init__(
        self,
        policy: TeamPolicy,
        slots: Sequence[BatchSlot],
        mechs: int,
        device: torch.device,
        call: Callable[[TensorDictBase], TensorDictBase] | None = None,
        least: int = 0,
    ) -> None:
        self.policy, self.mechs, self.call = policy, mechs, call or policy
        self.part = Part.of(slots, mechs, device)
        """What it acts for, None for all mechs of its teams."""
        self.rows = torch.tensor([slot.row for slot in slots], device=device)
        rows = [slot.row for slot in slots] + [0] * (least - len(slots))
        self.decided = torch.tensor(rows, device=device)
        """`[max(G, least)]` int64, the rows for which it decides."""
        self.memory: TensorDict = memory_spec_of(policy).expand(len(rows), mechs).to(device).zero()

    def memories(self) -> TensorDictBase:
        """Copies of what the mechs of the teams in `rows` remember, batch `[G, A]`."""
        return self.memory[: len(self.rows)].clone()

    def remember(self, memories: TensorDictBase) -> None:
        """Let the teams in `rows` remember what `memories` returned."""
        self.memory = torch.cat([memories, self.memory[len(self.rows) :]])

    def graph_key(self) -> Hashable | None:
        """What decisions depend on beside tensors that stay where they are; None where the policy does not tell."""
        return graph_key_of(self.policy)

    def decide(self, observation: BatchObservation) -> Tensor:
        """`[G, A, D]` actions for the rows `rows`."""
        rows, mechs = self.decided, self.mechs
        streams = {name: leaf[rows, :mechs] for name, leaf in observation.streams.items()}
        normals = observation.noise[rows, :mechs] if draws_actions(self.policy) else None
        team = team_input(streams, observation.mask[rows, :mechs], observation.telemetry[rows], self.memory, normals)
        if observation.action_mask is not None and reads_action_mask(self.policy):
            team.set("action_mask", observation.action_mask[rows, :mechs])
        output = self.call(team)
        action = output.get("action") if isinstance(output, TensorDictBase) else None
        shape = (len(rows), mechs, observation.noise.shape[-1])
        if not isinstance(action, Tensor) or action.shape != shape:
            actual = tuple(action.shape) if isinstance(action, Tensor) else "none"
            raise ConfigError(f"the action of {type(self.policy).__name__} must be of shape {shape}, got {actual}")
        remembered = output.get(("next", "memory"), self.memory)
        if self.graph_key() is None:
            self.memory = remembered
        else:
            self.memory.update_(remembered)
        return action[: len(self.rows)]


@dataclass(frozen=True)
class Followed:
    """Recorded teams of one policy on one side."""

    critic: Critic
    at: Tensor
    """`[K]` int64, their places among the teams of `StackedPolicies`."""
    rows: Tensor
    """`[K]` int64, their rows of the batch."""
    others: Tensor
    """`[K]` int64, the rows of their enemies, whose state a central critic reads."""
    mechs: tuple[int, int]
    """In a team, and in that of the enemy."""


class ValueEstimates:
    """Values of the teams of recorded battles that an `ActorCritic` commands.

    A critic says its values in normalised units: what they were trained with is no part of a policy. Teams of other
    policies have none.

    Args:
        stacked: the policies, which then keep their embeddings; each with the policies in their order.
    """

    def __init__(
        self,
        stacked: Sequence[tuple[StackedPolicies, Sequence[ActorCritic]]],
        battles: Collection[int],
        sizes: tuple[int, int],
        count: int,
    ) -> None:
        self.battles, self.sizes, self.count = battles, sizes, count
        self.followed: list[tuple[StackedPolicies, list[Followed]]] = []
        for decider, policies in stacked:
            teams = [
                followed
                for policy, positions in zip(policies, decider.places, strict=True)
                for side in (0, 1)
                if (followed := self._teams_of(policy, decider, positions, side)) is not None
            ]
            decider.keeps_embed = len(teams) > 0
            if teams:
                self.followed.append((decider, teams))

    def _teams_of(self, policy: ActorCritic, decider: StackedPolicies, places: range, side: int) -> Followed | None:
        rows = {position: decider.commanded[position] for position in places}
        own_rows = {row for row in rows.values() if row // self.count == side and row % self.count in self.battles}
        positions = [position for position, row in rows.items() if row in own_rows]
        if not positions:
            return None
        device = decider.rows.device
        team_rows = torch.tensor([rows[position] for position in positions], device=device)
        enemy_rows = (team_rows + self.count) % (2 * self.count)
        critic, sizes = copy.deepcopy(policy.critic).to(device), (self.sizes[side], self.sizes[1 - side])
        return Followed(critic, torch.tensor(positions, device=device), team_rows, enemy_rows, sizes)

    def __call__(self, observation: BatchObservation) -> Tensor:
        """`[B, 2]` mean value over the living mechs of blue and of red, once the policies have decided; NaN of teams
        that are not followed."""
        ego = observation.streams["ego"]
        values = ego.new_full((2 * self.count,), float("nan"), dtype=torch.float32)
        for decider, followed in self.followed:
            assert decider.embed is not None
            for team in followed:
                own_mechs, enemy_mechs = team.mechs
                mech_values = team.critic(
                    decider.embed[team.at, :own_mechs], ego[team.rows, :own_mechs], ego[team.others, :enemy_mechs]
                )
                alive = observation.mask[team.rows, :own_mechs]
                values[team.rows] = (mech_values * alive).sum(-1) / alive.sum(-1).clamp_min(1)
        return values.view(2, self.count).T

"""What the networks of the learner read of battles, and the values that its critic gives them."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.observation.layout import GROUPS, STREAMS
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.operators import ValueHead
from echelon.learn.opponents.assignment import LEARNER, PolicyAssignment
from echelon.learn.padding import without_padding
from echelon.learn.ppo.rollout_writes import concat_pieces, on_device, reduced_view


class LearnerViews:
    """Views of the learner's G teams: streams, telemetry and, for a central critic, `enemy`, batch `[G]`.

    Args:
        assignment: which teams the learner commands.
        policy: the learner.
        value_head: its critic.
        exists: `[G, A]` bool, which mechs are no padding; None where there is none.
        device: of the battles.
    """

    def __init__(
        self,
        assignment: PolicyAssignment,
        policy: ActorCritic,
        value_head: ValueHead,
        exists: Tensor | None,
        device: torch.device,
    ) -> None:
        self.assignment, self.policy, self.value_head, self.exists = assignment, policy, value_head, exists
        self.device, self.concat_pieces = device, on_device(concat_pieces, device)

    def of(self, team: TensorDictBase, enemy: Tensor | None, casts: bool = True) -> TensorDict:
        """The view of some teams; `casts`: in the dtype of the forward pass."""
        dtype = self.policy.network.compute

        def cast(leaf: Tensor) -> Tensor:
            return leaf.to(dtype) if casts and leaf.dtype != torch.bool else leaf

        streams = {name: cast(team.get(("observation", name))) for name in STREAMS}
        telemetry = cast(team.get("telemetry")[:, 0])
        view = TensorDict({"observation": streams, "telemetry": telemetry}, team.shape[:1], device=self.device)
        return view if enemy is None else view.set("enemy", cast(enemy))

    def enemy(self, whole: TensorDictBase) -> Tensor | None:
        """`[G, E, F]` ego streams of the enemies for a central critic, None for a local one."""
        if not self.value_head.is_central:
            return None
        return self.assignment.enemy_rows({group: whole.get((group, "observation", "ego")) for group in GROUPS})

    def memory_of(self, memory: TensorDictBase) -> TensorDict:
        """What the learner's mechs remember, batch `[G]`, from the `memory` of a view of them."""
        leaves = {name: memory.get(name) for name in self.policy.keys.memory}
        return TensorDict(leaves, memory.shape[:1], device=self.device)

    @property
    def can_reduce(self) -> bool:
        """Whether `reduced` is right: for an encoder that makes the same of it, where nobody else reads it."""
        # Of its own class: one that is derived from it may read more.
        is_same = vars(type(self.policy.network.encoder)).get("accepts_reduced_precision", False)
        return is_same and type(self.policy) is ActorCritic and not self.value_head.is_central and self.exists is None

    def reduced(self, now: TensorDictBase) -> TensorDict:
        """What the learner decides from, batch `[G, A]`, put together in the dtype of the forward pass."""
        teams = [self.assignment.part(now, LEARNER, *team) for team in self.assignment.teams[LEARNER]]
        return reduced_view(teams, self.policy.keys.memory, self.policy.network.compute, self.concat_pieces)

    def pieces(self, after: TensorDictBase, decided: TensorDictBase) -> list[TensorDict]:
        """The view and next memory of all teams in pieces, one after the other, not put together where that is all
        there is to do."""
        enemy, teams = self.enemy(after), self.assignment.teams[LEARNER]
        if self.exists is not None:
            seen = [self.assignment.view(after, LEARNER)]
        else:
            seen = [self.assignment.part(after, LEARNER, *team) for team in teams]
        memory = {name: decided.get(key) for name, key in self.policy.keys.next_memory.items()}
        memory = {name: without_padding(leaf, self.exists) for name, leaf in memory.items()}
        pieces, start = [], 0
        for team in seen:
            own = slice(start, start + len(team))
            start = own.stop
            piece = self.of(team, None if enemy is None else enemy[own], casts=False)
            pieces.append(piece.set("memory", {name: leaf[own] for name, leaf in memory.items()}))
        return pieces

    def values(self, team: TensorDictBase, enemy: Tensor | None) -> TensorDict:
        """`state_value` and `state_value_normalized` `[G, A, 1]` of a decision, from what the policy made of it."""
        keys = self.value_head.keys
        data = TensorDict({key: team.get(key) for key in (keys.embed, keys.ego)}, team.shape[:1])
        if enemy is not None:
            data.set(keys.enemy, enemy)
        return self.value_head(data).select(*self.value_head.out_keys)

    def value_now(self, now: TensorDictBase) -> Tensor:
        """`[G, A, 1]` values of what is shown in real units, without a decision."""
        seen = self.assignment.view(now, LEARNER)
        return self.value_of(self.of(seen, self.enemy(now)).set("memory", self.memory_of(seen.get("memory"))))

    def value_of(self, view: TensorDictBase) -> Tensor:
        """`[G, A, 1]` values of a view with memory in real units, without side effects."""
        keys = self.policy.keys
        output = self.policy.act(*keys.inputs(view, keys.layout(view, is_sequence=False)))
        data = view.select("observation", "enemy", strict=False).set(self.value_head.keys.embed, output.embed)
        value: Tensor = self.value_head(data).get("state_value")
        return value

"""What the networks of the learner read of battles, and the values that its critic gives them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.agents.env_teams import concat_pieces, team_view
from echelon.env.observation.layout import GROUPS
from echelon.env.restart import replace_rows
from echelon.learn.models.actor_critic import ActorCritic, ValueHead
from echelon.learn.models.keys import TeamKeys
from echelon.learn.opponents.assignment import LEARNER, PolicyAssignment
from echelon.learn.padding import without_padding
from echelon.runtime.compile import fused_on_gpu


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
        self.device, self.concat_pieces = device, fused_on_gpu(concat_pieces, device)

    def of(self, team: TensorDictBase, enemy: Tensor | None, casts: bool = True) -> TensorDict:
        """The view of some teams; `casts`: in the dtype of the forward pass."""
        dtype = self.policy.network.compute

        def cast(leaf: Tensor) -> Tensor:
            return leaf.to(dtype) if casts and leaf.dtype != torch.bool else leaf

        streams = {name: cast(team.get(("observation", name))) for name in observed(self.policy.keys)}
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

    def reduced(self, td: TensorDictBase) -> TensorDict:
        """What the learner decides from, batch `[G, A]`, put together in the dtype of the forward pass."""
        return self.assignment.view(td, LEARNER, dtype=self.policy.network.compute, concat=self.concat_pieces)

    def pieces(self, after: TensorDictBase, decided: TensorDictBase) -> list[TensorDict]:
        """The view and next memory of all teams in pieces, one after the other, not put together where that is all
        there is to do."""
        enemy = self.enemy(after)
        if self.exists is not None:
            team_views = [self.assignment.view(after, LEARNER)]
        else:
            teams = self.assignment.teams[LEARNER]
            team_views = [team_view(after, group, LEARNER)[battles] for group, battles in teams]
        memory = {name: decided.get(key) for name, key in self.policy.keys.next_memory.items()}
        memory = {name: without_padding(leaf, self.exists) for name, leaf in memory.items()}
        pieces, start = [], 0
        for team in team_views:
            rows = slice(start, start + len(team))
            start = rows.stop
            view = self.of(team, None if enemy is None else enemy[rows], casts=False)
            pieces.append(view.set("memory", {name: leaf[rows] for name, leaf in memory.items()}))
        return pieces

    def values(self, team: TensorDictBase, enemy: Tensor | None) -> TensorDict:
        """`state_value` and `state_value_normalized` `[G, A, 1]` of a decision, from what the policy made of it."""
        keys = self.value_head.keys
        data = TensorDict({key: team.get(key) for key in (keys.embed, keys.ego)}, team.shape[:1])
        if enemy is not None:
            data.set(keys.enemy, enemy)
        return self.value_head(data).select(*self.value_head.out_keys)

    def value_of(self, view: TensorDictBase) -> Tensor:
        """`[G, A, 1]` values of a view with memory in real units, without side effects."""
        keys = self.policy.keys
        output = self.policy.act(*keys.inputs(view, keys.layout(view, is_sequence=False)))
        data = view.select("observation", "enemy", strict=False).set(self.value_head.keys.embed, output.embed)
        return self.value_head(data).get("state_value")


class FinalViews:
    """The last views of truncated battles, whose values stand for what would have followed.

    Args:
        views: `[V, G]` zeros in the form of a view: room for V truncations of each of the learner's teams.
    """

    def __init__(self, views: TensorDict) -> None:
        self.views = views
        self.taken = torch.zeros(views.shape[1], dtype=torch.int64, device=views.device)
        """`[G]` how many views of each team are kept."""

    def clear(self) -> None:
        """Begin anew, in place."""
        # Views of earlier rollouts, which no checkpoint has, would change how many rows a matrix product takes.
        self.views.zero_()
        self.taken.zero_()

    def store(self, truncated: Tensor, pieces: Sequence[TensorDictBase]) -> None:
        """Keep the view of each team whose battle was `truncated [G]`; `pieces` make up a view, one after the other."""
        for slot, stored in enumerate(self.views.unbind(0)):
            mask, start = truncated & (self.taken == slot), 0
            for view in pieces:
                rows = slice(start, start + len(view))
                targets = [stored.get(key)[rows] for key in view.keys(True, True)]
                replace_rows(mask[rows], None, targets, list(view.values(True, True)))
                start = rows.stop
        self.taken += truncated


def observed(keys: TeamKeys) -> tuple[str, ...]:
    """Names of the streams that a learner reads; its critic reads `ego` whatever the encoder reads."""
    return tuple(dict.fromkeys((*keys.streams, "ego")))

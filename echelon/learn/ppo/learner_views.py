"""Network inputs of the learner in each battle, and the critic's values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.agents.env_teams import TELEMETRY, concat_pieces
from echelon.env.leaves import Leaves, Shown, nested
from echelon.env.observation.layout import GROUPS
from echelon.env.restart import replace_rows
from echelon.learn.models.actor_critic import ActorCritic, ValueHead
from echelon.learn.models.keys import TeamKeys
from echelon.learn.opponents.assignment import LEARNER, PolicyAssignment
from echelon.learn.padding import without_padding
from echelon.runtime.compile import fused_on_gpu


class LearnerViews:
    """Views (network inputs) of the learner's G teams, batch `[G]`: streams, telemetry and, for a central critic,
    `enemy`.

    Args:
        assignment: assignment of teams to policies.
        policy: the learner.
        value_head: the learner's critic.
        exists: mask `[G, A]` bool, False for padding; None without padding.
        device: device of the battles.
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
        self.streams = observed(policy.keys)
        """Names of the streams in a view."""

    def of(self, team: TensorDictBase, enemy: Tensor | None, casts: bool = True) -> Leaves:
        """Return the view (network inputs) of the learner's teams, `[G, ...]` per key; if `casts`, in the dtype of the
        forward pass.
        """
        view: Leaves = {("observation", name): team.get(("observation", name)) for name in self.streams}
        view[TELEMETRY,] = team.get(TELEMETRY)[:, 0]
        if enemy is not None:
            view["enemy",] = enemy
        return {key: self._cast(leaf) for key, leaf in view.items()} if casts else view

    def _cast(self, leaf: Tensor) -> Tensor:
        """Convert a float leaf to the dtype of the forward pass."""
        return leaf if leaf.dtype == torch.bool else leaf.to(self.policy.network.compute)

    def enemy(self, whole: Shown) -> Tensor | None:
        """Return the ego streams of the enemies, `[G, E, F]`, for a central critic; None for a local critic."""
        if not self.value_head.is_central:
            return None
        return self.assignment.enemy_rows({group: whole.get((group, "observation", "ego")) for group in GROUPS})

    @property
    def can_reduce(self) -> bool:
        """Whether `reduced` is exact: the encoder must accept reduced precision, and nothing else may read the view."""
        # Check only the encoder's own class, because a subclass may read inputs that need full precision.
        is_same = vars(type(self.policy.network.encoder)).get("accepts_reduced_precision", False)
        return is_same and type(self.policy) is ActorCritic and not self.value_head.is_central and self.exists is None

    def reduced(self, shown: Shown) -> TensorDict:
        """Concatenate the learner's inputs, batch `[G, A]`, in the dtype of the forward pass."""
        return self.assignment.view(shown, LEARNER, dtype=self.policy.network.compute, concat=self.concat_pieces)

    def written(self, shown: Shown, row: Leaves) -> TensorDict:
        """Concatenate the learner's inputs, batch `[G, A]`, directly into `row` of the rollout. Leaves that the rollout
        stores in another dtype are concatenated into new tensors.
        """
        leaves = {}
        for key, pieces in self.assignment.pieces(shown, LEARNER).items():
            place = row.get(key)
            fits = place is not None and place.dtype == pieces[0].dtype
            leaves[key] = torch.cat(pieces, out=place) if fits else torch.cat(pieces)
        return self.assignment.team_of(leaves)

    def pieces(self, shown: Shown, decided: TensorDictBase) -> list[Leaves]:
        """Return the view (network inputs) and the next memory of all teams as a list of consecutive pieces, `[G',
        ...]` per key, without concatenating the pieces.
        """
        pieces, start, enemy = [], 0, self.enemy(shown)
        by_key = self.assignment.pieces(shown, LEARNER)
        memory = {name: decided.get(key) for name, key in self.policy.keys.next_memory.items()}
        memory = {name: without_padding(leaf, self.exists) for name, leaf in memory.items()}
        for index, telemetry in enumerate(by_key[TELEMETRY,]):
            rows = slice(start, start + len(telemetry))
            start = rows.stop
            view: Leaves = {("observation", name): by_key["observation", name][index] for name in self.streams}
            view[TELEMETRY,] = telemetry
            if enemy is not None:
                view["enemy",] = enemy[rows]
            pieces.append(view | {("memory", name): leaf[rows] for name, leaf in memory.items()})
        return pieces

    def values(self, team: TensorDictBase, enemy: Tensor | None) -> Leaves:
        """Return `state_value` and `state_value_normalized`, `[G, A, 1]` each, of a decision, from the policy's
        output.
        """
        keys = self.value_head.keys
        read = {keys.embed: team.get(keys.embed), keys.ego: team.get(keys.ego)}
        if enemy is not None:
            read[keys.enemy] = enemy
        leaves = {key if isinstance(key, tuple) else (key,): leaf for key, leaf in read.items()}
        valued = self.value_head(nested(leaves, team.shape[:1], self.device))
        return {(name,): valued.get(name) for name in self.value_head.out_keys}

    def value_of(self, view: TensorDictBase) -> Tensor:
        """Return the values in real units, `[G, A, 1]`, of a view with memory, without side effects."""
        keys = self.policy.keys
        output = self.policy.act(*keys.inputs(view, keys.layout(view, is_sequence=False)))
        data = view.select("observation", "enemy", strict=False).set(self.value_head.keys.embed, output.embed)
        return self.value_head(data).get("state_value")


class FinalViews:
    """Network inputs of the final states of truncated battles, from which values are bootstrapped.

    Args:
        views: zeros in the form of a view, `[V, G]`, with room for V truncations per learner team.
    """

    def __init__(self, views: TensorDict) -> None:
        self.views = views
        self.taken = torch.zeros(views.shape[1], dtype=torch.int64, device=views.device)
        """`[G]` number of stored views per team."""

    def clear(self) -> None:
        """Reset in place."""
        # Zero the views: checkpoints do not store them, so old views would give a resumed run other matrix sizes.
        self.views.zero_()
        self.taken.zero_()

    def store(self, truncated: Tensor, pieces: Sequence[Leaves]) -> None:
        """Store the view of each team where `truncated [G]` is True; `pieces` are consecutive parts of the view."""
        for slot, stored in enumerate(self.views.unbind(0)):
            mask, start = truncated & (self.taken == slot), 0
            for view in pieces:
                rows = slice(start, start + len(view[TELEMETRY,]))
                replace_rows(mask[rows], None, [stored.get(key)[rows] for key in view], list(view.values()))
                start = rows.stop
        self.taken += truncated

    def store_rows(self, teams: Tensor, pieces: Sequence[Leaves]) -> None:
        """Like `store`, for the teams with the indices `teams [R]` int64, if the host knows them."""
        start = 0
        for view in pieces:
            stop = start + len(view[TELEMETRY,])
            own = teams[(teams >= start) & (teams < stop)]
            if len(own):
                slots = self.taken[own]
                for key, leaf in view.items():
                    stored = self.views.get(key)
                    stored[slots, own] = leaf[own - start].to(stored.dtype)
            start = stop
        self.taken[teams] += 1


def observed(keys: TeamKeys) -> tuple[str, ...]:
    """Return the names of the learner's input streams, always including `ego` for the critic."""
    return tuple(dict.fromkeys((*keys.streams, "ego")))

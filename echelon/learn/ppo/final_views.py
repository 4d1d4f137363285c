"""Keeps what the learner's teams saw last in battles that were truncated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.select import replace_rows


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
        for number, stored in enumerate(self.views.unbind(0)):
            here, start = truncated & (self.taken == number), 0
            for piece in pieces:
                own = slice(start, start + len(piece))
                targets = [stored.get(key)[own] for key in piece.keys(True, True)]
                replace_rows(here[own], None, targets, list(piece.values(True, True)))
                start = own.stop
        self.taken += truncated

"""Battles shared out to the processes that `torchrun` started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from echelon.arena.batch_arena import BatchArena, BatchResult, Battle, BattleResult, StepSink
from echelon.env.outcome import Reason, Winner
from echelon.replay.recorder import Recorder
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import require

RELEASED, WAITING = "released", "waiting"
"""What the first process tells the others in place of battles."""


class SharedArena(BatchArena):
    """A `BatchArena` of several processes: the first plays batches, of which each process takes a part.

    The first process uses it as any arena and calls `release` at the end; the others call `serve`, with the same
    policies under the same names. On a CPU and uncompiled a battle has the result that it has in one process, see
    `BatchArena`.

    Args:
        *arguments: those of `BatchArena`; `batch` is that of one process.
    """

    def __init__(self, *arguments: Any, ranks: Ranks, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.ranks = ranks
        self.batch = self.parallel * ranks.size

    def play(
        self, battles: Sequence[Battle], recorder: Recorder | None = None, sink: StepSink | None = None
    ) -> BatchResult:
        """Play one batch, as `BatchArena.play`, but without a sink. The first process takes the battles that are
        recorded, as far as it may play so many in parallel."""
        require(sink is None, "sink", "None where several processes share the battles", sink)
        recorded = 0 if recorder is None else max(recorder.battles) + 1
        first = max(-(-len(battles) // self.ranks.size), min(recorded, self.parallel, len(battles)))
        self.ranks.broadcast_text(json.dumps({"battles": battles, "first": first}))
        return self._play_part(battles, first, recorder)

    def serve(self) -> None:
        """Play what the first process hands out, until it calls `release`."""
        while (told := json.loads(self.ranks.broadcast_text(""))) != RELEASED:
            if told != WAITING:
                self._play_part([Battle(*each) for each in told["battles"]], told["first"], None)

    def keep_waiting(self) -> None:
        """Tell the other processes that there will be more: they wait for `PATIENCE_S` at most."""
        self.ranks.broadcast_text(json.dumps(WAITING))

    def release(self) -> None:
        """Let the other processes go on."""
        self.ranks.broadcast_text(json.dumps(RELEASED))

    def _play_part(self, battles: Sequence[Battle], first: int, recorder: Recorder | None) -> BatchResult:
        """Play the part of this process, `first` battles in the first one; returns the results of all."""
        each = -(-(len(battles) - first) // max(self.ranks.size - 1, 1))
        begin = 0 if self.ranks.is_first else first + each * (self.ranks.rank - 1)
        own = battles[begin : begin + (first if self.ranks.is_first else each)]
        self.represented = len(battles) / max(len(own), 1)
        played = super().play(own, recorder) if own else BatchResult([], 0.0)
        parts = self.ranks.gather_texts(json.dumps(played.results))
        results = [from_json(row) for part in parts for row in json.loads(part)]
        return BatchResult(results, self.ranks.max(played.seconds))


def from_json(row: Sequence[Any]) -> BattleResult:
    """A result from its values as JSON; numbers keep every bit."""
    winner, reason, *others = row
    return BattleResult(Winner(winner), Reason(reason), *others)

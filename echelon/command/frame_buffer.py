"""A buffer of the last decisions in one battle of a batch, from which viewers of a training run draw.

The buffer's tensors are updated in place.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.command.report import DRAW, Report, numbers_of, one_report
from echelon.env.outcome import Winner
from echelon.rules.orders import OrderField
from echelon.sim.model import SimModel
from echelon.state import State

FIRST = slice(0, 1)
"""Slice of the recorded battle in the batch."""
MOST_DECISIONS = 256
"""Maximum number of stored decisions; the last ones are kept."""
Frame = dict[str, Any]
"""`map`: index of the map, and `report`: the report of `echelon.command.report` with every enemy visible. If the
battle ended in this decision: `won_by`, the winner or a draw."""


class FrameBuffer:
    """The last decisions of the first battle of a batch.

    `keep` needs no device-to-host sync, so it can be part of a CUDA graph.

    Args:
        sim_model: the simulation model of the environment.
        state: any state of the environment, which defines shapes and device.
        decisions: number of decisions in a rollout, T.
    """

    def __init__(self, sim_model: SimModel, state: State, decisions: int) -> None:
        self.sim_model, self.decisions = sim_model, decisions
        numbers = self._numbers(state, torch.zeros_like(state.seed[:, None]))
        self._shapes = {name: leaf.shape[1:] for name, leaf in numbers.items()}
        width = sum(shape.numel() for shape in self._shapes.values())
        num_rows, device = min(decisions, MOST_DECISIONS), state.seed.device
        # Leave inference mode, because an inference tensor cannot be updated outside of it.
        with torch.inference_mode(False):
            self._rows = torch.zeros((num_rows, width), dtype=torch.float32, device=device)

    def _numbers(self, state: State, winner: Tensor) -> dict[str, Tensor]:
        numbers = numbers_of(state, self.sim_model, FIRST)
        return numbers | {"map": state.map_id[FIRST], "winner": winner[FIRST, 0]}

    def keep(self, at: Tensor, state: State, after: TensorDictBase) -> None:
        """Store a decision of a rollout: the state and the environment's output after it.

        `at`, `[1]` int64, is the index of the decision in the rollout.
        """
        numbers = self._numbers(state, after["outcome", "winner"])
        row = torch.cat([leaf.to(torch.float32).flatten() for leaf in numbers.values()])
        self._rows.index_copy_(0, at % len(self._rows), row[None])

    def read(self) -> dict[str, np.ndarray]:
        """Return the stored values of the last rollout in order of time, as arrays `[T, ...]` by name.

        All values are copied from the device at once.
        """
        rows = self._rows.cpu().numpy()
        rows = np.roll(rows, -(self.decisions % len(rows)), 0)
        arrays, start = {}, 0
        for name, shape in self._shapes.items():
            arrays[name] = rows[:, start : start + shape.numel()].reshape(len(rows), *shape)
            start += shape.numel()
        return arrays


def frames_of(arrays: dict[str, np.ndarray], sim_model: SimModel, is_red: bool, names: Sequence[str]) -> list[Frame]:
    """Return one frame (a report or the battle's end) per stored decision.

    Args:
        arrays: the result of `FrameBuffer.read`.
        is_red: whether the reports are for the red team's commander.
        names: names of all mechs, blue's first.
    """
    count, mechs = arrays["hp"].shape
    packs, is_alive = len(sim_model.roster.packs), arrays["hp"] > 0
    never = np.full((count, max(packs, mechs), len(OrderField)), -1.0)
    numbers = {"sent": never[:, :packs], "heard": never[:, :mechs], **arrays}
    numbers["known"] = np.repeat(is_alive[:, None], 2, 1)
    columns = {name: value.tolist() for name, value in numbers.items()}
    frames: list[Frame] = []
    for index in range(count):
        winner = Winner(int(columns["winner"][index]))
        if winner is Winner.RUNNING:
            report: Report = {**one_report(index, columns, sim_model, is_red, list(names)), "battle": 0}
            frames.append({"map": int(columns["map"][index]), "report": report})
        else:
            frames.append({"won_by": DRAW if winner is Winner.DRAW else winner.name.lower()})
    return frames

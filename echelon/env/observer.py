"""Who watches the battles of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tensordict import TensorDictBase
from torch import Tensor

from echelon.rules.actions import Orders
from echelon.sim import step
from echelon.sim.model import SimModel
from echelon.state import State


class StepObserver(Protocol):
    """Who watches the battles of an environment, such as `echelon.replay.recorder.Recorder`; changes nothing."""

    def opening(self, game: SimModel, state: State, shown: Mapping[str, Tensor]) -> None:
        """All battles begin: their constants, their state, and what `observe` showed of it."""

    def tick(self, state: State, log: step.Log) -> None:
        """A substep was played: the state after it, and what happened in it. Loops tell of the substeps of a decision
        when all are played, with the ground behind the last one."""

    def moment(self, state: State, orders: Orders, shown: Mapping[str, Tensor], outcome: TensorDictBase) -> None:
        """A decision was played: the state after it, the orders it followed, and the verdict on battles it ended, with
        `reward [B, N]` of every mech."""

"""Battles that somebody commands, told to who keeps them as data."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from echelon.arena.batch_arena import Battle, StepSink
from echelon.arena.until_done import Endings, state_hashes
from echelon.command.port import CommandPort
from echelon.datasets.dataset import DRIVEN
from echelon.env.observation.layout import GROUPS


class CommandedGame:
    """Tells a sink of every decision of the battles of a port, from now on until each has ended once.

    Args:
        port: the battles, before the first decision.
        names: who commands blue and red.
    """

    def __init__(self, port: CommandPort, sink: StepSink, names: tuple[str, str]) -> None:
        self.port, self.sink, self.env = port, sink, port.view.env
        self.endings = Endings(self.env.observed(), self.env.num_envs)
        port.view.keeps = self._keep
        sink.begin([Battle(*names, seed) for seed in self.env.state.seed.tolist()])

    def _keep(self, stepped: TensorDictBase) -> None:
        for group in GROUPS:
            stepped[group, DRIVEN] = self._driven(group)
        self.sink.step(stepped, self.endings.running.clone())
        self.endings.note(stepped["next"], lambda ends: state_hashes(self.env.state, ends))

    def _driven(self, group: str) -> torch.Tensor:
        """`[B, A]` bool: which mechs of a group somebody drives."""
        names, stick = self.env.group_map[group], self.port.stick
        is_driven = torch.zeros((self.env.num_envs, len(names)), dtype=torch.bool, device=self.env.device)
        if stick is not None and stick.mech in names:
            is_driven[stick.battle, names.index(stick.mech)] = True
        return is_driven

    def end(self) -> None:
        """All battles have ended."""
        self.port.view.keeps = None
        self.sink.end(self.endings.outcome)

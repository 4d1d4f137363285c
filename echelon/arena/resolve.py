"""Policies by their names: a scripted commander, or a checkpoint folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from echelon.agents.heuristic import is_scripted, scripted
from echelon.env.group_policy import TeamPolicy
from echelon.learn.checkpoint.format import POLICY, Checkpoint, open_checkpoint
from echelon.rules.config import EnvConfig, battle_difference
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError


@dataclass(frozen=True)
class Commander:
    """Who is meant by a name. Made by `resolve`.

    Args:
        checkpoint: of a trained policy, its claims checked; None for a scripted commander.
    """

    name: str
    checkpoint: Checkpoint | None = None

    @property
    def id(self) -> str:
        """What it is, wherever it lies: the sha256 of a policy's weights; a scripted one's name.

        A league knows its networks by the same sha256, so that a battle between two of them is the same battle outside
        it.
        """
        return self.name if self.checkpoint is None else str(self.checkpoint.claims["files"][POLICY])

    @property
    def env(self) -> EnvConfig | None:
        """The battle it was trained in; None for a scripted commander."""
        return None if self.checkpoint is None else self.checkpoint.env

    def policy(self, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Its policy in battles of `env`, in evaluation mode.

        Raises:
            FileError: it does not fit these battles.
        """
        if self.checkpoint is None:
            return scripted(self.name, env, device)
        width = self.checkpoint.claims["comm_dim"]
        if width != env.comm_dim:
            raise FileError(f"{self.name}: comm_dim must be {env.comm_dim} for this battle, got {width}")
        return self.checkpoint.policy(device)


def resolve(name: str) -> Commander:
    """The commander called `heuristic[:tier]`, or that of a checkpoint folder.

    Raises:
        FileError: there is no such folder, or it does not hold a checkpoint.
    """
    if is_scripted(name):
        return Commander(name)
    if not Path(name).exists():
        raise FileError(f"{name}: expected heuristic[:tier] or a checkpoint folder, found none")
    return Commander(name, open_checkpoint(name))


def common_env(commanders: Sequence[Commander]) -> EnvConfig:
    """The battle that all trained ones among them come from; `EnvConfig.small` where none is trained.

    Raises:
        ConfigError: they come from different battles.
    """
    envs = list({commander.id: env for commander in commanders if (env := commander.env) is not None}.values())
    for other in envs[1:]:
        difference = battle_difference(envs[0].signature(), other.signature())
        if difference:
            raise ConfigError(f"the commanders come from different battles, choose one with --env: {difference}")
    return envs[0] if envs else EnvConfig.small()

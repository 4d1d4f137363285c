"""Resolves a name to a commander: a scripted tier or a checkpoint folder."""

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
    """A resolved commander; use `resolve` to create one.

    Args:
        name: `heuristic[:tier]` or the path of a checkpoint folder.
        checkpoint: the checkpoint of a trained policy, its metadata verified; None for a scripted commander.
    """

    name: str
    checkpoint: Checkpoint | None = None

    @property
    def id(self) -> str:
        """Identity, independent of the path: the sha256 of the weights, or the name of a scripted commander.

        League entries use the same sha256, so that a battle of the league is reproduced bit by bit outside it.
        """
        return self.name if self.checkpoint is None else str(self.checkpoint.claims["files"][POLICY])

    @property
    def env(self) -> EnvConfig | None:
        """Environment config it was trained with; None for a scripted commander."""
        return None if self.checkpoint is None else self.checkpoint.env

    def policy(self, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Build its policy for battles of `env`, in evaluation mode.

        Raises:
            FileError: if it was trained with another `comm_dim`.
        """
        if self.checkpoint is None:
            return scripted(self.name, env, device)
        width = self.checkpoint.claims["comm_dim"]
        if width != env.comm_dim:
            raise FileError(f"{self.name}: comm_dim must be {env.comm_dim} for this battle, got {width}")
        return self.checkpoint.policy(device)


def resolve(name: str) -> Commander:
    """Find the commander for `heuristic[:tier]` or for the path of a checkpoint folder.

    Raises:
        FileError: if there is no such folder, or it does not hold a valid checkpoint.
    """
    if is_scripted(name):
        return Commander(name)
    if not Path(name).exists():
        raise FileError(f"{name}: expected heuristic[:tier] or a checkpoint folder, found none")
    return Commander(name, open_checkpoint(name))


def common_env(commanders: Sequence[Commander]) -> EnvConfig:
    """The environment config that all trained commanders share; `EnvConfig.small` if none is trained.

    Raises:
        ConfigError: if they were trained with different configs.
    """
    envs = list({commander.id: env for commander in commanders if (env := commander.env) is not None}.values())
    for other in envs[1:]:
        difference = battle_difference(envs[0].signature(), other.signature())
        if difference:
            raise ConfigError(f"the commanders come from different battles, choose one with --env: {difference}")
    return envs[0] if envs else EnvConfig.small()

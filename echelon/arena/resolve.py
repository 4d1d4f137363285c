"""Policies by their names: a scripted commander, or a checkpoint folder."""

from __future__ import annotations

from pathlib import Path

import torch

from echelon.agents.heuristic import is_scripted, scripted
from echelon.env.group_policy import TeamPolicy
from echelon.learn.checkpoint.format import POLICY, open_checkpoint
from echelon.rules.config import EnvConfig
from echelon.runtime.files import FileError


def commander_env(name: str) -> EnvConfig | None:
    """The battle a commander was trained in; None for a scripted one."""
    return None if is_scripted(name) else open_checkpoint(name).env


def load_commander(name: str, env: EnvConfig, device: torch.device) -> TeamPolicy:
    """The commander called `heuristic[:tier]`, or the policy in a checkpoint folder."""
    if is_scripted(name):
        return scripted(name, env, device)
    if not Path(name).exists():
        raise FileError(f"{name}: expected heuristic[:tier] or a checkpoint folder, found none")
    found = open_checkpoint(name)
    width = found.claims["comm_dim"]
    if width != env.comm_dim:
        raise FileError(f"{name}: comm_dim must be {env.comm_dim} for this battle, got {width}")
    return found.policy(device)


def commander_id(name: str) -> str:
    """What a commander is, wherever it lies: the sha256 of the weights in a checkpoint folder; a scripted one's name.

    A league knows its networks by the same sha256, so that a battle between two of them is the same battle outside it.
    """
    return name if is_scripted(name) else str(open_checkpoint(name).claims["files"][POLICY])

"""Resolves a name to a commander: a scripted tier, a checkpoint folder, or a class in a module of the user's."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from echelon.agents.heuristic import is_scripted, scripted
from echelon.env.group_policy import TeamPolicy
from echelon.learn.checkpoint.format import POLICY, Checkpoint, open_checkpoint
from echelon.rules.config import EnvConfig, battle_difference
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

FORMS = "heuristic[:tier], a checkpoint folder, or package.module:Commander"
IN_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
Factory = Callable[[EnvConfig], TeamPolicy]
"""Builds a policy for the battles of a config; a class such as `echelon.agents.heuristic.Heuristic` is one."""


@dataclass(frozen=True)
class Commander:
    """A resolved commander; use `resolve` to create one.

    Args:
        name: one of `FORMS`.
        checkpoint: the checkpoint of a trained policy, its metadata verified; None for any other commander.
        factory: what builds a commander of the user's own; None for any other.
    """

    name: str
    checkpoint: Checkpoint | None = None
    factory: Factory | None = None

    @property
    def id(self) -> str:
        """Identity, independent of the path: the sha256 of the weights, or the name of any other commander.

        League entries use the same sha256, so that a battle of the league is reproduced bit by bit outside it.
        """
        return self.name if self.checkpoint is None else str(self.checkpoint.claims["files"][POLICY])

    @property
    def env(self) -> EnvConfig | None:
        """Environment config it was trained with; None for any other commander."""
        return None if self.checkpoint is None else self.checkpoint.env

    def policy(self, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Build its policy for battles of `env`, in evaluation mode.

        Raises:
            FileError: if it was trained with another `comm_dim`.
        """
        if self.factory is not None:
            policy = self.factory(env)
            return policy.to(device).eval() if isinstance(policy, nn.Module) else policy
        if self.checkpoint is None:
            return scripted(self.name, env, device)
        width = self.checkpoint.claims["comm_dim"]
        if width != env.comm_dim:
            raise FileError(f"{self.name}: comm_dim must be {env.comm_dim} for this battle, got {width}")
        return self.checkpoint.policy(device)


def resolve(name: str) -> Commander:
    """Find the commander for `heuristic[:tier]`, the path of a checkpoint folder, or `package.module:Commander`.

    The last one imports the module, from the current folder too, and runs its code: names come from the user's command
    line or program, never from a file.

    Raises:
        FileError: if there is no such folder or module, or the folder does not hold a valid checkpoint.
        ConfigError: if the module has no such class or function.
    """
    if is_scripted(name):
        return Commander(name)
    if Path(name).exists():
        return Commander(name, open_checkpoint(name))
    if IN_MODULE.fullmatch(name):
        return Commander(name, factory=find_factory(name))
    raise FileError(f"{name}: expected {FORMS}, found none")


def find_factory(name: str) -> Factory:
    """Import `package.module:Commander`."""
    module_name, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            # The module is there, but what it imports is not.
            raise
        raise FileError(f"{name}: no module {module_name} in {Path.cwd()} or on Python's path") from None
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise ConfigError(f"{name}: {module_name} must have a class or function {attribute}, got {factory!r}")
    found: Factory = factory
    return found


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

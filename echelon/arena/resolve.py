"""Trained policies by name, and what the commanders of a match or a training have in common.

Names themselves are resolved in `echelon.agents.names`, whose public functions can be imported from here too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from echelon.agents.names import LINE, Commander, UnknownNameError, policy_of, register_resolver, resolve
from echelon.agents.populations import held_out
from echelon.learn.checkpoint.format import Checkpoint
from echelon.learn.checkpoint.names import TRAINED
from echelon.learn.config import JUDGES, TrainConfig
from echelon.learn.curriculum import opponents_named
from echelon.learn.models.actor_critic import ActorCritic
from echelon.rules.config import EnvConfig
from echelon.rules.config_json import battle_difference
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError

__all__ = [
    "LINE",
    "TRAINED",
    "Commander",
    "UnknownNameError",
    "check_opponents",
    "common_env",
    "load_policy",
    "named_checkpoint",
    "policy_of",
    "register_resolver",
    "resolve",
]


def named_checkpoint(name: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint of a trained commander; for errors see `resolve`, and a commander without one is refused."""
    checkpoint = resolve(name).checkpoint
    limit = f"{TRAINED}:NAME, a checkpoint or run folder, or an entry of a league"
    require(checkpoint is not None, "a trained policy", limit, name)
    assert isinstance(checkpoint, Checkpoint)
    return checkpoint


def load_policy(name: str | os.PathLike[str], device: torch.device | str = "cpu") -> ActorCritic:
    """The network of a trained commander, in evaluation mode.

    Args:
        name: `trained:NAME`, the path of a checkpoint or run folder, or `league:FOLDER/NAME`.
        device: where its weights go: `cpu`, `cuda` or `cuda:N`, or `auto` for a GPU where there is one.

    Raises:
        FileError: nothing has that name, or its files do not hold.
        ConfigError: it names a commander without a network, or a device that is not there.
    """
    return named_checkpoint(name).policy(resolve_device(device))


def common_env(commanders: Sequence[Commander]) -> EnvConfig:
    """The environment config that all trained commanders share; `EnvConfig.small` if none is trained."""
    envs = list({commander.id: env for commander in commanders if (env := commander.env) is not None}.values())
    for other_env in envs[1:]:
        difference = battle_difference(envs[0].signature(), other_env.signature())
        if difference:
            raise ConfigError(f"the commanders come from different battles, choose one with --env: {difference}")
    return envs[0] if envs else EnvConfig.small()


def check_opponents(config: TrainConfig, device: torch.device) -> None:
    """Build every commander that the config names once, before anything is written."""
    for name in opponents_named(config):
        try:
            commander = resolve(name)
            may = config.allow_test or not held_out(name, commander.id)
            require(may, "opponents of a training", JUDGES, f"{name}, whose weights are of that population")
            commander.policy(config.env, device)
        except UnknownNameError as error:
            hint = "; --opponent also takes curriculum, self, past and league:FOLDER" if name == config.opponent else ""
            raise FileError(f"{error}{hint}") from None

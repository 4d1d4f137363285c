"""Resolves names and policy objects to participants of battles, and finds the environment config that commanders share.

Names are resolved by `echelon.agents.names`, whose public functions can be imported from this module too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torchrl.envs import EnvBase

from echelon.agents.names import LINE, Commander, UnknownNameError, policy_of, register_resolver, resolve
from echelon.agents.populations import held_out
from echelon.agents.team_policy import TeamPolicy, check_evaluation_mode
from echelon.agents.user_policy import check_decision
from echelon.arena.view_policy import check_policy, team_policy_of
from echelon.learn.checkpoint.format import Checkpoint
from echelon.learn.checkpoint.names import TRAINED
from echelon.learn.checkpoint.provenance import NOTHING, UNKNOWN, Provenance
from echelon.learn.config import JUDGES, TrainConfig
from echelon.learn.curriculum import opponents_named
from echelon.learn.models.actor_critic import ActorCritic
from echelon.rules.config import EnvConfig
from echelon.rules.config_json import battle_difference
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError
from echelon.runtime.limits import path_text
from echelon.runtime.shared_modes import kept_generators

__all__ = [
    "LINE",
    "POLICY",
    "TRAINED",
    "Commander",
    "Contender",
    "UnknownNameError",
    "check_opponents",
    "common_env",
    "contender",
    "load_policy",
    "named_checkpoint",
    "place_of",
    "policies_of",
    "policy_of",
    "register_resolver",
    "resolve",
]


POLICY = "policy"
"""Name of a policy that is passed as an object."""


@dataclass(frozen=True)
class Contender:
    """A participant of battles: a commander's name, or a policy object. Use `contender` to create one.

    name: the name that the user typed.
    id: sha256 of the weights for a checkpoint, so that battles do not depend on its path; else the name.
    source: the named commander, or the object.
    view: the view that an object was made for, if its keys do not say so.
    repeats: whether its actions depend only on the battle, including its seed, as with scripted commanders and
        Echelon's networks.
    """

    name: str
    id: str
    source: Any
    view: EnvBase | None = None
    repeats: bool = True

    def __post_init__(self) -> None:
        """Reject a network in training mode."""
        check_evaluation_mode(self.name, self.source)

    @property
    def provenance(self) -> Provenance:
        """Training history of a checkpoint's policy; `NOTHING` for a scripted commander, `UNKNOWN` for any other
        policy.
        """
        if not isinstance(self.source, Commander):
            return UNKNOWN
        if isinstance(self.source.checkpoint, Checkpoint):
            return self.source.checkpoint.provenance
        return NOTHING if self.source.factory is None else UNKNOWN

    def policy(self, config: EnvConfig, device: torch.device) -> TeamPolicy:
        """Build the contender's team policy for battles of `config`."""
        if isinstance(self.source, Commander):
            return self.source.policy(config, device)
        return team_policy_of(self.source, self.view, config, device)

    def checked_policy(self, config: EnvConfig, device: torch.device) -> TeamPolicy:
        """Build the team policy. If the policy was passed as an object, check one decision, so that errors appear
        before any battle.
        """
        team = self.policy(config, device)
        if not isinstance(self.source, Commander | ActorCritic):
            with kept_generators(device):
                check_decision(self.name, team, config, device)
        return team


def contender(policy: Any, name: str = POLICY, view: EnvBase | None = None) -> Contender:
    """Resolve a participant of battles.

    Args:
        policy: a name, a path, a module or a callable, as in `echelon.evaluate`.
        name: name of an object.
        view: the view that an object was made for.
    """
    policy = path_text(policy)
    if isinstance(policy, str):
        commander = resolve(policy)
        return Contender(policy, commander.id, commander)
    check_policy(policy)
    return Contender(name, name, policy, view)


def policies_of(
    contenders: Sequence[Contender], config: EnvConfig, device: torch.device
) -> tuple[dict[str, TeamPolicy], dict[str, str]]:
    """Return the policies keyed by id, and the id of every contender keyed by its name.

    Policies with equal weights but different model settings use their names as ids.
    """
    policies: dict[str, TeamPolicy] = {}
    ids: dict[str, str] = {}
    for one in contenders:
        policy = one.checked_policy(config, device)
        loaded = policies.get(one.id, policy)
        is_same = getattr(loaded, "model", None) == getattr(policy, "model", None)
        ids[one.name] = one.id if is_same else one.name
        policies[ids[one.name]] = policy
    return policies, ids


def place_of(policy: Any, device: torch.device | str | None) -> torch.device:
    """Return the device to play on: the requested one, or else that of the policy's weights."""
    if device is not None:
        return resolve_device(device)
    weight = next(policy.parameters(), None) if isinstance(policy, nn.Module) else None
    return resolve_device("auto") if weight is None else weight.device


def named_checkpoint(name: str | os.PathLike[str]) -> Checkpoint:
    """Return the checkpoint of a trained commander; reject other commanders. Errors as in `resolve`."""
    checkpoint = resolve(name).checkpoint
    limit = f"{TRAINED}:NAME, a checkpoint or run folder, or an entry of a league"
    require(checkpoint is not None, "a trained policy", limit, name)
    assert isinstance(checkpoint, Checkpoint)
    return checkpoint


def load_policy(name: str | os.PathLike[str], device: torch.device | str = "cpu") -> ActorCritic:
    """Load the network of a trained commander, in evaluation mode.

    Args:
        name: one of `trained:NAME`, the path of a checkpoint or run folder, and `league:FOLDER/NAME`.
        device: device of the weights (`cpu`, `cuda`, `cuda:N`, or `auto` for a GPU if there is one).

    Returns:
        The policy.

    Raises:
        FileError: if the name does not exist, or its files are invalid.
        ConfigError: if the commander has no network, or the device does not exist.
    """
    return named_checkpoint(name).policy(resolve_device(device))


def common_env(commanders: Sequence[Commander]) -> EnvConfig:
    """Return the environment config that all trained commanders share; `EnvConfig.small` if none is trained."""
    envs = list({commander.id: env for commander in commanders if (env := commander.env) is not None}.values())
    for other_env in envs[1:]:
        difference = battle_difference(envs[0].signature(), other_env.signature())
        if difference:
            raise ConfigError(f"the commanders were trained in different battles, choose one with --env: {difference}")
    return envs[0] if envs else EnvConfig.small()


def check_opponents(config: TrainConfig, device: torch.device) -> None:
    """Check the commanders named in the config by building each of them, before files are written."""
    for name in opponents_named(config):
        try:
            commander = resolve(name)
            may = config.allow_test or not held_out(name, commander.id)
            limit = "others than commanders of packs, whose orders a training does not carry out"
            require(not commander.gives_orders, "opponents of a training", limit, name)
            require(may, "opponents of a training", JUDGES, f"{name}, which has the weights of a test commander")
            commander.policy(config.env, device)
        except UnknownNameError as error:
            hint = "; --opponent also takes curriculum, self, past and league:FOLDER" if name == config.opponent else ""
            raise FileError(f"{error}{hint}") from None

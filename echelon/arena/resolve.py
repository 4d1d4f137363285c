"""Resolves a name to a commander: a scripted tier, a checkpoint folder, a class in a module of the user's, or what a
registered prefix means.

Training, evaluations, matches and views resolve what a user names here, and nothing that a file names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from echelon.agents.heuristic import full_name, is_scripted, scripted, style_factory
from echelon.agents.line import line_factory
from echelon.agents.populations import held_out
from echelon.agents.tiers import STYLE
from echelon.arena.user_policy import Factory, build_policy
from echelon.learn.checkpoint.files import checkpoints_in, find_checkpoint
from echelon.learn.checkpoint.format import POLICY, Checkpoint, open_checkpoint, tell_rules
from echelon.learn.checkpoint.shipped import shipped_checkpoint
from echelon.learn.config import JUDGES, TrainConfig
from echelon.learn.curriculum import opponents_named
from echelon.learn.models.actor_critic import ActorCritic
from echelon.rules.config import EnvConfig
from echelon.rules.config_json import battle_difference
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError, expect
from echelon.runtime.imports import OBJECT_NAME, import_object
from echelon.runtime.limits import check_text, path_text
from echelon.views.group_policy import TeamPolicy


class UnknownNameError(FileError):
    """A name of none of the `forms`, or of a folder that does not exist."""


@dataclass(frozen=True)
class Commander:
    """A resolved commander; use `resolve` to create one.

    Args:
        name: as the user named it, of one of the `forms`.
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
        """Build its policy for battles of `env`, in evaluation mode. One trained under earlier rules is logged."""
        if self.factory is not None:
            return build_policy(self.name, self.factory, env, device)
        if self.checkpoint is None:
            return scripted(self.name, env, device)
        width = self.checkpoint.claims["comm_dim"]
        expect(width == env.comm_dim, f"{self.name}: comm_dim", f"{env.comm_dim} for this battle", width)
        tell_rules(self.name, self.checkpoint.versions.rules)
        return self.checkpoint.policy(device)


SHOWN = 5
"""Checkpoints that are told where the named one is not there."""
Resolver = Callable[[str], Commander]
"""Finds the commander of a whole name, prefix included; raises `FileError` or `ConfigError` in one line."""
LINE = "line"
"""Prefix of the commanders that play the lines of set pieces."""
TRAINED = "trained"
"""Prefix of the policies that ship with the package."""


_RESOLVERS: dict[str, tuple[str, Resolver]] = {
    LINE: (f"{LINE}:PIECE", lambda name: Commander(name, factory=line_factory(name.partition(":")[2]))),
    STYLE: (f"{STYLE}:NAME", lambda name: Commander(name, factory=style_factory(name.partition(":")[2]))),
    TRAINED: (f"{TRAINED}:NAME", lambda name: Commander(name, shipped_checkpoint(name.partition(":")[2]))),
}
"""By prefix: the form of its names, and their resolver."""


def register_resolver(prefix: str, form: str, resolver: Resolver) -> None:
    """Let names `prefix:...` mean what `resolver` finds; a later registration of a prefix replaces an earlier one.

    Args:
        prefix: letters, digits and underscores, such as `league`, which `echelon.league` registers.
        form: form of the names, for error messages, such as `league:FOLDER/NAME`.
        resolver: finds the commander of such a name. It must not import what a file names.

    Raises:
        ConfigError: if the prefix has other characters, or is that of the scripted commanders.
    """
    limit = "a word other than that of the scripted commanders"
    require(prefix.isidentifier() and not is_scripted(prefix), "a resolver's prefix", limit, prefix)
    _RESOLVERS[prefix] = (form, resolver)


def forms() -> str:
    """The forms that a name may have, as a part of a sentence."""
    registered = [form for form, _ in _RESOLVERS.values()]
    tiers = ("a tier", "heuristic[:tier]")
    return ", ".join([*tiers, "a checkpoint or run folder", *registered, "or package.module:Commander"])


def resolve(name: str | os.PathLike[str]) -> Commander:
    """Find the commander for a name of one of the `forms`, or the path of a checkpoint or run folder.

    `package.module:Commander` imports the module, from the current folder too, and runs its code: names come from the
    user's command line or program, never from a file. A tier's name means the tier, `./hard` a folder of that name.

    Raises:
        FileError: if there is no such folder or module, or the folder does not hold a valid checkpoint.
        ConfigError: if the module has no such class or function, or the name is neither a text nor a path.
    """
    text = path_text(name)
    require(isinstance(text, str), "a commander", "a name or the path of a folder", name)
    check_text("a commander's name", text)
    if is_scripted(full := full_name(text)):
        return Commander(full)
    prefix, colon, _ = text.partition(":")
    if colon and prefix in _RESOLVERS:
        return _RESOLVERS[prefix][1](text)
    if text and Path(text).exists():
        return Commander(text, open_checkpoint(find_checkpoint(text)))
    if OBJECT_NAME.fullmatch(text):
        return Commander(text, factory=import_object(text))
    shown_name = text if text.isprintable() and text else repr(text)
    raise UnknownNameError(f"{shown_name}: expected {forms()}, found none{available_checkpoints(text)}")


def is_imported(name: str) -> bool:
    """Whether `resolve` would import a module to find the commander of this name."""
    is_known = is_scripted(full_name(name)) or name.partition(":")[0] in _RESOLVERS or Path(name).exists()
    return not is_known and OBJECT_NAME.fullmatch(name) is not None


def available_checkpoints(name: str) -> str:
    """The checkpoints in the folder where `name` is not, as an ending of a sentence."""
    folder = Path(name).parent
    checkpoints = [path.name for path in checkpoints_in(folder)] if "/" in name and name.isprintable() else []
    return f"; {folder} has {', '.join(checkpoints[-SHOWN:])}" if checkpoints else ""


def policy_of(name: str, env: EnvConfig, device: torch.device) -> TeamPolicy:
    """The policy of a named commander for battles of `env`; for errors see `resolve` and `Commander.policy`."""
    return resolve(name).policy(env, device)


def named_checkpoint(name: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint of a trained commander; for errors see `resolve`, and a commander without one is refused."""
    checkpoint = resolve(name).checkpoint
    limit = f"{TRAINED}:NAME, a checkpoint or run folder, or an entry of a league"
    require(checkpoint is not None, "a trained policy", limit, name)
    assert checkpoint is not None
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

"""Names of commanders: a scripted tier, a checkpoint folder, a class in a module of the user's, or what a registered
prefix means.

Training, evaluations, matches and views resolve what a user names here, and nothing that a file names. Rooms above
register what they find: `learn` trained policies and the paths of checkpoints, `league` its entries.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from echelon.agents.heuristic import full_name, is_scripted, scripted, style_factory
from echelon.agents.line import line_factory
from echelon.agents.team_policy import TeamPolicy
from echelon.agents.tiers import STYLE
from echelon.agents.user_policy import Factory, build_policy
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.runtime.files import FileError
from echelon.runtime.imports import OBJECT_NAME, import_object
from echelon.runtime.limits import check_text, path_text
from echelon.runtime.providers import PROVIDERS, load_provider


class UnknownNameError(FileError):
    """A name of none of the `forms`, or of a folder that does not exist."""


class SavedPolicy(Protocol):
    """A trained policy in files, such as `echelon.learn.checkpoint.format.Checkpoint`."""

    @property
    def path(self) -> Path:
        """Its folder."""

    @property
    def id(self) -> str:
        """sha256 of its weights."""

    @property
    def env(self) -> EnvConfig:
        """Config of the battles that it was trained in."""

    def policy_for(self, name: str, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Build it for battles of `env`, in evaluation mode; `name` is for messages."""


@dataclass(frozen=True)
class Commander:
    """A resolved commander; use `resolve` to create one.

    Args:
        name: as the user named it, of one of the `forms`.
        checkpoint: the checkpoint of a trained policy, its metadata verified; None for any other commander.
        factory: what builds a commander of the user's own; None for any other.
    """

    name: str
    checkpoint: SavedPolicy | None = None
    factory: Factory | None = None

    @property
    def id(self) -> str:
        """Identity, independent of the path: the sha256 of the weights, or the name of any other commander.

        League entries use the same sha256, so that a battle of the league is reproduced bit by bit outside it.
        """
        return self.name if self.checkpoint is None else self.checkpoint.id

    @property
    def env(self) -> EnvConfig | None:
        """Environment config it was trained with; None for any other commander."""
        return None if self.checkpoint is None else self.checkpoint.env

    @property
    def gives_orders(self) -> bool:
        """Whether it gives orders to packs, which matches and evaluations carry out, and views and trainings do not."""
        return False

    def policy(self, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Build its policy for battles of `env`, in evaluation mode. One trained under earlier rules is logged."""
        if self.factory is not None:
            return build_policy(self.name, self.factory, env, device)
        if self.checkpoint is not None:
            return self.checkpoint.policy_for(self.name, env, device)
        return scripted(self.name, env, device)


Resolver = Callable[[str], Commander]
"""Finds the commander of a whole name, prefix included; raises `FileError` or `ConfigError` in one line."""
LINE = "line"
"""Prefix of the commanders that play the lines of set pieces."""

_RESOLVERS: dict[str, tuple[str, Resolver]] = {
    LINE: (f"{LINE}:PIECE", lambda name: Commander(name, factory=line_factory(name.partition(":")[2]))),
    STYLE: (f"{STYLE}:NAME", lambda name: Commander(name, factory=style_factory(name.partition(":")[2]))),
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


class Paths(NamedTuple):
    """What finds the commanders of paths."""

    resolver: Resolver
    """Called with a path that exists."""
    nearby: Callable[[str], str]
    """Called with one that does not: what there is in its folder, as an ending of a sentence."""


CHECKPOINT = "checkpoint"
"""What provides the commanders of paths."""
_PATHS: dict[str, Paths] = {}


def register_paths(resolver: Resolver, nearby: Callable[[str], str]) -> None:
    """Let the paths of checkpoint and run folders mean what `resolver` finds; arguments as in `Paths`."""
    _PATHS[CHECKPOINT] = Paths(resolver, nearby)


def paths() -> Paths:
    load_provider(CHECKPOINT)
    return _PATHS[CHECKPOINT]


def resolver_of(prefix: str) -> Resolver | None:
    """What finds the commanders of a prefix; None where no room has registered it."""
    if prefix not in _RESOLVERS:
        load_provider(prefix)
    return _RESOLVERS[prefix][1] if prefix in _RESOLVERS else None


def forms() -> str:
    """The forms that a name may have, as a part of a sentence."""
    for provided in PROVIDERS:
        load_provider(provided)
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
    resolver = resolver_of(prefix) if colon else None
    if resolver is None and text and Path(text).exists():
        resolver = paths().resolver
    if resolver is not None:
        return resolver(text)
    if OBJECT_NAME.fullmatch(text):
        return Commander(text, factory=import_object(text))
    shown_name = text if text.isprintable() and text else repr(text)
    raise UnknownNameError(f"{shown_name}: expected {forms()}, found none{paths().nearby(text)}")


def is_imported(name: str) -> bool:
    """Whether `resolve` would import a module to find the commander of this name."""
    is_known = is_scripted(full_name(name)) or resolver_of(name.partition(":")[0]) is not None or Path(name).exists()
    return not is_known and OBJECT_NAME.fullmatch(name) is not None


def policy_of(name: str, env: EnvConfig, device: torch.device) -> TeamPolicy:
    """The policy of a named commander for battles of `env`; for errors see `resolve` and `Commander.policy`."""
    return resolve(name).policy(env, device)

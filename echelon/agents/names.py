"""Names of commanders: a scripted tier, a checkpoint folder, a class in a user's module, or a registered prefix.

Training, evaluations, matches and views resolve names that the user typed, never names read from a file. Packages above
`agents` register their own resolvers, such as `learn` for checkpoint paths and `league` for its entries.
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
from echelon.agents.scenario_opponents import SCENARIO, scenario_opponents_factory
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
    """A name that matches none of the `forms`, or a folder that does not exist."""


class SavedPolicy(Protocol):
    """A trained policy stored in files, such as `echelon.learn.checkpoint.format.Checkpoint`."""

    @property
    def path(self) -> Path:
        """Folder of the checkpoint."""

    @property
    def id(self) -> str:
        """sha256 of the weights."""

    @property
    def env(self) -> EnvConfig:
        """Config of the battles that the policy was trained in."""

    def policy_for(self, name: str, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Build the policy for battles of `env`, in evaluation mode; `name` is used in messages."""


@dataclass(frozen=True)
class Commander:
    """A resolved commander; use `resolve` to create one.

    Args:
        name: the name that the user typed, in one of the `forms`.
        checkpoint: the checkpoint of a trained policy, with verified metadata; None for any other commander.
        factory: builds a user's own policy; None for any other commander.
    """

    name: str
    checkpoint: SavedPolicy | None = None
    factory: Factory | None = None

    @property
    def id(self) -> str:
        """Return the sha256 of the weights, or the name for a commander without weights. Independent of the path.

        League entries use the same sha256, so a league battle can be reproduced bit by bit outside the league.
        """
        return self.name if self.checkpoint is None else self.checkpoint.id

    @property
    def env(self) -> EnvConfig | None:
        """Config that the policy was trained with; None for any other commander."""
        return None if self.checkpoint is None else self.checkpoint.env

    @property
    def gives_orders(self) -> bool:
        """Whether the commander issues orders to packs. Only matches and evaluations execute such orders."""
        return False

    def policy(self, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Build the policy for battles of `env`, in evaluation mode. Logs a message if the policy was trained under
        an earlier rules version."""
        if self.factory is not None:
            return build_policy(self.name, self.factory, env, device)
        if self.checkpoint is not None:
            return self.checkpoint.policy_for(self.name, env, device)
        return scripted(self.name, env, device)


Resolver = Callable[[str], Commander]
"""Resolves a whole name, with its prefix, to a commander; raises `FileError` or `ConfigError` with one line."""
LINE = "line"
"""Prefix of the commanders that play the lines of set pieces."""

_RESOLVERS: dict[str, tuple[str, Resolver]] = {
    LINE: (f"{LINE}:PIECE", lambda name: Commander(name, factory=line_factory(name.partition(":")[2]))),
    SCENARIO: (
        f"{SCENARIO}:TIER",
        lambda name: Commander(name, factory=scenario_opponents_factory(name.partition(":")[2])),
    ),
    STYLE: (f"{STYLE}:NAME", lambda name: Commander(name, factory=style_factory(name.partition(":")[2]))),
}
"""By prefix: the form of its names, and their resolver."""


def register_resolver(prefix: str, form: str, resolver: Resolver) -> None:
    """Register the resolver of names `prefix:...`; a later registration of a prefix replaces an earlier one.

    Args:
        prefix: a word of letters, digits and underscores; `echelon.league` registers the prefix `league`.
        form: form of the names in error messages, such as `league:FOLDER/NAME`.
        resolver: finds the commander of a name. The resolver must not import a module whose name comes from a file.

    Raises:
        ConfigError: if the prefix contains other characters, or belongs to the scripted commanders.
    """
    limit = "a word other than that of the scripted commanders"
    require(prefix.isidentifier() and not is_scripted(prefix), "a resolver's prefix", limit, prefix)
    _RESOLVERS[prefix] = (form, resolver)


class Paths(NamedTuple):
    """The functions that resolve paths."""

    resolver: Resolver
    """Called with an existing path."""
    nearby: Callable[[str], str]
    """Called with a missing path; returns the candidates in its folder, as the end of a sentence."""


CHECKPOINT = "checkpoint"
"""Name of the provider for paths."""
_PATHS: dict[str, Paths] = {}


def register_paths(resolver: Resolver, nearby: Callable[[str], str]) -> None:
    """Register the resolver for checkpoint and run folders; see `Paths` for the arguments."""
    _PATHS[CHECKPOINT] = Paths(resolver, nearby)


def paths() -> Paths:
    load_provider(CHECKPOINT)
    return _PATHS[CHECKPOINT]


def resolver_of(prefix: str) -> Resolver | None:
    """Return the resolver of a prefix; None if none is registered."""
    if prefix not in _RESOLVERS:
        load_provider(prefix)
    return _RESOLVERS[prefix][1] if prefix in _RESOLVERS else None


def forms() -> str:
    """Return the accepted forms of a name as text, for error messages."""
    for provided in PROVIDERS:
        load_provider(provided)
    order = [*PROVIDERS]
    prefixes = sorted(_RESOLVERS, key=lambda prefix: order.index(prefix) if prefix in order else -1)
    registered = [_RESOLVERS[prefix][0] for prefix in prefixes]
    tiers = ("a tier", "heuristic[:tier]")
    return ", ".join([*tiers, "a checkpoint or run folder", *registered, "or package.module:Commander"])


def resolve(name: str | os.PathLike[str]) -> Commander:
    """Resolve a name in one of the `forms`, or the path of a checkpoint or run folder.

    `package.module:Commander` imports the module, also from the current folder, and runs its code. Names therefore come
    from the user's command line or program, never from a file. `hard` means the scripted tier; `./hard` means a folder.
    Raises:
        FileError: if the folder or module does not exist, or the folder does not contain a valid checkpoint.
        ConfigError: if the module has no such class or function, or the name is neither a string nor a path.
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
    """Return whether `resolve` would import a module for this name."""
    is_known = is_scripted(full_name(name)) or resolver_of(name.partition(":")[0]) is not None or Path(name).exists()
    return not is_known and OBJECT_NAME.fullmatch(name) is not None


def policy_of(name: str, env: EnvConfig, device: torch.device) -> TeamPolicy:
    """Build the policy of a named commander for battles of `env`; errors as in `resolve` and `Commander.policy`."""
    return resolve(name).policy(env, device)

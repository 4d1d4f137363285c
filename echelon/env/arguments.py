"""Check arguments of an environment other than its config: number of battles, seeds, and actions."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor
from torchrl.data import Composite

from echelon.env.blocks import no_grad_outside_inference_mode
from echelon.env.discrete import FactorTable
from echelon.env.form import BACKENDS
from echelon.env.leaves import Shown
from echelon.env.observation.layout import action_width
from echelon.rules import actions
from echelon.rules.config import EnvConfig
from echelon.rules.limits import MOST_BATTLES
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import SEED, Limits, check_number, whole
from echelon.state import Maps
from echelon.world.splits import check_maps


def check_options(config: Any, memory: Any, maps: Any, backend: Any, info: Any, extra_rewards: Any) -> None:
    """Raise `ConfigError` for arguments of `EchelonEnv` with a wrong type or value."""
    require(isinstance(config, EnvConfig), "config", "an EnvConfig, such as EnvConfig.small()", config)
    require(memory is None or isinstance(memory, Composite), "memory", "a Composite of float leaves", memory)
    require(maps is None or isinstance(maps, Maps), "maps", "the Maps of another environment", maps)
    if maps is not None:
        check_maps(config, maps)
    require(backend in BACKENDS, "backend", f"one of {', '.join(BACKENDS)}", backend)
    require(isinstance(info, bool), "info", "True or False", info)
    require(isinstance(extra_rewards, Mapping), "extra_rewards", "reward terms by name", extra_rewards)


FURTHER = ("maps", "backend", "observer", "info", "extra_rewards")
"""Arguments of `EchelonEnv` that view factories pass on."""
FURTHER_OF_MECHS = ("dtype", *FURTHER)
"""Arguments of `echelon.mechs` that factories for other frameworks pass on."""
CLOCKS = ("max_cycles", "max_steps", "max_episode_steps")
"""Names of the episode length in PettingZoo, VMAS and gymnasium."""
TRIED = ("frameskip",)
"""Keywords that other programs try, and leave out after a `TypeError` with Python's own wording."""


class UnknownSettingError(ConfigError, TypeError):
    """Raised for an unknown keyword argument of a function. Some programs, such as TorchRL's `GymEnv` with
    `frameskip`, try a keyword and omit it after a `TypeError` that contains Python's own wording."""


def check_further(
    maker: Callable[..., Any], settings: Iterable[str], further: Sequence[str] = FURTHER, name: str = ""
) -> None:
    """Raise `UnknownSettingError` for a keyword that a function does not take.

    Args:
        maker: the function with the public signature.
        settings: keywords that the user passed to `maker`.
        further: additional keywords that are allowed.
        name: name of the function that the user called, by default the name of `maker`.
    """
    parameters = inspect.signature(maker).parameters.values()
    known = [own.name for own in parameters if own.kind not in (own.VAR_KEYWORD, own.VAR_POSITIONAL)]
    known += further
    for key in settings:
        if key not in known:
            hint = f" (unexpected keyword argument {key!r})" if key in TRIED else ""
            raise UnknownSettingError(
                f"{name or maker.__name__} has no setting {key!r}. {setting_hint(key, known)}{hint}"
            )


def setting_hint(key: str, known: Sequence[str]) -> str:
    """Return a hint that names the setting to use instead of the unknown setting `key`."""
    field_name = "max_episode_s" if key in CLOCKS else key
    config, unit = EnvConfig(), " in seconds" if key in CLOCKS else ""
    parts = {"config": config, **{f"config.{part.name}": getattr(config, part.name) for part in fields(config)}}
    for place, part in parts.items():
        if is_dataclass(part) and field_name in {own.name for own in fields(part)}:
            return f"Use {place}.{field_name}{unit}."
    close = difflib.get_close_matches(key, known, 1)
    return f"Did you mean {close[0]!r}?" if close else f"It has {', '.join(known)}."


def whole_within(name: str, value: Any, limits: Limits) -> int:
    """Convert an integer of any type to `int`, and check its limits."""
    number = whole(name, value)
    check_number(name, number, limits)
    return number


def number_of_battles(num_envs: Any, name: str = "num_envs") -> int:
    """Check the number of parallel battles, and return it as `int`."""
    return whole_within(name, num_envs, Limits(1, MOST_BATTLES, "battles"))


def one_seed(seed: Any) -> int:
    """Check a seed from which other seeds are derived, and return it as `int`."""
    return whole_within("seed", seed, SEED)


def seed_or_seeds(seed: Any, num_envs: int) -> int | Tensor:
    """Check the argument `seed`: one seed for all battles, or a tensor `[B]` int64 with a seed for each battle."""
    if not isinstance(seed, Tensor) or seed.dim() == 0:
        is_number = seed is not None and not isinstance(seed, list | tuple)
        limit = f"an integer, or int64 of shape ({num_envs},), a tensor with the seed of each battle"
        require(is_number, "seed", limit, seed)
        return one_seed(seed)
    if seed.shape != (num_envs,) or seed.dtype != torch.int64 or seed.is_meta:
        actual = f"{seed.dtype} of shape {tuple(seed.shape)}{' without values' if seed.is_meta else ''}"
        raise ConfigError(f"seed must be int64 of shape ({num_envs},), got {actual}")
    return seed


def real_action(key: Any, action: Any) -> Tensor:
    """Convert an action of any real dtype to float32."""
    if not isinstance(action, Tensor) or action.is_complex():
        actual = action.dtype if isinstance(action, Tensor) else type(action).__name__
        raise ConfigError(f"{key} must be a float32 tensor, got {actual}")
    return action.to(torch.float32)


def index_action(key: Any, expected: str, action: Any) -> Tensor:
    """Convert an action of any integer dtype to int64."""
    is_tensor = isinstance(action, Tensor)
    is_integer = is_tensor and not (action.is_floating_point() or action.is_complex() or action.dtype == torch.bool)
    if not is_integer:
        actual = action.dtype if is_tensor else type(action).__name__
        raise ConfigError(f"{key} must be int64, {expected}, got {actual}")
    return action.long()


def lookup_factors(key: Any, table: FactorTable, action: Any) -> Tensor:
    """Return the continuous actions `[..., D]` of the multi-discrete actions `[..., F]`. On a GPU, torch's indexing
    checks the range of the indices."""
    index = index_action(key, f"an option of each of {len(table.sizes)} factors", action)
    try:
        return table[index]
    except IndexError:
        is_outside = ((index < 0) | (index >= table.sizes)).reshape(-1, len(table.sizes)).any(0)
        place = int(is_outside.int().argmax())
        own = index[..., place]
        lowest, highest = (int(edge) for edge in own.aminmax())
        limit = f"0..{int(table.sizes[place]) - 1} in factor {place}"
        raise ConfigError(f"{key} must be {limit}, got {lowest}..{highest}") from None


def lookup_actions(key: Any, table: Tensor, action: Any) -> Tensor:
    """Return the rows of `table [K, D]` for discrete actions. On a GPU, torch's indexing checks the range of the
    indices."""
    count = len(table)
    index = index_action(key, f"an index of {count} actions", action)
    try:
        # Map negative indices to an invalid index; otherwise torch would count them from the end.
        return table[torch.where(index < 0, count, index)]
    except IndexError:
        lowest, highest = (int(edge) for edge in index.aminmax())
        raise ConfigError(f"{key} must be 0..{count - 1}, an index of an action, got {lowest}..{highest}") from None


def joined_actions(
    tensordict: Shown, group_map: Mapping[str, Sequence[str]], batch_size: torch.Size, comm_dim: int
) -> Tensor:
    """Return the actions `[B, N, D]` of the mechs of all groups."""
    actions_of_groups = []
    for group, names in group_map.items():
        action = tensordict.get((group, "action"), None)
        if action is None:
            raise ConfigError(
                f"({group!r}, 'action') is missing: a step needs the actions of both teams. "
                f"`echelon.versus` commands one of them"
            )
        expected = (*batch_size, len(names), action_width(comm_dim))
        if getattr(action, "shape", None) != expected:
            columns = actions.layout(comm_dim)
            raise ConfigError(
                f"({group!r}, 'action') must have shape {expected}, got {tuple(action.shape)}; columns: {columns}"
            )
        actions_of_groups.append(real_action((group, "action"), action))
    with no_grad_outside_inference_mode():
        return torch.cat(actions_of_groups, 1)


def joined_commands(
    tensordict: Shown, action_spec: Composite, command_map: Mapping[str, Sequence[str]]
) -> Tensor | None:
    """Return both teams' commands `[B, P, D]` for `issue.apply_commands`; None if no commander has an action."""
    keys = [(group, "action") for group in command_map]
    if all(tensordict.get(key, None) is None for key in keys):
        return None
    shapes = {key: action_spec[key].shape for key in keys}
    width, padded = max(shape[-1] for shape in shapes.values()), []
    for key, shape in shapes.items():
        action = tensordict.get(key, None)
        if action is None:
            action = torch.zeros(shape, dtype=torch.float32, device=action_spec.device)
        if getattr(action, "shape", None) != shape:
            raise ConfigError(f"{key} must have shape {tuple(shape)}, got {tuple(action.shape)}: docs/COMMAND.md")
        padded.append(torch.nn.functional.pad(real_action(key, action), (0, width - shape[-1])))
    with no_grad_outside_inference_mode():
        return torch.cat(padded, 1)

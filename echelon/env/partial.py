"""Reset and step some battles by TorchRL's masks `_reset` and `_step`; the other battles do not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from echelon.env.restart import Selection, cleared, select
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.signatures import InitSignature
from echelon.state import State

RESET, STEP = "_reset", "_step"


class PartialEnv(EnvBase):
    """An environment whose `reset` and `step` can be limited to some battles by a mask, and then return the other
    battles unchanged.

    TorchRL fills the other battles with zeros if the caller passes only a mask. Here, `_reset` and `_step` of a
    subclass return the last observation of the other battles.
    """

    __signature__ = InitSignature()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PartialEnv:
        """Accept moves between devices and reject other dtypes, because `to`, `half`, `double` and `type` all call
        this method."""
        dtype = fn(torch.empty(0, dtype=torch.float32, device="cpu")).dtype
        require(dtype == torch.float32, "dtype of an environment and its opponent", "torch.float32", dtype)
        return super()._apply(fn, recurse)

    def _reset_proc_data(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if tensordict is not None:
            fill_missing(tensordict, tensordict_reset)
        return super()._reset_proc_data(tensordict, tensordict_reset)

    def _reset_mask(
        self, tensordict: TensorDictBase | None, seed: int | Tensor | None = None, **unknown: Any
    ) -> Tensor | None:
        """Return the caller's mask `_reset` as `[*batch_size, 1]` bool, or None without a mask.

        Args:
            tensordict: input of `reset`.
            seed: seed of the new battles, passed to `set_seed`.
            unknown: other keywords of `reset`, which raise `ConfigError`.
        """
        require(not unknown, "reset", "called with a tensordict and a seed only", ", ".join(unknown))
        mask = reset_mask(tensordict, self.batch_size)
        if seed is not None:
            self.set_seed(seed)
        return mask

    def _skip_tensordict(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device)
        return self._step(tensordict.copy().set(STEP, mask))


def fill_missing(tensordict: TensorDictBase, source: TensorDictBase) -> None:
    """Add the entries of `source` that `tensordict` lacks."""
    for name, value in source.items():
        existing = tensordict.get(name, None)
        if existing is None:
            tensordict.set(name, value.clone(recurse=False) if isinstance(value, TensorDictBase) else value)
        elif isinstance(existing, TensorDictBase):
            fill_missing(existing, value)


def mask_of(tensordict: TensorDictBase | None, name: str, batch_size: torch.Size) -> Tensor | None:
    """Return the caller's mask `_reset` or `_step` as `[*batch_size, 1]` bool, or None without a mask."""
    mask = None if tensordict is None else tensordict.get(name, None)
    if mask is None:
        return None
    expected = (*batch_size, 1)
    if mask.dtype != torch.bool or tuple(mask.shape) not in (expected, expected[:-1]):
        raise ConfigError(f"{name!r} must be bool of shape {expected}, got {mask.dtype} of shape {tuple(mask.shape)}")
    return mask.reshape(expected)


def reset_mask(tensordict: TensorDictBase | None, batch_size: torch.Size) -> Tensor | None:
    keys = () if tensordict is None else tensordict.keys(include_nested=True, leaves_only=True)
    for key in keys:
        if isinstance(key, tuple) and key[-1] == RESET:
            raise ConfigError(f"{key}: per-agent reset is not supported; pass {RESET!r} of shape {(*batch_size, 1)}")
    return mask_of(tensordict, RESET, batch_size)


def restore_state(moves: Tensor, before: State, after: State) -> State:
    """Return `after` for battles in `moves [B, 1]` and `before` for others; terrain of `after` is changed in place."""
    moving = Selection(moves[:, 0])
    for name, ground in after.terrain.items():
        ground.copy_(moving.replaced(before.terrain.get(name), ground))
    names = [name for name in State.__dataclass_fields__ if name != "terrain"]
    return after.replace(**{name: moving.replaced(getattr(before, name), getattr(after, name)) for name in names})


def restore_entries(moves: Tensor, played: TensorDictBase, before: TensorDictBase, paid: list[tuple[str, ...]]) -> None:
    """For battles not in `moves [B, 1]`, overwrite the entries of `played` by the observations in `before`, and the
    rewards with the keys `paid` by zeros."""
    mask = moves[:, 0]
    for key in before.keys(include_nested=True, leaves_only=True):
        played.set(key, select(mask, played.get(key), before.get(key)))
    for key in paid:
        played.set(key, cleared(played.get(key), ~mask))

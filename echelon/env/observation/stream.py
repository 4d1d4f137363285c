"""Definition of an observation stream: its columns, its shape, and the function that computes it with torch
operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from echelon.env.observation.features import Feature
from echelon.env.observation.features import bounds as bounds_of
from echelon.env.observation.features import width as width_of
from echelon.env.observation.sensing import Senses
from echelon.rules.actions import Orders
from echelon.rules.config import EnvConfig
from echelon.sim.model import SimModel
from echelon.state import State

Observation = dict[str, Tensor]
"""Streams of all mechs, `[B, N, ...]` each."""


class StreamInputs(NamedTuple):
    """Inputs of the functions that compute streams with torch operations."""

    state: State
    orders: Orders
    """Orders of the last decision."""
    sim_model: SimModel
    senses: Senses
    slots: Tensor
    """[B, N, C] int64, the mech in each contact slot."""
    filled: Tensor
    """[B, N, C] bool, whether a contact slot is filled."""


class Axis(NamedTuple):
    """An axis of a stream between the mech axis and the axis of columns."""

    name: str
    """Meaning of an index along the axis."""
    length: Callable[..., int]
    """Function that returns the length: of a config for mechs, of the number of packs and enemies for commanders."""


@dataclass(frozen=True)
class Stream:
    """An observation stream."""

    name: str
    features: tuple[Feature, ...] | Callable[[int], tuple[Feature, ...]]
    """Its columns, or a function of `comm_dim` that returns them. A grid has one feature, with one column per cell."""
    axes: tuple[Axis, ...] = ()
    is_grid: bool = False
    """Whether the last axes are the cells of a grid, without an axis of columns."""
    mask: Feature | None = None
    """The flag of each row, in the stream `NAME_mask`; None if all rows are filled."""
    dense: Callable[[StreamInputs], Tensor | tuple[Tensor, Tensor]] | None = None
    """Returns the stream `[B, N, ...]` float32, and its mask if the stream has one."""
    add: Callable[[State, Observation, SimModel], Observation] | None = None
    """Replaces `dense` in a stream without a loop: receives the other streams, returns all. Both forms call it."""
    is_on: Callable[[EnvConfig], bool] | None = None
    """Whether battles of a config have this stream; None if all battles have it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the stream and its mask."""
        return (self.name, f"{self.name}_mask") if self.mask else (self.name,)

    def features_of(self, comm_dim: int) -> tuple[Feature, ...]:
        """Return the features of the stream."""
        return self.features if isinstance(self.features, tuple) else self.features(comm_dim)

    def last_axis(self, comm_dim: int) -> tuple[Feature, ...]:
        """Return the features along the last axis; for a grid, the feature of one cell."""
        features = self.features_of(comm_dim)
        return tuple(feature._replace(width=1) for feature in features) if self.is_grid else features

    def rows(self, *sizes: object) -> tuple[int, ...]:
        """Return the lengths of `axes`, which exclude the axis of columns; `sizes` are the arguments of
        `Axis.length`."""
        return tuple(axis.length(*sizes) for axis in self.axes)

    def shape(self, comm_dim: int, *sizes: object) -> tuple[int, ...]:
        """Return the lengths of all axes after the mech axis."""
        return self.rows(*sizes) if self.is_grid else (*self.rows(*sizes), width_of(self.features_of(comm_dim)))

    def bounds(self, comm_dim: int) -> tuple[Tensor, Tensor]:
        """Return the lowest and highest value of each column `[F]`; for a grid `[1]`, valid for all cells."""
        return bounds_of(self.last_axis(comm_dim))

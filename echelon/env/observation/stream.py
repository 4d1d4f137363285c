"""What an observation stream is: its columns, its shape, and the dense function that fills it."""

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
    """What dense functions read."""

    state: State
    orders: Orders
    """Those of the last decision."""
    sim_model: SimModel
    senses: Senses
    slots: Tensor
    """[B, N, C] int64, the mech in each contact slot."""
    filled: Tensor
    """[B, N, C] bool, whether a contact slot is filled."""


class Axis(NamedTuple):
    """An axis between the mechs of a stream and its columns."""

    name: str
    """What an index stands for."""
    length: Callable[..., int]
    """Its length: of a stream of mechs for a config, of a stream of commanders for its packs and its enemies."""


@dataclass(frozen=True)
class Stream:
    """An observation stream."""

    name: str
    features: tuple[Feature, ...] | Callable[[int], tuple[Feature, ...]]
    """Its columns, or a function of `comm_dim` that returns them. A grid has one feature, of as many columns as it has
    cells."""
    axes: tuple[Axis, ...] = ()
    is_grid: bool = False
    """Whether its last axes are the cells of a grid, in place of an axis of columns."""
    mask: Feature | None = None
    """The flag of each row, in the stream `NAME_mask`; None for a stream whose rows are all filled."""
    dense: Callable[[StreamInputs], Tensor | tuple[Tensor, Tensor]] | None = None
    """Returns the stream `[B, N, ...]` float32, and its mask where it has one."""
    add: Callable[[State, Observation, SimModel], Observation] | None = None
    """In place of `dense`, for a stream without a loop: returns all streams, given the others. Both forms call it."""
    is_on: Callable[[EnvConfig], bool] | None = None
    """Whether battles of a config have it; None for a stream of all battles."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the stream and of its mask."""
        return (self.name, f"{self.name}_mask") if self.mask else (self.name,)

    def features_of(self, comm_dim: int) -> tuple[Feature, ...]:
        """Its columns."""
        return self.features if isinstance(self.features, tuple) else self.features(comm_dim)

    def last_axis(self, comm_dim: int) -> tuple[Feature, ...]:
        """The features of its last axis: those of one cell of a grid."""
        features = self.features_of(comm_dim)
        return tuple(feature._replace(width=1) for feature in features) if self.is_grid else features

    def rows(self, *sizes: object) -> tuple[int, ...]:
        """Lengths of its axes, without that of the columns; `sizes` are the arguments of `Axis.length`."""
        return tuple(axis.length(*sizes) for axis in self.axes)

    def shape(self, comm_dim: int, *sizes: object) -> tuple[int, ...]:
        """Lengths of all axes after that of the mechs."""
        return self.rows(*sizes) if self.is_grid else (*self.rows(*sizes), width_of(self.features_of(comm_dim)))

    def bounds(self, comm_dim: int) -> tuple[Tensor, Tensor]:
        """Lowest and highest value of each column `[F]`, of all cells of a grid `[1]`."""
        return bounds_of(self.last_axis(comm_dim))

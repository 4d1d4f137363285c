"""Specification of a network: input and output columns, and layer widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from echelon.env.observation import layout
from echelon.learn.models.policy_layout import PolicyLayout
from echelon.runtime.limits import Limits, Settings


@dataclass(frozen=True)
class PolicySpecs:
    """Input and output columns of a policy, from which a model is built."""

    comm_dim: int
    """Length of a message, as in `EnvConfig.comm_dim`."""
    columns: PolicyLayout = None  # type: ignore[assignment]
    """Input columns of the observation; by default those of this version."""

    def __post_init__(self) -> None:
        if self.columns is None:
            object.__setattr__(self, "columns", self.today)

    @property
    def today(self) -> PolicyLayout:
        """Columns of this version's observation."""
        return PolicyLayout.current(self.comm_dim)

    @property
    def action_width(self) -> int:
        """Number of columns of an action, D."""
        return layout.action_width(self.comm_dim)


@dataclass(frozen=True)
class ModelSizes(Settings):
    """Settings that all networks have. The widths are those of `echelon.learn.models.encoder.Encoder`."""

    hidden: Annotated[int, Limits(1, 8192)] = 128
    """Width of the memory and of the fused features."""
    contact_width: Annotated[int, Limits(1, 8192)] = 64
    """Width of the encoding of one contact."""
    squad_width: Annotated[int, Limits(1, 8192)] = 32
    """Width of the encoding of one squad mate."""
    comm_width: Annotated[int, Limits(1, 8192)] = 16
    """Width of the encoding of one message."""
    map_width: Annotated[int, Limits(1, 8192)] = 32
    """Width of the encoding of the local map around a mech."""
    telemetry_width: Annotated[int, Limits(1, 8192)] = 16
    """Width of the encoding of the top-down map of the battle."""
    body_width: Annotated[int, Limits(1, 8192)] = 128
    """Width of the encoding of a mech's own state."""
    std: Literal["state", "fixed"] = "state"
    """Standard deviation of the actions: state (depends on the observation) or fixed (one parameter per column)."""
    initial_std: Annotated[float, Limits(1e-6, 1e3)] = 0.6
    """Standard deviation of the pre-tanh actions before training."""
    eval_std_scale: Annotated[float, Limits(1e-6, 1e3)] = 0.3
    """Factor on the standard deviation in evaluation mode: evaluations, matches, leagues and frozen opponents.
    Exploration needs more noise than winning."""
    critic: Literal["local", "central"] = "local"
    """Input of the critic: local (the mech's own observation) or central (also the state of all mechs of both
    teams)."""
    path_observed: bool = True
    """Whether the network sees the walking path to the zone."""

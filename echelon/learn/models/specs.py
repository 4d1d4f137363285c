"""What a network is made for: the columns that it reads and writes, and the widths of its layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from echelon.env.observation import layout
from echelon.learn.models.policy_layout import PolicyLayout
from echelon.runtime.limits import Limits, Settings


@dataclass(frozen=True)
class PolicySpecs:
    """What a policy reads and writes, from which a model is built."""

    comm_dim: int
    """Numbers in a message, as in `EnvConfig.comm_dim`."""
    columns: PolicyLayout = None  # type: ignore[assignment]
    """The columns of the observation that it reads; by default those of this version."""

    def __post_init__(self) -> None:
        if self.columns is None:
            object.__setattr__(self, "columns", self.today)

    @property
    def today(self) -> PolicyLayout:
        """The columns of this version's observation."""
        return PolicyLayout.current(self.comm_dim)

    @property
    def action_width(self) -> int:
        """Number of columns of an action, D."""
        return layout.action_width(self.comm_dim)


@dataclass(frozen=True)
class ModelSizes(Settings):
    """Settings that every network has. The widths are those of `echelon.learn.models.encoder.Encoder`."""

    hidden: Annotated[int, Limits(1, 8192)] = 128
    """Width of the memory and of the fused features."""
    contact_width: Annotated[int, Limits(1, 8192)] = 64
    """Width of the encoding of one contact."""
    squad_width: Annotated[int, Limits(1, 8192)] = 32
    """Width of the encoding of one squad mate."""
    comm_width: Annotated[int, Limits(1, 8192)] = 16
    """Width of the encoding of one message."""
    map_width: Annotated[int, Limits(1, 8192)] = 32
    """Width of the encoding of the ground around a mech."""
    telemetry_width: Annotated[int, Limits(1, 8192)] = 16
    """Width of the encoding of the top-down map of the battle."""
    body_width: Annotated[int, Limits(1, 8192)] = 128
    """Width of the encoding of a mech's own state."""
    std: Literal["state", "fixed"] = "state"
    """Standard deviation of the actions: dependent on the observation, or one learnt parameter for each column."""
    initial_std: Annotated[float, Limits(1e-6, 1e3)] = 0.6
    """Standard deviation of the pre-tanh actions before training."""
    eval_std_scale: Annotated[float, Limits(1e-6, 1e3)] = 0.3
    """Factor on the standard deviation in evaluation mode, where a policy plays and does not learn: in evaluations,
    matches and leagues, and as a frozen opponent. Exploring takes more noise than winning."""
    critic: Literal["local", "central"] = "local"
    """Input of the critic: only the mech's own observation, or also the state of every mech of both teams."""
    path_observed: bool = True
    """Off: hides the walking path to the zone from the network."""

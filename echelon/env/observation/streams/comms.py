"""The messages that a mech receives from its pack."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.observation.features import Feature
from echelon.env.observation.stream import Axis, Stream, StreamInputs

PACK_SIZE = 5


def message(comm_dim: int, meaning: str) -> tuple[Feature, ...]:
    """Return the columns of a message."""
    return (Feature("message", comm_dim, -1.0, 1.0, "", meaning, (), ("comms",)),)


def comms(inputs: StreamInputs) -> Tensor:
    """Return the messages that each mech's packmates sent in the last decision, `[B, N, 5, comm_dim]`. A mech's own
    row is zero; all rows of a dead mech are zero."""
    messages, roster = inputs.state.messages, inputs.sim_model.roster
    silence = torch.zeros_like(messages[:, :1])
    received = torch.cat((messages, silence), 1)[:, roster.pack_slot]  # [B, N, 5, comm_dim]
    is_self = roster.pack_slot == torch.arange(roster.num_mechs, device=messages.device)[:, None]
    listens = inputs.state.mechs.alive[:, :, None] & ~is_self
    return torch.where(listens[..., None], received, 0.0)


STREAM = Stream(
    name="comms",
    features=lambda comm_dim: message(comm_dim, "message of a packmate in the last decision; its own row is 0"),
    axes=(Axis("packmate", lambda config: PACK_SIZE),),
    dense=comms,
)

"""What a policy of a team is shown, and what it has to return."""

from __future__ import annotations

from collections.abc import Mapping

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.runtime import noise
from echelon.runtime.errors import ConfigError


def check_decided(name: str, decided: object) -> None:
    """Raise `ConfigError` unless a policy returned a TensorDict."""
    if not isinstance(decided, TensorDictBase):
        raise ConfigError(
            f'{name} must return the team it was given: return team.set("action", action), got {decided!r:.80}'
        )


def action_noise(seed: Tensor, decision: Tensor | int, mechs: int, width: int) -> Tensor:
    """`[B, N, D]` standard normal numbers for the actions of all N mechs in one decision.

    Args:
        seed: `[B]` int64, of the battles.
        decision: `[B]` or a number, which decision of the battle it is.
    """
    return noise.normal(seed, decision, noise.Stream.ACTION, mechs * width).view(-1, mechs, width)


def team_input(
    streams: Mapping[str, Tensor], mask: Tensor, telemetry: Tensor, memory: TensorDictBase, normals: Tensor | None
) -> TensorDict:
    """Input of a team policy, batch `[B, A]`.

    Args:
        streams: `[B, A, ...]` each.
        mask: `[B, A]` bool.
        telemetry: `[B, 16, 16]`.
        memory: batch `[B, A]`.
        normals: `[B, A, D]` noise, or None for a policy that draws no actions.
    """
    batch, device = mask.shape, mask.device
    values = {
        "observation": TensorDict(dict(streams), batch, device=device),
        "mask": mask,
        "telemetry": telemetry[:, None].expand(*batch, -1, -1),
        "memory": memory,
    }
    return TensorDict(values if normals is None else {**values, "noise": normals}, batch, device=device)

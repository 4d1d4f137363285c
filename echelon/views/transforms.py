"""A transform of the observation for networks that need one vector per mech."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Bounded, Composite, TensorSpec
from torchrl.envs.transforms import Transform

from echelon.env.observation.layout import GROUPS, STREAMS


class FlatObservation(Transform):
    """Concatenate all observation streams of a mech to `(group, "flat") [B, A, F]` float32, in the order of `STREAMS`.

    Masks become 0 and 1. `restore` is the exact inverse of this transform; `telemetry` stays at the root. Use the
    transform in a `TransformedEnv`, in a replay buffer, or directly as `FlatObservation.of(team["observation"])`.

    TorchRL resets battles of a transformed environment through its own code, which copies the done mask to the host. In
    a fast loop, call `of` on the plain environment's observation instead.
    """

    def __init__(self) -> None:
        super().__init__(
            in_keys=[(group, "observation") for group in GROUPS], out_keys=[(group, "flat") for group in GROUPS]
        )

    @staticmethod
    def of(streams: TensorDictBase, dtype: torch.dtype = torch.float32) -> Tensor:
        """Concatenate a team's streams to `[B, A, F]` and round them to `dtype`."""
        batch = streams.get("ego").dim() - 1
        return torch.cat([streams.get(name).flatten(batch).to(dtype) for name in STREAMS if name in streams.keys()], -1)

    @staticmethod
    def restore(flat: Tensor, spec: Composite) -> TensorDictBase:
        """Split a flat vector into its streams.

        Args:
            flat: flat vectors `[..., F]`, whose batch dimensions may differ from those of `spec`.
            spec: spec of the streams, such as `env.observation_spec[group, "observation"]`.
        """
        mechs, start, streams = spec.ndim, 0, {}
        for name in STREAMS:
            leaf = spec[name]
            shape = leaf.shape[mechs:]
            columns = flat[..., start : start + shape.numel()]
            streams[name] = columns.unflatten(-1, shape).to(leaf.dtype)
            start += shape.numel()
        return TensorDict(streams, flat.shape[:-1], device=flat.device)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for group in GROUPS:
            next_tensordict.set((group, "flat"), self.of(next_tensordict.get((group, "observation"))))
        return next_tensordict

    forward = _call

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """Add the flat vectors' spec, with the bounds of their columns."""
        for group in GROUPS:
            observation_spec[group, "flat"] = flat_spec(observation_spec[group, "observation"])
        return observation_spec


def flat_spec(streams: Composite, dtype: torch.dtype = torch.float32) -> Bounded:
    """Return the spec of the flat vector of `streams`, with the bounds of its columns."""
    mechs = streams.ndim
    low, high = (
        torch.cat([limit(streams[name], end).flatten(mechs) for name in STREAMS], -1) for end in ("low", "high")
    )
    return Bounded(low, high, low.shape, device=streams.device, dtype=dtype)


def limit(spec: TensorSpec, end: str) -> Tensor:
    """Return the `low` or `high` bound of a stream's values; flags are 0 or 1."""
    if isinstance(spec, Bounded):
        return getattr(spec.space, end).to(torch.float32)
    return torch.full(spec.shape, float(end == "high"), dtype=torch.float32, device=spec.device)

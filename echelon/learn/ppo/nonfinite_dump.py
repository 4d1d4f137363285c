"""Debug dump of a run that stops because its losses or gradients are not finite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import safetensors.torch
from tensordict import TensorDict, TensorDictBase

from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.ppo.update import PATIENCE
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import json_bytes, write_through, writing_to


class NotFinite(ConfigError):
    """Losses or gradients are not finite; the message names the dump."""


def stop_with_dump(
    folder: Path,
    iteration: int,
    policy: ActorCritic,
    batch: TensorDict,
    memory: TensorDictBase,
    rank: int = 0,
    spoilt: Sequence[str] = (),
) -> None:
    """Write the weights and the count of non-finite numbers in each tensor of this process, then raise.

    Args:
        spoilt: the reward terms that paid NaN or infinity, on any process: the cause, if there is one.

    Raises:
        NotFinite: always, naming the file.
    """
    name = f"not_finite_{iteration:06d}" + (f"_rank_{rank}" if rank > 0 else "")
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
    weights = {key: value.detach().contiguous().cpu() for key, value in policy.state_dict().items()}
    write_through(folder / f"{name}.safetensors", safetensors.torch.save(weights))
    tensors = {"weights": weights, "rollout": flat(batch), "memory": flat(memory)}
    counts = {
        group: {key: int((~leaf.isfinite()).sum()) for key, leaf in leaves.items() if leaf.is_floating_point()}
        for group, leaves in tensors.items()
    }
    report = folder / f"{name}.json"
    write_through(report, json_bytes({"not finite": counts}))
    hint = spoilt_by(spoilt) if spoilt else "try a lower --ppo.learning-rate.first or --precision fp32"
    raise NotFinite(
        f"loss or gradient must be finite, got none such in {PATIENCE} steps running: see {report} (numbers not finite "
        f"by tensor); {hint}"
    )


def spoilt_by(terms: Sequence[str]) -> str:
    """What to say of reward terms that paid NaN or infinity."""
    return f"reward term {' and '.join(terms)} paid NaN or infinity: expected finite numbers"


def flat(nested: TensorDictBase) -> dict[str, object]:
    """Leaves by their dotted keys."""
    return dict(nested.flatten_keys(".").items())

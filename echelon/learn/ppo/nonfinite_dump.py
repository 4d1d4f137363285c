"""Debug dump of a run that stops because its loss or gradients are not finite."""

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
    """Raised if loss or gradients are not finite; the message names the file of the dump."""


def stop_with_dump(
    folder: Path,
    iteration: int,
    policy: ActorCritic,
    batch: TensorDict,
    memory: TensorDictBase,
    rank: int = 0,
    nonfinite: Sequence[str] = (),
) -> None:
    """Write the weights and the number of non-finite values per tensor of this process, then raise.

    Args:
        nonfinite: reward terms that were NaN or infinite on any process, the likely cause.

    Raises:
        NotFinite: always, with the file's name.
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
    hint = terms_message(nonfinite) if nonfinite else "try a lower --ppo.learning-rate.first or --precision fp32"
    raise NotFinite(
        f"loss or gradient must be finite, got NaN or infinity in {PATIENCE} consecutive steps: see {report} "
        f"(non-finite values by tensor); {hint}"
    )


def terms_message(terms: Sequence[str]) -> str:
    """Return the error text for reward terms that were NaN or infinite."""
    return f"reward term {' and '.join(terms)} was NaN or infinite: expected finite numbers"


def flat(nested: TensorDictBase) -> dict[str, object]:
    """Return the leaves, keyed by dotted path."""
    return dict(nested.flatten_keys(".").items())

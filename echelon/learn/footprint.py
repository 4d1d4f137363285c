"""Estimate the GPU memory that a run needs, before any of it is allocated; the estimate itself uses only the CPU."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.footprint import amount, bytes_of, leaves, needed_bytes, require_memory
from echelon.env.observation.layout import action_width
from echelon.env.specs import Specs
from echelon.learn.config import TrainConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.precision import resolve_precision
from echelon.learn.models.registry import ModelConfig, PolicySpecs
from echelon.learn.ppo.update import RecurrentPPOLoss
from echelon.rules.config import EnvConfig
from echelon.runtime.device import is_out_of_memory, total_memory
from echelon.runtime.errors import ConfigError
from echelon.runtime.shared_modes import kept_generators

COPIES_OF_WEIGHTS = 4
"""Weights, their gradient, and Adam's two moments."""
BACKWARD = 1.5
"""Maximum memory of a backward pass, including gradients, in units of what the forward pass saved for it."""
LONGEST = 64
"""Maximum number of decisions of the measured sequence; longer sequences need no more memory."""


@dataclass(frozen=True)
class LearningFootprint:
    """Memory of a learner in bytes, split by the quantity with which it grows."""

    policy: int
    """Weights of a policy."""
    row: int
    """One decision of a team in the rollout, with its advantages."""
    memory: int
    """Recurrent memory of a team at the start of a training sequence."""
    activations: int
    """Tensors saved for the backward pass, per decision of a team."""


def footprint_of_learning(config: TrainConfig) -> LearningFootprint:
    """Measure the memory of a learner on a single team; the precision in the config must not be `auto`."""
    length = min(config.ppo.chunk_decisions, LONGEST)
    return _footprint_of(config.env, config.model, config.precision, length, _team_size(config))


@functools.lru_cache(maxsize=16)
def _footprint_of(env: EnvConfig, model: ModelConfig, precision: str, length: int, mechs: int) -> LearningFootprint:
    cpu = torch.device("cpu")
    # Building a model draws random numbers: restore the generators, so that the run's random numbers do not change.
    with kept_generators(cpu):
        policy = model.build(PolicySpecs(env.comm_dim))
    policy.network.compute = resolve_precision(precision, cpu)
    minibatch = minibatch_of(policy, env, length, mechs)
    memory = minibatch.get("memory")
    rows = bytes_of(leaves(minibatch.exclude("memory"))) // length
    weights, activations = bytes_of(policy.parameters()), saved_bytes(policy, minibatch) // length
    return LearningFootprint(weights, rows, bytes_of(leaves(memory)) // length, activations)


def minibatch_of(policy: ActorCritic, env: EnvConfig, length: int, mechs: int) -> TensorDictBase:
    """Return a minibatch `[1, length]` as produced by `TeamCollector` and `NormalizedGAE`: one sequence in which every
    mech perceives as much as possible."""
    dtype = policy.network.compute
    blank = Specs(env, {"team": mechs}, policy.memory_spec(), 1, torch.device("cpu"), info=False).observation().zero()

    def each(leaf: Tensor) -> Tensor:
        """Repeat a leaf for every decision, with bools set to True."""
        cast = torch.ones_like(leaf) if leaf.dtype == torch.bool else leaf.to(dtype)
        return cast[:, None].repeat(1, length, *[1] * (leaf.dim() - 1))

    def numbers(*shape: int) -> Tensor:
        return torch.zeros(1, length, mechs, *shape, dtype=torch.float32, device="cpu")

    team, scalars = blank.get("team"), ("state_value", "state_value_normalized", "value_target")
    data: dict[str, Any] = {
        "observation": {name: each(leaf) for name, leaf in team.get("observation").items()},
        "telemetry": each(blank.get("telemetry")),
        "memory": {name: each(leaf).float() for name, leaf in team.get("memory", TensorDict()).items()},
        "mask": torch.ones(1, length, mechs, dtype=torch.bool, device="cpu"),
        "is_init": torch.zeros(1, length, 1, dtype=torch.bool, device="cpu"),
        "pre_tanh": numbers(action_width(env.comm_dim)),
        "pre_tanh_log_prob": numbers(),
        **{name: numbers(1) for name in (*scalars, "value_target_normalized", "advantage")},
        "next": {"reward": numbers(1), "state_value": numbers(1)},
    }
    if policy.critic.gathering is not None:
        data["enemy"] = each(team.get(("observation", "ego")))
    return TensorDict(data, [1, length])


def saved_bytes(policy: ActorCritic, minibatch: TensorDictBase) -> int:
    """Return the bytes that the loss of a minibatch saves for its backward pass, without weights and the minibatch."""
    skipped = {leaf.untyped_storage().data_ptr() for leaf in (*policy.parameters(), *leaves(minibatch))}
    sizes: dict[int, int] = {}
    alive: list[Tensor] = []  # Keep the tensors alive, so that no address is reused.

    def pack(tensor: Tensor) -> Tensor:
        address = tensor.untyped_storage().data_ptr()
        if address not in skipped:
            alive.append(tensor)
            sizes[address] = tensor.untyped_storage().nbytes()
        return tensor

    loss = RecurrentPPOLoss(policy.get_policy_operator(), policy.get_value_head())
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        losses = loss(minibatch)  # holds the graph
    del losses
    return sum(sizes.values())


def resident_bytes(config: TrainConfig, device: torch.device) -> int:
    """Return the bytes that a run keeps between minibatches: battles, maps, one rollout, networks."""
    footprint, ppo = footprint_of_learning(config), config.ppo
    rollout = _teams(config) * (ppo.rollout_decisions * footprint.row + ppo.chunks * footprint.memory)
    frozen = config.past_blocks * config.past_slots if config.past_battles > 0 else 0
    networks = footprint.policy * (COPIES_OF_WEIGHTS + frozen + config.past_kept)
    return needed_bytes(config.env, config.num_envs, device) + rollout + networks


def training_bytes(config: TrainConfig, device: torch.device) -> int:
    """Estimate the peak memory of a run in bytes; small runs on CPUs used 0.5 to 0.7 of the estimate.

    The estimate sums `resident_bytes`, the battles of an evaluation, and the larger of two: a minibatch with its
    backward pass, and a decision of all teams. With CUDA graphs the minibatch and the decision are both added, because
    each graph has its own memory pool. CUDA's context and the memory of torch.compile during compilation are excluded.

    Args:
        config, device: as in `resident_bytes`.
    """
    footprint, ppo, teams = footprint_of_learning(config), config.ppo, _teams(config)
    minibatch = teams * ppo.rollout_decisions / ppo.minibatches
    learning = minibatch * (footprint.row + BACKWARD * footprint.activations / max(ppo.accumulate, 1))
    acting = (teams + config.past_slots * config.past_battles) * (footprint.row + footprint.activations)
    at_once = learning + acting if config.cuda_graphs == "on" else max(learning, acting)
    judged = config.evaluation.battles * (len(config.evaluation.tiers) + 1)
    return resident_bytes(config, device) + needed_bytes(config.env, judged, device) + int(at_once)


def require_training_memory(config: TrainConfig, env: EnvConfig, device: torch.device) -> None:
    """Raise `ConfigError` if a run needs more than the device's total memory, before any of it is allocated."""
    # On a CPU, count the observations of both teams at each decision; this covers the stored rollout.
    decisions = config.ppo.rollout_decisions if device.type == "cpu" else 0
    require_memory(env, config.num_envs, device, rows=decisions)
    if device.type == "cpu":
        return
    need, total = resident_bytes(replace(config, env=env), device), total_memory(device)
    message = f"{config.num_envs:,} battles of {env.title} and rollouts of {config.ppo.rollout_decisions:,} decisions"
    if need > total:
        raise ConfigError(f"{message} need about {amount(need)}, {device} has {amount(total)}: fewer num_envs")


@contextlib.contextmanager
def memory_explained(config: TrainConfig, device: torch.device) -> Iterator[None]:
    """Convert an out-of-memory error in the context to a `ConfigError` of one line."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        detail = str(error).partition("\n")[0].partition(" GPU ")[0].rstrip(".")
        reserved = f", torch had {amount(torch.cuda.memory_reserved(device))}" if device.type == "cuda" else ""
        message = f"{detail or 'out of memory'} ({amount(training_bytes(config, device))} estimated{reserved})"
        ppo = config.ppo
        lower = f"lower --num-envs ({config.num_envs})"
        lower += f" or --past-slots ({config.past_slots})" if config.past_battles > 0 else ""
        raise ConfigError(
            f"{device}: {message}: {lower}, or raise --ppo.minibatches ({ppo.minibatches}) or --ppo.accumulate"
            f" ({max(ppo.accumulate, 1)})"
        ) from error


def _teams(config: TrainConfig) -> int:
    return config.num_envs + config.self_battles


def _team_size(config: TrainConfig) -> int:
    """Return the number of mechs of the learner's larger team; the other team is padded to this number."""
    env = config.env
    sizes = {"blue": (len(env.blue),), "red": (len(env.red),), "both": (len(env.blue), len(env.red))}
    return max(sizes["both" if config.self_battles > 0 else config.side])

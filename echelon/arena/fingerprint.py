"""Bitwise hashes of whole battles. Two machines with the same fingerprint run the same simulation."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.agents.heuristic import scripted
from echelon.agents.team_policy import memory_spec
from echelon.env.edited_states import as_words
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime import noise
from echelon.state import Maps, State, is_off, single_zone_objective
from echelon.views.group_policy import GroupPolicy

RANDOM = "random"
"""Name of a commander with uniform random actions, the same on every machine."""
RANDOM_ACTIONS = 100
"""Stream of `echelon.runtime.noise` for these actions; the simulation uses others."""


INITIAL_FIELDS = ("spawn_places", "spawn_hp", "spawn_leg_hp", "spawn_heat", "spawn_cooldown")
IN_STATES = (*INITIAL_FIELDS, *single_zone_objective(0, 0, RulesConfig(), torch.device("cpu")))
"""Fields of maps that are hashed as parts of states: of the initial state, and of scores."""


def fingerprint() -> str:
    """Return the sha256 in hex of 40 decisions of `heuristic:expert` against `heuristic:hard` on a small map."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=2)
    return play(config, [7], 40, ("heuristic:expert", "heuristic:hard"))[0]


def play(config: EnvConfig, seeds: Sequence[int], decisions: int, commanders: tuple[str, str]) -> list[str]:
    """Play a batch of battles and hash all their tensors. A battle that ends is reset and continues.

    Args:
        commanders: commanders of blue and red, `heuristic:TIER` or `RANDOM`.

    Returns:
        A sha256 per seed over the maps and, for each decision, the state and the tensordict of the step: observations,
        actions, memories, rewards and outcomes of both teams.
    """
    device, names = torch.device("cpu"), dict(zip(("blue", "red"), commanders, strict=True))
    policies = {group: scripted(name, config, device) for group, name in names.items() if name != RANDOM}
    numbers = torch.tensor(seeds, device="cpu")
    env = EchelonEnv(config, len(seeds), device, seed=numbers, memory=memory_spec(**policies))
    group_policies = [GroupPolicy(policy, group, group) for group, policy in policies.items()]
    maps = {name: leaf for name, leaf in leaves(env.sim_model.maps).items() if name not in IN_STATES}
    map_digest = digest_of(maps)
    digests = [map_digest.copy() for _ in seeds]
    td = env.reset()
    for decision in range(decisions):
        for group in env.group_map.keys() - policies.keys():
            td.set((group, "action"), random_actions(env, group, numbers, decision))
        for group_policy in group_policies:
            td = group_policy(td)
        stepped, td = env.step_and_maybe_reset(td)
        # Hash these entries only under `next`: TorchRL copies them to the root of the next step.
        repeated = ("outcome", *((group, "reward_terms") for group in env.group_map))
        tensors = {**leaves(stepped.exclude(*repeated)), **leaves(env.state)}
        for battle, digest in enumerate(digests):
            digest.update(digest_of({name: tensor[battle] for name, tensor in tensors.items()}).digest())
    return [digest.hexdigest() for digest in digests]


def state_hash(state: State) -> Tensor:
    """Return an int64 hash `[B]` of the state of each battle, independent of device and batch.

    The multilinear hash of Carter & Wegman (1979) with fixed multipliers: the bytes of a field are read as int64 words
    w_i, and the hash is the sum of w_i m_i modulo 2^64. The multipliers m_i are odd and pseudo-random, derived from
    the name of the field and the index of the word. Two states that differ in a single word have different hashes.
    """
    total = torch.zeros(state.shape, dtype=torch.int64, device=state.seed.device)
    for name, leaf in sorted(leaves(state).items()):
        words = as_words(leaf)
        total += (words * multipliers(zlib.crc32(name.encode()), words.shape[1], leaf.device)).sum(1)
    return total


@functools.cache
def multipliers(salt: int, count: int, device: torch.device) -> Tensor:
    """Return `[count]` odd int64 multipliers of `state_hash`, composed of two samples of 32 bits each."""
    with torch.inference_mode(False):
        high, low = noise.bits(torch.tensor([salt, salt], device=device), torch.arange(2, device=device), 0, count)
        return (high << 32) + (low | 1)


def random_actions(env: EchelonEnv, group: str, seeds: Tensor, decision: int) -> Tensor:
    """Return uniform actions in [-1, 1), `[B, A, D]`, sampled from the seeds of the battles, `seeds [B]`."""
    team, width = list(env.group_map).index(group), layout.action_width(env.config.comm_dim)
    mechs = len(env.group_map[group])
    samples = noise.uniform(seeds, 2 * decision + team, RANDOM_ACTIONS, mechs * width)
    return samples.unflatten(1, (mechs, width)) * 2 - 1


def leaves(tree: TensorDict | State | Maps) -> dict[str, Tensor]:
    """Return all tensors of a nested structure, keyed by path."""
    if isinstance(tree, TensorDict):
        return dict(tree.flatten_keys("/").items())
    tensors: dict[str, Tensor] = {}
    for name in type(tree).__dataclass_fields__:
        value = getattr(tree, name)
        if isinstance(value, Tensor):
            tensors |= {} if is_off(name, value) else {name: value}
        else:
            tensors |= {f"{name}/{n}": v for n, v in leaves(value).items()}
    return tensors


def digest_of(tensors: Mapping[str, Tensor]) -> Any:
    """Return the sha256 over the names, dtypes, shapes and bytes of CPU tensors, sorted by name."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest

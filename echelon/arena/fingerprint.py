"""The hash of every bit of some battles: two machines that print the same one play the same game."""

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
from torch.nn.functional import pad

from echelon.agents.heuristic import scripted
from echelon.env.env import EchelonEnv
from echelon.env.group_policy import GroupPolicy, memory_spec
from echelon.env.observation import layout
from echelon.rules.config import EnvConfig
from echelon.runtime import noise
from echelon.state import Maps, State

RANDOM = "random"
"""The name of a commander whose actions are uniform random numbers, the same on every machine."""
RANDOM_ACTIONS = 100
"""The stream of these numbers; the game draws from others."""


def fingerprint() -> str:
    """sha256 of 40 decisions of `heuristic:expert` against `heuristic:hard` on a small map."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=2)
    return play(config, [7], 40, ("heuristic:expert", "heuristic:hard"))[0]


def play(config: EnvConfig, seeds: Sequence[int], decisions: int, commanders: tuple[str, str]) -> list[str]:
    """Play a battle for each seed, each followed by another where it ends.

    Args:
        commanders: of blue and red, `heuristic:TIER` or `RANDOM`.

    Returns:
        For each seed the sha256 of the maps and, decision by decision, of the state and of what both teams observed,
        did, remembered and earned, the outcome included.
    """
    device, names = torch.device("cpu"), dict(zip(("blue", "red"), commanders, strict=True))
    policies = {group: scripted(name, config, device) for group, name in names.items() if name != RANDOM}
    numbers = torch.tensor(seeds)
    env = EchelonEnv(config, len(seeds), device, seed=numbers, memory=memory_spec(**policies))
    seats = [GroupPolicy(policy, group, group) for group, policy in policies.items()]
    of_maps = digest_of(leaves(env.game.maps))
    digests = [of_maps.copy() for _ in seeds]
    td = env.reset()
    for decision in range(decisions):
        for group in env.group_map.keys() - policies.keys():
            td.set((group, "action"), random_actions(env, group, numbers, decision))
        for seat in seats:
            td = seat(td)
        played, td = env.step_and_maybe_reset(td)
        tensors = {**leaves(played), **leaves(env.state)}
        for battle, digest in enumerate(digests):
            digest.update(digest_of({name: tensor[battle] for name, tensor in tensors.items()}).digest())
    return [digest.hexdigest() for digest in digests]


def state_hash(state: State) -> Tensor:
    """`[B]` int64 hash of every bit of each battle's state, the same on every device and in every batch.

    The bytes of a field are read as int64 words, and the sum of w_i m_i modulo 2^64 is taken, with multipliers m_i that
    look random, are odd, and follow from the field's name and the word's place (the multilinear hash of Carter & Wegman
    1979, with fixed multipliers). Two states that differ in one word never share a hash.
    """
    total = torch.zeros(state.shape, dtype=torch.int64, device=state.seed.device)
    for name, leaf in sorted(leaves(state).items()):
        words = words_of(leaf)
        total += (words * multipliers(zlib.crc32(name.encode()), words.shape[1], leaf.device)).sum(1)
    return total


def words_of(leaf: Tensor) -> Tensor:
    """`[B, n]` int64 the bytes of `leaf [B, ...]`, filled up with zeros."""
    rows = leaf.reshape(leaf.shape[0], -1).contiguous().view(torch.uint8)
    return pad(rows, (0, -rows.shape[1] % 8)).view(torch.int64)


@functools.cache
def multipliers(salt: int, count: int, device: torch.device) -> Tensor:
    """`[count]` int64, odd: two draws of 32 bits each."""
    with torch.inference_mode(False):
        high, low = noise.bits(torch.tensor([salt, salt], device=device), torch.arange(2, device=device), 0, count)
        return (high << 32) + (low | 1)


def random_actions(env: EchelonEnv, group: str, seeds: Tensor, decision: int) -> Tensor:
    """`[B, A, D]` in [-1, 1), drawn by each battle's number in `seeds [B]`."""
    team, width = list(env.group_map).index(group), layout.action_width(env.config.comm_dim)
    mechs = len(env.group_map[group])
    drawn = noise.uniform(seeds, 2 * decision + team, RANDOM_ACTIONS, mechs * width)
    return drawn.unflatten(1, (mechs, width)) * 2 - 1


def leaves(tree: TensorDict | State | Maps) -> dict[str, Tensor]:
    """Every tensor of a tree by its path."""
    if isinstance(tree, TensorDict):
        return dict(tree.flatten_keys("/").items())
    found: dict[str, Tensor] = {}
    for name in type(tree).__dataclass_fields__:
        value = getattr(tree, name)
        found |= {name: value} if isinstance(value, Tensor) else {f"{name}/{n}": v for n, v in leaves(value).items()}
    return found


def digest_of(tensors: Mapping[str, Tensor]) -> Any:
    """sha256 of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest

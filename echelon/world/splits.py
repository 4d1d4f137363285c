"""Splits: disjoint ranges of map and battle seeds for training, validation (model selection) and test.

The two highest bits of a 32-bit seed encode its split. The function `placed` sets these two bits whenever a map is
generated or a battle starts. Two different 32-bit seeds never give the same random number for the same tick, stream and
index, because the hash in `echelon.runtime.noise` is a bijection.
"""

import torch
from torch import Tensor

from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.runtime.noise import mix
from echelon.state import Maps

SPLITS = {"train": 1, "validation": 2, "test": 3}
"""The two highest bits of the seeds of each split. Seeds with the bits 0 belong to no split."""
FREE_BITS = 30
"""Number of the remaining bits of a seed."""
WORD = (1 << FREE_BITS + 2) - 1


def placed(seeds: Tensor, split: str | None) -> Tensor:
    """Map seeds, int64 of any shape, into the range of a split. Seeds in the range do not change.

    Without a split, all seeds are returned unchanged.
    """
    if split is None:
        return seeds
    word = (seeds & WORD) ^ mix(seeds >> 32)
    return (word & (1 << FREE_BITS) - 1) | (SPLITS[split] << FREE_BITS)


def placed_seed(seed: int, split: str | None) -> int:
    """Return `placed` for one seed."""
    return seed if split is None else int(placed(torch.tensor(seed, device="cpu"), split))


def seed_range(split: str | None) -> tuple[int, int]:
    """Return the lowest and highest seed of a split."""
    if split is None:
        return 0, 2**63 - 1
    return SPLITS[split] << FREE_BITS, (SPLITS[split] + 1 << FREE_BITS) - 1


def check_maps(config: EnvConfig, maps: Maps) -> None:
    """Raise `ConfigError` if maps belong to another split than the config. Synchronizes with the host."""
    if config.split is not None and not config.positions:
        foreign = maps.seed[placed(maps.seed, config.split) != maps.seed].tolist()
        require(not foreign, "maps", f"of split {config.split}", f"maps of the seeds {foreign[:5]}")

"""Splits: seeds of maps and battles to train on, to choose by and to be judged on, in ranges without a common number.

The two highest bits of a seed's 32 name its split, and one function puts them there wherever a map is made or a battle
begins. Different seeds never draw the same 32 bits from the noise at one place (`echelon.runtime.noise` is one to one).
"""

import torch
from torch import Tensor

from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.runtime.noise import mix
from echelon.state import Maps

SPLITS = {"train": 1, "validation": 2, "test": 3}
"""The two highest bits of the seeds of each split; seeds with 0 there belong to none."""
FREE_BITS = 30
"""Bits of a seed below those."""
WORD = (1 << FREE_BITS + 2) - 1


def placed(seeds: Tensor, split: str | None) -> Tensor:
    """Seeds int64 of any shape within the range of a split; those that are there stay, and all without a split."""
    if split is None:
        return seeds
    word = (seeds & WORD) ^ mix(seeds >> 32)
    return (word & (1 << FREE_BITS) - 1) | (SPLITS[split] << FREE_BITS)


def placed_seed(seed: int, split: str | None) -> int:
    """`placed` of one seed."""
    return seed if split is None else int(placed(torch.tensor(seed, device="cpu"), split))


def seed_range(split: str | None) -> tuple[int, int]:
    """Lowest and highest seed of a battle in a split."""
    if split is None:
        return 0, 2**63 - 1
    return SPLITS[split] << FREE_BITS, (SPLITS[split] + 1 << FREE_BITS) - 1


def check_maps(config: EnvConfig, maps: Maps) -> None:
    """Refuse maps, made elsewhere, of another split than the battles'. Reads the host, if there is a split."""
    if config.split is not None and not config.positions:
        foreign = maps.seed[placed(maps.seed, config.split) != maps.seed].tolist()
        require(not foreign, "maps", f"of split {config.split}", f"maps of the seeds {foreign[:5]}")

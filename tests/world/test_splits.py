"""Seeds of different splits are never equal."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.noise import Stream, bits
from echelon.world.pool import pool_seeds
from echelon.world.splits import SPLITS, placed, placed_seed, seed_range

pytestmark = pytest.mark.quick

SEEDS = st.integers(-(2**63), 2**63 - 1)
NAMES = tuple(SPLITS)


@given(st.lists(SEEDS, min_size=1, max_size=20), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_two_splits_have_no_seed_in_common(seeds, one, other):
    seeds = torch.tensor(seeds)
    here, there = placed(seeds, one), placed(seeds.flip(0), other)
    low, high = seed_range(one)
    assert ((here >= low) & (here <= high)).all()
    assert torch.equal(placed(here, one), here), "a seed that is there stays"
    assert placed_seed(int(seeds[0]), one) == int(here[0])
    if one != other:
        assert not torch.isin(here, there).any()


@given(st.integers(0, 2**30 - 1), st.integers(0, 2**30 - 1), st.integers(0, 10**6), st.integers(0, 11))
def test_battles_of_two_splits_use_different_random_numbers(a, b, tick, stream):
    """The hash is a bijection of the seed, so two splits never draw the same 32 bits at a tick, stream and index."""
    drawn = [bits(placed(torch.tensor([n]), name), tick, stream, 8) for n, name in ((a, "train"), (b, "test"))]
    assert (drawn[0] != drawn[1]).all()


@pytest.mark.usual
@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 1000), st.integers(0, 1000))
def test_pools_of_two_splits_have_no_map_in_common(a, b, renewal, other_renewal):
    config = dataclasses.replace(EnvConfig.small(), map_pool=16, map_spares=4)
    pools = [
        pool_seeds(dataclasses.replace(config, map_seed=seed, split=split), torch.device("cpu"), number)
        for seed, split, number in ((a, "train", renewal), (b, "validation", other_renewal))
    ]
    assert not torch.isin(*pools).any()


def test_pool_without_split_has_unchanged_seeds():
    config = dataclasses.replace(EnvConfig.small(), map_seed=7)
    wanted = bits(torch.tensor([7]), 0, Stream.WORLD, 64)[0]
    assert torch.equal(pool_seeds(config, torch.device("cpu")), wanted)
    seeds = torch.tensor([0, 5, 2**40, -3])
    assert placed(seeds, None) is seeds and seed_range(None) == (0, 2**63 - 1)


def test_split_ranges_are_adjacent_in_32_bits():
    ranges = [seed_range(name) for name in NAMES]
    assert ranges == [(2**30, 2**31 - 1), (2**31, 3 * 2**30 - 1), (3 * 2**30, 2**32 - 1)]


def test_there_are_three_splits():
    with pytest.raises(
        ConfigError, match=r"EnvConfig.split must be one of 'train', 'validation', 'test', None, got 'exam'"
    ):
        EnvConfig(split="exam")

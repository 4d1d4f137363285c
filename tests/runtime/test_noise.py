"""Random numbers depend only on seed, tick, stream and index."""

import pytest
import torch

from echelon.runtime.noise import Stream, battle_seeds, bits, mix, normal, uniform

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")
SEEDS = battle_seeds(3, 512, CPU)


def test_mix_is_the_finaliser_of_murmurhash3():
    def finalise(x: int) -> int:
        x = ((x ^ (x >> 16)) * 0x85EBCA6B) % 2**32
        x = ((x ^ (x >> 13)) * 0xC2B2AE35) % 2**32
        return x ^ (x >> 16)

    values = [0, 1, 2, 12345, 2**31, 2**32 - 1]
    assert mix(torch.tensor(values)).tolist() == [finalise(x) for x in values]


@pytest.mark.requirement("R16")
def test_a_battle_draws_the_same_in_any_batch():
    whole = uniform(SEEDS, 17, Stream.PRIORITY, 20)
    alone = uniform(SEEDS[5:6], 17, Stream.PRIORITY, 20)
    assert torch.equal(whole[5:6], alone)
    ticks = torch.arange(512)
    assert torch.equal(uniform(SEEDS, ticks, 4, 20)[9:10], uniform(SEEDS[9:10], 9, 4, 20))


@pytest.mark.parametrize("count", [1, 7])
def test_more_numbers_start_with_the_same_ones(count):
    assert torch.equal(bits(SEEDS, 0, 1, 20)[:, :count], bits(SEEDS, 0, 1, count))


def test_uniforms_fill_the_unit_interval_evenly():
    u = uniform(SEEDS, 0, Stream.BEAM_HEIGHT, 200)
    assert u.dtype == torch.float32 and (u >= 0).all() and (u < 1).all()
    # 102,400 draws: the mean has a standard error of 0.2887 / 320 = 0.0009.
    assert abs(u.mean().item() - 0.5) < 0.004
    share = torch.histc(u, 10, 0, 1) / u.numel()
    assert (share - 0.1).abs().max() < 0.005


def test_seeds_ticks_and_streams_have_different_numbers():
    base = uniform(SEEDS, 4, Stream.PRIORITY, 50).flatten()
    for other in (
        uniform(SEEDS, 5, Stream.PRIORITY, 50),
        uniform(SEEDS, 4, Stream.BEAM_HEIGHT, 50),
        uniform(SEEDS.roll(1), 4, Stream.PRIORITY, 50),
        uniform(SEEDS, 4, Stream.PRIORITY, 51)[:, 1:],
    ):
        # 25,600 independent pairs: |correlation| has a standard error of 1 / 160.
        assert torch.corrcoef(torch.stack((base, other.flatten())))[0, 1].abs() < 0.03


def test_battle_seeds_differ():
    assert SEEDS.unique().numel() == 512
    assert not torch.equal(SEEDS, battle_seeds(4, 512, CPU))
    assert torch.equal(SEEDS[:3], battle_seeds(3, 3, CPU))


def test_normal_numbers_are_normal_and_each_battle_has_its_own():
    seeds = torch.arange(64)
    drawn = normal(seeds, 3, Stream.ACTION, 1000)
    assert abs(drawn.mean()) < 0.02 and abs(drawn.std() - 1) < 0.02 and abs((drawn**4).mean() - 3) < 0.15
    assert torch.equal(normal(seeds[5:6], 3, Stream.ACTION, 1000)[0], drawn[5])
    assert not torch.equal(normal(seeds, 4, Stream.ACTION, 1000), drawn)


BELOW = {
    0: ([720478057, 903704747, 2042929118], [1311284243, 3404867606]),
    1: ([1611378417, 1099323066, 1288749286], [3610059580, 1972080952]),
    12345: ([1226930530, 2851004651, 3484092627], [3477755636, 903853204]),
    2**31 - 1: ([2010616048, 3170578337, 3971169012], [1165676113, 501624791]),
    2**32 - 1: ([2718074709, 1027435461, 2426535016], [2026110085, 3470992242]),
}
"""Recorded draws keyed by seed: three `battle_seeds`, and two `bits` at tick 17 of stream 3."""


@pytest.mark.requirement("R55")
@pytest.mark.parametrize("seed", BELOW)
def test_seed_below_32_bits_depends_on_its_low_word(seed):
    battles, drawn = BELOW[seed]
    assert battle_seeds(seed, 3, CPU).tolist() == battles
    assert bits(torch.tensor([seed]), 17, 3, 2).tolist() == [drawn]


@pytest.mark.requirement("R55")
@pytest.mark.parametrize("high", [1, 2, 5, 2**30, 2**31 - 1, -1, -(2**31)])
def test_both_words_of_a_seed_matter(high):
    low = torch.tensor(list(BELOW))
    seed = low + high * 2**32
    for stream in Stream:
        assert (bits(seed, 3, stream, 8) != bits(low, 3, stream, 8)).any(1).all()
    assert battle_seeds(int(seed[0]), 8, CPU).unique().numel() == 8
    assert not torch.equal(battle_seeds(int(seed[0]), 8, CPU), battle_seeds(int(low[0]), 8, CPU))


def test_high_words_give_different_numbers():
    many = torch.arange(256) * 2**32 + 7
    drawn = uniform(many, 0, Stream.MAP, 200)
    assert bits(many, 0, Stream.MAP, 1).unique().numel() == 256
    correlation = torch.corrcoef(drawn) - torch.eye(256)
    # 32,640 pairs, each with a standard error of 1 / sqrt(200) = 0.07: the largest is below six standard errors.
    assert correlation.abs().max() < 0.42

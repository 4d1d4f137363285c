"""Moments of value targets: consistent, debiased, exact, and restored from files."""

import pytest
import torch
from tiny_runs import TINY

from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import Counters, open_checkpoint
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig

pytestmark = pytest.mark.quick


@pytest.mark.requirement("R36")
def test_normalise_and_denormalise_are_inverse():
    norm = ValueNorm(decay=0.5)
    assert norm.denormalise(torch.tensor(3.0)) == 3.0, "identity before the first update"
    norm.update(torch.tensor([1.0, 5.0]))
    mean, deviation = norm.moments()
    assert (mean, deviation) == (3.0, 2.0)
    x = torch.randn(10)
    torch.testing.assert_close(norm.denormalise(norm.normalise(x)), x)


@pytest.mark.requirement("R36")
def test_std_stays_exact_for_large_mean():
    norm, chance = ValueNorm(), torch.Generator().manual_seed(0)
    for _ in range(200):
        norm.update(10_000 + torch.randn(4096, generator=chance))
    mean, deviation = norm.moments()
    assert abs(mean - 10_000) < 0.05 and abs(deviation - 1) < 0.01
    value = 10_000 + torch.tensor([-2.0, 0.0, 2.0])
    assert norm.normalise(value).dtype == value.dtype and norm.denormalise(value[0]).dtype == value.dtype
    torch.testing.assert_close(norm.normalise(value), torch.tensor([-2.0, 0.0, 2.0]), atol=0.1, rtol=0)
    torch.testing.assert_close(norm.denormalise(norm.normalise(value)), value, atol=2e-3, rtol=0)


@pytest.mark.requirement("R36")
def test_moments_match_hand_computed_weighted_means():
    """Computed by hand: weights 1/8, 1/4 and 1/2 of three updates, divided by their sum."""
    norm, updates = ValueNorm(decay=0.5), ([1.0, 3.0], [5.0, 5.0], [-2.0, 4.0])
    for update in updates:
        norm.update(torch.tensor(update))
    mean = (2 / 8 + 5 / 4 + 1 / 2) / (7 / 8)
    square = (5 / 8 + 25 / 4 + 10 / 2) / (7 / 8)
    found = norm.moments()
    assert abs(found[0] - mean) < 1e-12 and abs(found[1] - (square - mean**2) ** 0.5) < 1e-12


def test_stored_moments_load_bit_for_bit(tmp_path):
    older = {"mean": 0.1 + 2**-30, "square": 3.0, "weight": 0.5}
    for number, claimed in enumerate((older, {name: float(torch.tensor(x)) for name, x in older.items()})):
        norm, path = ValueNorm(), tmp_path / str(number)
        for name, value in claimed.items():
            getattr(norm, name).fill_(value)
        save_checkpoint(path, TINY.build(PolicySpecs(8)), norm, EnvConfig.small(), Counters(1), {})
        loaded = dict(open_checkpoint(path).value_norm().named_buffers())
        assert {name: value.item() for name, value in loaded.items()} == claimed

"""Exact functions: their errors, and equal bits of all their forms."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from echelon.runtime import exact

pytestmark = pytest.mark.quick

COUNT = 200_000
FORMS = {
    "sqrt": lambda x: exact.sqrt(x.abs()),
    "cos_sin": exact.cos_sin,
    "atan2": lambda x: exact.atan2(x, x.flip(0)),
    "log": lambda x: exact.log(x.abs() + 1e-6),
    "log1p": lambda x: exact.log1p(x.abs()),
    "sum of rows": lambda x: exact.sum(x.view(-1, 50, 8), 1),
    "sum of items": lambda x: exact.sum(x.view(-1, 25), -1, keepdim=True),
    "sum of parts": lambda x: exact.sum_parts(x.view(-1, 50, 8), 1, [20, 30]),
    "sum of equal parts": lambda x: exact.sum_parts(x.view(-1, 50), -1, [25, 25]),
    "mean": lambda x: exact.mean(x.view(40, -1), 0),
    "divide": lambda x: exact.divide(x, 0.05),
}


@pytest.fixture(scope="module")
def numbers():
    """Return float32 numbers of all magnitudes and both signs."""
    generator = torch.Generator().manual_seed(0)
    size = 10 ** (torch.rand(COUNT, generator=generator) * 8 - 5)
    return size * (torch.rand(COUNT, generator=generator) * 2 - 1)


def off_by(found: torch.Tensor, true: np.ndarray) -> tuple[int, float]:
    """Return how many of `found` are not the nearest float32, and the largest error in units in the last place."""
    nearest = true.astype(np.float32)
    steps = np.abs(found.double().numpy() - true) / np.spacing(np.abs(nearest))
    return int((found.numpy() != nearest).sum()), float(steps.max())


def test_sqrt_is_correctly_rounded(numbers):
    x = numbers.abs()
    # No root is nearer to the midpoint of two floats than that of the last number.
    hard = torch.tensor([0.0, 1e-45, 1e-38, 9.0, 49.0, 3e38, 4 - 2.0**-22])
    for values in (x, hard):
        assert off_by(exact.sqrt(values), np.sqrt(values.double().numpy()))[0] == 0


@pytest.mark.parametrize("number", [3, 7, 1000, 0.05, 0.3, 2 * math.pi, math.pi / 4, 1e-3, 16_777_213])
def test_divide_is_correctly_rounded(numbers, number):
    """Results equal the division on a CPU. A GPU multiplies by the reciprocal, in float64 and float32."""
    rounded = np.float32(number)
    assert torch.equal(exact.divide(numbers, number), numbers / number)
    assert off_by(exact.divide(numbers, number), numbers.double().numpy() / np.float64(rounded))[0] == 0
    by_reciprocal = (numbers.double() * (1.0 / np.float64(rounded))).float()
    assert torch.equal(by_reciprocal, numbers / number)
    assert torch.equal(exact.divide(numbers, torch.tensor(number)), numbers / number)


def test_angles_and_logarithms_have_the_documented_error(numbers):
    x, y = numbers.double().numpy(), numbers.flip(0).double().numpy()
    cos_sin = exact.cos_sin(numbers)
    pairs = (
        (cos_sin[:, 0], np.cos(x)),
        (cos_sin[:, 1], np.sin(x)),
        (exact.atan2(numbers, numbers.flip(0)), np.arctan2(x, y)),
        (exact.log(numbers.abs()), np.log(np.abs(x))),
        (exact.log1p(numbers.abs()), np.log1p(np.abs(x))),
    )
    for found, true in pairs:
        wrong, steps = off_by(found, true)
        assert wrong <= COUNT // 1000 and steps < 0.51


@pytest.mark.parametrize(("lead", "true"), [(0.0, np.sin), (0.5, np.cos)])
def test_sine_is_accurate_far_from_zero(lead, true):
    x = torch.linspace(-1e6, 1e6, 100_001, dtype=torch.float64)
    assert np.abs(exact.sine_64(x, lead).numpy() - true(x.numpy())).max() < 1e-12


def test_bounds_in_float64(numbers):
    x, y = numbers.double(), numbers.flip(0).double()
    assert (exact.atan2_64(y, x) - torch.from_numpy(np.arctan2(y.numpy(), x.numpy()))).abs().max() < 3e-10
    mantissa, exponent = torch.frexp(x.abs())
    assert (exact.log_64(mantissa, exponent.double()).numpy() - np.log(np.abs(x.numpy()))).max() < 1e-11


def test_axes_and_the_origin():
    y, x = torch.tensor([0.0, 1.0, 0.0, -1.0, 0.0, -0.0]), torch.tensor([1.0, 0.0, -1.0, 0.0, 0.0, -1.0])
    expected = torch.tensor([0.0, math.pi / 2, math.pi, -math.pi / 2, 0.0, math.pi])
    assert torch.equal(exact.atan2(y, x), expected)


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("name", FORMS)
def test_loops_and_torch_give_the_same_bits(monkeypatch, numbers, name):
    looped = FORMS[name](numbers)
    monkeypatch.setattr(exact, "HAS_NUMBA", False)
    by_torch = FORMS[name](numbers)
    assert looped.shape == by_torch.shape and looped.dtype == by_torch.dtype == torch.float32
    assert torch.equal(looped.view(torch.int32), by_torch.view(torch.int32))


@pytest.mark.usual
def test_python_floats_and_tensors_give_the_same_bits(numbers):
    x, y = numbers[:500].double(), numbers[500:1000].double()
    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        assert exact.sine_64(a, 0.5) == exact.sine_64(x, 0.5)[i].item()
        assert exact.atan2_64(a, b) == exact.atan2_64(x, y)[i].item()
        mantissa, exponent = torch.frexp(x[i].abs())
        assert exact.log_64(*map(float, math.frexp(abs(a)))) == exact.log_64(mantissa, exponent.double()).item()


@pytest.mark.long
def test_a_compiled_graph_gives_the_same_bits(numbers):
    names = [name for name in FORMS if "sum" not in name and name != "mean"]
    compiled = torch.compile(lambda x: [FORMS[name](x) for name in names], fullgraph=True, dynamic=False)
    for name, found in zip(names, compiled(numbers), strict=True):
        assert torch.equal(found.view(torch.int32), FORMS[name](numbers).view(torch.int32)), name


@pytest.mark.usual
@given(st.lists(st.floats(-1e5, 1e5, width=32), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_no_order_changes_a_sum(values, random):
    shuffled = random.sample(values, len(values))
    one, other = (exact.sum(torch.tensor(these), 0) for these in (values, shuffled))
    assert one.item() == other.item()
    # Each number is rounded by at most half of 2^-24, and the sum is rounded to float32.
    assert abs(one.item() - math.fsum(values)) <= len(values) * 2.0**-25 + abs(one.item()) * 2.0**-24


def test_integers_and_bools_are_summed():
    flags = torch.tensor([[True, False, True], [False, False, False]])
    assert exact.sum(flags, 1).tolist() == [2, 0] and exact.sum(flags, 1).dtype == torch.int64
    assert exact.sum(flags.int(), 0, keepdim=True).tolist() == [[1, 0, 1]]


def test_views_empty_axes_and_single_numbers(numbers):
    grid = numbers[:1200].view(30, 40)
    assert torch.equal(exact.sum(grid.T, 0), exact.sum(grid, 1))
    assert torch.equal(exact.sum(grid[:, ::2], 1), exact.sum(grid[:, ::2].contiguous(), 1))
    assert exact.sum(torch.zeros(3, 0), 1).tolist() == [0.0] * 3 and exact.sum(torch.zeros(0, 3), 1).shape == (0,)
    assert exact.sqrt(torch.tensor(16.0)).item() == 4.0


@pytest.mark.parametrize("name", FORMS)
def test_fake_and_batched_tensors_pass(numbers, name):
    with FakeTensorMode() as mode:
        assert FORMS[name](mode.from_tensor(numbers)).dtype == torch.float32
    if name != "mean":
        rows = torch.stack((numbers, numbers.flip(0)))
        both = torch.vmap(FORMS[name])(rows)
        assert torch.equal(both, torch.stack([FORMS[name](row) for row in rows]))

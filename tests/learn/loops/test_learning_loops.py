"""What a CPU learns with in loops is what operations of torch give."""

import numpy as np
import pytest
import torch

from echelon.learn.loops import lstm as loops
from echelon.learn.loops.arithmetic import FARTHEST, array, compiled, exponential, halved, uses_loops, widened
from echelon.learn.loops.packing import PackedPool
from echelon.learn.models.lstm import LSTMUnroll, advance, retreat
from echelon.runtime import jit

pytestmark = [pytest.mark.quick, pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")]


@compiled
def _exponentials(x, out):
    for i in range(len(x)):
        out[i] = exponential(x[i])


@compiled
def _round_trip(x, halves, out):
    for i in range(len(x)):
        halves[i] = halved(x[i])
        out[i] = widened(halves[i], True)


def test_the_exponential():
    x = np.linspace(-50, 50, 100_001, dtype=np.float32)
    out = np.empty_like(x)
    _exponentials(x, out)
    exact = np.exp(x.clip(-FARTHEST, FARTHEST).astype(np.float64))
    assert (np.abs(out / exact - 1)).max() < 2e-7
    _exponentials(np.array([np.nan, np.inf], np.float32), out)
    assert np.isnan(out[:2]).all(), "what is no number is noticed"


def test_bfloat16_is_rounded_as_torch_rounds_it():
    x = torch.cat(
        (torch.randn(10_000) * 10 ** torch.empty(10_000).uniform_(-30, 30), torch.tensor([0.0, -0.0, 1.00390625]))
    )
    halves, out = torch.empty_like(x, dtype=torch.bfloat16), torch.empty_like(x)
    _round_trip(array(x), array(halves), array(out))
    assert torch.equal(halves, x.bfloat16()) and torch.equal(out, x.bfloat16().float())
    special = torch.tensor([torch.nan, torch.inf, -torch.inf])
    _round_trip(array(special), array(halves), array(out))
    torch.testing.assert_close(out[:3], special, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_of_an_lstm_and_its_gradient(dtype):
    torch.manual_seed(0)
    gates = (torch.randn(33, 4 * 24) * 3).to(dtype)
    before_c, grad, to_c = torch.randn(3, 33, 24)
    to_h, keep = torch.randn(33, 24).to(dtype), (torch.rand(33, 1) < 0.7).float()
    is_half, sequence = dtype == torch.bfloat16, [array(values[None]) for values in (gates, keep)]
    h, next_h, cells = torch.empty(1, 33, 24), torch.empty(2, 33, 24, dtype=dtype), before_c.repeat(2, 1, 1)
    loops._advance(0, *sequence, is_half, array(next_h), array(cells), array(h))
    to_gates, to_before = torch.empty_like(gates), to_c.clone()
    read = sequence[0], array(before_c[None]), sequence[1], array(grad[None])
    slopes = np.empty((4, 24), np.float32)
    loops._retreat(0, *read, is_half, array(to_h), array(to_before), slopes, array(to_gates[None]))
    for mine, dense in (
        ((h[0], next_h[1], cells[1]), advance(gates, before_c, keep)),
        ((to_gates, to_before), retreat(gates, before_c, keep, grad, to_h, to_c)),
    ):
        for a, b in zip(mine, dense, strict=True):
            assert a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=1e-2 if a.dtype == torch.bfloat16 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_sequence_with_and_without_loops(dtype, monkeypatch):
    torch.manual_seed(0)
    gates, weight = torch.randn(7, 12, 32).to(dtype), torch.randn(32, 8) / 4
    h, c, wanted, keep = (
        torch.randn(12, 8),
        torch.randn(12, 8),
        torch.randn(7, 12, 8),
        (torch.rand(7, 12, 1) < 0.8).float(),
    )
    results = []
    for has_loops in (True, False):
        monkeypatch.setattr(jit, "HAS_LOOPS", has_loops)
        assert uses_loops(gates) == has_loops
        leaves = gates.clone().requires_grad_(), weight.clone().requires_grad_()
        out = LSTMUnroll.apply(*leaves, h, c, keep)
        results.append((out.detach(), *torch.autograd.grad((out * wanted).sum(), leaves)))
    for mine, dense in zip(*results, strict=True):
        torch.testing.assert_close(mine, dense, rtol=2e-2, atol=5e-2 if dtype == torch.bfloat16 else 1e-5)


def test_what_loops_do_not_compute():
    plain = torch.ones(2, 2)
    assert uses_loops(plain, plain.bfloat16())
    assert not uses_loops(plain, plain.double())
    assert not uses_loops(plain.to("meta"))
    batched = []
    torch.vmap(lambda x: batched.append(uses_loops(x)) or x)(plain)
    assert batched == [False]


def test_a_pool_of_bfloat16_is_that_of_float32():
    torch.manual_seed(0)
    x, weight = torch.randn(100, 16).bfloat16(), torch.randn(40, 32)
    ends = torch.randint(0, 95, (40,)).sort().values  # the last rows belong to no set
    pools = []
    for members in (x.requires_grad_(), x.detach().float().requires_grad_()):
        out = PackedPool.apply(members, ends)
        pools.append((out.detach(), torch.autograd.grad((out * weight).sum(), members)[0].bfloat16()))
    assert torch.equal(pools[0][0], pools[1][0]) and torch.equal(pools[0][1], pools[1][1])
    assert (pools[0][1][95:] == 0).all()

"""Loops of learning on a CPU match torch's operations."""

import math

import numpy as np
import pytest
import torch

from echelon.learn.loops import lstm as loops
from echelon.learn.loops.arithmetic import (
    FARTHEST,
    array,
    compiled,
    exponential,
    halved,
    logarithm,
    uses_loops,
    widened,
)
from echelon.learn.loops.distribution import log_tails
from echelon.learn.loops.packing import PackedPool
from echelon.learn.models.distribution import ActionDistribution
from echelon.learn.models.encoder import GridEncoder, rectified
from echelon.learn.models.lstm import LSTM, advance, retreat
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


@compiled
def _logarithms(x, out):
    for i in range(len(x)):
        out[i] = logarithm(x[i])


@compiled
def _tails(x, out):
    for i in range(len(x)):
        out[0, i], out[1, i], out[2, i] = log_tails(x[i])


def test_exponential_matches_float64():
    x = np.linspace(-50, 50, 100_001, dtype=np.float32)
    out = np.empty_like(x)
    _exponentials(x, out)
    exact = np.exp(x.clip(-FARTHEST, FARTHEST).astype(np.float64))
    assert (np.abs(out / exact - 1)).max() < 2e-7
    _exponentials(np.array([np.nan, np.inf], np.float32), out)
    assert np.isnan(out[:2]).all(), "NaN stays NaN"


def test_bfloat16_rounding_matches_torch():
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
def test_lstm_step_and_gradient_match_dense_form(dtype):
    torch.manual_seed(0)
    from_entered, bias = (torch.randn(33, 4 * 24) * 3).to(dtype), torch.randn(4 * 24)
    gates = (from_entered.float() + bias).to(dtype)
    before_c, grad, to_c = torch.randn(3, 33, 24)
    to_h, keep = torch.randn(33, 24).to(dtype), (torch.rand(33, 1) < 0.7).float()
    is_half, entered = dtype == torch.bfloat16, torch.zeros(2, 33, 7 + 24, dtype=dtype)
    h, cells, inside = torch.empty(1, 33, 24), before_c.repeat(2, 1, 1), array(from_entered[None])
    loops._advance(0, inside, array(bias), array(keep[None]), is_half, array(entered), array(cells), array(h))
    assert torch.equal(from_entered, gates), "the bias is added to the gates in place"
    to_gates, to_before, to_entered = torch.empty_like(gates), to_c.clone(), torch.zeros_like(entered)
    to_entered[1, :, 7:] = to_h
    read = array(gates[None]), array(before_c[None]), array(keep[None]), array(grad[None])
    slopes = np.empty((5, 24), np.float32)
    loops._retreat(0, *read, is_half, array(to_entered), array(to_before), slopes, array(to_gates[None]))
    assert not entered[:, :, :7].any() and not entered[0].any(), "features are unchanged"
    for mine, dense in (
        ((h[0], entered[1, :, 7:], cells[1]), advance(gates, before_c, keep)),
        ((to_gates, to_before), retreat(gates, before_c, keep, grad, to_h, to_c)),
    ):
        for a, b in zip(mine, dense, strict=True):
            assert a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=1e-2 if a.dtype == torch.bfloat16 else 1e-5, atol=1e-5)


def with_and_without_loops(monkeypatch, dtype: torch.dtype, run, *leaves: torch.Tensor):
    """Return the result of `run` and its gradients with respect to `leaves`, in loops and in the dense form."""
    results, weight = [], None
    for has_loops in (True, False):
        monkeypatch.setattr(jit, "HAS_LOOPS", has_loops)
        assert uses_loops(*leaves) == has_loops
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            out = run(*leaves)
        weight = torch.randn_like(out, dtype=torch.float32) if weight is None else weight
        gradients = torch.autograd.grad((out.float() * weight).sum(), [leaf for leaf in leaves if leaf.requires_grad])
        results.append((out.detach(), *gradients))
    return zip(*results, strict=True)


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(shape).requires_grad_()


HALF = {"rtol": 2e-2, "atol": 5e-2}
"""Tolerance for bfloat16, which the two forms round at different points."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lstm_sequence_loops_match_dense_form(dtype, monkeypatch):
    torch.manual_seed(0)
    lstm, keep = LSTM(11, 8), (torch.rand(7, 12, 1) < 0.8).float()
    h, c, features = torch.randn(12, 8), torch.randn(12, 8), leaf(7, 12, 11)
    torch.nn.init.normal_(lstm.from_input.bias)

    def unrolled(features: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return lstm.unroll(features, {"h": h, "c": c}, keep)

    leaves = features, *lstm.parameters()
    for mine, dense in with_and_without_loops(monkeypatch, dtype, unrolled, *leaves):
        limits = HALF if dtype == torch.bfloat16 else {"rtol": 2e-2, "atol": 1e-5}
        torch.testing.assert_close(mine, dense, **limits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dense_relu_loops_match_dense_form(dtype, monkeypatch):
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(9, 14), leaf(33, 9)
    leaves = x, *layer.parameters()
    for mine, dense in with_and_without_loops(monkeypatch, dtype, lambda x, *_: rectified(layer, x), *leaves):
        assert mine.dtype == dense.dtype and (mine == 0).any() == (dense == 0).any()
        torch.testing.assert_close(mine, dense, **(HALF if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}))
    spoilt = torch.full((2, 9), torch.nan)
    assert rectified(layer, spoilt).isnan().all(), "NaN stays NaN"


@pytest.mark.parametrize("cells", [11, 16])
def test_convolution_loops_match_dense_form(cells, monkeypatch):
    torch.manual_seed(0)
    encoder, grid = GridEncoder(cells, 6), torch.randn(5, cells, cells)
    torch.nn.init.normal_(encoder.bias)
    leaves = list(encoder.parameters())
    for mine, dense in with_and_without_loops(monkeypatch, torch.float32, lambda *_: encoder(grid), *leaves):
        torch.testing.assert_close(mine, dense, rtol=1e-5, atol=2e-5)
    assert grid.requires_grad_() is grid and torch.autograd.grad(encoder(grid).sum(), grid)[0].any()


@pytest.mark.parametrize("method", ["log_prob", "entropies"])
def test_distribution_loops_match_dense_form(method, monkeypatch):
    """Time is first in memory, as in a minibatch. Covers every reading of a trigger and actions far from the mean."""
    torch.manual_seed(0)
    loc, scale = torch.randn(20, 6, 5, 26).transpose(0, 1), (torch.rand(6, 20, 5, 26) * 1.4 + 0.05)
    u = (loc + scale * torch.randn(loc.shape)).transpose(0, 1).contiguous().transpose(0, 1)
    u[0, 0] += 4.0
    u[1, 0] -= 4.0
    leaves = loc.requires_grad_(), scale.requires_grad_()

    def law(loc: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        distribution = ActionDistribution(loc, scale)
        return distribution.log_prob(u) if method == "log_prob" else distribution.entropies()

    for mine, dense in with_and_without_loops(monkeypatch, torch.float32, law, *leaves):
        torch.testing.assert_close(mine, dense, rtol=2e-5, atol=2e-5)
    wide = [values.double() for values in leaves]
    exact = law(*wide) if method == "entropies" else ActionDistribution(*wide).log_prob(u.double())
    monkeypatch.setattr(jit, "HAS_LOOPS", True)
    torch.testing.assert_close(law(*leaves).double(), exact, rtol=1e-6, atol=1e-5)


def test_logarithm_and_normal_tails_match_float64():
    x = np.exp(np.linspace(-80, 80, 100_001)).astype(np.float32)
    out = np.empty((4, len(x)), np.float32)
    _logarithms(x, out[0])
    exact = np.log(x.astype(np.float64))
    assert (np.abs(out[0] - exact) / np.maximum(np.abs(exact), 1)).max() < 2e-7
    _logarithms(np.array([np.nan, np.inf], np.float32), out[0])
    assert np.isnan(out[0, :2]).all()
    z = torch.linspace(-12, 12, 10_001)
    _tails(z.numpy(), out)
    held, released = torch.special.log_ndtr(z.double()), torch.special.log_ndtr(-z.double())
    ratio = (-(z.double() ** 2) / 2 - math.log(2 * math.pi) / 2 - held).exp()
    for found, exact in zip(out[:3, : len(z)], (held, released, ratio), strict=True):
        torch.testing.assert_close(torch.from_numpy(found).double(), exact, rtol=2e-6, atol=1e-6)


def test_loops_are_not_used_for_other_dtypes_and_vmap():
    plain = torch.ones(2, 2)
    assert uses_loops(plain, plain.bfloat16())
    assert not uses_loops(plain, plain.double())
    assert not uses_loops(plain.to("meta"))
    batched = []
    torch.vmap(lambda x: batched.append(uses_loops(x)) or x)(plain)
    assert batched == [False]


def test_bfloat16_pool_equals_float32_pool():
    torch.manual_seed(0)
    x, weight = torch.randn(100, 16).bfloat16(), torch.randn(40, 32)
    ends = torch.randint(0, 95, (40,)).sort().values  # the last rows are padding
    pools = []
    for members in (x.requires_grad_(), x.detach().float().requires_grad_()):
        out = PackedPool.apply(members, ends)
        pools.append((out.detach(), torch.autograd.grad((out * weight).sum(), members)[0].bfloat16()))
    assert torch.equal(pools[0][0], pools[1][0]) and torch.equal(pools[0][1], pools[1][1])
    assert (pools[0][1][95:] == 0).all()

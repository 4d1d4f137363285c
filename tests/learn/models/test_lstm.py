"""LSTM memory: unroll equals steps, and its gradient is correct."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from echelon.learn.models.lstm import FORGET_BIAS, LSTM, LSTMUnroll, gate_activations, tanh
from echelon.runtime import jit

pytestmark = pytest.mark.quick


def scene(length: int = 7, rows: int = 4, width: int = 6, hidden: int = 5, dtype: torch.dtype = torch.float32):
    torch.manual_seed(0)
    lstm = LSTM(width, hidden).to(dtype)
    features = torch.randn(length, rows, width, dtype=dtype)
    h, c = torch.randn(2, rows, hidden, dtype=dtype)
    keep = (torch.rand(length, rows, 1) > 0.3).to(dtype)
    return lstm, features, h, c, keep


@pytest.mark.requirement("R40")
def test_unroll_equals_steps_with_resets():
    lstm, features, h, c, keep = scene()
    whole = lstm.unroll(features, {"h": h, "c": c}, keep)
    for t in range(len(features)):
        embed, state = lstm.step(features[t], {"h": h * keep[t], "c": c * keep[t]})
        h, c = state["h"], state["c"]
        torch.testing.assert_close(whole[t], embed)


@pytest.mark.requirement("R40")
def test_lstm_matches_torch():
    lstm, features, h, c, keep = scene()
    theirs = torch.nn.LSTM(6, 5)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(lstm.from_input.weight)
        theirs.weight_hh_l0.copy_(lstm.from_hidden.weight)
        theirs.bias_ih_l0.copy_(lstm.from_input.bias)
        theirs.bias_hh_l0.zero_()
    expected, _ = theirs(features, (h[None], c[None]))
    torch.testing.assert_close(
        lstm.unroll(features, {"h": h, "c": c}, torch.ones_like(keep)), expected, atol=1e-6, rtol=1e-5
    )


@pytest.mark.requirement("R40")
def test_handwritten_gradient_matches_autograd():
    lstm, features, h, c, keep = scene()
    gates = lstm.from_input(features).detach().requires_grad_()
    weight = lstm.from_hidden.weight.detach().clone().requires_grad_()
    wanted = torch.randn(7, 4, 5)

    def stepped() -> torch.Tensor:
        a, b, out = h, c, []
        for t in range(len(gates)):
            i, f, g, o = gate_activations(gates[t] + (a * keep[t]) @ weight.T)
            b = f * b * keep[t] + i * g
            a = o * b.tanh()
            out.append(a)
        return torch.stack(out)

    ours, theirs = (
        torch.autograd.grad((out * wanted).sum(), (gates, weight))
        for out in (LSTMUnroll.apply(gates, weight, h, c, keep), stepped())
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.requirement("R17", "R33")
def test_no_gradient_across_resets_or_into_stored_state():
    lstm, features, h, c, keep = scene()
    features.requires_grad_()
    h.requires_grad_()
    keep = torch.ones_like(keep)
    keep[4] = 0
    lstm.unroll(features, {"h": h, "c": c}, keep)[4:].sum().backward()
    assert features.grad[:4].abs().max() == 0 and features.grad[4:].abs().min() > 0
    assert h.grad is None


@pytest.mark.requirement("R46")
def test_initial_forget_bias_and_orthogonal_weights():
    lstm = LSTM(6, 5)
    assert [g.unique().item() for g in lstm.from_input.bias.split(5)] == [0.0, FORGET_BIAS, 0.0, 0.0]
    for gate in lstm.from_hidden.weight.split(5):
        torch.testing.assert_close(gate @ gate.T, torch.eye(5), atol=1e-5, rtol=0)


def test_tanh_by_sigmoid_matches_torch():
    x = torch.linspace(-20, 20, 10_001)
    assert (tanh(x) - x.tanh()).abs().max() < 2e-7


class Counted(TorchDispatchMode):
    """Counts executed operations, including those of the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.operations += 1
        return operation(*args, **(kwargs or {}))


@pytest.mark.requirement("R40")
@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
def test_unroll_takes_fewer_operations_than_steps():
    lstm, features, h, c, keep = scene(16, 80, 128, 128)

    def counted(run) -> int:
        with torch.autocast("cpu", torch.bfloat16), Counted() as mode:
            run()
        return mode.operations

    def stepped() -> None:
        a, b, total_loss = h, c, 0.0
        for t in range(len(features)):
            _, state = lstm.step(features[t], {"h": a * keep[t], "c": b * keep[t]})
            a, b = state["h"], state["c"]
            total_loss = total_loss + a.sum()
        total_loss.backward()

    one, many = counted(lambda: lstm.unroll(features, {"h": h, "c": c}, keep).sum().backward()), counted(stepped)
    assert one < 0.8 * many, (one, many)

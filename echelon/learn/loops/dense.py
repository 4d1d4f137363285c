"""Linear layer with ReLU on a CPU: one loop adds the bias and applies ReLU after the matrix product, another loop
computes the gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from echelon.learn.loops.arithmetic import ZERO, array, compiled, halved, product_dtype, widened


@compiled
def rectify(x: Any, bias: Any, is_half: bool) -> None:
    """Write ReLU(x + bias) to `x [R, W]` in place; the shape of `bias` is `[W]`."""
    for row in range(x.shape[0]):
        for w in range(x.shape[1]):
            value = max(widened(x[row, w], is_half) + bias[w], ZERO)
            if is_half:
                x[row, w] = halved(value)
            else:
                x[row, w] = value


@compiled
def rectify_back(grad: Any, out: Any, is_half: bool, to: Any, to_bias: Any) -> None:
    """Compute the gradients of `rectify` from `grad`, the gradient with respect to its result `out`. Write the gradient
    with respect to x to `to [R, W]`, and add the gradient with respect to bias to `to_bias [W]`.
    """
    for row in range(out.shape[0]):
        for w in range(out.shape[1]):
            to[row, w] = grad[row, w] if out[row, w] > 0 else 0
        for w in range(out.shape[1]):
            to_bias[w] += widened(to[row, w], is_half)


class DenseReLU(torch.autograd.Function):
    """ReLU of a linear layer."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return `[R, W]`, in the dtype of the matrix product, from `x [R, F]`, `weight [W, F]` and `bias [W]`."""
        dtype = product_dtype(x)
        x, own = x.detach().to(dtype), weight.detach().to(dtype)
        out = x @ own.t()
        rectify(array(out), array(bias), dtype == torch.bfloat16)
        ctx.save_for_backward(x, own, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return the gradients with respect to all three inputs."""
        x, weight, out = ctx.saved_tensors
        gated, to_bias = torch.empty_like(out), torch.zeros(out.shape[1], dtype=torch.float32, device="cpu")
        read = array(grad.to(out.dtype).contiguous()), array(out)
        rectify_back(*read, out.dtype == torch.bfloat16, array(gated), array(to_bias))
        return gated @ weight if ctx.needs_input_grad[0] else None, (gated.t() @ x).float(), to_bias

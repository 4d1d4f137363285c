"""float32 functions for loops that a CPU vectorises, and bfloat16 conversions, which numba lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.runtime import jit
from echelon.runtime.loop_cache import compile_and_keep

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
FARTHEST = np.float32(43.0)
"""Largest argument of `exponential`, chosen so that the product of two results is finite."""
TO_WHOLE = np.float32(1.5 * 2.0**23)
"""Adding and subtracting this constant rounds a float32 to a whole number."""
PER_LN_2, LN_2_HIGH, LN_2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
EXPONENTIAL = tuple(
    np.float32(c) for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1)
)
"""Coefficients of (e^r - 1 - r - r^2 / 2) / r^3 in powers of r, highest power first (Cephes, `expf`)."""
# `contract` permits fused multiply-add, so results differ by processor; losses and gradients do so anyway.
_OPTIONS: dict[str, Any] = {**jit.OPTIONS, "fastmath": {"contract"}}


def compiled(loop: Any) -> Any:
    """Decorator that compiles a loop function of the learner. Without numba, the function stays unchanged and is never
    called.
    """
    return compile_and_keep(loop, nogil=True, **_OPTIONS) if jit.HAS_LOOPS else loop


def uses_loops(*values: Tensor) -> bool:
    """Return whether numba loops process these tensors: all are float32 or bfloat16 on a CPU, and none is traced or
    under `torch.vmap`.
    """
    if not jit.HAS_LOOPS or torch.compiler.is_compiling():
        return False
    return all(
        value.device.type == "cpu"
        and value.dtype in (torch.float32, torch.bfloat16)
        and not torch._C._functorch.is_functorch_wrapped_tensor(value)
        for value in values
    )


def product_dtype(values: Tensor) -> torch.dtype:
    """Return the dtype of matrix products with `values`: autocast's dtype if autocast is on, else that of `values`."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else values.dtype


def array(values: Tensor) -> np.ndarray:
    """Return a NumPy array that shares the memory of a contiguous tensor; bfloat16 is viewed as int16."""
    values = values.detach()
    return (values.view(torch.int16) if values.dtype == torch.bfloat16 else values).numpy()


@jit.device_function
def widened(value: Any, is_half: bool) -> Any:
    """Convert an element of an array, as returned by `array`, to float32; `is_half` is True if the array holds
    bfloat16.
    """
    return np.int32(np.int32(value) << np.int32(16)).view(np.float32) if is_half else np.float32(value)


@jit.device_function
def halved(value: Any) -> Any:
    """Convert a float32 to the bits of a bfloat16, rounded to nearest, ties to even."""
    bits = np.float32(value).view(np.int32)
    return np.int16((bits + np.int32(0x7FFF) + ((bits >> np.int32(16)) & np.int32(1))) >> np.int32(16))


@jit.device_function
def polynomial(coefficients: Any, x: Any) -> Any:
    """Evaluate a polynomial in x by Horner's rule; `coefficients` start with the highest power; all float32."""
    total = coefficients[0]
    for i in range(1, len(coefficients)):
        total = total * x + coefficients[i]
    return total


@jit.device_function
def exponential(x: Any) -> Any:
    """Compute e^x of a float32 with a relative error of at most 2e-7; x is clamped to +-`FARTHEST`."""
    clamped = min(max(x, -FARTHEST), FARTHEST)
    power = (clamped * PER_LN_2 + TO_WHOLE) - TO_WHOLE
    # NaN stays NaN.
    r = ((clamped + (x - x)) - power * LN_2_HIGH) - power * LN_2_LOW
    p = polynomial(EXPONENTIAL, r) * r + np.float32(0.5)
    return (p * r * r + r + ONE) * np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)


LOGARITHM = tuple(
    np.float32(c)
    for c in (
        *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
        *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
    )
)
"""Coefficients of (log(1 + r) - r + r^2 / 2) / r^3 in powers of r, highest power first (Cephes, `logf`)."""
SQRT_HALF_BITS = np.int32(0x3F3504F3)
"""Bits of sqrt(1/2) as float32."""


@jit.device_function
def logarithm(x: Any) -> Any:
    """Compute log(x) of a float32 above 1e-37. The error is at most 2e-7, and relative to the result if
    |log(x)| > 1.
    """
    bits = np.float32(x).view(np.int32)
    power = (bits - SQRT_HALF_BITS) >> np.int32(23)
    # If x is infinite or NaN, x - x is NaN, and so is the result.
    r = (np.int32(bits - (power << np.int32(23))).view(np.float32) - ONE) + (x - x)
    p = polynomial(LOGARITHM, r)
    square, n = r * r, np.float32(power)
    return n * LN_2_HIGH + (r + (p * r * square + n * LN_2_LOW - np.float32(0.5) * square))

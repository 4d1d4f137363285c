"""Functions that give the same bits on every processor, for everything that a battle is made of.

Torch hands square roots, sines and logarithms to a library of the processor's vendor, which answers differently from
chip to chip, and it adds numbers up in an order that follows the width of the chip's registers. Here they are made of
what IEEE 754 defines to the last bit: + - * / and the square root, comparisons, and the rounding of float64 to float32.
`tests/test_architecture.py` keeps any other use of such functions out of the rooms whose numbers must repeat.

The functions whose names end in `_64` take and return float64: Python's floats, tensors, and the scalars of a loop that
numba compiles alike. So they neither branch nor call another function. The others take float32 tensors of any shape and
return float32: on a CPU by a loop over those, elsewhere and in a compiled graph by operations of torch, with the same
bits, but for the sums of a graph that is compiled for a CPU. They work in float64, and what little they are off by is
lost in the rounding, but for about one result in ten thousand that becomes a neighbouring float32. Nothing here is
differentiable.
"""

import logging
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from echelon.runtime.errors import one_line


def compiles() -> bool:
    """Whether numba is there and compiles. Where it is installed and does not, one line says why."""
    try:
        import numba
    except ModuleNotFoundError as error:
        reason = "" if error.name == "numba" else str(error)
    except Exception as error:  # of a numba that does not fit this NumPy, or whose libraries are missing
        reason = f"{type(error).__name__}: {error}"
    else:
        settings: Any = numba.config
        if not settings.DISABLE_JIT:
            return True
        reason = "NUMBA_DISABLE_JIT is set"
    if reason:
        logging.getLogger(__name__).warning("numba compiles nothing, battles run slower: %s", one_line(reason))
    return False


HAS_NUMBA = compiles()
"""Whether numba's loops run; else the dense form does, with the same results."""
Float64 = TypeVar("Float64", Tensor, float)

HALF_PI, PI, LN_2, SQRT_HALF = math.pi / 2, math.pi, 0.6931471805599453, 0.7071067811865476
PER_PI = 0.3183098861837907
PI_HIGH, PI_LOW = 3.1415926534682512, 1.2154201013012384e-10
"""Pi as a sum (Cody & Waite 1980). Whole multiples of the first part are exact up to 2^21."""
ARC_TANGENT = (
    *(-0.0009362994719496015, 0.00620725453378005, -0.019261081322765883, 0.038327445983064846, -0.05760716083128117),
    *(0.0741749696430051, -0.09036742342070782, 0.1110470678864422, -0.14285317963907304, 0.19999990275947271),
    -0.33333333293301176,
)
"""Coefficients of (atan(t) / t - 1) / t^2 in powers of t^2, the highest first."""
TO_WHOLE = 1.5 * 2.0**52
"""Added and subtracted again, it leaves a float64 rounded to a whole number."""
TO_GRID = 1.5 * 2.0**28
"""The same to a multiple of 2^-24, for numbers below 2^27."""


def sine_64(x: Float64, lead: float) -> Float64:
    """The sine of `x + lead * pi`, for a lead of 0 (the sine) or 0.5 (the cosine). Off by at most 1e-12 to |x| = 1e6.

    x is brought within a quarter turn of 0, where a polynomial of degree 13 stands for the sine.
    """
    half_turns = (x * PER_PI + lead + TO_WHOLE) - TO_WHOLE
    x = (x - (half_turns - lead) * PI_HIGH) - (half_turns - lead) * PI_LOW
    odd = half_turns - 2 * ((half_turns * 0.5 + TO_WHOLE) - TO_WHOLE)  # -1, 0 or 1
    s = x * x
    p = 1.5502454316596913e-10 * s - 2.503674197012488e-08
    p = p * s + 2.7557123116044156e-06
    p = p * s - 0.00019841268708606193
    p = p * s + 0.008333333330939175
    p = p * s - 0.1666666666665846
    return (1 - 2 * odd * odd) * (x + x * s * p)


def atan2_64(y: Float64, x: Float64) -> Float64:
    """The angle of the point (x, y), -pi..pi, off by at most 3e-10; 0 at the origin, whatever the sign of a zero.

    A polynomial of degree 23 stands for the arc tangent of the smaller over the larger side. Both must be finite.
    """
    steep, is_left, below = (abs(y) > abs(x)) * 1.0, (x < 0) * 1.0, (y < 0) * 1.0
    # Sums with 0 and 1 choose without a branch: whatever is multiplied by 0 adds nothing.
    longer = steep * abs(y) + (1 - steep) * abs(x)
    t = (steep * abs(x) + (1 - steep) * abs(y)) / (longer + (longer == 0))
    s = t * t
    p = ARC_TANGENT[0] * s + ARC_TANGENT[1]
    for coefficient in ARC_TANGENT[2:]:
        p = p * s + coefficient
    angle = t + t * s * p
    angle = steep * (HALF_PI - angle) + (1 - steep) * angle
    angle = is_left * (PI - angle) + (1 - is_left) * angle
    return (1 - 2 * below) * angle


def log_64(mantissa: Float64, exponent: Float64) -> Float64:
    """The natural logarithm of `mantissa * 2^exponent`, as `frexp` parts a positive number, off by at most 1e-11.

    A polynomial in (m - 1) / (m + 1), with m within sqrt(1/2) .. sqrt(2).
    """
    is_low = (mantissa < SQRT_HALF) * 1.0
    m = mantissa + is_low * mantissa
    z = (m - 1) / (m + 1)
    s = z * z
    p = 0.233316144718435 * s + 0.28550778633191964
    p = p * s + 0.4000012221181065
    p = p * s + 0.6666666655404201
    return (exponent - is_low) * LN_2 + (2 * z + z * s * p)


if HAS_NUMBA:
    from functools import partial

    import numba
    import numpy as np

    from echelon.runtime.loop_cache import compile_and_keep

    _compiled: Any = partial(compile_and_keep, nogil=True)
    _compiled_numpy: Any = partial(compile_and_keep, nogil=True, error_model="numpy")
    _sine: Any = numba.njit(inline="always", error_model="numpy")(sine_64)
    _atan2: Any = numba.njit(inline="always", error_model="numpy")(atan2_64)

    @_compiled
    def _sqrt_each(values: Any, into: Any) -> None:
        for i in range(values.shape[0]):
            into[i] = math.sqrt(values[i])

    @_compiled_numpy
    def _cos_sin_each(angle: Any, into: Any) -> None:
        for i in range(angle.shape[0]):
            into[2 * i] = _sine(float(angle[i]), 0.5)
            into[2 * i + 1] = _sine(float(angle[i]), 0.0)

    @_compiled_numpy
    def _atan2_each(y: Any, x: Any, into: Any) -> None:
        for i in range(y.shape[0]):
            into[i] = _atan2(float(y[i]), float(x[i]))

    @_compiled
    def _sum_rows(values: Any, total: Any, into: Any) -> None:
        """Sums over the middle axis of three; `total` is room for a row of float64."""
        for row in range(values.shape[0]):
            for i in range(values.shape[2]):
                total[i] = 0.0
            for item in range(values.shape[1]):
                for i in range(values.shape[2]):
                    total[i] += (values[row, item, i] + TO_GRID) - TO_GRID
            for i in range(values.shape[2]):
                into[row, i] = total[i]

    @_compiled
    def _sum_items(values: Any, into: Any) -> None:
        """Sums over the last axis of two. Two sums at a time, because an addition waits for the one before it."""
        for row in range(values.shape[0]):
            even, odd = 0.0, 0.0
            for item in range(0, values.shape[1] - 1, 2):
                even += (values[row, item] + TO_GRID) - TO_GRID
                odd += (values[row, item + 1] + TO_GRID) - TO_GRID
            if values.shape[1] % 2:
                even += (values[row, -1] + TO_GRID) - TO_GRID
            into[row] = even + odd


def _has_loops(values: Tensor) -> bool:
    """Whether these are plain numbers of a CPU: neither traced, nor fake, nor batched by `torch.vmap`."""
    if not HAS_NUMBA or torch.compiler.is_compiling() or type(values) is not Tensor:
        return False
    return values.device.type == "cpu" and not torch._C._functorch.is_functorch_wrapped_tensor(values)


def _each(loop: Any, *values: Tensor, width: tuple[int, ...] = ()) -> Tensor:
    """`[..., *width]` what a loop makes of each of `values [...]`."""
    shape = (*values[0].shape, *width)
    out = np.empty(shape, np.float32)
    loop(*(value.detach().numpy().reshape(-1) for value in values), out.reshape(-1))
    return torch.from_numpy(out)


def _sum_in_loops(values: Tensor, dim: int) -> Tensor:
    dim %= values.dim()
    outer, inner = values.shape[:dim], values.shape[dim + 1 :]
    out = np.empty((*outer, *inner), np.float32)
    rows = values.detach().numpy().reshape(outer.numel(), values.shape[dim], inner.numel())
    if inner.numel() == 1:
        _sum_items(rows[..., 0], out.reshape(-1))
    else:
        _sum_rows(rows, np.empty(inner.numel()), out.reshape(rows.shape[0], -1))
    return torch.from_numpy(out)


def sqrt(values: Tensor) -> Tensor:
    """Square root of `values` >= 0, correctly rounded."""
    if _has_loops(values):
        return _each(_sqrt_each, values)
    # Not by torch on a CPU outside a graph. In a graph it is the processor's own instruction, and so it is on a GPU.
    if values.device.type == "cpu" and not torch.compiler.is_compiling():
        exact = values.double()
        # 1 / sqrt(x) is two roundings and the product a third, of 2^-53 each: three quarters of what could matter, as
        # the root of a float32 stays 2^-51 of itself away from the middle of two neighbours.
        return (exact * exact.clamp_min(1e-300).rsqrt()).float()
    return values.sqrt()


def cos_sin(angle_rad: Tensor) -> Tensor:
    """`[..., 2]` cosine and sine of angles `[...]` to 1e6 rad."""
    if _has_loops(angle_rad):
        return _each(_cos_sin_each, angle_rad, width=(2,))
    angle = angle_rad.double()
    return torch.stack((sine_64(angle, 0.5), sine_64(angle, 0.0)), -1).float()


def atan2(y: Tensor, x: Tensor) -> Tensor:
    """The angle of the points (x, y), -pi..pi; 0 at the origin, whatever the sign of a zero. Both of one shape."""
    if _has_loops(y):
        return _each(_atan2_each, y, x)
    return atan2_64(y.double(), x.double()).float()


def log(values: Tensor) -> Tensor:
    """Natural logarithm of `values` > 0."""
    mantissa, exponent = torch.frexp(values)
    return log_64(mantissa.double(), exponent.float().double()).float()


def log1p(values: Tensor) -> Tensor:
    """log(1 + x) of `values` >= 0, near zero as precise as far away."""
    x = values.double()
    above = (1 + x).float()
    mantissa, exponent = torch.frexp(above)
    # What rounding took from 1 + x is given back: log(1 + d) is d - d^2 / 2 for d below 2^-24.
    d = (x - (above.double() - 1)) / above
    return (log_64(mantissa.double(), exponent.float().double()) + (d - 0.5 * d * d)).float()


def sum(values: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """The sum along `dim`, which no order of the additions changes.

    Floats are first rounded to multiples of 2^-24, 6e-8. Float64 adds up such numbers without any rounding, as long as
    the sum stays below 2^28, 2.7e8. Whole numbers and flags are counted in int64.

    A graph compiled for a CPU adds float32 up in an order of its own: in float64 the harm of shots took half as long
    again. This is what parts its battles from others.
    """
    is_graph_of_cpu = torch.compiler.is_compiling() and values.device.type == "cpu"
    if not values.is_floating_point() or is_graph_of_cpu:
        return values.sum(dim, keepdim)
    if _has_loops(values):
        total = _sum_in_loops(values, dim)
        return total.unsqueeze(dim) if keepdim else total
    return ((values.double() + TO_GRID) - TO_GRID).sum(dim, keepdim).float()


def sum_parts(values: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """`sum` of each of some consecutive parts of `dim`, which becomes as long as there are parts."""
    if len(set(sizes)) == 1:
        return sum(values.unflatten(dim, (len(sizes), sizes[0])), dim + 1 if dim >= 0 else dim)
    return torch.stack([sum(part, dim) for part in values.split(sizes, dim)], dim)


def divide(values: Tensor, number: float | Tensor) -> Tensor:
    """float32 `values / number`, correctly rounded, also where the number is one of Python's.

    By such a number torch on a GPU, and Inductor for one, multiply by `1 / number` instead, which is off by a last bit.
    In float64 that does not matter: a quotient of two float32 stays 2^-50 of itself away from the middle of two
    neighbours.
    """
    if isinstance(number, Tensor):
        return values / number
    scaled = number * (2.0**29 + 1)  # Veltkamp 1968: leaves the upper 24 bits
    return (values.double() / (scaled - (scaled - number))).float()


def mean(values: Tensor, dim: int) -> Tensor:
    """The mean of floats along `dim`, from `sum`."""
    return divide(sum(values, dim), values.shape[dim])

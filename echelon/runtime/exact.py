"""Functions with the same bits on every processor, for all arithmetic of battles.

torch computes square roots, sines and logarithms with vendor libraries, whose results differ between processors. The
sums of torch depend on the width of the vector registers. The functions here use only operations that IEEE 754 defines
exactly: + - * / and the square root, comparisons, and the rounding of float64 to float32. `tests/test_architecture.py`
forbids the functions of torch in all packages that battles depend on.

Functions whose names end in `_64` take and return float64, as Python floats, tensors, or scalars in numba loops.
Therefore these functions have no branches and call no functions. The other functions take and return float32 tensors of
any shape. On a CPU these functions run a numba loop; on other devices and in compiled graphs they use torch operations
with the same bits, except for sums in graphs compiled for a CPU. They compute in float64. About one result in ten
thousand is a neighbour of the correctly rounded float32. No function is differentiable.
"""

import logging
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from echelon.runtime.errors import one_line


def compiles() -> bool:
    """Return True if numba is installed and compiles. If numba is installed but does not compile, log the reason."""
    try:
        import numba
    except ModuleNotFoundError as error:
        reason = "" if error.name == "numba" else str(error)
    except Exception as error:  # numba may lack a library or not support this NumPy version
        reason = f"{type(error).__name__}: {error}"
    else:
        settings: Any = numba.config
        if not settings.DISABLE_JIT:
            return True
        reason = "NUMBA_DISABLE_JIT is set"
    if reason:
        logging.getLogger(__name__).warning("numba cannot compile, so battles run slower: %s", one_line(reason))
    return False


HAS_NUMBA = compiles()
"""Whether loops compiled by numba are used. Otherwise the dense form runs, with the same results."""
Float64 = TypeVar("Float64", Tensor, float)

HALF_PI, PI, LN_2, SQRT_HALF = math.pi / 2, math.pi, 0.6931471805599453, 0.7071067811865476
PER_PI = 0.3183098861837907
PI_HIGH, PI_LOW = 3.1415926534682512, 1.2154201013012384e-10
"""Pi as a sum of two numbers (Cody & Waite 1980). Integer multiples of the first are exact up to 2^21."""
ARC_TANGENT = (
    *(-0.0009362994719496015, 0.00620725453378005, -0.019261081322765883, 0.038327445983064846, -0.05760716083128117),
    *(0.0741749696430051, -0.09036742342070782, 0.1110470678864422, -0.14285317963907304, 0.19999990275947271),
    -0.33333333293301176,
)
"""Coefficients of (atan(t) / t - 1) / t^2 as a polynomial in t^2, highest power first."""
TO_WHOLE = 1.5 * 2.0**52
"""Adding and then subtracting this number rounds a float64 to an integer."""
TO_GRID = 1.5 * 2.0**28
"""Adding and then subtracting this number rounds a float64 below 2^27 to a multiple of 2^-24."""


def sine_64(x: Float64, lead: float) -> Float64:
    """Return sin(x + lead * pi), for a lead of 0 (sine) or 0.5 (cosine). The error is at most 1e-12 for |x| <= 1e6.

    x is reduced to within a quarter turn of 0, where a polynomial of degree 13 approximates the sine.
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
    """Return the angle of the point (x, y) in -pi..pi, with an error of at most 3e-10. The angle of the origin is 0.

    A polynomial of degree 23 approximates atan(smaller side / larger side). x and y must be finite.
    """
    steep, is_left, below = (abs(y) > abs(x)) * 1.0, (x < 0) * 1.0, (y < 0) * 1.0
    # Select values without branches, by multiplying with 0 and 1.
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
    """Return the natural logarithm of `mantissa * 2^exponent`, with an error of at most 1e-11.

    `frexp` splits a positive number into mantissa and exponent. The approximation is a polynomial in (m - 1) / (m + 1),
    with m in sqrt(1/2) .. sqrt(2).
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
        """Sum an array with three axes over its middle axis; `total` is scratch memory for a row of float64."""
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
        """Sum an array with two axes over its last axis. The loop uses two accumulators, because each addition waits
        for the previous one."""
        for row in range(values.shape[0]):
            even, odd = 0.0, 0.0
            for item in range(0, values.shape[1] - 1, 2):
                even += (values[row, item] + TO_GRID) - TO_GRID
                odd += (values[row, item + 1] + TO_GRID) - TO_GRID
            if values.shape[1] % 2:
                even += (values[row, -1] + TO_GRID) - TO_GRID
            into[row] = even + odd


def _has_loops(values: Tensor) -> bool:
    """Return True for plain CPU tensors: not traced, not fake and not batched by `torch.vmap`."""
    if not HAS_NUMBA or torch.compiler.is_compiling() or type(values) is not Tensor:
        return False
    return values.device.type == "cpu" and not torch._C._functorch.is_functorch_wrapped_tensor(values)


def _each(loop: Any, *values: Tensor, width: tuple[int, ...] = ()) -> Tensor:
    """Apply a numba loop to each element of `values [...]`; the result is `[..., *width]` float32."""
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
    """Return the square root of `values` >= 0, float32, correctly rounded."""
    if _has_loops(values):
        return _each(_sqrt_each, values)
    # torch's square root is inexact in eager mode on a CPU. In compiled graphs and on a GPU it is an exact instruction.
    if values.device.type == "cpu" and not torch.compiler.is_compiling():
        exact = values.double()
        # rsqrt rounds twice and the product once, so the relative error is at most 3 * 2^-53, or 3/4 of 2^-51.
        # The exact square root of a float32 is at least 2^-51 (relative) from every midpoint of two float32. That is
        # more than the error above, so `float()` rounds correctly.
        return (exact * exact.clamp_min(1e-300).rsqrt()).float()
    return values.sqrt()


def cos_sin(angle_rad: Tensor) -> Tensor:
    """Return cosine and sine, `[..., 2]` float32, of angles `[...]` float32 in rad, up to 1e6 rad."""
    if _has_loops(angle_rad):
        return _each(_cos_sin_each, angle_rad, width=(2,))
    angle = angle_rad.double()
    return torch.stack((sine_64(angle, 0.5), sine_64(angle, 0.0)), -1).float()


def atan2(y: Tensor, x: Tensor) -> Tensor:
    """Return the angles of the points (x, y) in -pi..pi, float32; 0 for the origin. x and y have the same shape."""
    if _has_loops(y):
        return _each(_atan2_each, y, x)
    return atan2_64(y.double(), x.double()).float()


def log(values: Tensor) -> Tensor:
    """Return the natural logarithm of `values` > 0, float32."""
    mantissa, exponent = torch.frexp(values)
    return log_64(mantissa.double(), exponent.float().double()).float()


def log1p(values: Tensor) -> Tensor:
    """Return log(1 + x) of `values` >= 0, float32, with full precision near zero."""
    x = values.double()
    above = (1 + x).float()
    mantissa, exponent = torch.frexp(above)
    # Correct for the rounding of 1 + x: log(1 + d) is d - d^2 / 2 for d below 2^-24.
    d = (x - (above.double() - 1)) / above
    return (log_64(mantissa.double(), exponent.float().double()) + (d - 0.5 * d * d)).float()


def sum(values: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the sum along `dim`, independent of the order of additions.

    Floats are first rounded to multiples of 2^-24 (6e-8). Sums of such numbers in float64 are exact below 2^28 (2.7e8).
    Integers and bools are summed in int64.

    Graphs compiled for a CPU are an exception: they sum float32 in their own order, because float64 made the damage of
    shots 1.5 times slower. Battles in graphs compiled for a CPU may therefore differ from battles in other modes.
    """
    is_graph_of_cpu = torch.compiler.is_compiling() and values.device.type == "cpu"
    if not values.is_floating_point() or is_graph_of_cpu:
        return values.sum(dim, keepdim)
    if _has_loops(values):
        total = _sum_in_loops(values, dim)
        return total.unsqueeze(dim) if keepdim else total
    return ((values.double() + TO_GRID) - TO_GRID).sum(dim, keepdim).float()


def sum_parts(values: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Return the `sum` of each of several consecutive parts of `dim`, given their sizes. In the result, `dim` indexes
    the parts."""
    if len(set(sizes)) == 1:
        return sum(values.unflatten(dim, (len(sizes), sizes[0])), dim + 1 if dim >= 0 else dim)
    return torch.stack([sum(part, dim) for part in values.split(sizes, dim)], dim)


def divide(values: Tensor, number: float | Tensor) -> Tensor:
    """Return `values / number`, float32, correctly rounded, even if `number` is a Python number.

    On a GPU, torch and Inductor replace division by a Python number by multiplication with `1 / number`, whose last bit
    may be wrong. In float64 the wrong last bit does not matter: a quotient of two float32 is at least 2^-50 of itself
    away from the midpoint of two neighbouring float32.
    """
    if isinstance(number, Tensor):
        return values / number
    scaled = number * (2.0**29 + 1)  # Veltkamp's split (1968) keeps the upper 24 bits
    return (values.double() / (scaled - (scaled - number))).float()


def mean(values: Tensor, dim: int) -> Tensor:
    """Return the mean of floats along `dim`, computed with `sum`."""
    return divide(sum(values, dim), values.shape[dim])

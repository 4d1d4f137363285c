"""Formulas that the dense form and the loops share."""

import inspect

import numpy as np
import pytest
import torch

from echelon.runtime import geometry, jit
from echelon.sim import formulas

pytestmark = pytest.mark.quick

FORMULAS = [function for _, function in inspect.getmembers(formulas, inspect.isfunction)]
CONSTANTS = {"one": 1.0, "half": 0.5}


def numbers_for(function):
    """Return 500 float32 values for each argument."""
    generator = np.random.default_rng(3)
    return [
        np.full(500, CONSTANTS[name], np.float32) if name in CONSTANTS else generator.random(500, np.float32) * 8
        for name in inspect.signature(function).parameters
    ]


@pytest.mark.parametrize("function", FORMULAS, ids=lambda function: function.__name__)
def test_tensors_and_scalars_give_the_same_bits(function):
    numbers = numbers_for(function)
    of_tensors = function(*map(torch.from_numpy, numbers))
    one_by_one = [function(*row) for row in zip(*numbers, strict=True)]
    assert of_tensors.dtype in (torch.float32, torch.bool)
    assert of_tensors.tolist() == [value.item() for value in one_by_one]


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
@pytest.mark.parametrize("function", FORMULAS, ids=lambda function: function.__name__)
def test_formulas_return_float32_in_a_loop(function):
    """A numeric literal in a formula would be float64, and so would all results computed from it."""
    import numba

    compiled = numba.njit(function)
    kinds = (numba.float32,) * len(inspect.signature(function).parameters)
    compiled.compile(kinds)
    assert compiled.overloads[kinds].signature.return_type in (numba.float32, numba.boolean)
    numbers = numbers_for(function)
    found = [compiled(*row) for row in zip(*numbers, strict=True)]
    assert np.array(found, np.float32).tolist() == [float(value) for value in function(*map(torch.from_numpy, numbers))]


def test_drop_grows_with_the_square_of_time():
    assert formulas.drop(2.0, 4.9) == pytest.approx(19.6)


def test_out_of_frame_inverts_into_frame():
    cos, sin = 0.6, 0.8
    assert geometry.into_frame(3.0, 4.0, cos, sin) == pytest.approx((5.0, 0.0))
    assert geometry.out_of_frame(5.0, 0.0, cos, sin) == pytest.approx((3.0, 4.0))

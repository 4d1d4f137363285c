"""Rounding of displayed numbers."""

import pytest

from echelon.runtime.errors import rounded


@pytest.mark.parametrize(
    ("value", "digits", "shown"), [(-0.04, 1, "0.0"), (-0.0, 3, "0.0"), (-0.06, 1, "-0.1"), (1.25, 2, "1.25")]
)
def test_rounded_zero_has_no_sign(value, digits, shown):
    assert str(rounded(value, digits)) == shown

"""Attribution of damage to weapons."""

import numpy as np

from echelon.replay.moments import shared

LASER, GAUSS, MISSILE = range(3)
NOMINAL = np.array([14.0, 50.0, 32.0])


def test_sums_determine_the_weapons_of_two_shooters():
    """The first shooter has a laser and a splash without damage, the second gauss and missile."""
    able = np.array([[True, False, True], [False, True, True]])
    found = shared(able, np.array([14.0, 66.0]), np.array([14.0, 50.0, 16.0]), NOMINAL)
    assert np.allclose(found, [[14, 0, 0], [0, 50, 16]])


def test_ambiguous_damage_is_split_proportionally():
    able = np.ones((2, 2), bool)
    rows, columns = np.array([40.0, 24.0]), np.array([14.0, 50.0])
    found = shared(able, rows, columns, NOMINAL[:2])
    assert np.allclose(found.sum(1), rows) and np.allclose(found.sum(0), columns)
    assert np.allclose(found, np.outer(rows, columns) / 64)

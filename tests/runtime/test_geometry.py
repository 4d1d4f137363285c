"""Angles, frames and offsets."""

import math

import numpy as np
import pytest
import torch

from echelon.replay.moments import wrapped
from echelon.runtime.geometry import heading, length, pairwise_offset, to_body, to_world, unit, wrap_angle
from echelon.sim.loops import arithmetic as loops

pytestmark = pytest.mark.quick


@pytest.mark.requirement("R56")
@pytest.mark.parametrize(
    ("angle", "wrapped"), [(0.0, 0.0), (3.5, 3.5 - 2 * math.pi), (-3.5, 2 * math.pi - 3.5), (7.0, 7 - 2 * math.pi)]
)
def test_angles_wrap_into_half_a_turn(angle, wrapped):
    assert wrap_angle(torch.tensor(angle)).item() == pytest.approx(wrapped, abs=1e-6)


@pytest.mark.requirement("R56")
def test_wrap_functions_differ_only_at_their_limits():
    """Dense form and loop have the same bits. The wrap of files maps pi to -pi and rounds."""
    draw = torch.Generator().manual_seed(0)
    angles = torch.cat([torch.tensor([0.0, math.pi, -math.pi, 9.5]), 20 * torch.randn(10_000, generator=draw)])
    simulated = wrap_angle(angles)
    wrap = getattr(loops.wrap_angle, "py_func", loops.wrap_angle)
    loop = np.array([wrap(angle) for angle in angles.numpy()], np.float32)
    assert np.array_equal(loop.view(np.int32), simulated.numpy().view(np.int32))
    assert torch.equal(wrap_angle(simulated), simulated) and simulated.abs().max() <= np.float32(math.pi)
    kept = wrapped(angles.numpy())
    assert wrapped(math.pi) == -math.pi and kept.max() < math.pi
    assert np.abs(np.exp(1j * kept) - np.exp(1j * simulated.numpy().astype(np.float64))).max() < 2e-5


def test_yaw_zero_is_plus_x_and_turns_counter_clockwise():
    assert heading(torch.tensor(0.0)).tolist() == [1, 0]
    assert heading(torch.tensor(math.pi / 2)).tolist() == pytest.approx([0, 1], abs=1e-6)


def test_body_frame_is_ahead_then_left():
    facing = heading(torch.tensor(math.pi / 2))  # +y
    assert to_body(torch.tensor([0.0, 2.0]), facing).tolist() == pytest.approx([2, 0], abs=1e-6)
    assert to_body(torch.tensor([-3.0, 0.0]), facing).tolist() == pytest.approx([0, 3], abs=1e-6)


def test_to_world_undoes_to_body():
    generator = torch.Generator().manual_seed(0)
    vector = torch.randn(100, 2, generator=generator)
    facing = heading(torch.randn(100, generator=generator) * 3)
    torch.testing.assert_close(to_world(to_body(vector, facing), facing), vector)


def test_pairwise_offsets_point_from_row_to_column():
    pos = torch.tensor([[[1.0, 2.0], [4.0, 6.0]]])
    offset = pairwise_offset(pos)
    assert offset[0, 0, 1].tolist() == [3, 4]
    assert offset[0, 1, 0].tolist() == [-3, -4]
    assert length(offset)[0].tolist() == [[0, 5], [5, 0]]


def test_a_zero_vector_has_no_direction():
    assert unit(torch.zeros(3)).tolist() == [0, 0, 0]
    assert unit(torch.tensor([0.0, -4.0, 3.0])).tolist() == pytest.approx([0, -0.8, 0.6])

"""Paths around walls, wrecks and mechs."""

import math

import torch
from builders import battle, duel
from deciding import view_of

from echelon.agents.gunnery import loadouts
from echelon.agents.wayfinding import Wayfinder
from echelon.rules.catalog import Material

AHEAD = torch.tensor([1.0, 0.0])


def way(scene, direction: torch.Tensor = AHEAD) -> list[float]:
    view = view_of(scene)
    return Wayfinder(loadouts(scene.sim_model.config))(view, direction.expand_as(view.path))[0, 0].tolist()


def test_path_on_open_ground_is_straight():
    scene = duel(25.0, "medium", "medium")
    for angle in (0.0, 0.3, 1.0, -2.5):
        direction = torch.tensor([math.cos(angle), math.sin(angle)])
        assert way(scene, direction) == direction.tolist()
    assert way(scene, 0.4 * AHEAD) == [0.4000000059604645, 0.0]
    assert way(scene, 0 * AHEAD) == [0.0, 0.0]


def test_path_passes_a_wall_on_its_shorter_side():
    ends_left = (13, 14, 12, 22, 0, 8, Material.SOLID)  # from 8.5 on the right to 1.5 on the left
    ends_right = (13, 14, 19, 29, 0, 8, Material.SOLID)
    assert way(duel(25.0, "scout", "scout", ends_left))[1] > 0.4
    assert way(duel(25.0, "scout", "scout", ends_right))[1] < -0.4


def test_path_avoids_another_mech():
    scene = battle(("medium", "heavy"), ("scout",)).place(0, 10.5, 20.5).place(1, 13.8, 20.9).place(2, 38.0, 38.0)
    assert way(scene)[1] < -0.4
    scene.set(1, hp=0.0)
    assert way(scene) == [1.0, 0.0]


def test_direction_is_kept_between_two_equal_paths():
    scene = battle(("medium", "heavy"), ("scout",)).place(0, 10.5, 20.5).place(1, 13.8, 20.5).place(2, 38.0, 38.0)
    for side in (1.0, -1.0):
        scene.state.mechs.vel[:, 0, :2] = torch.tensor([1.0, 5.0 * side])
        assert way(scene)[1] * side > 0.4

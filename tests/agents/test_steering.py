"""Walk directions of the commanders."""

import math

import torch
from builders import battle, duel
from deciding import decide, view_of

from echelon.agents.steering import flank
from echelon.agents.view import aim_at
from echelon.rules.actions import Act
from echelon.rules.catalog import Material


def goes(scene, mech: int = 0, tier: str = "expert") -> tuple[float, float]:
    """Return the walk command of an action, forward and left."""
    act, _ = decide(scene, mech, tier)
    return act[Act.FORWARD].item(), act[Act.STRAFE].item()


def test_each_class_keeps_its_range_inside_the_zone():
    # The zone's middle is (20, 20); the target stands still in it.
    far = duel().place(0, 13.0, 20.0).place(1, 27.0, 20.0, yaw=math.pi)
    near = duel().place(0, 18.0, 20.0).place(1, 22.0, 20.0, yaw=math.pi)
    assert goes(far, tier="hard")[0] > 0.9
    assert goes(near, tier="hard")[0] < -0.4


def test_teams_holding_a_large_zone_meet_in_its_middle():
    for tier in ("trivial", "easy", "normal"):
        s = duel(25, "medium", "medium").place(0, 15.5, 20.0).place(1, 39.0, 39.0)
        s.sim_model.maps.zone_radius.fill_(11.0)
        assert goes(s, tier=tier)[0] > 0.9, tier
        if tier != "normal":  # it keeps its range to visible targets
            assert goes(s.place(0, 18.0, 20.0), tier=tier) == (0, 0), tier


def test_mech_approaches_a_target_out_of_sight():
    wall = (19, 20, 12, 28, 0, 8, Material.SOLID)
    hidden = duel(8.0, "medium", "heavy", wall).place(0, 16.0, 20.5).place(1, 24.0, 20.5, yaw=math.pi)
    ahead, left = goes(hidden, tier="hard")
    assert math.hypot(ahead, left) > 0.9 and abs(left) > 0.5


def test_mech_circles_a_visible_target_inside_the_zone():
    scene = duel(9.0, "medium", "medium").place(0, 15.5, 20.0).place(1, 24.5, 20.0, yaw=math.pi)
    assert abs(goes(scene)[1]) > 0.9 and abs(goes(scene, tier="hard")[1]) < 0.1
    for side in (1, -1):
        scene.state.mechs.vel[:, 0, :2] = torch.tensor([0.0, 5.0 * side])
        assert goes(scene)[1] * side > 0.5  # keeps its direction
        edge = scene.place(0, 15.5, 20.0 + 7.0 * side).place(1, 24.5, 20.0 + 7.0 * side, yaw=math.pi)
        assert goes(edge)[1] * side < -0.5
        scene.place(0, 15.5, 20.0).place(1, 24.5, 20.0, yaw=math.pi)


def test_light_mech_moves_behind_its_target():
    scene = duel(3.0, "light", "heavy")
    for yaw, sign in ((math.pi, 1.0), (0.0, -1.0)):  # it looks at the light, or away from it
        contacts = view_of(scene.place(1, 13.5, 20.5, yaw=yaw)).contacts
        to_back = flank(aim_at(contacts, torch.zeros(1, 2, dtype=torch.int64)))[0, 0]
        assert to_back[0] * sign > 0.2 and abs(to_back[1]) < 1e-5
    far = view_of(duel(7.0, "light", "heavy")).contacts
    assert flank(aim_at(far, torch.zeros(1, 2, dtype=torch.int64)))[0, 0, 0] > 1  # straight ahead has priority


def test_hot_mech_under_fire_moves_behind_a_wall():
    post = (17, 19, 16, 18, 0, 8, Material.SOLID)
    scene = duel(9.0, "medium", "heavy", post).place(0, 15.5, 20.0).place(1, 24.5, 20.0, yaw=math.pi)
    cool = goes(scene.set(0, under_fire=10))
    hot = goes(scene.set(0, heat=95.0, under_fire=10))
    assert hot != cool and hot[1] < -0.5  # the wall stands to its right


def test_mech_far_from_the_zone_ignores_targets():
    scene = battle(("medium",), ("medium",)).place(0, 3.0, 3.0, yaw=0.0).place(1, 3.0, 20.0)
    ahead, left = goes(scene, tier="hard")
    assert ahead > 0.6 and left > 0.6  # the zone, not the target straight to its left

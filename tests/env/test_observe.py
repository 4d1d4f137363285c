"""What a mech sees of others, of itself and of the ground."""

import dataclasses
import math

import pytest
import torch
from builders import arena, duel, scene, told

from echelon.actions import CONTROLS, NO_MECH, Act
from echelon.catalog import Hull, Material
from echelon.config import EnvConfig
from echelon.env import layout, observe
from echelon.env.layout import CONTACT, EGO, OF_THE_DEAD

WALL = (20, 21, 10, 30, 0, 8, Material.SOLID)
"""Between a mech at (10.5, 20.5) and whoever is beyond x = 21."""


def team(blue, red, *boxes, **settings):
    return scene(dataclasses.replace(EnvConfig.small(), blue=blue, red=red, **settings), *boxes)


def look(s, *orders):
    """The streams after nothing but looking; the state keeps the contact slots."""
    s.state, streams = observe.build(s.state, s.orders(*orders), s.game)
    return streams


def seen_by(s, viewer, *orders):
    """The mechs in the contact slots of `viewer`, in order."""
    look(s, *orders)
    orders = s.orders(*orders)
    offset = s.state.mechs.pos[:, None] - s.state.mechs.pos[:, :, None]
    distance = offset.norm(dim=-1)
    sees, _ = observe.sensed(s.state, distance, s.game)
    slots, filled = observe.contact_slots(sees, distance, s.state, orders, s.game)
    return slots[0, viewer][filled[0, viewer]].tolist()


def contact(s, name, slot=0, viewer=0):
    return look(s)["contacts"][0, viewer, slot, layout.columns(CONTACT, name)].tolist()


def ego(s, name, mech=0, *orders):
    return look(s, *orders)["ego"][0, mech, layout.columns(EGO, name)].tolist()


# Who sees whom


def test_a_clear_line_shows_within_sight_range():
    assert seen_by(duel(25, "medium", "medium"), 0) == [1]
    s = team(("medium",), ("medium",), sight_range_vox=20.0).place(0, 10.5, 20.5)
    assert seen_by(s.place(1, 30.5, 20.5), 0) == [1]
    assert seen_by(s.place(1, 30.6, 20.5), 0) == []


def test_a_wall_hides():
    s = duel(25, "medium", "medium", WALL)
    assert seen_by(s, 0) == seen_by(s, 1) == []
    assert not look(s)["contacts"].any()


@pytest.mark.parametrize(("range_vox", "seen"), [(14.0, [1]), (14.01, [])])
def test_radar_sees_through_walls(range_vox, seen):
    assert seen_by(duel(range_vox, "medium", "medium", WALL), 0) == seen


def test_a_shut_down_mech_has_a_quarter_of_its_radar():
    wall = (12, 13, 10, 30, 0, 8, Material.SOLID)
    for range_vox, seen in ((3.5, [1]), (3.51, [])):
        s = duel(range_vox, "medium", "medium", wall).set(0, heat=150)
        assert seen_by(s, 0) == seen
        assert seen_by(s, 1) == [0]


@pytest.mark.parametrize(("heat", "seen"), [(80.5, [1]), (80.0, [])])
def test_a_hot_hostile_blooms_through_walls(heat, seen):
    assert seen_by(duel(25, "medium", "medium", WALL).set(1, heat=heat), 0) == seen


def test_a_hot_comrade_does_not_bloom():
    s = team(("medium", "medium"), ("scout",), WALL).place(0, 10.5, 20.5).place(1, 35.5, 20.5).set(1, heat=95)
    assert 1 not in seen_by(s, 0)


def test_full_observation_shows_every_living_mech():
    s = team(("medium",) * 2, ("medium",) * 2, WALL, observation_mode="full")
    s.place(0, 10.5, 20.5).place(1, 5, 5).place(2, 35.5, 20.5).place(3, 30.5, 20.5)
    assert seen_by(s, 0) == [3, 2, 1]
    assert seen_by(s.set(3, hp=0), 0) == [2, 1]


def test_the_dead_are_neither_seen_nor_see():
    s = duel(8, "medium", "medium").set(1, hp=0)
    assert seen_by(s, 0) == seen_by(s, 1) == []


# Contact slots


def crowd():
    """Blue medium 0 and its comrade 1 at 3 vox; red scout 2 at 6, heavy 3 at 9, medium 4 at 12, damaged to a half."""
    s = team(("medium", "medium"), ("scout", "heavy", "medium"))
    s.place(0, 10.5, 20.5).place(1, 10.5, 17.5).place(2, 16.5, 20.5).place(3, 10.5, 29.5).place(4, 10.5, 8.5)
    return s.set(4, hp=75).set(3, hp=160)


@pytest.mark.parametrize(
    ("orders", "order"),
    [
        ((), [2, 3, 4, 1]),
        (((0, Act.SORT_BIGGEST, 1.0),), [3, 4, 2, 1]),
        (((0, Act.SORT_MOST_DAMAGED, 1.0),), [4, 3, 2, 1]),
        (((0, Act.HOSTILE_ONLY, 1.0),), [2, 3, 4]),
    ],
)
def test_hostiles_come_first_in_the_chosen_order(orders, order):
    assert seen_by(crowd(), 0, *orders) == order


def test_equals_are_told_apart_by_distance_then_index():
    s = team(("medium",), ("scout", "scout", "scout")).place(0, 20, 20)
    s.place(1, 20, 30).place(2, 20, 25).place(3, 20, 15)
    assert seen_by(s, 0, (0, Act.SORT_BIGGEST, 1.0)) == [2, 3, 1]


def test_a_little_more_damaged_comes_first_however_far():
    s = team(("medium",), ("heavy", "heavy")).place(0, 2, 20).place(1, 38, 20).place(2, 8, 20)
    s.set(1, hp=100.0).set(2, hp=100.5)  # two substeps of lava between them
    assert seen_by(s, 0, (0, Act.SORT_MOST_DAMAGED, 1.0)) == [1, 2]


def test_every_other_mech_has_at_most_one_slot():
    streams = look(crowd())
    assert streams["contacts"].shape == (1, 5, 4, layout.width(CONTACT))
    assert streams["contacts_mask"][0].sum(-1).tolist() == [4, 4, 4, 4, 4]


def test_large_battles_show_24_contacts():
    s = scene(dataclasses.replace(EnvConfig.standard(), blue=("scout",) * 15, red=("scout",) * 15))
    streams = look(s)
    assert streams["contacts"].shape[2] == 24 and streams["contacts_mask"].all()


def test_focus_slots_name_the_hostiles_of_the_first_five_contacts():
    s = crowd()
    look(s)
    assert s.state.focus_slots[0, 0].tolist() == [2, 3, 4, NO_MECH, NO_MECH]  # the comrade is no target
    assert s.state.focus_slots[0, 2].tolist()[:2] == [0, 1]
    look(s.set(2, hp=0))
    assert s.state.focus_slots[0, 0].tolist() == [3, 4, NO_MECH, NO_MECH, NO_MECH]
    assert s.state.focus_slots[0, 2].tolist() == [NO_MECH] * 5


# What a contact shows


def test_a_contact_is_seen_in_the_viewers_frame():
    s = duel(8, "medium", "heavy").set(0, yaw=math.pi / 2)  # facing +y, so +x is to the right
    assert contact(s, "rel_pos") == pytest.approx([0, -8 / 40, 0.5 / 40], abs=1e-6)
    assert contact(s, "rel_yaw_sin_cos") == pytest.approx([1, 0], abs=1e-6)  # it looks at -x, which is left of +y
    s.state.mechs.vel[0, 1] = torch.tensor([0.0, 2.0, -1.0])
    s.state.mechs.vel[0, 0] = torch.tensor([1.0, 0.0, 0.0])
    assert contact(s, "rel_vel") == pytest.approx([0.2, 0.1, -0.1], abs=1e-6)


def test_what_a_contact_shows():
    s = duel(8, "medium", "heavy").set(1, hp=50, heat=65, stability=30, leg_hp=0)
    shown = {f: contact(s, f) for f in ("hp", "heat", "stability", "fallen", "legged", "friendly", "hostile", "hull")}
    assert shown["hp"] == [0.25] and shown["heat"] == [0.5] and shown["stability"] == pytest.approx([0.3])
    assert shown["fallen"] == [0] and shown["legged"] == [1]
    assert shown["friendly"] == [0] and shown["hostile"] == [1]
    assert shown["hull"] == [float(h == Hull.HEAVY) for h in Hull]
    assert contact(s.set(1, fallen=3), "fallen") == [1]


def test_closing_and_crossing():
    s = duel(8, "medium", "medium")
    s.state.mechs.vel[0, 1, 0] = -3.0  # straight at the viewer
    assert contact(s, "closing") == pytest.approx([0.3]) and contact(s, "crossing") == pytest.approx([0], abs=1e-6)
    s.state.mechs.vel[0, 1] = torch.tensor([0.0, 3.0, 0.0])  # straight across
    assert contact(s, "closing") == pytest.approx([0]) and contact(s, "crossing") == pytest.approx([1])
    s.state.mechs.vel[0, 1, 1] = 0
    assert contact(s, "crossing") == [0]  # nobody moves


def test_comrades_are_friendly():
    s = crowd()
    assert contact(s, "friendly", slot=3) == [1] and contact(s, "hostile", slot=3) == [0]


# Oneself


def test_ego_of_a_fresh_mech():
    s = duel(25, "medium", "scout").set(0, yaw=math.pi / 2)
    assert ego(s, "hull") == [0, 0, 1, 0] and ego(s, "alive") == [1]
    assert ego(s, "position") == pytest.approx([10.5 / 40, 20.5 / 40, 1.5 / 16])
    assert ego(s, "yaw_sin_cos") == pytest.approx([1, 0], abs=1e-6)
    for name, value in {"hp": 1, "leg_hp": 1, "heat": 0, "headroom": 1, "stability": 1, "time": 0}.items():
        assert ego(s, name) == [value], name
    for name in ("shut_down", "fallen", "legged", "critical_heat", "targeted", "suppressed", "in_zone"):
        assert ego(s, name) == [0], name
    assert ego(s, "sort_mode") == [1, 0, 0] and ego(s, "hostile_only") == [0]


def test_ego_shows_wear():
    s = duel(25, "medium", "scout").set(0, hp=75, leg_hp=0, heat=90, stability=20, suppressed=5)
    s.state.mechs.cooldown[0, 0] = torch.tensor([6, 1])
    assert ego(s, "hp") == [0.5] and ego(s, "leg_hp") == [0] and ego(s, "legged") == [1]
    assert ego(s, "heat") == pytest.approx([0.9]) and ego(s, "headroom") == pytest.approx([0.1])
    assert ego(s, "critical_heat") == [1] and ego(s, "shut_down") == [0] and ego(s, "suppressed") == [1]
    assert ego(s, "stability") == pytest.approx([0.2]) and ego(s, "cooldown") == [0.5, 0.25]
    assert ego(s.set(0, heat=84), "critical_heat") == [0]


def test_ego_velocity_is_in_the_body_frame_and_hidden_by_a_shutdown():
    s = duel(25, "medium", "scout").set(0, yaw=math.pi / 2)
    s.state.mechs.vel[0, 0] = torch.tensor([1.0, 2.0, 3.0])
    assert ego(s, "velocity") == pytest.approx([0.2, -0.1, 0.3], abs=1e-6)
    s.set(0, heat=150)
    assert ego(s, "velocity") == [0, 0, 0] and ego(s, "shut_down") == [1]


def test_ego_knows_the_zone_and_the_way():
    s = duel(25, "medium", "scout").place(0, 8.5, 20.5, yaw=math.pi / 2)  # the zone is at (20, 20), radius 7.5
    assert ego(s, "zone_vector") == pytest.approx([-0.5 / 40, -11.5 / 40], abs=1e-6)
    assert ego(s, "zone_radius") == pytest.approx([7.5 / 40])
    assert ego(s, "path_direction") == pytest.approx([-0.5 / 11.511, -11.5 / 11.511], abs=1e-4)
    assert ego(s, "path_length") == pytest.approx([(11.511 - 7.5) / 40], abs=1e-4)
    assert ego(s, "in_zone") == [0]
    assert ego(s.place(0, 20, 20), "in_zone") == [1]


def test_ego_knows_the_score_from_its_own_side():
    s = duel(25, "medium", "scout")
    s.state = s.state.replace(
        score=torch.tensor([[15.0, 33.0]]), control=torch.tensor([[0.25, 0.75]]), tick=torch.tensor([600])
    )
    assert ego(s, "own_score") == [0.5] and ego(s, "enemy_score") == [1] and ego(s, "control") == [-0.5]
    assert ego(s, "own_score", 1) == [1] and ego(s, "enemy_score", 1) == [0.5] and ego(s, "control", 1) == [0.5]
    assert ego(s, "time") == ego(s, "time", 1) == [0.5]


def test_ego_shows_the_table_it_asked_for():
    orders = (0, Act.SORT_BIGGEST, 1.0), (0, Act.HOSTILE_ONLY, 1.0)
    s = duel(25, "medium", "scout")
    assert ego(s, "sort_mode", 0, *orders) == [0, 1, 0] and ego(s, "hostile_only", 0, *orders) == [1]
    assert ego(s, "hostile_only", 1, *orders) == [0]


@pytest.mark.parametrize("mode", ["partial", "full"])
def test_targeted_needs_an_enemy_within_eight_with_a_line(mode):
    def targeted(x, *boxes):
        s = team(("medium",), ("medium",), *boxes, observation_mode=mode).place(0, 10.5, 20.5).place(1, x, 20.5)
        return ego(s, "targeted")

    assert targeted(18.5) == [1]
    assert targeted(18.6) == [0]
    assert targeted(18.5, (14, 15, 20, 21, 0, 4, Material.FOLIAGE)) == [0]


def test_the_dead_show_score_control_and_time_only():
    s = team(("medium", "medium"), ("medium",)).place(0, 10.5, 20.5).place(1, 14.5, 20.5).place(2, 18.5, 20.5)
    s.set(0, hp=0, heat=50)
    s.state = s.state.replace(
        score=torch.tensor([[15.0, 6.0]]), control=torch.tensor([[1.0, 0.0]]), tick=torch.tensor([300])
    )
    s.state.messages[:] = 0.5
    streams = look(s, (0, Act.HOSTILE_ONLY, 1.0))
    for name in ("contacts", "contacts_mask", "comms", "local_map"):
        assert not streams[name][0, 0].any(), name
        assert streams[name][0, 1].any() or name == "local_map", name
    for feature in EGO:
        values = streams["ego"][0, 0, layout.columns(EGO, feature.name)]
        assert values.any() == (feature.name in OF_THE_DEAD), feature.name


# Comms


def says(*mechs):
    """Each of `mechs` says its index over ten, in its first message column."""
    return [(n, CONTROLS, n / 10) for n in mechs]


def heard(td, group, mech):
    return td[group, "observation", "comms"][0, mech, :, 0].tolist()


def test_a_message_is_heard_by_the_pack_one_decision_later():
    env = arena(dataclasses.replace(EnvConfig.small(), blue=("scout",) * 7, red=("scout", "medium")))
    td = env.reset()
    assert not td["blue", "observation", "comms"].any()
    _, td = env.step_and_maybe_reset(told(env, td, *says(1, 3, 6, 8)))
    assert heard(td, "blue", 0) == pytest.approx([0, 0.1, 0, 0.3, 0])  # rows are the pack's mechs in order
    assert heard(td, "blue", 1) == pytest.approx([0, 0, 0, 0.3, 0])  # one's own row is zero
    assert heard(td, "blue", 5) == pytest.approx([0, 0.6, 0, 0, 0])  # the second pack
    assert heard(td, "red", 0) == pytest.approx([0, 0.8, 0, 0, 0])
    _, td = env.step_and_maybe_reset(told(env, td))
    assert not td["blue", "observation", "comms"].any()


def test_the_dead_are_silent_and_deaf():
    env = arena(dataclasses.replace(EnvConfig.small(), blue=("scout",) * 3, red=("medium",)))
    td = env.reset()
    env.state.mechs.hp[:, 1] = 0
    _, td = env.step_and_maybe_reset(told(env, td, *says(1, 2)))
    assert heard(td, "blue", 0) == pytest.approx([0, 0, 0.2, 0, 0])
    assert heard(td, "blue", 1) == [0] * 5


# The map around


def around(yaw, *boxes, bottom=0.0):
    s = duel(25, "medium", "scout", *boxes).place(0, 10.5, 20.5, yaw=yaw, bottom=bottom)
    blocked = look(s)["local_map"][0, 0]
    return sorted((i - 5, j - 5) for i, j in blocked.nonzero().tolist())


@pytest.mark.parametrize(
    ("yaw", "where"), [(0, (3, 1)), (math.pi / 2, (1, -3)), (math.pi, (-3, -1)), (-math.pi / 2, (-1, 3))]
)
def test_the_local_map_is_ahead_then_left(yaw, where):
    assert around(yaw, (13, 14, 21, 22, 0, 4, Material.SOLID)) == [where]  # 3 along x, 1 along y


def test_the_local_map_shows_what_stops_the_hull_at_its_height():
    assert around(0, (13, 14, 20, 21, 5, 6, Material.SOLID)) == []  # overhead
    assert around(0, (13, 14, 20, 21, 5, 6, Material.SOLID), bottom=3.5) == [(3, 0)]
    assert around(0, (13, 14, 20, 21, 0, 4, Material.FOLIAGE)) == []
    assert around(0, (13, 14, 20, 21, 0, 4, Material.GLASS)) == [(3, 0)]


def test_the_local_map_is_blocked_beyond_the_edge():
    s = duel(25, "medium", "scout").place(0, 1.5, 20.5)
    blocked = look(s)["local_map"][0, 0]
    assert blocked[:4].all() and not blocked[4:].any()  # rows -5 .. -2 lie at x < 0

"""A mech's observation of itself, messages of its pack, and the local map."""

import dataclasses
import math

import pytest
import torch
from builders import arena, duel, told
from first_catalog import SMALL, Timer, Weapon
from reading import ego, emits, look, team

from echelon.env.observation import layout
from echelon.env.observation.layout import EGO, OF_THE_DEAD
from echelon.rules.actions import CONTROLS, Act
from echelon.rules.catalog import Material

pytestmark = pytest.mark.quick

FLAGS = (
    "targeted",
    "under_fire",
    "painted",
    "shut_down",
    "critical_heat",
    "incoming_missile",
    "suppressed",
    "ecm",
    "eccm",
    "in_zone",
    "hostile_only",
)


def raised(s, mech=0, *orders):
    """Return the names of the set flags of a mech."""
    return {name for name in FLAGS if ego(s, name, mech, *orders) == [1]}


# Ego


@pytest.mark.usual
def test_ego_of_an_undamaged_mech():
    s = duel(25, "medium", "scout").set(0, yaw=math.pi / 2)
    assert ego(s, "hull") == [0, 0, 1, 0] and ego(s, "alive") == [1]
    assert ego(s, "position") == pytest.approx([10.5 / 40, 20.5 / 40, 1.5 / 16])
    assert ego(s, "yaw_sin_cos") == pytest.approx([1, 0], abs=1e-6)
    fresh = {"hp": 1, "leg_hp": 1, "heat": 0, "headroom": 1, "stability_risk": 0, "jam": 0, "time": 0}
    for name, value in fresh.items():
        assert ego(s, name) == [value], name
    assert raised(s) == set()
    assert ego(s, "cooldown") == [0] * 5 and ego(s, "hit_from") == [0, 0] and ego(s, "acoustics") == [0] * 4
    assert ego(s, "sensor_quality") == pytest.approx([1 / 1.5])
    assert ego(s, "sort_mode") == [1, 0, 0] and ego(s, "hostile_only") == [0]


def test_ego_shows_damage():
    s = duel(25, "medium", "scout").set(0, hp=75, leg_hp=15, heat=90, stability=20)
    assert ego(s, "hp") == [0.5] and ego(s, "leg_hp") == pytest.approx([0.2])
    assert ego(s, "heat") == pytest.approx([0.9]) and ego(s, "headroom") == pytest.approx([0.1])
    assert ego(s, "stability_risk") == pytest.approx([0.8])
    assert ego(s.set(0, heat=200), "headroom") == [-1]


@pytest.mark.parametrize(
    ("hull", "left", "share"),
    [
        # Substeps of laser 12, missile 60 and smoke 100, autocannon 4, flamer 3 or gauss 80, painter 20, AMS 20.
        ("heavy", (6, 60, 20, 0, 5), [0.5, 0.6, 0.25, 0.6, 0.25]),
        ("medium", (6, 25, 1, 5, 0), [0.5, 0, 0.25, 0.25, 0]),
        ("light", (12, 100, 3, 20, 0), [1, 1, 1, 1, 0]),
        ("scout", (0, 50, 0, 15, 0), [0.75, 0, 0, 0.5, 0]),
    ],
)
def test_cooldowns_are_fractions_of_the_longest_per_trigger(hull, left, share):
    s = duel(25, hull, "scout")
    s.state.mechs.cooldown[0, 0] = torch.tensor(left)
    assert list(Timer) == [Timer.LASER, Timer.MISSILE, Timer.KINETIC, Timer.PAINTER, Timer.AMS]
    assert ego(s, "cooldown") == pytest.approx(share)


def test_ego_velocity_is_in_body_frame_and_zero_during_shutdown():
    s = duel(25, "medium", "scout").set(0, yaw=math.pi / 2)
    s.state.mechs.vel[0, 0] = torch.tensor([1.0, 2.0, 3.0])
    assert ego(s, "velocity") == pytest.approx([0.2, -0.1, 0.3], abs=1e-6)
    s.set(0, heat=150)
    assert ego(s, "velocity") == [0, 0, 0] and raised(s) == {"shut_down", "critical_heat"}


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ({"heat": 85.1}, {"critical_heat"}),  # of 100
        ({"heat": 84.9}, set()),
        ({"heat": 100.1}, {"critical_heat", "shut_down"}),
        ({"suppressed": 1}, {"suppressed"}),
        ({"under_fire": 1}, {"under_fire"}),
    ],
)
def test_flags_of_the_own_state(values, flags):
    assert raised(duel(25, "medium", "scout").set(0, **values)) == flags


@pytest.mark.usual
def test_painted_flag_is_set_by_any_enemy_pack():
    s = team(("medium",), ("light",) * 6).place(0, 5, 20).paint(0, painter=6)  # of red's second pack
    assert raised(s) == {"painted"}
    s.state.mechs.paint[:] = 0
    assert raised(s) == set()


@pytest.mark.usual
@pytest.mark.parametrize(
    ("value", "flags"), [(-1.0, set()), (0.0, set()), (0.01, {"ecm"}), (0.5, {"ecm"}), (0.51, {"eccm"}), (1, {"eccm"})]
)
def test_scout_secondary_selects_the_emission(value, flags):
    s = duel(25, "scout", "medium")
    assert raised(s, 0, emits(0, value)) == flags
    assert raised(s, 1, emits(1, value)) == set()  # a medium has none
    assert raised(s.set(0, fallen=5), 0, emits(0, value)) == set()


@pytest.mark.usual
def test_incoming_flag_means_a_missile_homes_on_the_mech():
    s = team(("medium", "medium"), ("heavy",)).place(0, 5, 5).place(1, 5, 10).place(2, 35, 35)
    assert raised(s) == raised(s, 1) == set()
    s.throw(Weapon.MISSILE, 2, (30, 30, 5), (-12, 0, 0), target=1)
    assert raised(s) == set() and raised(s, 1) == {"incoming_missile"} and raised(s, 2) == set()
    s.throw(Weapon.MISSILE, 2, (30, 30, 5), (-12, 0, 0), target=0, which=1)
    assert raised(s) == {"incoming_missile"}
    s.throw(Weapon.MISSILE, 2, (30, 30, 5), (-12, 0, 0), ttl=0, target=1)
    assert raised(s, 1) == set()  # it has burst


@pytest.mark.parametrize("mode", ["partial", "full"])
def test_targeted_needs_a_near_enemy_with_a_clear_line(mode):
    def targeted(x, *boxes, smoke=False):
        s = team(("medium",), ("medium",), *boxes, observation_mode=mode).place(0, 10.5, 20.5).place(1, x, 20.5)
        return ego(s.smoke(0, 14.5, 20.5, 1.5) if smoke else s, "targeted")

    assert targeted(18.5) == [1]
    assert targeted(18.6) == [0]
    assert targeted(18.5, (14, 15, 20, 21, 0, 4, Material.FOLIAGE)) == [0]
    assert targeted(18.5, smoke=True) == [0]


def test_comrades_and_dead_mechs_set_no_targeted_flag():
    s = team(("medium", "medium"), ("medium",)).place(0, 10, 20).place(1, 14, 20).place(2, 14, 24)
    assert ego(s, "targeted") == [1]
    assert ego(s.set(2, hp=0), "targeted") == [0]


@pytest.mark.usual
@pytest.mark.parametrize(
    ("yaw", "where"), [(0, (1, 0)), (math.pi / 2, (0, -1)), (math.pi, (-1, 0)), (-math.pi / 2, (0, 1))]
)
def test_hit_sets_under_fire_and_its_direction(yaw, where):
    """Red's laser hits blue from +x."""
    s = duel(7, "medium", "medium").set(0, yaw=yaw)
    s.run(s.orders((1, Act.PRIMARY, 1.0)))
    assert ego(s, "hp")[0] < 1
    assert ego(s, "hit_from") == pytest.approx(where, abs=1e-6)
    assert {"under_fire"} <= raised(s)
    assert "under_fire" in raised(s.wait(19))
    assert "under_fire" not in raised(s.wait(1))  # 20 substeps later
    assert ego(s, "hit_from") == pytest.approx(where, abs=1e-6)  # the last hit, at any later time


def test_direction_of_several_hits_is_weighted_by_damage():
    """Two lasers at once: 14 from +x, and 14 * 1.5 from +y into the back of blue, who faces -y."""
    s = team(("medium",), ("medium", "medium")).place(0, 10, 10, yaw=-math.pi / 2)
    s.place(1, 16, 10, yaw=math.pi).place(2, 10, 16, yaw=-math.pi / 2)
    s.run(s.orders((1, Act.PRIMARY, 1.0), (2, Act.PRIMARY, 1.0)))
    east, north = 14 / math.hypot(14, 21), 21 / math.hypot(14, 21)
    assert ego(s, "hit_from") == pytest.approx([-north, east], abs=1e-6)  # +y is behind it, +x on its left


def test_ego_shows_the_zone_and_the_path():
    s = duel(25, "medium", "scout").place(0, 8.5, 20.5, yaw=math.pi / 2)  # the zone is at (20, 20), radius 7.5
    assert ego(s, "zone_vector") == pytest.approx([-0.5 / 40, -11.5 / 40], abs=1e-6)
    assert ego(s, "zone_radius") == pytest.approx([7.5 / 40])
    assert ego(s, "path_direction") == pytest.approx([-0.5 / 11.511, -11.5 / 11.511], abs=1e-4)
    assert ego(s, "path_length") == pytest.approx([(11.511 - 7.5) / 40], abs=1e-4)
    assert ego(s, "in_zone") == [0]
    assert ego(s.place(0, 20, 20), "in_zone") == [1]


def test_path_direction_continues_until_the_mech_is_inside():
    s = duel(25, "medium", "scout").place(0, 20.0, 12.4)  # 7.6 from the middle, in a cell at which paths end
    s.sim_model.maps.path_direction.zero_()
    assert ego(s, "in_zone") == [0] and ego(s, "path_direction") == [0, 1]
    s.place(0, 20.0, 12.6)
    assert ego(s, "in_zone") == [1] and ego(s, "path_direction") == [0, 0]


def test_ego_shows_scores_from_its_own_side():
    s = duel(25, "medium", "scout")
    s.state = s.state.replace(
        score=torch.tensor([[10.0, 33.0]]), control=torch.tensor([[0.25, 0.75]]), tick=torch.tensor([600])
    )
    assert ego(s, "own_score") == [0.5] and ego(s, "enemy_score") == [1] and ego(s, "control") == [-0.5]
    assert ego(s, "own_score", 1) == [1] and ego(s, "enemy_score", 1) == [0.5] and ego(s, "control", 1) == [0.5]
    assert ego(s, "time") == ego(s, "time", 1) == [0.5]


def test_ego_shows_the_chosen_contact_settings():
    orders = (0, Act.SORT_BIGGEST, 1.0), (0, Act.HOSTILE_ONLY, 1.0)
    s = duel(25, "medium", "scout")
    assert ego(s, "sort_mode", 0, *orders) == [0, 1, 0] and ego(s, "hostile_only", 0, *orders) == [1]
    assert ego(s, "hostile_only", 1, *orders) == [0]


@pytest.mark.parametrize(
    ("hull", "command", "descriptor"),
    [
        # one-hot of 6; slots / 20, (sensor - 0.8) / 0.7, fidelity, detail / 2; engaged, orders, reports, intel > 5
        ("scout", False, [1, 0, 0, 0, 0, 0, 1.0, 1.0, 0.8, 0, 0, 0, 0, 0]),
        ("light", False, [0, 1, 0, 0, 0, 0, 0.5, 4 / 7, 0.6, 0.5, 0, 0, 1, 1]),
        ("medium", False, [0, 0, 1, 0, 0, 0, 0.4, 2 / 7, 0.7, 0.5, 0, 0, 1, 1]),
        ("heavy", False, [0, 0, 0, 1, 0, 0, 0.25, 0, 1.0, 0, 0, 0, 1, 0]),
        ("light", True, [0, 0, 0, 0, 1, 0, 0.4, 2 / 7, 0.6, 1, 1, 1, 1, 1]),
        ("medium", True, [0, 0, 0, 0, 0, 1, 0.3, 2 / 7, 0.5, 1, 1, 1, 1, 1]),
    ],
)
def test_ego_describes_its_suite(hull, command, descriptor):
    assert ego(team((hull,), ("scout",), command_suites=command), "suite") == pytest.approx(descriptor, abs=1e-6)


def test_dead_mechs_observe_only_score_control_and_time():
    s = team(("medium", "medium"), ("medium",)).place(0, 10.5, 20.5).place(1, 14.5, 20.5).place(2, 18.5, 20.5)
    s.set(0, hp=0, heat=50, under_fire=5).paint(0, painter=2)
    s.state = s.state.replace(
        score=torch.tensor([[10.0, 4.0]]), control=torch.tensor([[1.0, 0.0]]), tick=torch.tensor([300])
    )
    s.state.messages[:] = 0.5
    streams = look(s, (0, Act.HOSTILE_ONLY, 1.0))
    for name in ("contacts", "contacts_mask", "squad", "squad_mask", "comms", "local_map"):
        assert not streams[name][0, 0].any(), name
        assert streams[name][0, 1].any() or name == "local_map", name
    for feature in EGO:
        values = streams["ego"][0, 0, layout.columns(EGO, feature.name)]
        assert values.any() == (feature.name in OF_THE_DEAD), feature.name


def test_dead_mechs_of_both_teams_observe_the_same_fields():
    s = duel(8, "medium", "medium").set(1, hp=0)
    s.state = s.state.replace(score=torch.tensor([[10.0, 4.0]]), control=torch.tensor([[0.0, 1.0]]))
    assert (ego(s, "alive", 1), ego(s, "own_score", 1), ego(s, "enemy_score", 1)) == ([0], pytest.approx([0.2]), [0.5])
    assert ego(s, "control", 1) == [1]


# Comms


def says(*mechs):
    """Each of `mechs` sends a tenth of its index in the first column of its message."""
    return [(n, CONTROLS, n / 10) for n in mechs]


def heard(td, group, mech):
    return td[group, "observation", "comms"][0, mech, :, 0].tolist()


def test_message_arrives_at_the_pack_one_decision_later():
    env = arena(dataclasses.replace(SMALL, blue=("scout",) * 7, red=("scout", "medium")))
    td = env.reset()
    assert not td["blue", "observation", "comms"].any()
    _, td = env.step_and_maybe_reset(told(env, td, *says(1, 3, 6, 8)))
    assert heard(td, "blue", 0) == pytest.approx([0, 0.1, 0, 0.3, 0])  # rows are the pack's mechs in order
    assert heard(td, "blue", 1) == pytest.approx([0, 0, 0, 0.3, 0])  # the own row is zero
    assert heard(td, "blue", 5) == pytest.approx([0, 0.6, 0, 0, 0])  # the second pack
    assert heard(td, "red", 0) == pytest.approx([0, 0.8, 0, 0, 0])
    _, td = env.step_and_maybe_reset(told(env, td))
    assert not td["blue", "observation", "comms"].any()


def test_messages_are_clamped():
    env = arena(SMALL)
    _, td = env.step_and_maybe_reset(told(env, env.reset(), (1, CONTROLS + 7, -3.0)))
    assert td["blue", "observation", "comms"][0, 0, 1].tolist() == [0] * 7 + [-1]


def test_dead_mechs_neither_send_nor_receive_messages():
    env = arena(dataclasses.replace(SMALL, blue=("scout",) * 3, red=("medium",)))
    td = env.reset()
    env.state.mechs.hp[:, 1] = 0
    _, td = env.step_and_maybe_reset(told(env, td, *says(1, 2)))
    assert heard(td, "blue", 0) == pytest.approx([0, 0, 0.2, 0, 0])
    assert heard(td, "blue", 1) == [0] * 5


# Local map


def around(yaw, *boxes, bottom=0.0):
    s = duel(25, "medium", "scout", *boxes).place(0, 10.5, 20.5, yaw=yaw, bottom=bottom)
    blocked = look(s)["local_map"][0, 0]
    return sorted((i - 5, j - 5) for i, j in blocked.nonzero().tolist())


@pytest.mark.parametrize(
    ("yaw", "where"), [(0, (3, 1)), (math.pi / 2, (1, -3)), (math.pi, (-3, -1)), (-math.pi / 2, (-1, 3))]
)
def test_local_map_axes_are_ahead_and_left(yaw, where):
    assert around(yaw, (13, 14, 21, 22, 0, 4, Material.SOLID)) == [where]  # 3 along x, 1 along y


def test_local_map_shows_obstacles_at_hull_height():
    assert around(0, (13, 14, 20, 21, 5, 6, Material.SOLID)) == []  # overhead
    assert around(0, (13, 14, 20, 21, 5, 6, Material.SOLID), bottom=3.5) == [(3, 0)]
    assert around(0, (13, 14, 20, 21, 0, 4, Material.FOLIAGE)) == []
    assert around(0, (13, 14, 20, 21, 0, 4, Material.GLASS)) == [(3, 0)]


def test_local_map_omits_steps():
    assert around(0, (13, 14, 20, 21, 0, 1, Material.SOLID)) == []
    assert around(0, (13, 14, 20, 21, 0, 1, Material.SOLID), (13, 14, 20, 21, 4, 5, Material.SOLID)) == [
        (3, 0)
    ]  # too low
    assert around(0, (13, 14, 20, 21, 0, 2, Material.SOLID)) == [(3, 0)]


def test_local_map_is_blocked_outside_the_map():
    s = duel(25, "medium", "scout").place(0, 1.5, 20.5)
    blocked = look(s)["local_map"][0, 0]
    assert blocked[:4].all() and not blocked[4:].any()  # rows -5 .. -2 lie at x < 0


def test_local_map_shows_the_current_terrain():
    s = duel(25, "medium", "scout", (13, 14, 20, 21, 1, 2, Material.GLASS)).place(0, 10.5, 20.5)
    assert look(s)["local_map"][0, 0].nonzero().tolist() == [[8, 5]]
    for which in (0, 1):
        s.throw(Weapon.AUTOCANNON, 0, (12, 20.5, 1.5), (25, 0, 0), which=which)
    assert not look(s.wait())["local_map"][0, 0].any()  # two shells of 8 break glass of 10

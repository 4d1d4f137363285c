"""The contact table: which mechs it contains, their order, and their columns."""

import math

import pytest
import torch
from builders import arena, duel, scene
from first_catalog import SMALL, STANDARD, Weapon
from reading import ECM, WALL, column, contact, emits, look, shown, team

from echelon.env.observation import layout
from echelon.env.observation.layout import CONTACT
from echelon.env.observation.streams.contacts import lexsort
from echelon.rules import actions
from echelon.rules.actions import NO_MECH, Act
from echelon.rules.catalog import Hull, Material

pytestmark = pytest.mark.quick

# Order


def crowd():
    """Blue medium 0 with comrade 1 at 3 vox; red scout 2 at 6, heavy 3 at 9, medium 4 at 12 with half its hp."""
    s = team(("medium", "medium"), ("scout", "heavy", "medium"))
    s.place(0, 10.5, 20.5).place(1, 10.5, 17.5).place(2, 16.5, 20.5).place(3, 10.5, 29.5).place(4, 10.5, 8.5)
    return s.set(4, hp=75).set(3, hp=160)


@pytest.mark.parametrize(
    ("orders", "order"),
    [
        ((), [2, 3, 4, 1]),
        (((0, Act.SORT_BIGGEST, 1.0),), [3, 4, 2, 1]),
        (((0, Act.SORT_MOST_DAMAGED, 1.0),), [4, 3, 2, 1]),
        (((0, Act.SORT_CLOSEST, 0.2), (0, Act.SORT_BIGGEST, 0.3)), [3, 4, 2, 1]),  # the largest of three preferences
        (((0, Act.HOSTILE_ONLY, 1.0),), [2, 3, 4]),
    ],
)
def test_hostiles_are_first_in_the_chosen_order(orders, order):
    assert shown(crowd(), 0, *orders) == order


def test_friends_are_sorted_by_distance_in_every_order():
    s = team(("medium", "scout", "heavy"), ("light",)).place(0, 20, 20).place(1, 23, 20).place(2, 28, 20)
    s.place(3, 20, 30).set(2, hp=10)
    assert shown(s, 0, (0, Act.SORT_BIGGEST, 1.0)) == shown(s, 0, (0, Act.SORT_MOST_DAMAGED, 1.0)) == [3, 1, 2]


def test_ties_are_broken_by_distance_then_index():
    s = team(("medium",), ("scout", "scout", "scout")).place(0, 20, 20)
    s.place(1, 20, 30).place(2, 20, 25).place(3, 20, 15)
    assert shown(s, 0, (0, Act.SORT_BIGGEST, 1.0)) == [2, 3, 1]


def test_slightly_more_damaged_contact_is_first_at_any_distance():
    s = team(("medium",), ("heavy", "heavy")).place(0, 2, 20).place(1, 38, 20).place(2, 8, 20)
    s.set(1, hp=100.0).set(2, hp=100.5)  # two substeps of lava between them
    assert shown(s, 0, (0, Act.SORT_MOST_DAMAGED, 1.0)) == [1, 2]


# Slots


def test_each_other_mech_has_at_most_one_slot():
    streams = look(crowd())
    assert streams["contacts"].shape == (1, 5, 4, layout.width(CONTACT))
    assert streams["contacts_mask"][0].sum(-1).tolist() == [4, 4, 4, 4, 4]
    assert sorted(shown(crowd(), 0)) == [1, 2, 3, 4]


def test_contacts_are_limited_to_max_contacts():
    s = team(("scout",) * 15, ("scout",) * 15, features={"suites": False}, observation_mode="full")
    streams = look(s)
    assert streams["contacts"].shape[2] == 24 and streams["contacts_mask"].all()
    assert column(s, "hostile", 0) == [1] * 15 + [0] * 9


SUITES = [
    ("heavy", False, 5),
    ("medium", False, 8),
    ("light", False, 10),
    ("scout", False, 20),
    ("light", True, 8),  # pack command
    ("medium", True, 6),  # squad command
]


@pytest.mark.parametrize(("hull", "command", "slots"), SUITES)
def test_suite_limits_visual_slots_hostiles_before_friends(hull, command, slots):
    """There is one slot more than hostiles; the nearer friend gets it."""
    s = team((hull, "scout", "scout"), ("scout",) * (slots - 1), command_suites=command).place(0, 5, 5)
    s.place(1, 5, 9).place(2, 5, 8)
    for k in range(slots - 1):
        s.place(3 + k, 38 - 1.5 * k, 30)
    table = shown(s, 0)
    assert len(table) == slots and table[-1] == 2 and column(s, "friendly", 0) == [0] * (slots - 1) + [1]


def test_farthest_hostiles_over_the_limit_are_left_out():
    s = team(("heavy",), ("scout",) * 7).place(0, 5, 20)
    for k in range(7):
        s.place(1 + k, 30 - 3 * k, 20)
    assert shown(s, 0) == [7, 6, 5, 4, 3]  # the others are not intel, because the mech senses them itself


# Intel slots


def told_of(hull, red, command=False, *friends):
    """The viewer, blue 0, is west of the wall; its spotter, 1, is east of it with `red` scouts, the last nearest."""
    s = team((hull, "scout", *friends), ("scout",) * red, WALL, command_suites=command)
    s.place(0, 2.5, 20.5).place(1, 38, 24)
    for k in range(red):
        s.place(s.sim_model.roster.num_blue + k, 38.5 - k, 20.5)
    return s


@pytest.mark.parametrize(
    ("hull", "command", "slots"),
    [
        ("scout", False, 5),
        ("light", False, 8),
        ("medium", False, 6),
        ("heavy", False, 3),
        ("light", True, 10),
        ("medium", True, 12),
    ],
)
def test_suite_limits_intel_slots_nearest_first(hull, command, slots):
    s = told_of(hull, slots + 1, command)
    last = s.sim_model.roster.num_mechs - 1
    assert shown(s, 0) == [last - k for k in range(slots)]
    assert column(s, "intel", 0) == [1] * slots


def test_intel_follows_directly_after_sensed_contacts():
    s = told_of("heavy", 3, False, "medium").place(2, 2.5, 24).place(3, 10, 15)
    assert shown(s, 0) == [3, 2, 5, 4] and column(s, "intel", 0) == [0, 0, 1, 1]
    assert shown(s, 0, (0, Act.HOSTILE_ONLY, 1.0)) == [3, 5, 4]
    assert not look(s)["contacts"][0, 0, 4:].any()


def test_intel_follows_directly_after_full_visual_slots():
    s = told_of("heavy", 8)
    for k in range(6):  # six of the eight are on the viewer's side
        s.place(2 + k, 3 + 2 * k, 34)
    assert shown(s, 0) == [2, 3, 4, 5, 6, 9, 8] and column(s, "intel", 0) == [0] * 5 + [1] * 2


@pytest.mark.parametrize("mode", [Act.SORT_BIGGEST, Act.SORT_MOST_DAMAGED])
def test_intel_is_sorted_by_distance_in_every_order(mode):
    s = told_of("heavy", 2).set(2, hp=1)
    assert shown(s, 0, (0, mode, 1.0)) == [3, 2]


# Target preference


def test_focus_slots_are_the_hostiles_in_the_first_contacts():
    s = crowd()
    look(s)
    assert s.state.focus_slots[0, 0].tolist() == [2, 3, 4, NO_MECH, NO_MECH]  # the comrade is no target
    assert s.state.focus_slots[0, 2].tolist()[:2] == [0, 1]
    look(s.set(2, hp=0))
    assert s.state.focus_slots[0, 0].tolist() == [3, 4, NO_MECH, NO_MECH, NO_MECH]
    assert s.state.focus_slots[0, 2].tolist() == [NO_MECH] * 5


def test_preference_can_select_an_intel_contact():
    """Blue 0 prefers its second contact, which it does not sense itself; its smoke shell flies there."""
    s = told_of("heavy", 2).place(2, 2.5, 8).place(3, 17.5 + 4, 20.5 + 4)  # 3 is (19, 4) away
    assert shown(s, 0) == [2, 3] and column(s, "intel", 0) == [0, 1]
    assert s.state.focus_slots[0, 0, :2].tolist() == [2, 3]
    action = torch.zeros(1, 4, layout.action_width(8))
    action[0, 0, [Act.PREFER_1, Act.SPECIAL]] = 1.0
    s.run(actions.decode(action, s.state.focus_slots, s.sim_model.roster, s.sim_model.config.features))
    _, vel, ttl = s.shot(Weapon.SMOKE, 0)
    way = math.hypot(19, 4)
    assert vel == pytest.approx([15 * 19 / way, 15 * 4 / way, 0]) and ttl == round(way / 15 / 0.05)


def test_reset_sets_focus_slots_of_the_initial_observation():
    env = arena(SMALL)
    env.reset()
    env.state.focus_slots[:] = 9
    env.reset()
    named, table = env.state.focus_slots[0, 0, 0].item(), env.state.mechs.pos[0]
    hostile = env.sim_model.roster.hostile[0]
    distance = torch.where(hostile, (table - table[0]).norm(dim=-1), torch.inf)
    assert named == distance.argmin().item()


# Columns of a contact


def test_contact_is_in_the_viewers_frame():
    s = duel(8, "medium", "heavy").set(0, yaw=math.pi / 2)  # facing +y, so +x is to the right
    assert contact(s, "rel_pos") == pytest.approx([0, -8 / 40, 0.5 / 40], abs=1e-6)
    assert contact(s, "rel_yaw_sin_cos") == pytest.approx([1, 0], abs=1e-6)  # it looks at -x, which is left of +y
    s.state.mechs.vel[0, 1] = torch.tensor([0.0, 2.0, -1.0])
    s.state.mechs.vel[0, 0] = torch.tensor([1.0, 0.0, 0.0])
    assert contact(s, "rel_vel") == pytest.approx([0.2, 0.1, -0.1], abs=1e-6)


def test_what_a_contact_shows():
    s = duel(8, "medium", "heavy").set(1, hp=50, heat=65, stability=30, leg_hp=0)
    told = {f: contact(s, f) for f in ("hp", "heat", "stability", "fallen", "legged", "friendly", "hostile", "hull")}
    assert told["hp"] == [0.25] and told["heat"] == [0.5] and told["stability"] == pytest.approx([0.3])
    assert told["fallen"] == [0] and told["legged"] == [1]
    assert told["friendly"] == [0] and told["hostile"] == [1]
    assert told["hull"] == [float(h == Hull.HEAVY) for h in Hull]
    assert contact(s.set(1, fallen=3), "fallen") == [1]


def test_closing_and_crossing():
    s = duel(8, "medium", "medium")
    s.state.mechs.vel[0, 1, 0] = -3.0  # straight at the viewer
    assert contact(s, "closing") == pytest.approx([0.3]) and contact(s, "crossing") == pytest.approx([0], abs=1e-6)
    s.state.mechs.vel[0, 0, 0] = 9.0  # the viewer approaches too: 12 vox/s
    assert contact(s, "closing") == [1]
    s.state.mechs.vel[0, :] = 0
    s.state.mechs.vel[0, 1] = torch.tensor([0.0, 3.0, 0.0])  # straight across
    assert contact(s, "closing") == pytest.approx([0]) and contact(s, "crossing") == pytest.approx([1])
    s.state.mechs.vel[0, 1] = torch.tensor([3.0, 4.0, 0.0])  # 3 of 5 vox/s away from the viewer
    assert contact(s, "closing") == pytest.approx([-0.3]) and contact(s, "crossing") == pytest.approx([0.4])
    s.state.mechs.vel[0, 1] = 0
    assert contact(s, "crossing") == [0]  # no relative motion


def test_comrades_are_friendly():
    s = crowd()
    assert contact(s, "friendly", slot=3) == [1] and contact(s, "hostile", slot=3) == [0]


FIDELITY = [
    ("scout", False, 16.0),  # 0.8 of a sight range of 20
    ("light", False, 12.0),
    ("medium", False, 14.0),
    ("light", True, 12.0),  # pack command
    ("medium", True, 10.0),  # squad command
]
DETAIL = ("hp", "heat", "stability", "detail")


@pytest.mark.parametrize(("hull", "command", "reach"), FIDELITY)
def test_fidelity_limits_the_range_of_detail(hull, command, reach):
    s = team((hull,), (hull,), command_suites=command, sight_range_vox=20.0).place(0, 5, 20)
    s.set(1, stability=60, leg_hp=0, fallen=4)
    s.state.mechs.hp[:, 1], s.state.mechs.heat[:, 1] = s.sim_model.roster.hp[1] / 2, s.sim_model.roster.heat_cap[1] / 4
    s.place(1, 5 + reach - 0.01, 20)
    assert [contact(s, name)[0] for name in DETAIL] == pytest.approx([0.5, 0.25, 0.6, 1])
    s.place(1, 5 + reach + 0.01, 20)
    assert [contact(s, name)[0] for name in DETAIL] == [0] * 4
    assert [contact(s, name)[0] for name in ("fallen", "legged", "hostile")] == [1] * 3  # shown without detail


def test_heavy_sees_detail_up_to_sight_range():
    s = team(("heavy",), ("heavy",), sight_range_vox=20.0).place(0, 5, 20).place(1, 24.99, 20)
    assert contact(s, "detail") == [1] and contact(s, "hp") == [1]
    assert shown(s.place(1, 25.01, 20), 0) == []


def test_detail_needs_a_clear_line():
    behind_a_wall = duel(9, "heavy", "heavy", (14, 15, 10, 30, 0, 8, Material.SOLID))
    in_smoke = duel(9, "heavy", "heavy").smoke(0, 15, 20.5, 2)
    for s in (behind_a_wall, in_smoke):
        assert shown(s, 0) == [1]  # by radar
        assert [contact(s, name)[0] for name in DETAIL] == [0] * 4
    full = team(("heavy",), ("heavy",), WALL, observation_mode="full").place(0, 10.5, 20.5).place(1, 35, 20.5)
    assert shown(full, 0) == [1] and contact(full, "detail") == [0]


def test_intel_has_no_detail():
    s = told_of("heavy", 1).set(2, hp=30, heat=30, stability=40)
    assert [contact(s, name)[0] for name in DETAIL] == [0] * 4 and contact(s, "hull") == [1, 0, 0, 0]


def test_painted_flag_means_painted_by_the_own_pack():
    s = team(("medium",) * 6, ("medium",) * 2).place(6, 20, 20).place(7, 20, 30).paint(6, painter=5).paint(0, painter=7)
    told = {n: dict(zip(shown(s, n), column(s, "painted", n), strict=True)) for n in (0, 5, 6)}
    assert told[5][6] == 1 and told[5][7] == 0
    assert told[0][6] == 0  # another pack's paint
    assert told[6][0] == 1  # red painted it
    assert told[5][0] == 0  # paint by the enemy does not count for comrades


def test_painted_flag_does_not_depend_on_sensor_quality():
    s = team(("medium", "medium"), ("scout",)).place(0, 5, 20).place(1, 5, 30).place(2, 20, 20).paint(2, painter=1)
    assert contact(s, "painted", 0, 0, emits(2, ECM)) == [1]  # 15 vox away: quality 1 - 0.85 * 0.7 = 0.4


@pytest.mark.parametrize(("range_vox", "up"), [(8.0, 0.0), (20.0, 0.0), (8.0, 4.0), (8.0, -3.0)])
def test_lead_pitch_compensates_the_drop(range_vox, up):
    """A slug flies d / 40 s and falls 9.81 / 2 t^2: at 8 vox on flat ground 0.1962, a pitch of 0.0245 rad."""
    s = team(("heavy",), ("heavy",)).place(0, 10.5, 20.5, bottom=3).place(1, 10.5 + range_vox, 20.5, bottom=3 + up)
    flight_s = math.hypot(range_vox, up) / 40
    pitch = math.atan((up + 9.81 / 2 * flight_s**2) / range_vox)
    assert contact(s, "lead_pitch") == pytest.approx([pitch / (math.pi / 4)], abs=1e-5)


def test_empty_slot_is_zero():
    s = scene(STANDARD).place(0, 2, 2)
    streams = look(s)
    assert not streams["contacts"][~streams["contacts_mask"]].any() and not streams["contacts_mask"][0, 0].all()


def test_lexsort_uses_two_keys_then_index():
    generator = torch.Generator().manual_seed(5)
    key = torch.randint(0, 4, (3, 7, 20), generator=generator).float()
    key[key == 3] = torch.inf
    tie_key = torch.randint(0, 5, (3, 7, 20), generator=generator).float()
    one, other = key[1, 2].tolist(), tie_key[1, 2].tolist()
    wanted = sorted(range(20), key=lambda item: (one[item], other[item], item))
    assert lexsort(key, tie_key)[1, 2].tolist() == wanted

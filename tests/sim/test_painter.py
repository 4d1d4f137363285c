"""Painters: painting of targets, the damage bonus, and assists."""

import math

import pytest
from builders import battle, duel
from first_catalog import Timer, Weapon

from echelon.rules.actions import Act
from echelon.rules.catalog import Material

pytestmark = pytest.mark.quick

PAINT = Act.PRIMARY
"""Trigger of a scout's painter. The painters of a light and a medium are on TERTIARY."""
LASER = Act.PRIMARY
RED_PACK = 1


def painted(s, mech, pack=0):
    """Return the remaining substeps of paint, and the painter."""
    return s.state.mechs.paint[0, mech, pack].item(), s.state.mechs.painter[0, mech, pack].item()


def hunters():
    """Return a scene with medium 0, heavy 1 and scout 2 of a blue pack, 6 vox from red medium 3, facing each other."""
    s = battle(("medium", "heavy", "scout"), ("medium",)).place(3, 20.5, 20.5, yaw=math.pi)
    return s.place(0, 14.5, 20.5).place(1, 20.5, 14.5, yaw=math.pi / 2).place(2, 20.5, 26.5, yaw=-math.pi / 2)


@pytest.mark.usual
def test_paint_lasts_paint_s():
    s = duel(8, "scout", "medium")
    s.run(s.orders((0, PAINT, 1.0)))
    assert painted(s, 1) == (100, 0)
    assert painted(s.wait(99), 1) == (1, 0)
    assert painted(s.wait(), 1)[0] == 0


def test_painter_adds_heat_and_deals_no_damage():
    s = duel(8, "scout", "medium").set(0, heat=50)
    s.run(s.orders((0, PAINT, 1.0)))
    assert s.value("heat", 0) == pytest.approx(50 - 0.65 + 5)
    assert s.state.mechs.cooldown[0, 0].tolist() == [0, 0, 0, 20, 0]
    assert (s.value("hp", 1), s.value("heat", 1), s.value("stability", 1)) == (150, 0, 100)
    assert (s.counted("shots", 0, Weapon.PAINTER), s.counted("hits", 0, Weapon.PAINTER)) == (1, 1)


@pytest.mark.parametrize(("hull", "column"), [("light", Act.TERTIARY), ("medium", Act.TERTIARY), ("scout", PAINT)])
def test_lights_mediums_and_scouts_paint(hull, column):
    s = duel(9, hull, "medium")
    assert painted(s.run(s.orders((0, column, 1.0))), 1) == (100, 0)


def test_a_heavy_carries_no_painter():
    s = duel(8, "heavy", "medium")
    s.run(s.orders(*((0, column, 1.0) for column in (Act.PRIMARY, Act.SECONDARY, Act.TERTIARY, Act.SPECIAL))))
    assert painted(s, 1)[0] == 0


@pytest.mark.parametrize(("range_vox", "paints"), [(9.99, True), (10.01, False)])
def test_painter_fires_within_its_range(range_vox, paints):
    s = duel(range_vox, "scout", "scout")
    assert (painted(s.run(s.orders((0, PAINT, 1.0))), 1)[0] > 0) == paints
    assert (s.value("heat", 0) > 0) == paints


@pytest.mark.parametrize(("bearing_deg", "paints"), [(29, True), (-29, True), (31, False)])
def test_painter_fires_within_its_arc(bearing_deg, paints):
    s = duel(8, "scout", "scout").set(0, yaw=math.radians(bearing_deg))
    assert (painted(s.run(s.orders((0, PAINT, 1.0))), 1)[0] > 0) == paints


def test_a_painter_needs_a_clear_line():
    s = duel(8, "scout", "scout", (14, 15, 20, 21, 0, 2, Material.FOLIAGE))
    assert painted(s.run(s.orders((0, PAINT, 1.0))), 1)[0] == 0


@pytest.mark.usual
def test_newest_painter_is_stored():
    s = hunters()
    s.run(s.orders((2, PAINT, 1.0))).wait(9)
    s.run(s.orders((0, Act.TERTIARY, 1.0)))
    assert painted(s, 3) == (100, 0)
    s.wait(9).run(s.orders((2, PAINT, 1.0)))
    assert painted(s, 3) == (100, 2)


def test_lower_index_of_two_simultaneous_painters_is_stored():
    s = hunters()
    s.run(s.orders((2, PAINT, 1.0), (0, Act.TERTIARY, 1.0)))
    assert painted(s, 3) == (100, 0)


def test_each_pack_has_its_own_paint():
    blue = ("scout",) * 6  # the last is in its own pack
    s = battle(blue, ("medium",)).place(6, 20.5, 20.5).place(0, 14.5, 20.5).place(5, 20.5, 14.5, yaw=math.pi / 2)
    s.run(s.orders((0, PAINT, 1.0))).wait(4)
    s.run(s.orders((5, PAINT, 1.0)))
    assert painted(s, 6, pack=0) == (95, 0)
    assert painted(s, 6, pack=1) == (100, 5)
    assert painted(s, 6, pack=2)[0] == 0


def test_two_packs_paint_one_target_in_one_substep():
    s = battle(("scout",) * 6, ("medium",)).place(6, 20.5, 20.5)
    s.place(0, 14.5, 20.5).place(5, 20.5, 14.5, yaw=math.pi / 2)
    s.run(s.orders((0, PAINT, 1.0), (5, PAINT, 1.0)))
    assert painted(s, 6, pack=0) == (100, 0) and painted(s, 6, pack=1) == (100, 5)


# Damage bonus


@pytest.mark.quick
@pytest.mark.parametrize(
    ("shooter", "painter", "lost"),
    [(0, 2, 15.4), (1, 2, 15.4), (1, 0, 15.4), (0, 0, 14.0)],  # no bonus for the painter itself
)
def test_packmates_of_the_painter_deal_paint_bonus(shooter, painter, lost):
    s = hunters().paint(3, painter)
    s.run(s.orders((shooter, LASER, 1.0)))
    assert s.value("hp", 3) == pytest.approx(150 - lost)
    assert s.counted("damage", shooter) == pytest.approx(lost)


def test_paint_bonus_applies_to_leg_damage():
    s = hunters().paint(3, 2)
    s.run(s.orders((0, LASER, 1.0)), beam_height=0.0)
    assert s.value("hp", 3) == pytest.approx(150 - 7.7) and s.value("leg_hp", 3) == pytest.approx(75 - 15.4)


def test_paint_of_another_pack_gives_no_bonus():
    s = battle(("medium", *("scout",) * 4, "medium"), ("medium",)).place(6, 20.5, 20.5)
    s.place(0, 14.5, 20.5).place(5, 20.5, 14.5, yaw=math.pi / 2).paint(6, painter=1)
    s.run(s.orders((5, LASER, 1.0)))
    assert s.value("hp", 6) == 150 - 14


def test_paint_bonus_applies_to_shots_launched_before():
    s = hunters().throw(Weapon.AUTOCANNON, 0, (17.5, 20.5, 1.5), (25.0, 0.0, 0.0)).paint(3, 2)
    s.wait(2)
    assert s.value("hp", 3) == pytest.approx(150 - 8.8)


def test_paint_of_the_same_substep_gives_no_bonus():
    s = hunters()
    s.run(s.orders((2, PAINT, 1.0), (0, LASER, 1.0)))
    assert s.value("hp", 3) == 150 - 14  # all mechs of a phase act on the same state


# Assists


def kill(s, shooter, column=LASER):
    """Let `shooter` kill mech 3, and return the assists of the blue mechs."""
    s.set(3, hp=5).run(s.orders((shooter, column, 1.0)))
    assert s.value("hp", 3) == 0 and s.counted("kills", shooter) == 1
    return [s.counted("assists", n) for n in (0, 1, 2)]


def test_painter_is_credited_with_the_bonus_damage():
    s = hunters().paint(3, painter=2)
    s.run(s.orders((0, LASER, 1.0), (2, LASER, 1.0)))
    dealt = s.counted("damage", 0)
    assert dealt > 0 and s.counted("paint_damage", 2) == pytest.approx(dealt - dealt / 1.1)
    assert [s.counted("paint_damage", mech) for mech in (0, 1, 3)] == [0, 0, 0]


def test_the_painter_assists_when_a_packmate_kills():
    assert kill(hunters().paint(3, 2), shooter=1) == [0, 0, 1]


def test_only_the_newest_painter_assists():
    assert kill(hunters().paint(3, 0).paint(3, 2), shooter=1) == [0, 0, 1]


def test_own_kill_of_the_painter_is_no_assist():
    assert kill(hunters().paint(3, 0), shooter=0) == [0, 0, 0]


def test_expired_paint_gives_no_assist():
    assert kill(hunters().paint(3, 2, substeps=1), shooter=1) == [0, 0, 0]


def test_a_kill_by_another_pack_is_no_assist():
    s = battle(("scout",) * 5 + ("medium",), ("medium",)).place(6, 20.5, 20.5).place(5, 14.5, 20.5)
    s.paint(6, painter=0).set(6, hp=5)
    s.run(s.orders((5, LASER, 1.0)))
    assert s.counted("kills", 5) == 1
    assert not s.state.tally.assists.any()


@pytest.mark.usual
def test_a_kill_is_assisted_once():
    s = hunters().paint(3, 2)
    assert kill(s, shooter=1) == [0, 0, 1]
    s.run(s.orders((0, LASER, 1.0), (1, LASER, 1.0)), 20)
    assert s.counted("assists", 2) == 1


def test_death_on_lava_gives_no_assist():
    s = battle(("scout",), ("medium",), (15, 26, 15, 26, 0, 1, Material.LAVA)).place(0, 5.5, 5.5)
    s.place(1, 20.5, 20.5).set(1, hp=0.1).paint(1, painter=0).wait()
    assert s.value("hp", 1) == 0 and not s.state.tally.assists.any()


@pytest.mark.usual
def test_painter_fires_once_per_cooldown():
    s = duel(8, "scout", "medium")
    s.run(s.orders((0, PAINT, 1.0)), 20)
    assert s.counted("shots", 0, Weapon.PAINTER) == 1 and s.state.mechs.cooldown[0, 0, Timer.PAINTER] == 1
    assert s.run(s.orders((0, PAINT, 1.0))).counted("shots", 0, Weapon.PAINTER) == 2

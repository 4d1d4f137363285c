"""Tables of the catalog for the mechs of a battle."""

import dataclasses

import pytest
import torch
from first_catalog import SHELLS, SLOTS, SMALL, STANDARD, WEAPONS, Timer, Weapon

from echelon.rules.catalog import Suite, Trigger
from echelon.rules.config import PACK, FeaturesConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.roster import SUITE_DESCRIPTOR, build_roster
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")
COMMAND = dataclasses.replace(STANDARD, command_suites=True)


def roster_of(blue, red, **settings):
    return build_roster(dataclasses.replace(SMALL, blue=blue, red=red, **settings), CPU)


def suite_of(roster, mech):
    """Return the suite in a mech's descriptor."""
    return Suite(roster.cockpits.descriptor[mech, : len(Suite)].argmax().item())


# Teams and packs


def test_blue_comes_first():
    roster = roster_of(("heavy", "scout"), ("light", "medium", "medium"))
    assert roster.hulls == ("heavy", "scout", "light", "medium", "medium")
    assert roster.is_red.tolist() == [False, False, True, True, True]
    assert roster.teams == {"blue": slice(0, 2), "red": slice(2, 5)}
    assert roster.hostile[0].tolist() == [False, False, True, True, True]
    assert torch.equal(roster.hostile, roster.hostile.T)
    assert roster.hull_one_hot.argmax(1).tolist() == [3, 0, 1, 2, 2]
    assert roster.half_size[0].tolist() == [1.75, 1.75, 2.0]


def test_packs_are_fives_within_a_team():
    roster = roster_of(("scout",) * 7, ("light",) * 3)
    empty = 10
    assert roster.pack_slot[6].tolist() == [5, 6, empty, empty, empty]
    assert roster.pack_slot[0].tolist() == [0, 1, 2, 3, 4]
    assert roster.pack_slot[8].tolist() == [7, 8, 9, empty, empty]


def test_packs_are_numbered_across_both_teams():
    roster = roster_of(("scout",) * 7, ("light",) * 3)
    assert roster.pack.tolist() == [0] * 5 + [1] * 2 + [2] * 3
    assert roster.num_packs == 3


def test_team_sums_and_means():
    roster = roster_of(("heavy", "scout"), ("light", "medium", "medium"))
    values = torch.tensor([[1.0, 2, 4, 8, 15]])
    assert roster.by_team(values).tolist() == [[3, 27]]
    assert roster.team_mean(values).tolist() == [[1.5, 9]]
    per_team = torch.tensor([[10.0, 20]])
    assert roster.of_own_team(per_team).tolist() == [[10, 10, 20, 20, 20]]
    assert roster.of_enemy_team(per_team).tolist() == [[20, 20, 10, 10, 10]]


# Pairs


def test_pairs_contain_each_two_mechs_once():
    everyone = roster_of(("scout",) * 2, ("light",) * 2).everyone
    pairs = list(zip(everyone.first.tolist(), everyone.second.tolist(), strict=True))
    assert pairs == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    for k, (i, j) in enumerate(pairs):
        assert everyone.place[i, j] == everyone.place[j, i] == k


def test_enemy_pairs_have_different_teams():
    enemies = roster_of(("scout",) * 2, ("light",) * 3).enemies
    pairs = list(zip(enemies.first.tolist(), enemies.second.tolist(), strict=True))
    assert pairs == [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)]
    assert enemies.place[0, 1] == enemies.place[2, 2] == 6  # not a listed pair


def test_facts_of_pairs_become_a_symmetric_matrix():
    enemies = roster_of(("scout",), ("light",) * 2).enemies  # (0, 1) and (0, 2)
    assert enemies.matrix(torch.tensor([[False, True]]))[0].tolist() == [
        [False, False, True],
        [False, False, False],
        [True, False, False],
    ]


# Weapons


def test_trigger_table_matches_the_weapons_of_each_hull():
    roster = roster_of(("heavy", "medium", "light"), ("scout",))
    assert roster.trigger[Weapon.LASER].tolist() == [Trigger.PRIMARY, Trigger.PRIMARY, Trigger.SECONDARY, -1]
    assert roster.trigger[Weapon.FLAMER].tolist() == [-1, -1, Trigger.PRIMARY, -1]
    assert roster.trigger[Weapon.MISSILE].tolist() == [Trigger.SECONDARY, -1, -1, -1]
    assert roster.trigger[Weapon.GAUSS].tolist() == [Trigger.TERTIARY, -1, -1, -1]
    assert roster.trigger[Weapon.AUTOCANNON].tolist() == [-1, Trigger.TERTIARY, -1, -1]
    assert roster.trigger[Weapon.PAINTER].tolist() == [-1, Trigger.TERTIARY, Trigger.TERTIARY, Trigger.PRIMARY]
    assert roster.trigger[Weapon.SMOKE].tolist() == [Trigger.SPECIAL] * 4


def test_only_scouts_jam_and_only_heavies_shoot_missiles_down():
    roster = roster_of(("heavy", "scout", "medium"), ("light", "scout", "heavy"))
    assert roster.ewar.tolist() == [1, 4] and roster.ams.tolist() == [0, 5]
    assert roster.has_ewar.nonzero().flatten().tolist() == [1, 4]


def test_a_weapon_has_a_row_for_each_mech_that_carries_it():
    roster = roster_of(("heavy", "medium"), ("light", "scout"))
    carriers = {w: roster.guns.carriers[w].tolist() for w in Weapon}
    assert carriers == {
        Weapon.LASER: [0, 1, 2],
        Weapon.FLAMER: [2],
        Weapon.MISSILE: [0],
        Weapon.GAUSS: [0],
        Weapon.AUTOCANNON: [1],
        Weapon.PAINTER: [1, 2, 3],
        Weapon.SMOKE: [0, 1, 2, 3],
    }
    beams = roster.beams
    assert beams.shooter.tolist() == [0, 1, 2, 2, 1, 2, 3]
    assert beams.weapon.argmax(1).tolist() == [Weapon.LASER] * 3 + [Weapon.FLAMER] + [Weapon.PAINTER] * 3
    assert (beams.damage.tolist(), beams.target_heat.tolist()) == ([14] * 3 + [5] + [0] * 3, [6] * 3 + [5] + [0] * 3)


def test_reach_is_positive_only_for_carriers_and_their_enemies():
    reach_vox = roster_of(("heavy", "medium"), ("light",)).guns.reach_vox
    assert reach_vox[Weapon.LASER].tolist() == [[-1, -1, 8], [-1, -1, 8], [8, 8, -1]]
    assert reach_vox[Weapon.GAUSS].tolist() == [[-1, -1, 20], [-1, -1, -1], [-1, -1, -1]]


def test_shot_slots_are_ordered_by_weapon_then_shooter():
    roster = roster_of(("heavy", "medium"), ("medium", "scout"))
    spans = [roster.shots.span[w] for w in SHELLS]  # missile 2, gauss 1, autocannon 3 each, smoke 1 each
    assert spans == [slice(0, 2), slice(2, 3), slice(3, 9), slice(9, 13)]
    assert roster.shots.shooter.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 1, 2, 3]
    assert roster.shots.weapon.argmax(1).tolist() == [2] * 2 + [3] + [4] * 6 + [6] * 4
    assert roster.homing.nonzero().flatten().tolist() == [0, 1]
    assert roster.ballistic.nonzero().flatten().tolist() == [2]
    assert roster.shot_speed.tolist() == [12, 12, 40] + [25] * 6 + [15] * 4
    assert roster.shots.suppress.tolist() == [0] * 3 + [24] * 6 + [0] * 4  # 1.2 s


def test_bursts_are_the_first_shot_slots():
    roster = roster_of(("heavy", "medium"), ("heavy", "scout"))
    assert roster.bursts.shooter.tolist() == [0, 0, 2, 2, 0, 2]
    assert torch.equal(roster.bursts.shooter, roster.shots.shooter[:6])
    assert roster.bursts.splash_vox.tolist() == [2.5] * 4 + [1.5] * 2
    assert roster.bursts.splash_scale.tolist() == [0.5] * 6


def test_by_shooter_sums_the_rows_of_each_mech():
    roster = roster_of(("heavy", "medium"), ("medium", "scout"))
    per_slot = 2.0 ** torch.arange(13)
    # heavy: slots 0, 1, 2, 9; the mediums 3-5 and 10, 6-8 and 11; scout 12
    wanted = [1 + 2 + 4 + 512, 8 + 16 + 32 + 1024, 64 + 128 + 256 + 2048, 4096]
    assert roster.shots.by_shooter(per_slot[None, :, None])[0, :, 0].tolist() == wanted


def test_weapon_without_carriers_has_no_rows():
    roster = roster_of(("scout",), ("scout",))
    assert roster.bursts.count == 0 and not roster.guns.exist(Weapon.MISSILE)
    assert roster.bursts.by_shooter(torch.zeros(3, 0, 2)).tolist() == torch.zeros(3, 2, 2).tolist()
    assert roster.shots.count == 2  # one smoke launcher each


@pytest.mark.parametrize(
    ("hull", "waits"),
    [
        # laser 12, missile 60, smoke 100, flamer 3, autocannon 4, gauss 80, painter 20, AMS 20 substeps
        ("scout", {Timer.MISSILE: 100, Timer.PAINTER: 20}),
        ("light", {Timer.LASER: 12, Timer.MISSILE: 100, Timer.KINETIC: 3, Timer.PAINTER: 20}),
        ("medium", {Timer.LASER: 12, Timer.MISSILE: 100, Timer.KINETIC: 4, Timer.PAINTER: 20}),
        ("heavy", {Timer.LASER: 12, Timer.MISSILE: 100, Timer.KINETIC: 80, Timer.AMS: 20}),
    ],
)
def test_the_longest_cooldown_is_that_of_a_mechs_own_weapons(hull, waits):
    roster = roster_of((hull,), ("scout",))
    assert roster.longest_cooldown[0].tolist() == [waits.get(timer, 0) for timer in Timer]


# Suites


def test_each_hull_has_its_own_suite():
    roster = build_roster(SMALL, CPU)
    own = [
        Suite.HEAVY_FIRE_SUPPORT,
        Suite.MEDIUM_ASSAULT,
        Suite.MEDIUM_ASSAULT,
        Suite.LIGHT_SKIRMISH,
        Suite.SCOUT_RECON,
    ]
    assert [suite_of(roster, n) for n in range(10)] == own * 2


def test_command_suites_of_the_first_light_and_the_first_medium():
    roster = build_roster(COMMAND, CPU)
    commanders = {n: suite_of(roster, n) for n in range(20) if suite_of(roster, n) >= Suite.PACK_COMMAND}
    pack, squad = Suite.PACK_COMMAND, Suite.SQUAD_COMMAND
    assert commanders == {1: squad, 3: pack, 8: pack, 11: squad, 13: pack, 18: pack}


def test_a_pack_of_two_lights_has_one_commander():
    roster = roster_of(("light", "light", "medium"), PACK, command_suites=True)
    assert [suite_of(roster, n) for n in range(3)] == [Suite.PACK_COMMAND, Suite.LIGHT_SKIRMISH, Suite.SQUAD_COMMAND]


def test_suite_descriptor_columns():
    roster = build_roster(COMMAND, CPU)
    assert SUITE_DESCRIPTOR == 14
    # one-hot; slots/20, (sensor - 0.8)/0.7, fidelity, detail/2; sees engaged, issues orders, reports, intel > 5
    squad = [0, 0, 0, 0, 0, 1, 6 / 20, 0.2 / 0.7, 0.5, 1, 1, 1, 1, 1]
    scout = [1, 0, 0, 0, 0, 0, 20 / 20, 0.7 / 0.7, 0.8, 0, 0, 0, 0, 0]
    heavy = [0, 0, 0, 1, 0, 0, 5 / 20, 0, 1, 0, 0, 0, 1, 0]
    for mech, wanted in ((1, squad), (4, scout), (0, heavy)):
        assert roster.cockpits.descriptor[mech].tolist() == pytest.approx(wanted)


def test_cockpit_fields_of_each_suite():
    cockpits = build_roster(COMMAND, CPU).cockpits  # heavy, squad commander, medium, pack commander, scout
    assert cockpits.visual_slots[:5].tolist() == [5, 6, 8, 8, 20]
    assert cockpits.intel_slots[:5].tolist() == [3, 12, 6, 10, 5]
    assert cockpits.sensor_factor[:5].tolist() == pytest.approx([0.8, 1, 1, 1, 1.5])
    assert cockpits.fidelity[:5].tolist() == pytest.approx([1, 0.5, 0.7, 0.6, 0.8])
    assert cockpits.squad_detail[:5].tolist() == [0, 2, 1, 2, 0]
    assert cockpits.sees_engaged[:5].tolist() == [False, True, False, True, False]


def test_disabled_suites_show_all_contacts_and_no_intel():
    roster = build_roster(dataclasses.replace(COMMAND, features=FeaturesConfig(suites=False)), CPU)
    cockpits = roster.cockpits
    assert not cockpits.descriptor.any() and not cockpits.intel_slots.any() and not cockpits.sees_engaged.any()
    assert (cockpits.visual_slots == 24).all() and (cockpits.squad_detail == 2).all()
    assert (cockpits.sensor_factor == 1).all() and (cockpits.fidelity == 1).all()
    assert roster.squad.shape == (20, 12)  # five teammates; the width is that of the config


# Squads: teammates by index, packmates first


def test_squad_contains_packmates():
    roster = build_roster(STANDARD, CPU)
    assert roster.squad.shape == (20, 5)
    assert roster.squad[0].tolist() == [1, 2, 3, 4, 5]  # five slots: four packmates, then the next teammate
    assert roster.squad[7].tolist() == [5, 6, 8, 9, 0]
    assert roster.squad[12].tolist() == [10, 11, 13, 14, 15]


def test_squad_commander_has_twelve_squad_slots():
    roster = build_roster(COMMAND, CPU)
    empty = 20
    assert roster.squad.shape == (20, 12)
    assert roster.squad[1].tolist() == [0, 2, 3, 4, 5, 6, 7, 8, 9, empty, empty, empty]
    assert roster.squad[0].tolist() == [1, 2, 3, 4, 5] + [empty] * 7  # its suite has five slots


def test_empty_slots_are_padded_with_n():
    roster = roster_of(("heavy", "scout"), ("light",))
    assert roster.squad.tolist() == [[1, 3, 3, 3, 3], [0, 3, 3, 3, 3], [3] * 5]


def test_every_shot_slot_has_its_weapons_numbers():
    shots = build_roster(SMALL, CPU).shots
    for weapon in SHELLS:
        mine = shots.weapon[:, weapon] > 0
        spec = WEAPONS[weapon]
        assert mine.sum() == SLOTS[weapon] * sum(name in spec.mounts for name in PACK * 2)
        for name in ("damage", "stability", "target_heat", "splash_vox", "splash_scale"):
            assert (getattr(shots, name)[mine] == getattr(spec, name)).all(), (weapon, name)


def test_dt_that_overflows_the_shot_slots_is_rejected():
    # At 0.137 s an autocannon shell flies 0.48 s = 4 substeps, and the next follows after 1: four, and a smoke shot.
    with pytest.raises(
        ConfigError,
        match=r"catalog.hulls.medium at RulesConfig.dt_s 0.137 must be a hull with at most 4 shots in flight",
    ):
        build_roster(dataclasses.replace(SMALL, rules=RulesConfig(dt_s=0.137)), CPU)

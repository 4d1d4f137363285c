"""The default catalog has the numbers of the rules page."""

import dataclasses
import math

import pytest
import torch
from first_catalog import BEAMS, CATALOG, HULLS, MATERIALS, SHELLS, SLOTS, SUITES, WEAPONS, Timer, Weapon, mounts

from echelon.rules.catalog import Hull, Material, Suite, Trigger, clouds_hanging
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.roster import build_roster

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("hull", "row"),
    [
        # size, max speed, yaw, jet, hp, leg hp, heat cap, dissipation, tonnage
        (Hull.SCOUT, ((1.2, 1.2, 1.8), 7.0, 1.8, 18, 60, 30, 75, 13, 20)),
        (Hull.LIGHT, ((1.5, 1.5, 2.0), 6.8, 1.5, 16, 80, 40, 80, 12, 35)),
        (Hull.MEDIUM, ((2.5, 2.5, 3.0), 5.5, 1.0, 0, 150, 75, 100, 11, 55)),
        (Hull.HEAVY, ((3.5, 3.5, 4.0), 2.5, 0.6, 0, 200, 100, 130, 10, 85)),
    ],
)
def test_hulls_match_the_rules_page(hull, row):
    assert dataclasses.astuple(HULLS[hull])[:9] == row


@pytest.mark.parametrize(
    ("weapon", "row", "carried"),
    [
        # range, damage, stability, self heat, cooldown s, arc deg, speed, target heat, suppression s, splash, scale
        (
            Weapon.LASER,
            (8, 14, 0, 22, 0.6, 120, 0, 6, 0, 0, 0),
            {Hull.HEAVY: Trigger.PRIMARY, Hull.MEDIUM: Trigger.PRIMARY, Hull.LIGHT: Trigger.SECONDARY},
        ),
        (Weapon.FLAMER, (4.5, 5, 0, 10, 0.15, 90, 0, 5, 0, 0, 0), {Hull.LIGHT: Trigger.PRIMARY}),
        (Weapon.MISSILE, (50, 40, 15, 45, 3, 180, 12, 0, 0, 2.5, 0.5), {Hull.HEAVY: Trigger.SECONDARY}),
        (Weapon.GAUSS, (20, 50, 60, 15, 4, 60, 40, 0, 0, 1.5, 0.5), {Hull.HEAVY: Trigger.TERTIARY}),
        (Weapon.AUTOCANNON, (12, 8, 5, 6, 0.2, 90, 25, 0, 1.2, 0, 0), {Hull.MEDIUM: Trigger.TERTIARY}),
        (
            Weapon.PAINTER,
            (10, 0, 0, 5, 1, 60, 0, 0, 0, 0, 0),
            {Hull.SCOUT: Trigger.PRIMARY, Hull.LIGHT: Trigger.TERTIARY, Hull.MEDIUM: Trigger.TERTIARY},
        ),
        (Weapon.SMOKE, (20, 0, 0, 10, 5, 180, 15, 0, 0, 0, 0), dict.fromkeys(Hull, Trigger.SPECIAL)),
    ],
)
def test_weapons_match_the_rules_page(weapon, row, carried):
    spec = WEAPONS[weapon]
    assert (spec.range_vox, spec.damage, spec.stability, spec.self_heat, spec.cooldown_s, spec.arc_deg) == row[:6]
    assert (spec.speed_vox_per_s, spec.target_heat, spec.suppress_s) == row[6:9]
    assert (spec.splash_vox, spec.splash_scale) == row[9:]
    assert mounts(weapon) == carried


def test_weapons_that_share_a_timer():
    assert {weapon: Timer[WEAPONS[weapon].timer.upper()] for weapon in Weapon} == {
        Weapon.LASER: Timer.LASER,
        Weapon.FLAMER: Timer.KINETIC,
        Weapon.MISSILE: Timer.MISSILE,
        Weapon.GAUSS: Timer.KINETIC,
        Weapon.AUTOCANNON: Timer.KINETIC,
        Weapon.PAINTER: Timer.PAINTER,
        Weapon.SMOKE: Timer.MISSILE,
    }


def test_guidance_of_each_weapon():
    assert {weapon: WEAPONS[weapon].guidance for weapon in SHELLS} == {
        Weapon.MISSILE: "homing",
        Weapon.GAUSS: "ballistic",
        Weapon.AUTOCANNON: "linear",
        Weapon.SMOKE: "linear",
    }
    assert set(BEAMS) == {Weapon.LASER, Weapon.FLAMER, Weapon.PAINTER}


def test_arc_cos_is_the_cosine_of_half_the_arc():
    assert WEAPONS[Weapon.LASER].arc_cos == pytest.approx(0.5)  # cos 60°
    assert WEAPONS[Weapon.AUTOCANNON].arc_cos == pytest.approx(0.5**0.5)  # cos 45°


@pytest.mark.parametrize(
    ("weapon", "flight", "pause", "slots"),
    [
        (Weapon.MISSILE, 83, 60, 2),
        (Weapon.GAUSS, 10, 80, 1),
        (Weapon.AUTOCANNON, 10, 4, 3),
        (Weapon.SMOKE, 27, 100, 1),
    ],
)
def test_slots_hold_every_shot_in_flight(weapon, flight, pause, slots):
    spec, rules = WEAPONS[weapon], RulesConfig()
    assert (rules.substeps(spec.lifetime_s), rules.substeps(spec.cooldown_s)) == (flight, pause)
    assert SLOTS[weapon] == -(-flight // pause) == slots


@pytest.mark.parametrize(("hull", "shots"), [("SCOUT", 1), ("LIGHT", 1), ("MEDIUM", 4), ("HEAVY", 4)])
def test_no_hull_has_more_than_max_shots_in_flight(hull, shots):
    assert sum(SLOTS[w] for w in SHELLS if Hull[hull] in mounts(w)) == shots


@pytest.mark.parametrize(("cooldown_s", "clouds"), [(20.0, 1), (11.35, 1), (11.3, 2), (5.0, 3)])
def test_clouds_hanging_counts_simultaneous_clouds(cooldown_s, clouds):
    """The number is (10 s lifetime + 1.35 s flight) / cooldown, rounded up."""
    smoke = dataclasses.replace(WEAPONS[Weapon.SMOKE], cooldown_s=cooldown_s)
    config = EnvConfig(catalog=dataclasses.replace(CATALOG, weapons={**CATALOG.weapons, "smoke": smoke}))
    assert clouds_hanging(smoke, CATALOG, config.rules) == clouds
    roster = build_roster(config, torch.device("cpu"))
    assert roster.clouds_each == clouds and clouds_hanging(WEAPONS[Weapon.GAUSS], CATALOG, config.rules) == 0


@pytest.mark.parametrize(
    ("material", "solid", "opaque", "hp"),
    [
        (Material.AIR, False, False, math.inf),
        (Material.DIRT, False, False, math.inf),
        (Material.LAVA, False, False, math.inf),
        (Material.WATER, False, False, math.inf),
        (Material.SOLID, True, True, 100),
        (Material.DEBRIS_FIELD, False, False, 50),
        (Material.SOLID_DEBRIS, True, True, 200),
        (Material.GLASS, True, False, 10),
        (Material.REINFORCED, True, True, math.inf),
        (Material.FOLIAGE, False, True, 1),
    ],
)
def test_materials_match_the_rules_page(material, solid, opaque, hp):
    assert dataclasses.astuple(MATERIALS[material]) == (solid, opaque, hp)


@pytest.mark.parametrize(
    ("suite", "row"),
    [
        # visual slots, sensor x, fidelity, squad slots, squad detail, sees engaged, orders, reports, intel slots
        (Suite.SCOUT_RECON, (20, 1.5, 0.8, 5, 0, False, False, False, 5)),
        (Suite.LIGHT_SKIRMISH, (10, 1.2, 0.6, 5, 1, False, False, True, 8)),
        (Suite.MEDIUM_ASSAULT, (8, 1.0, 0.7, 5, 1, False, False, True, 6)),
        (Suite.HEAVY_FIRE_SUPPORT, (5, 0.8, 1.0, 5, 0, False, False, True, 3)),
        (Suite.PACK_COMMAND, (8, 1.0, 0.6, 5, 2, True, True, True, 10)),
        (Suite.SQUAD_COMMAND, (6, 1.0, 0.5, 12, 2, True, True, True, 12)),
    ],
)
def test_suites_match_the_rules_page(suite, row):
    assert dataclasses.astuple(SUITES[suite]) == row


@pytest.mark.parametrize(
    ("hull", "noise", "wreck"),
    [(Hull.SCOUT, 1, 0.1), (Hull.LIGHT, 1.5, 0.3), (Hull.MEDIUM, 2.5, 0.6), (Hull.HEAVY, 4, 0.9)],
)
def test_heavier_hulls_are_louder_and_leave_wrecks_more_often(hull, noise, wreck):
    assert (HULLS[hull].noise_factor, HULLS[hull].wreck_chance) == (noise, wreck)

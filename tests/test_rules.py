"""The numbers in `docs/RULES.md` equal those of the code."""

import dataclasses
import math
import re
from pathlib import Path

import pytest

from echelon.rules import catalog
from echelon.rules import specs as limits
from echelon.rules.catalog import Catalog, Hull
from echelon.rules.config import EnvConfig, RewardConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.specs import MAX_POINTS
from echelon.rules.versions import RULES_VERSION
from echelon.world.biomes import BIOMES

PAGE = (Path(__file__).parents[1] / "docs" / "RULES.md").read_text()
WORDS = re.sub(r"\s+", " ", PAGE)
RULES, REWARD, CATALOG = RulesConfig(), RewardConfig(), Catalog()
WEAPONS, HULLS = CATALOG.weapons, CATALOG.hulls


def table(first_column: str) -> dict[str, list[str]]:
    """Return the rows of the table whose first column has this title, keyed by their first cell."""
    lines = PAGE.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"|{first_column}|"))
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line[1:-1].split("|"))
        rows[name] = cells
    return rows


def numbers(cells: list[str]) -> list[float]:
    """Return all numbers in some cells; 0 for a dash."""
    return [float(word) for cell in cells for word in re.findall(r"-?[\d.]+", "0" if cell == "-" else cell)]


def test_the_version():
    assert f"\n\nRules version {RULES_VERSION}. " in PAGE


def test_hulls():
    rows = table("class")
    assert rows.keys() == {hull.name.lower() for hull in Hull}
    for hull, spec in HULLS.items():
        assert numbers(rows[hull]) == [*spec.size, *dataclasses.astuple(spec)[1:9]]


def test_weapons():
    rows = table("weapon")
    assert rows.keys() == set(WEAPONS)
    for weapon, spec in WEAPONS.items():
        who, reach, *cells, speed, guidance, splash = rows[weapon]
        assert numbers(cells) == [spec.damage, spec.stability, spec.self_heat, spec.cooldown_s, spec.arc_deg]
        lock = [CATALOG.sight_lock_vox] if "lock" in spec.needs else []
        assert numbers([reach]) == [spec.range_vox, *lock]
        assert speed == ("beam" if spec.is_beam else f"{spec.speed_vox_per_s:g}")
        assert guidance == ("-" if spec.is_beam else spec.guidance)
        if spec.splash_vox:
            assert numbers([splash]) == [spec.splash_vox, spec.splash_scale]
        told = {}
        for part in who.split(";"):
            hulls, trigger = part.split(":")
            told |= dict.fromkeys((h.strip() for h in hulls.split(",")), trigger.strip())
        if "all" in told:
            told = dict.fromkeys(HULLS, told["all"])
        assert told == dict(spec.mounts)


def test_suites():
    rows = table("suite")
    assert rows.keys() == {suite.replace("_", " ") for suite in CATALOG.suites}
    for suite, spec in CATALOG.suites.items():
        told = rows[suite.replace("_", " ")]
        yes = [word != "no" for word in told[5:8]]
        assert numbers([*told[:5], told[8]]) == [*dataclasses.astuple(spec)[:5], spec.intel_slots]
        assert yes == [spec.sees_engaged, spec.issues_orders, spec.contact_reports]


def test_materials():
    rows = table("material")
    assert rows.keys() == {material.replace("_", " ") for material in CATALOG.materials}
    for material, spec in CATALOG.materials.items():
        hp, solid, opaque, _ = rows[material.replace("_", " ")]
        assert hp == ("-" if math.isinf(spec.hp) else f"{spec.hp:g}")
        assert (solid, opaque) == tuple("yes" if is_so else "no" for is_so in (spec.solid, spec.opaque))


def test_reward_terms():
    rows = {name: float(cells[0]) for name, cells in table("term").items()}
    assert rows == {name: getattr(REWARD, name) for name in rows}
    others = {"contested_offence", "contested_death", "team_mix_alpha", "gamma"}
    assert rows.keys() | others == {field.name for field in dataclasses.fields(REWARD)}


STANDARD = EnvConfig.standard()
SENTENCES = [
    f"Physics runs at `dt_s = {RULES.dt_s:g}`; a decision holds for `decision_repeat = {RULES.decision_repeat}`",
    f"`max_episode_s = {RULES.max_episode_s:g}` ({RULES.max_decisions} decisions;",
    f"reaches {RULES.zone_score_to_win_s:g} s (`zone_score_to_win_s`)",
    f"Laser adds {WEAPONS['laser'].target_heat:g} heat to the target, flamer {WEAPONS['flamer'].target_heat:g} ",
    f"**Paint** lasts {CATALOG.paint_s:g} s",
    f"deal {CATALOG.paint_bonus:.0%} more damage".replace("%", " %"),
    f"shooter's sensor quality >= {CATALOG.lock_quality:.2f}",
    f"aimed at its team within {CATALOG.ams_vox:g} tries",
    f"{CATALOG.ams_chance:.2f} to destroy it. Each attempt sets the AMS timer to {CATALOG.ams_cooldown_s:.1f} s",
    f"cloud r {CATALOG.cloud_vox:g}, {CATALOG.cloud_s:g} s",
    f"clouds {catalog.clouds_hanging(WEAPONS['smoke'], CATALOG, RULES)} a mech",
    f"ECM on gains {CATALOG.ecm_heat_per_s:g} heat/s, with ECCM {CATALOG.eccm_heat_per_s:g} heat/s",
    f"slows stability regeneration for {WEAPONS['autocannon'].suppress_s:g} s",
    "chance " + ", ".join(f"{h} {s.wreck_chance:g}".replace("0.", ".") for h, s in HULLS.items()),
    "mass factor (" + ", ".join(f"{h} {s.noise_factor:g}" for h, s in HULLS.items()) + ")",
    f"|bearing| < {catalog.KINETIC_AIM_FOCUS_RAD:g} (focus target) or {catalog.KINETIC_AIM_RAD:g} (others)",
    f"Muzzles: kinetic at {catalog.KINETIC_MUZZLE:g} of half height",
    f"velocity unit(delta) + {catalog.MISSILE_LOFT:g} up",
    f"`size {STANDARD.world.size_x}x{STANDARD.world.size_y}x{STANDARD.world.size_z}` standard",
    f"each one of {len(BIOMES)} biomes",
    f"`RewardConfig.gamma` = {REWARD.gamma:g} is the discount",
    f"count x{REWARD.contested_offence:g} and their deaths x{REWARD.contested_death:g}",
    f"with alpha (`team_mix_alpha`) {REWARD.team_mix_alpha:g}",
    f"sides of a hull up to {limits.MAX_HULL_VOX:g} vox; hp, leg hp and heat cap up to {MAX_POINTS:g}",
    f"a material's hp up to {MAX_POINTS:g}",
    f"speed up to {limits.MAX_SHOT_SPEED:g} vox/s, and {limits.MAX_REACH_VOX:g} vox a substep, falls included",
    f"at most {limits.MAX_WEAPONS} weapons, {limits.MAX_SHOTS} shots of a",
    f"in flight and {limits.MAX_CLOUDS} clouds; at most {limits.MAX_TIMERS} cooldown timers",
    "D = 18 + comm_dim numbers in [-1, 1] per mech",
    f"then comm_dim ({STANDARD.comm_dim}) numbers to the pack",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_numbers_in_sentences(sentence):
    assert sentence in WORDS


def test_every_biome_is_named():
    assert not [name for name in BIOMES if name.replace("_", " ") not in WORDS]

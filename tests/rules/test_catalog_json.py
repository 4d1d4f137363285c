"""Catalogs as JSON in configs and files, and one-line errors for invalid rows."""

import copy
import dataclasses
import json
from pathlib import Path

import pytest

from echelon.rules.catalog import Catalog, read_catalog
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.config_json import battle_difference, from_json
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

pytestmark = pytest.mark.quick

RAILGUN = Path(__file__).parents[1] / "examples" / "railgun.json"


def changed(**tables):
    """Return the default catalog with rows or fields changed, as from a JSON file."""
    return from_json(Catalog, json.loads(json.dumps(tables)), "catalog", Catalog())


def test_catalog_path_may_be_a_string():
    assert read_catalog(str(RAILGUN)) == read_catalog(RAILGUN)


def test_catalog_survives_a_signature():
    config = EnvConfig(catalog=read_catalog(RAILGUN))
    told = json.loads(json.dumps(config.signature(), sort_keys=True, allow_nan=False))
    assert env_from_json({**told, "map_seed": 0}) == config
    assert hash(config) == hash(env_from_json(told)) and copy.deepcopy(config) == config


def test_signature_with_incomplete_catalog_row_is_rejected():
    told = EnvConfig.small().signature()
    del told["catalog"]["weapons"]["laser"]["colour"], told["catalog"]["weapons"]["laser"]["cooldown_s"]
    with pytest.raises(ConfigError, match=r"env.catalog.weapons.laser must be complete: .* lacks .*cooldown_s"):
        env_from_json(told)
    del told["catalog"]
    with pytest.raises(ConfigError, match=r"env must be complete: this EnvConfig lacks catalog"):
        env_from_json(told)


def test_first_difference_contains_the_name():
    default, railgun = EnvConfig().signature(), EnvConfig(catalog=read_catalog(RAILGUN)).signature()
    assert battle_difference(default, railgun).startswith("env.catalog.weapons.railgun is None here and {'mounts'")
    hot = EnvConfig(catalog=changed(weapons={"laser": {"self_heat": 30}}))
    expected = f"env.catalog.weapons.laser.self_heat is {Catalog().weapons['laser'].self_heat} here and 30.0 there"
    assert battle_difference(default, hot.signature()) == expected


def test_catalog_file_may_contain_only_changed_fields():
    catalog = changed(weapons={"gauss": {"cooldown_s": 5}}, hulls={"scout": {"hp": 70}}, paint_s=6)
    gauss = dataclasses.replace(Catalog().weapons["gauss"], cooldown_s=5.0)
    assert catalog.weapons == {**Catalog().weapons, "gauss": gauss}
    assert (catalog.hulls["scout"].hp, catalog.hulls["light"].hp, catalog.paint_s, catalog.ams_vox) == (70, 80, 6, 5.5)


def test_rows_have_the_default_order_and_then_by_name():
    rows = dict(reversed([*Catalog().weapons.items()]))
    gauss = dataclasses.replace(rows["gauss"], mounts={})
    names = list(Catalog(weapons={"z_gun": gauss, "a_gun": gauss, **rows}).weapons)
    assert names == [*Catalog().weapons, "a_gun", "z_gun"]


def test_custom_hull_belongs_to_one_of_four_classes():
    raider = {
        **dict.fromkeys(("yaw_rate_rad_per_s", "noise_factor"), 1),
        "size": [2, 2, 2.5],
        "suite": "light_skirmish",
    }
    raider |= {"max_speed_vox_per_s": 6, "jet_vox_per_s2": 0, "hp": 100, "leg_hp": 50, "heat_cap": 90, "tonnage": 45}
    raider |= {"heat_sink_per_s": 11, "hull_class": "medium", "wreck_chance": 0.5}
    catalog = changed(hulls={"raider": raider}, weapons={"laser": {"mounts": {"raider": "primary"}}})
    assert EnvConfig(blue=("raider",), red=("heavy",), catalog=catalog).catalog.class_of("raider").name == "MEDIUM"
    with pytest.raises(
        ConfigError, match=r"EnvConfig.blue must be chosen from \('scout', 'light', 'medium', 'heavy'\)"
    ):
        EnvConfig(blue=("raider",))


GUN = {"mounts": {}, "timer": "kinetic", "range_vox": 9, "damage": 1, "self_heat": 1, "cooldown_s": 1, "arc_deg": 60}
SHELL = {**GUN, "guidance": "linear", "speed_vox_per_s": 50}
REFUSED = {
    "a hull too wide": ({"hulls": {"heavy": {"size": [4.5, 3, 3]}}}, "catalog.hulls.heavy.size must be three sides"),
    "hp beyond a replay": ({"hulls": {"heavy": {"hp": 300}}}, "catalog.hulls.heavy.hp must be 1..255, got 300"),
    "a class": ({"hulls": {"heavy": {"hull_class": "tank"}}}, "catalog.hulls.heavy.hull_class must be one of"),
    "a suite": ({"hulls": {"heavy": {"suite": "none"}}}, "catalog.hulls.heavy.suite must be one of"),
    "hp of a voxel": ({"materials": {"solid": {"hp": 260}}}, r"catalog.materials.solid.hp must be in \(0, 255\]"),
    "what maps are": ({"materials": {"solid": {"solid": False}}}, "solid.solid must be True, as the map"),
    "a new material": ({"materials": {"gold": {"solid": True, "opaque": True}}}, "catalog.materials must be a table"),
    "half a point": ({"weapons": {"gun": {**SHELL, "damage": 0.5}}}, "weapons.gun.damage must be an integer"),
    "too fast": ({"weapons": {"gun": {**SHELL, "speed_vox_per_s": 101}}}, r"gun.speed_vox_per_s must be 0.01..100"),
    "negative": ({"weapons": {"laser": {"damage": -1}}}, "catalog.weapons.laser.damage must be 0..255, got -1"),
    "infinite": ({"weapons": {"laser": {"range_vox": None}}}, "laser.range_vox must be a float, got None"),
    "a word": ({"weapons": {"laser": {"damage": "much"}}}, "catalog.weapons.laser.damage must be a float, got 'much'"),
    "no such field": ({"weapons": {"laser": {"power": 1}}}, "catalog.weapons.laser.power must be one of mounts"),
    "no such table": ({"guns": {}}, "catalog.guns must be one of hulls, weapons"),
    "half a row": ({"weapons": {"gun": {"damage": 1}}}, "gun must be complete: this WeaponSpec lacks mounts"),
    "a name": ({"weapons": {"Big Gun": SHELL}}, "catalog.weapons must be a name of lower-case letters"),
    "a hull": ({"weapons": {"gun": {**SHELL, "mounts": {"tank": "primary"}}}}, "gun.mounts must be keyed by hulls of"),
    "a trigger": ({"weapons": {"gun": {**SHELL, "mounts": {"scout": "fifth"}}}}, "gun.mounts.scout must be one of"),
    "one trigger": (
        {"weapons": {"gun": {**SHELL, "mounts": {"heavy": "tertiary"}}}},
        "heavy must be a different trigger for each weapon, but gauss and gun share a trigger",
    ),
    "its emitters": (
        {"weapons": {"gun": {**SHELL, "mounts": {"scout": "secondary"}}}},
        "catalog.hulls.scout.ewar must be false, because the secondary trigger fires a weapon",
    ),
    "no target": ({"weapons": {"gun": GUN}}, 'catalog.weapons.gun.needs must be a list with "target"'),
    "a painter that flies": ({"weapons": {"gun": {**SHELL, "effect": "paint"}}}, "effect must be paint only for beams"),
    "shot at by an AMS": ({"weapons": {"gun": {**SHELL, "interceptable": True}}}, "gun.interceptable must be false"),
    "too many": (
        {"weapons": {f"gun_{n}": SHELL for n in range(10)}},
        r"catalog.weapons must be 1..16 rows, got 17",
    ),
    "too many timers": (
        {"timers": [f"timer_{n}" for n in range(17)]},
        r"catalog.timers must be at most 21 with those of weapons and the AMS, got 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_catalog_is_rejected_in_one_line(case):
    tables, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message) as refused:
        changed(**tables)
    assert "\n" not in str(refused.value)


def test_too_many_shots_or_clouds_are_rejected():
    fast = changed(weapons={"autocannon": {"range_vox": 40}})
    with pytest.raises(ConfigError, match=r"hulls.medium at RulesConfig.dt_s 0.05 must be a hull with at most 4"):
        EnvConfig(catalog=fast)
    with pytest.raises(ConfigError, match=r"catalog.weapons.smoke.cooldown_s at .* at most 3 active clouds per mech"):
        EnvConfig(catalog=changed(cloud_s=60))
    with pytest.raises(ConfigError, match=r"EnvConfig.blue and red must be rosters with at least one hull of"):
        EnvConfig(catalog=changed(weapons={"smoke": {"mounts": {}}}), blue=("scout",), red=("light",))
    assert EnvConfig(catalog=changed(cloud_s=20, weapons={"smoke": {"cooldown_s": 10}}), rules=RulesConfig())


def test_file_without_catalog_is_rejected(tmp_path):
    path = tmp_path / "rows.json"
    with pytest.raises(FileError, match=r"rows.json: cannot be read"):
        read_catalog(path)
    path.write_text("[]")
    with pytest.raises(ConfigError, match=r"rows.json must be an object, got \[\]"):
        read_catalog(path)

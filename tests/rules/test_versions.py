"""Versions of rules and map generator in files, and the upgrade of settings of earlier rules."""

import copy
import dataclasses
import json

import pytest
from next_rules import NEXT, OURS, RADAR_VOX, STEP_UP_VOX, change_rules

from echelon.rules import upgrade, versions
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.physics import RulesConfig
from echelon.rules.upgrade import env_under_current_rules
from echelon.rules.versions import Change, current_versions, earlier_defaults, stored_versions
from echelon.runtime.errors import ConfigError

SMALL = EnvConfig.small()
OF_FILE = current_versions().as_json()
UNREAD = "files from before the first release are not supported, create the file again with this Echelon"


def as_file(config: EnvConfig) -> dict:
    """Return a signature as it is read from a file."""
    return json.loads(json.dumps(config.signature()))


def test_signature_contains_the_versions():
    assert stored_versions(as_file(SMALL), "env") == current_versions()
    assert SMALL.signature()["rules_version"] == versions.RULES_VERSION
    assert SMALL.signature()["map_maker"] == versions.MAP_MAKER_VERSION


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("rules_version", 99, f"env.rules_version must be at most {OURS}, got 99: use a newer Echelon"),
        ("map_maker", 99, f"env.map_maker must be at most {versions.MAP_MAKER_VERSION}, got 99: use a newer Echelon"),
        ("rules_version", 0, "env.rules_version must be an integer >= 1, got 0"),
        ("rules_version", "1", "env.rules_version must be an integer >= 1, got '1'"),
        ("rules_version", 2, f"env.rules_version must be 3 or later, got 2: {UNREAD}"),
        ("rules_version", None, f"env.rules_version must be 3 or later, got none: {UNREAD}"),
        ("map_maker", True, "env.map_maker must be an integer >= 1, got True"),
        ("map_maker", None, "env.map_maker must be an integer >= 1, got None"),
    ],
)
def test_unknown_version_is_rejected_with_its_field(name, value, says):
    for read in (env_from_json, env_under_current_rules):
        with pytest.raises(ConfigError) as error:
            read({**as_file(SMALL), name: value})
        assert str(error.value) == says


@pytest.mark.parametrize("values", [[], None, 3, "x"], ids=str)
def test_signature_that_is_not_an_object_is_rejected(values):
    for read in (env_from_json, env_under_current_rules):
        with pytest.raises(ConfigError, match=r"^env must be an object"):
            read(values)


def test_earlier_defaults_become_current_defaults(monkeypatch):
    custom = dataclasses.replace(SMALL, rules=RulesConfig(step_up_vox=1.3, max_episode_s=30.0))
    files = [as_file(SMALL), as_file(custom)]
    assert [env_under_current_rules(values) for values in files] == [SMALL, custom]
    change_rules(monkeypatch)
    assert [env_from_json(values) for values in files] == [SMALL, custom], "as they were recorded"
    first, second = map(env_under_current_rules, files)
    assert first.rules == RulesConfig(step_up_vox=STEP_UP_VOX) and first.world == SMALL.world
    assert second.rules == custom.rules and first.radar_range_vox == second.radar_range_vox == RADAR_VOX
    assert stored_versions(as_file(SMALL), "env").rules == NEXT
    assert env_under_current_rules(as_file(SMALL)) == SMALL, "a choice of the next rules' own"


def test_new_rows_are_added_and_removed_rows_stay_removed(monkeypatch):
    """Return the rows of a table in a signature, such as the weapons of a catalog."""
    rows = {"laser": {"heat": 4.0}, "flamer": {"heat": 2.0}}
    today = {"weapons": {"laser": {"heat": 5.0}, "flamer": {"heat": 3.0}, "railgun": {"heat": 9.0}}}
    before = {"weapons.laser.heat": 4.0, "weapons.flamer.heat": 2.0, "weapons.railgun": None, "gone.row": 1.0}
    monkeypatch.setitem(versions.CHANGES, NEXT, Change("hotter weapons", before))
    monkeypatch.setattr(upgrade, "env_from_json", lambda values: {n: v for n, v in values.items() if n not in OF_FILE})
    monkeypatch.setattr(upgrade, "as_json", lambda values, whole: copy.deepcopy(values))
    monkeypatch.setattr(upgrade, "EnvConfig", lambda: today)
    assert env_under_current_rules({**OF_FILE, "weapons": rows}) == today
    custom = {"weapons": {"laser": {"heat": 4.5}}}
    expected = {"weapons": {"laser": {"heat": 4.5}, "railgun": {"heat": 9.0}}}
    assert env_under_current_rules({**OF_FILE, **custom}) == expected


def test_default_that_changed_twice_is_matched_by_version(monkeypatch):
    monkeypatch.setitem(versions.CHANGES, NEXT, Change("once", {"sight_range_vox": 60.0, "comm_dim": 8}))
    monkeypatch.setitem(versions.CHANGES, NEXT + 1, Change("twice", {"sight_range_vox": 50.0}))
    assert earlier_defaults(OURS) == {"sight_range_vox": 60.0, "comm_dim": 8}
    assert earlier_defaults(NEXT) == {"sight_range_vox": 50.0} and earlier_defaults(NEXT + 1) == {}


def test_every_version_lists_its_changes():
    assert sorted(versions.CHANGES) == list(range(versions.FIRST_RULES, versions.RULES_VERSION + 1))
    assert all(change.title for change in versions.CHANGES.values())

"""A league is valid only under its rules: leagues and files of other rules are rejected with their version."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from leagues import BRIEF, checkpoint_of, fought, fresh
from next_rules import NEXT, OURS, change_rules

from echelon.agents.heuristic import full_name
from echelon.agents.tiers import TIERS
from echelon.arena.batch_arena import Battle
from echelon.arena.resolve import policy_of, resolve
from echelon.league.import_export import read_league, write_league
from echelon.league.rating_period import close_period
from echelon.league.records import scripted_id
from echelon.league.store import FILE, Store
from echelon.rules.config import EnvConfig
from echelon.rules.versions import MAP_MAKER, MAP_MAKER_VERSION, RULES
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

CPU = torch.device("cpu")
HINT = "matches and ratings are valid only under their rules; `arena.py add` adds its weights/* to a new league"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return the folder of a league with two policies, parent and child, matches and a closed period."""
    folder = tmp_path_factory.mktemp("made")
    store = fresh(folder)
    parent = store.add(checkpoint_of(folder, 1))
    child = store.add(checkpoint_of(folder, 2), parent=parent.id)
    tier = store.find("heuristic:easy")
    store.record([fought(parent.id, child.id, 0), fought(child.id, parent.id, 0), fought(child.id, tier.id, 0)])
    close_period(store)
    return store.folder


@pytest.fixture
def league(made, tmp_path) -> Store:
    """Return a copy of the league."""
    return Store(shutil.copytree(made, tmp_path / "league"))


def one_line(raised: pytest.ExceptionInfo) -> str:
    """Return the message of an error, which must have one line."""
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_league_of_earlier_rules_is_refused_by_name(league, monkeypatch):
    change_rules(monkeypatch)
    for opens in (lambda: Store(league.folder), lambda: resolve(f"league:{league.folder}/heuristic:easy")):
        with pytest.raises(FileError) as error:
            opens()
        assert one_line(error) == f"{league.folder / FILE}: env.rules_version must be {NEXT}, got {OURS}: {HINT}"


def test_a_league_of_newer_rules_is_refused(league):
    league.set_setting("env", {**league.env.signature(), RULES: NEXT})
    with pytest.raises(FileError, match=f"rules_version must be at most {OURS}, got {NEXT}: use a newer Echelon"):
        Store(league.folder)


def test_policy_of_earlier_rules_is_added_with_a_warning(tmp_path, monkeypatch, caplog):
    path = checkpoint_of(tmp_path, 1, env=EnvConfig.small())
    change_rules(monkeypatch)
    store = Store.create(tmp_path / "league", resolve(str(path)).env)
    assert store.add(path).kind == "candidate"
    says = f"{path}: trained under rules {OURS}, but plays under rules {NEXT}, which may differ"
    assert [record.getMessage() for record in caplog.records] == [says]


def test_an_export_of_earlier_rules_is_refused(league, tmp_path, monkeypatch):
    path = tmp_path / "sent" / "league.json"
    write_league(league, path)
    change_rules(monkeypatch)
    with pytest.raises(FileError) as error:
        read_league(path, tmp_path / "other")
    assert one_line(error) == f"league.json: env.rules_version must be {NEXT}, got {OURS}: {HINT}"
    assert not (tmp_path / "other").exists()


SPOILED = {
    "a match of other rules": (
        lambda d: d["matches"][0].update(recipe=recipe_of(7), key=key_of(d["matches"][0], recipe_of(7))),
        f"recipe.rules_version must be at most {OURS}, got 7: use a newer Echelon",
    ),
    "a recipe that is none": (
        lambda d: d["matches"][0].update(recipe="[]", key=key_of(d["matches"][0], "[]")),
        r"recipe must be a JSON object, got '\[\]'",
    ),
    "a tier of other rules": (
        lambda d: (
            d["ratings"].clear(),
            d["entries"][3].update(name="heuristic:hard@7", id=scripted_id("heuristic:hard@7")),
        ),
        rf"entries\[3\].name must end with @{OURS}, the rules of the league, got 'heuristic:hard@7'",
    ),
    "newer rules": (
        lambda d: d["env"].update(rules_version=7),
        f"env.rules_version must be at most {OURS}, got 7: use a newer Echelon",
    ),
    "no rules": (lambda d: d["env"].update(rules_version="one"), "env.rules_version must be an integer >= 1"),
}


def recipe_of(rules: int) -> str:
    """Return a recipe with versions only."""
    return json.dumps({RULES: rules, MAP_MAKER: MAP_MAKER_VERSION})


def key_of(match: dict, recipe: str) -> str:
    """Return the key of a match with this recipe."""
    return f"{recipe}/{match['seed']}/{match['blue']}/{match['red']}"


@pytest.mark.parametrize("case", SPOILED)
def test_an_export_that_mixes_rules_is_refused_by_name(league, tmp_path, case):
    path = tmp_path / "sent" / "league.json"
    write_league(league, path)
    spoil, message = SPOILED[case]
    document = json.loads(path.read_text())
    spoil(document)
    path.write_text(json.dumps(document))
    with pytest.raises(FileError, match=message) as error:
        read_league(path, tmp_path / "other")
    assert one_line(error).startswith("league.json: ")


def test_match_on_maps_of_another_generator_does_not_count(tmp_path):
    store = fresh(tmp_path)
    one, two, *_ = (entry.id for entry in store.entries())
    ours, other = fought(one, two, 0), fought(one, two, 1)
    earlier = json.dumps({RULES: OURS, MAP_MAKER: MAP_MAKER_VERSION - 1, "map_seed": 0})
    assert store.record([ours, other._replace(recipe=earlier)]) == 2
    assert store.played([Battle(one, two, seed) for seed in range(4)]) == {Battle(one, two, 0)}
    assert store.record([other]) == 1, "another key"


def test_played_battles_are_found_under_all_current_recipes(tmp_path):
    store = fresh(tmp_path)
    assert store.played([]) == set()
    one, two, *_ = (entry.id for entry in store.entries())
    today = json.loads(fought(one, two, 0).recipe)
    recipes = [json.dumps({**today, "precision": precision}) for precision in ("bf16", "fp32", "tf32")]
    store.record([fought(one, two, seed)._replace(recipe=recipe) for seed, recipe in enumerate(recipes)])
    asked = [Battle(one, two, seed) for seed in range(5)]
    assert store.played(asked) == set(asked[:3]) and store.played([Battle(two, one, 0)]) == set()


def test_key_without_its_recipe_prefix_does_not_stop_the_search(tmp_path):
    store = fresh(tmp_path)
    one, two, *_ = (entry.id for entry in store.entries())
    store.record([fought(one, two, 0)])
    store.execute("UPDATE matches SET key = 'zzz'")
    assert store.played([Battle(one, two, 0)]) == set()


def test_a_scripted_commander_of_other_rules_is_refused(monkeypatch):
    assert full_name(f"heuristic:expert@{OURS}") == "heuristic:expert" and full_name("heuristic") == "heuristic:normal"
    assert policy_of(f"heuristic:expert@{OURS}", BRIEF, CPU).tier is TIERS["expert"]
    change_rules(monkeypatch)
    with pytest.raises(ConfigError) as error:
        policy_of(f"heuristic:expert@{OURS}", BRIEF, CPU)
    says = f"a scripted commander must be of rules {NEXT} of this Echelon, heuristic:expert, got"
    assert one_line(error) == f"{says} 'heuristic:expert@{OURS}'"
    assert policy_of("heuristic:expert", BRIEF, CPU).tier is policy_of(f"heuristic:expert@{NEXT}", BRIEF, CPU).tier

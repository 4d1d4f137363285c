"""A league of earlier rules is refused by name and converted: entries stay, matches and ratings go, nothing is lost."""

import json
import shutil
import sqlite3

import pytest
import torch
from leagues import BRIEF, checkpoint_of, fought, fresh
from next_rules import NEXT, OURS, RADAR_VOX, STEP_UP_VOX, change_rules

from echelon.agents.heuristic import full_name
from echelon.agents.tiers import TIERS
from echelon.arena.batch_arena import Battle
from echelon.arena.resolve import policy_of, resolve
from echelon.convert import convert
from echelon.league import new_rules
from echelon.league.import_export import read_league, write_league
from echelon.league.league_arena import LeagueArena
from echelon.league.new_rules import backup_path, take_over
from echelon.league.rating_period import close_period
from echelon.league.records import match_recipe, scripted_id
from echelon.league.store import FILE, Store
from echelon.learn.checkpoint.format import CLAIMS
from echelon.rules.versions import MAP_MAKER_VERSION, stored_versions
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

CPU = torch.device("cpu")
COMMAND = "`python -m echelon convert {}` keeps its entries and drops matches and ratings"


def rated_league(tmp_path) -> Store:
    """A league with two policies, one the child of the other, matches, a closed period, a role and a retired tier."""
    store = fresh(tmp_path)
    parent = store.add(checkpoint_of(tmp_path, 1))
    child = store.add(checkpoint_of(tmp_path, 2), parent=parent.id)
    tier = store.find("heuristic:easy")
    store.record([fought(parent.id, child.id, 0), fought(child.id, parent.id, 0), fought(child.id, tier.id, 0)])
    close_period(store)
    store.set_kind(store.find("heuristic:trivial"), "retired", "retired", "by hand")
    role = {"generation": 2, "turns": 3, "entry": child.id, "judged": {parent.id: [4, 1.0]}}
    store.set_setting("role main", role)
    return store


@pytest.fixture
def league(tmp_path):
    """Such a league, closed."""
    store = rated_league(tmp_path)
    store.close()
    return store.folder


def one_line(raised: pytest.ExceptionInfo) -> str:
    """The message of an error, which is one line."""
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_league_of_earlier_rules_is_refused_with_the_command_that_converts_it(league, monkeypatch):
    change_rules(monkeypatch)
    for opens in (lambda: Store(league), lambda: resolve(f"league:{league}/heuristic:easy")):
        with pytest.raises(FileError) as error:
            opens()
        says = f"{league / FILE}: rules_version must be {NEXT}, got {OURS}: {COMMAND.format(league)}"
        assert one_line(error) == says


def test_a_league_of_newer_rules_is_refused(league, monkeypatch):
    with monkeypatch.context() as later:
        change_rules(later)
        convert(league)
    for refused in (lambda: Store(league), lambda: convert(league)):
        with pytest.raises(FileError, match=f"rules_version must be at most {OURS}, got {NEXT}: use a newer Echelon"):
            refused()


def test_a_converted_league_keeps_entries_and_drops_matches_and_ratings(league, monkeypatch):
    before = Store(league)
    entries, standings, matches = before.entries(), before.standings(), before.matches()
    weights = {path: path.read_bytes() for path in league.rglob("*.safetensors")}
    before.close()
    change_rules(monkeypatch)
    told = convert(league)
    backup = backup_path(league / FILE, OURS)
    assert told[:2] == [f"league {league}", f"as it was under earlier rules: {backup}"] and len(told) == 4
    after = Store(league)
    assert weights == {path: path.read_bytes() for path in league.rglob("*.safetensors")}
    assert [entry for entry in after.entries() if not entry.is_scripted] == entries[len(TIERS) :]
    tiers = after.entries()[: len(TIERS)]
    assert [entry.name for entry in tiers] == [f"heuristic:{tier}@{NEXT}" for tier in TIERS]
    assert [entry.id for entry in tiers] == [scripted_id(entry.name) for entry in tiers]
    assert not {entry.id for entry in tiers} & {entry.id for entry in entries}, "another commander, another rating"
    assert tiers[0].kind == "retired" and {entry.kind for entry in tiers[1:]} == {"scripted"}
    assert after.matches() == [] and after.played() == set() and after.rated() == set()
    assert {(s.rating, s.deviation, s.games) for s in after.standings()} == {(1500.0, 350.0, 0)}
    assert after.env.rules.step_up_vox == STEP_UP_VOX and after.env.radar_range_vox == RADAR_VOX
    assert after.env.rules.max_episode_s == BRIEF.rules.max_episode_s
    assert after.get_setting("env")["rules_version"] == NEXT
    role = after.get_setting("role main")
    assert role == {"generation": 3, "turns": 0, "entry": "", "judged": {}}, "its checkpoints do not resume"
    assert [change.change for change in after.changes()] == ["added", "added", "retired", "reset", "reset"]
    assert after.changes()[2].name == tiers[0].name and f"rules {OURS} became {NEXT}" in after.changes()[3].reason
    assert after.execute("PRAGMA foreign_key_check") == [] and convert(league)[1:] == told[2:], "once"
    after.close()
    monkeypatch.undo()
    shutil.copy(backup, league / FILE)
    again = Store(league)
    assert (again.entries(), again.standings(), again.matches()) == (entries, standings, matches), "as it was"


def test_a_converted_league_fights_on(league, monkeypatch, caplog):
    change_rules(monkeypatch)
    convert(league)
    store = Store(league)
    one, two = (entry.id for entry in store.entries("candidate"))
    three = store.find("heuristic:easy").id
    battles = [Battle(one, two, 0), Battle(one, three, 0)]
    played = [match for batch in LeagueArena(store, CPU).play(battles) for match in batch.matches]
    assert len(played) == 2 and set(battles) == store.played()
    assert json.loads(played[0].recipe)["rules_version"] == NEXT
    theirs = json.loads((store.weights.path(one) / CLAIMS).read_text())["env"]
    assert stored_versions(theirs, "env").rules == OURS, "weights name the rules that they were trained under"
    name = f"league:{league}/{store.find(one).name}"
    for _ in range(2):
        policy_of(name, store.env, CPU)
    says = f"{name}: trained under rules {OURS}, plays under rules {NEXT}, which are new to it"
    assert [record.getMessage() for record in caplog.records] == [says], "told once"


def test_a_policy_of_earlier_rules_is_added_and_it_is_told(tmp_path, monkeypatch, caplog):
    path = checkpoint_of(tmp_path, 1)
    change_rules(monkeypatch)
    store = fresh(tmp_path)
    store.set_setting("env", {**store.env.signature(), "rules_version": OURS})
    store.close()
    convert(store.folder)
    assert Store(store.folder).add(path).kind == "candidate"
    says = f"{path}: trained under rules {OURS}, plays under rules {NEXT}, which are new to it"
    assert [record.getMessage() for record in caplog.records] == [says]


def test_of_two_that_convert_the_second_finds_nothing_to_do(league, monkeypatch):
    first = Store(league)
    one, two = (entry.id for entry in first.entries("candidate"))
    change_rules(monkeypatch)
    late = Store(league, any_rules=True)
    assert convert(league) and Store(league).record([fought(one, two, 9)._replace(recipe=match_recipe(0, "fp32"))]) == 1
    assert take_over(late) is None and len(Store(league).matches()) == 1
    assert not backup_path(league / FILE, NEXT).exists()


def test_a_process_of_earlier_rules_writes_no_more(league, monkeypatch):
    """It opened the league before somebody converted it."""
    late = Store(league)
    one, two = (entry.id for entry in late.entries("candidate"))
    with monkeypatch.context() as later:
        change_rules(later)
        convert(league)
    with pytest.raises(FileError, match=f"rules_version must be at most {OURS}, got {NEXT}: use a newer Echelon"):
        late.record([fought(one, two, 9)])
    with monkeypatch.context() as later:
        change_rules(later)
        assert Store(league).matches() == []


@pytest.mark.parametrize("fails", ["copy_database", "replace_scripted", "begin_anew"])
def test_what_fails_on_the_way_changes_nothing(league, monkeypatch, fails):
    before = Store(league)
    entries, matches, standings = before.entries(), before.matches(), before.standings()
    before.close()

    def full(*args):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as later:
        change_rules(later)
        later.setattr(new_rules, fails, full)
        with pytest.raises(FileError, match=r"league.sqlite: cannot be converted: database or disk is full") as error:
            convert(league)
        one_line(error)
    after = Store(league)
    assert (after.entries(), after.matches(), after.standings()) == (entries, matches, standings)
    assert [path for path in league.iterdir() if path.name.startswith(".")] == []


def test_an_export_of_earlier_rules_is_refused_and_converted(tmp_path, monkeypatch):
    store = rated_league(tmp_path)
    path = tmp_path / "sent" / "league.json"
    write_league(store, path)
    kept, entries = path.read_bytes(), store.entries()
    change_rules(monkeypatch)
    with pytest.raises(FileError) as error:
        read_league(path, tmp_path / "other")
    assert one_line(error) == f"league.json: env.rules_version must be {NEXT}, got {OURS}: {COMMAND.format(path)}"
    assert not (tmp_path / "other").exists()
    told = convert(path)
    backup = backup_path(path, OURS)
    assert told[1] == f"as it was under earlier rules: {backup}" and backup.read_bytes() == kept
    again = read_league(path, tmp_path / "other")
    assert [entry for entry in again.entries() if not entry.is_scripted] == entries[len(TIERS) :]
    assert [e.name for e in again.entries() if e.is_scripted] == [f"heuristic:{tier}@{NEXT}" for tier in TIERS]
    assert again.matches() == [] and again.rated() == set() and again.env.rules.step_up_vox == STEP_UP_VOX
    assert again.changes()[-1].reason == f"rules {OURS} became {NEXT}: matches and ratings were dropped"


SPOILED = {
    "a match of other rules": (
        lambda d: d["matches"][0].update(recipe='{"rules_version": 7}', key=key_of(d["matches"][0], 7)),
        f"recipe.rules_version must be at most {OURS}, got 7: use a newer Echelon",
    ),
    "a recipe that is none": (
        lambda d: d["matches"][0].update(recipe="[]", key=key_of(d["matches"][0], None)),
        r"recipe must be a JSON object, got '\[\]'",
    ),
    "a tier of other rules": (
        lambda d: (
            d["ratings"].clear(),
            d["entries"][3].update(name="heuristic:hard@7", id=scripted_id("heuristic:hard@7")),
        ),
        rf"entries\[3\].name must end with @{OURS}, the league's, got 'heuristic:hard@7'",
    ),
    "newer rules": (
        lambda d: d["env"].update(rules_version=7),
        f"env.rules_version must be at most {OURS}, got 7: use a newer Echelon",
    ),
    "no rules": (lambda d: d["env"].update(rules_version="one"), "env.rules_version must be an integer >= 1"),
}


def key_of(match: dict, rules: int | None) -> str:
    """The key of a match whose recipe says no more than its rules."""
    recipe = "[]" if rules is None else json.dumps({"rules_version": rules})
    return f"{recipe}/{match['seed']}/{match['blue']}/{match['red']}"


@pytest.mark.parametrize("case", SPOILED)
def test_an_export_that_mixes_rules_is_refused_by_name(tmp_path, case):
    path = tmp_path / "sent" / "league.json"
    write_league(rated_league(tmp_path), path)
    spoil, message = SPOILED[case]
    document = json.loads(path.read_text())
    spoil(document)
    path.write_text(json.dumps(document))
    with pytest.raises(FileError, match=message) as error:
        read_league(path, tmp_path / "other")
    assert one_line(error).startswith("league.json: ")


def test_a_match_on_maps_of_another_maker_is_not_taken_as_played(tmp_path):
    store = fresh(tmp_path)
    one, two, *_ = (entry.id for entry in store.entries())
    ours, other = fought(one, two, 0), fought(one, two, 1)
    old = json.dumps({"map_seed": 0, "precision": "fp32"})
    earlier = json.dumps({"rules_version": OURS, "map_maker": MAP_MAKER_VERSION - 1, "map_seed": 0})
    before = fought(one, two, 2)._replace(recipe=old)
    assert store.record([ours, other._replace(recipe=earlier), before]) == 3
    assert store.played() == {Battle(one, two, 0)}, "files without versions are of the first rules"
    assert store.record([other]) == 1, "another key"


def test_a_scripted_commander_of_other_rules_is_refused(monkeypatch):
    assert full_name(f"heuristic:expert@{OURS}") == "heuristic:expert" and full_name("heuristic") == "heuristic:normal"
    assert policy_of(f"heuristic:expert@{OURS}", BRIEF, CPU).tier is TIERS["expert"]
    change_rules(monkeypatch)
    with pytest.raises(ConfigError) as error:
        policy_of(f"heuristic:expert@{OURS}", BRIEF, CPU)
    says = f"a scripted commander must be of rules {NEXT}, those of this Echelon, heuristic:expert, got"
    assert one_line(error) == f"{says} 'heuristic:expert@{OURS}'"
    assert policy_of("heuristic:expert", BRIEF, CPU).tier is policy_of(f"heuristic:expert@{NEXT}", BRIEF, CPU).tier


def test_a_tier_of_the_first_rules_keeps_the_id_it_had_without_a_version():
    assert scripted_id("heuristic:easy@1") == scripted_id("heuristic:easy") != scripted_id("heuristic:easy@2")

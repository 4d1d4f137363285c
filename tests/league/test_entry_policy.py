"""Entries of a league as commanders by name: in a match, in a view, in training."""

import json

import pytest
import torch
from leagues import BRIEF, checkpoint_of, fresh

import echelon
from echelon.arena.resolve import resolve
from echelon.league.entry_policy import qualified_name
from echelon.pipelines import play
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

CPU = torch.device("cpu")


@pytest.fixture
def league(tmp_path):
    """Return a league of the scripted tiers and one policy."""
    store = fresh(tmp_path)
    store.add(checkpoint_of(tmp_path, 1))
    return store


def test_entry_resolves_to_weights_or_tier(league):
    entry = league.entries()[-1]
    by_name, by_id = (resolve(f"league:{league.folder}/{name}") for name in (entry.name, entry.id[:8]))
    assert by_name.id == by_id.id == entry.id and by_name.env.num_mechs == BRIEF.num_mechs
    expected = league.weights.policy(entry.id).state_dict()
    built = by_name.policy(BRIEF, CPU).state_dict()
    assert all(torch.equal(built[name], value) for name, value in expected.items())
    assert resolve(f"league:{league.folder}/heuristic:hard").id == "heuristic:hard"


@pytest.mark.parametrize("name", ["heuristic", "heuristic:easy", "league:other/entry", "charger:Charger", "/tmp"])
def test_only_bare_names_are_entries(tmp_path, name):
    assert qualified_name(name, tmp_path) == name
    assert qualified_name("silent-raven", tmp_path) == f"league:{tmp_path}/silent-raven"


def test_play_takes_an_entry_with_its_folder_or_with_the_flag(league, capsys, monkeypatch):
    monkeypatch.setitem(ENV_PRESETS, "small", lambda: BRIEF)
    name = league.entries()[-1].name
    results = []
    for blue, folder in ((f"league:{league.folder}/{name}", None), (name, league.folder)):
        play.Play(blue, "heuristic:trivial", league=folder, battles=2, env="small", json=True).run()
        results.append(json.loads(capsys.readouterr().out))
    assert [result["x"] for result in results] == [f"league:{league.folder}/{name}", name]
    assert results[0]["outcomes"] == results[1]["outcomes"]


def test_view_plays_against_an_entry(league):
    view = echelon.versus(BRIEF, f"league:{league.folder}/{league.entries()[-1].name}", 2, "cpu", 0)
    assert view.rollout(2)["next", "agents", "reward"].shape == (2, 2, 5, 1)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("league:nowhere/entry", FileError, "nowhere/league.sqlite: expected the file of a league, found none"),
        ("league:{folder}/missing", ConfigError, "an entry must be a name or the beginning of an id .* got 'missing'"),
        ("league:{folder}", ConfigError, "a commander from a league must be league:FOLDER/NAME, one of its entries"),
        ("league:entry", ConfigError, "a commander from a league must be league:FOLDER/NAME, one of its entries"),
    ],
)
def test_unresolved_entry_raises_one_line(league, name, error, message):
    with pytest.raises(error, match=message) as caught:
        resolve(name.format(folder=league.folder))
    assert "\n" not in str(caught.value)


def test_a_name_in_the_file_of_a_league_is_never_imported(league, tmp_path, monkeypatch):
    (tmp_path / "of_a_stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with league.writing():
        league.execute("UPDATE entries SET name = 'of_a_stranger:Commander' WHERE name LIKE 'heuristic:easy@%'")
    with pytest.raises(FileError, match=r"name must be lower-case letters .*, got 'of_a_stranger:Commander'"):
        resolve(f"league:{league.folder}/of_a_stranger:Commander")

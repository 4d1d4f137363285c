"""Styles of a league's entries: measured once, stored by hash, and compared by distance."""

import dataclasses
import math

import pytest
import torch
from leagues import checkpoint_of, fresh

from echelon.arena.config import ArenaConfig
from echelon.arena.style import MEASURES, Style
from echelon.league.league_arena import LeagueArena
from echelon.league.rating_period import plane, stored_style, style_columns, styles_of
from echelon.runtime.files import FileError

CPU = torch.device("cpu")


def made(name: str, **numbers: float) -> Style:
    """Return a style with this many scales of distance from zero."""
    scaled = {measure: numbers.get(measure, 0.0) * one.scale for measure, one in MEASURES.items() if measure != "share"}
    return Style(name, "league", "f", {"share_laser": 0.0, **scaled}, {"easy": 0.5}, (1,), {})


def test_each_entry_is_measured_once_and_stored_by_hash(tmp_path, monkeypatch):
    store = fresh(tmp_path)
    entry, told = store.add(checkpoint_of(tmp_path, 1)), []
    arena = LeagueArena(store, ArenaConfig(CPU))
    found = styles_of(arena, 2, told.append)
    names = [one.name for one in store.entries()]
    assert list(found) == names == told and found[entry.name].policy == entry.name
    assert list(found[entry.name].response) == names[1:5] and stored_style(store, entry.id) == found[entry.name]
    assert not store.matches(), "unrated"
    monkeypatch.setattr("echelon.league.rating_period.style", lambda *_, **__: 1 / 0)
    assert styles_of(arena, 2) == found
    with pytest.raises(ZeroDivisionError):
        styles_of(arena, 4)


def test_stored_styles_are_validated(tmp_path):
    store = fresh(tmp_path)
    who = store.entries()[0].id
    assert stored_style(store, who) is None
    for change in ({"numbers": {"heat": "hot"}}, {"seeds": [-1]}, {"policy": 7}, {"more": 1}):
        store.set_setting(f"style {who}", {**made("a").as_json(), **change})
        with pytest.raises(FileError, match=f"style {who}"):
            stored_style(store, who)


def test_most_similar_entry():
    styles = {name: made(name, heat=far, zone=far) for name, far in (("a", 0.0), ("b", 1.0), ("c", 5.0))}
    columns, unit = style_columns(styles), math.sqrt(2 / len(MEASURES))
    assert {name: row["like"] for name, row in columns.items()} == {"a": "b", "b": "a", "c": "b"}
    assert [row["apart"] for row in columns.values()] == [round(unit, 3), round(unit, 3), round(4 * unit, 3)]
    whole = style_columns(styles, whole=True)["c"]
    assert whole["style"] == styles["c"].numbers and whole["response"] == {"easy": 0.5}
    assert len(whole["plane"]) == 2


def test_the_plane_keeps_the_distances_of_styles_that_lie_in_one():
    styles = [made(str(n), heat=x, zone=y) for n, (x, y) in enumerate([(0, 0), (3, 0), (0, 4), (6, 8)])]
    points, shares = plane(styles)
    apart = torch.cdist(points, points) / math.sqrt(len(MEASURES))
    told = torch.tensor([[one.distance(other) for other in styles] for one in styles]).double()
    assert torch.allclose(apart, told) and shares.sum().item() == pytest.approx(1.0) and shares[0] > shares[1]
    again = plane([dataclasses.replace(one, policy="other") for one in styles])[0]
    assert torch.equal(points, again)

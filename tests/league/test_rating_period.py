"""The end of a period: ratings, promotion, demotion, retirement (R22, R26)."""

import pytest
import torch
from leagues import BRIEF, checkpoint_of, fought, fresh, unrated

from echelon.league.config import LeagueConfig
from echelon.league.league_arena import LeagueArena
from echelon.league.rating_period import close_period, moves, payoff_matrix, rate_entry
from echelon.league.ratings.glicko2 import Games, rate
from echelon.league.records import Standing
from echelon.league.store import Store


def test_a_period_rates_everybody_from_the_ratings_before_it(tmp_path):
    store = fresh(tmp_path)
    ids = [entry.id for entry in store.entries()]
    store.record([fought(ids[0], ids[1], 0, 1), fought(ids[1], ids[2], 0, 1), fought(ids[2], ids[0], 1, 0)])
    assert close_period(store) == 1 and store.period == 2
    games = Games(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]), torch.tensor([1.0, 1.0, 0.5]).double())
    expected = rate(unrated(5), games)
    for place, who in enumerate(ids):
        period, *row = store.history(store.find(who[:12]))[0]
        assert period == 1 and row == pytest.approx([column[place].item() for column in expected])
    store.record([fought(ids[0], ids[1], 5, 2)])
    close_period(store)
    assert [row[0] for row in store.history(store.find(ids[4][:12]))] == [1, 2], "who did not play is rated too"
    score, games_ = payoff_matrix(store, ids[:3])
    assert score.tolist() == [[0, 1, 0.5], [1, 0, 1], [0.5, 0, 0]] and games_[0].tolist() == [0, 2, 1]


def test_a_period_is_whole_or_not_at_all(tmp_path, monkeypatch):
    store = fresh(tmp_path)
    ids = [entry.id for entry in store.entries()]
    store.record([fought(ids[0], ids[1], 0)])
    monkeypatch.setattr("echelon.league.rating_period.moves", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        close_period(store)
    assert store.period == 1 and store.history(store.entries()[0]) == []


def stand(name: str, rating: float, deviation: float, games: int = 50, kind: str = "candidate") -> Standing:
    return Standing(name, name, kind, rating, deviation, 0.06, games, 0.0)


THREE = [stand("bold", 1700, 120), stand("sure", 1600, 30), stand("calm", 1580, 10)]


@pytest.mark.parametrize(("k", "best"), [(0, "bold"), (1, "bold"), (2, "calm")])
def test_who_leads_depends_on_how_careful_one_is(k, best):
    # k = 0: 1700, 1600, 1580; 1: 1580, 1570, 1570; 2: 1460, 1540, 1560
    found = moves(THREE, LeagueConfig(conservatism=k, commanders=1))
    assert [(move.id, move.change) for move in found] == [(best, "promoted")]
    assert f"r - {k} RD = " in found[0].reason and "place 1 of 3" in found[0].reason


def test_ties_go_to_more_games_then_to_the_name():
    tied = [stand("c", 1500, 50, 30), stand("b", 1500, 50, 40), stand("a", 1500, 50, 30)]
    found = moves(tied, LeagueConfig(commanders=2))
    assert [move.id for move in found] == ["b", "a"]


def test_few_games_neither_rise_nor_fall():
    new = [stand("new", 2000, 10, games=19), stand("old", 1500, 50)]
    found = moves(new, LeagueConfig(commanders=1, candidates_kept=1))
    assert [(move.id, move.kind) for move in found] == [("old", "commander")]


def test_the_lowest_fall_back_and_retire_and_roles_keep_their_places():
    rows = [stand(str(n), 2000 - 100 * n, 50, kind="commander") for n in range(4)]
    rows += [stand("main", 100, 50, kind="main"), stand("tier", 100, 50, kind="scripted")]
    found = moves(rows, LeagueConfig(commanders=1, candidates_kept=2))
    assert [(move.id, move.kind, move.change) for move in found] == [
        ("1", "candidate", "demoted"),
        ("2", "candidate", "demoted"),
        ("3", "retired", "retired"),
    ]


def test_history_survives_retirement(tmp_path):
    store = fresh(tmp_path)
    entry, tier = store.add(checkpoint_of(tmp_path, 1)), store.entries("scripted")[0]
    store.record([fought(entry.id, tier.id, n) for n in range(25)])
    close_period(store)
    assert store.find(entry.name).kind == "commander"
    store.set_kind(entry, "retired", "retired", "by hand")
    close_period(store)
    assert [c.change for c in store.changes()] == ["added", "promoted", "retired"]
    assert len(store.history(entry)) == 1 and store.payoff()[entry.id, tier.id][0] == 25
    assert entry.id not in {e.id for e in store.active()}


def test_a_period_that_others_closed_stays_closed(tmp_path):
    store = fresh(tmp_path)
    a, b = (entry.id for entry in store.entries()[:2])
    store.record([fought(a, b, 0)])
    assert close_period(store, 1) == 1 and store.period == 2
    before = store.standings()
    assert close_period(store, 1) == 1 and store.period == 2 and store.standings() == before


def test_moves_are_written_down_in_the_period_that_led_to_them(tmp_path):
    store = Store.create(tmp_path / "league", BRIEF, LeagueConfig(min_games=1))
    entry = store.add(checkpoint_of(tmp_path, 1))
    store.record([fought(entry.id, store.entries()[0].id, 0)])
    close_period(store)
    assert [(change.period, change.change) for change in store.changes()] == [(1, "added"), (1, "promoted")]


@pytest.mark.parametrize(("seeds", "opponents"), [(4, {1400, 1650}), (5, {1000, 1400, 1650, 1900, 2300})])
def test_a_newcomer_meets_everybody_once_it_has_played_enough(tmp_path, seeds, opponents):
    store = fresh(tmp_path)
    ratings = dict(zip([entry.id for entry in store.entries()], (1000, 1400, 1650, 1900, 2300), strict=True))
    store.record([fought(a, b, n) for a in ratings for b in ratings for n in range(10) if a < b])
    store.close_period({who: (rating, 50.0, 0.06) for who, rating in ratings.items()})
    entry = store.add(checkpoint_of(tmp_path, 1))
    assert rate_entry(LeagueArena(store, torch.device("cpu")), entry, seeds) == 2
    met = [{match.blue, match.red} - {entry.id} for match in store.matches(2)]
    assert {ratings[who] for (who,) in met} == opponents
    assert len(met) == 2 * seeds * len(opponents), "each seed on both sides, once"
    assert {ratings[who] for (who,) in met[: 4 * seeds]} == {1400, 1650}, "the near ones first"

"""The end of a period: ratings, promotion, demotion, retirement (R22, R26)."""

import pytest
import torch
from leagues import BRIEF, checkpoint_of, fought, fresh, unrated

from echelon.arena.config import ArenaConfig
from echelon.arena.style import MEASURES, Style
from echelon.league.config import LeagueConfig
from echelon.league.league_arena import LeagueArena
from echelon.league.rating_period import close_period, moves, payoff_matrix, rate_entry
from echelon.league.ratings import Games, rate
from echelon.league.records import Standing
from echelon.league.store import Store


@pytest.mark.requirement("R22")
def test_period_rates_all_entries_from_previous_ratings(tmp_path):
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


@pytest.mark.requirement("R22")
def test_closing_a_period_is_atomic(tmp_path, monkeypatch):
    store = fresh(tmp_path)
    ids = [entry.id for entry in store.entries()]
    store.record([fought(ids[0], ids[1], 0)])
    monkeypatch.setattr("echelon.league.rating_period.moves", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        close_period(store)
    assert store.period == 1 and store.history(store.entries()[0]) == []


def stand(
    name: str, rating: float, deviation: float, games: int = 50, kind: str = "candidate", share: float = 1.0
) -> Standing:
    return Standing(name, name, kind, rating, deviation, 0.06, games, share * games)


THREE = [stand("bold", 1700, 120), stand("sure", 1600, 30), stand("calm", 1580, 10)]


@pytest.mark.requirement("R26")
@pytest.mark.parametrize(("k", "best"), [(0, "bold"), (1, "bold"), (2, "calm")])
def test_order_depends_on_conservatism(k, best):
    # k = 0: 1700, 1600, 1580; 1: 1580, 1570, 1570; 2: 1460, 1540, 1560
    found = moves(THREE, LeagueConfig(conservatism=k, commanders=1))
    assert [(move.id, move.change) for move in found] == [(best, "promoted")]
    assert f"r - {k} RD = " in found[0].reason and "place 1 of 3" in found[0].reason


@pytest.mark.requirement("R26")
def test_ties_go_to_more_games_then_to_the_name():
    tied = [stand("c", 1500, 50, 30), stand("b", 1500, 50, 40), stand("a", 1500, 50, 30)]
    found = moves(tied, LeagueConfig(commanders=2))
    assert [move.id for move in found] == ["b", "a"]


@pytest.mark.requirement("R26")
def test_few_games_cause_no_move():
    new = [stand("new", 2000, 10, games=19), stand("old", 1500, 50)]
    found = moves(new, LeagueConfig(commanders=1, candidates_kept=1))
    assert [(move.id, move.kind) for move in found] == [("old", "commander")]


@pytest.mark.requirement("R26")
def test_lowest_entries_retire_and_roles_stay():
    rows = [stand(str(n), 2000 - 100 * n, 50, kind="commander") for n in range(4)]
    rows += [stand("main", 100, 50, kind="main"), stand("tier", 100, 50, kind="scripted")]
    found = moves(rows, LeagueConfig(commanders=1, candidates_kept=2))
    assert [(move.id, move.kind, move.change) for move in found] == [
        ("1", "candidate", "demoted"),
        ("2", "candidate", "demoted"),
        ("3", "retired", "retired"),
    ]


def test_commander_needs_half_of_its_points():
    rows = [
        stand("lucky", 1800, 50, share=0.49),
        stand("even", 1500, 50, share=0.5),
        stand("weak", 1200, 50, share=0.05),
    ]
    found = moves(rows, LeagueConfig())
    assert [(move.id, move.kind) for move in found] == [("even", "commander")]
    assert found[0].reason == "r - 2 RD = 1400, place 2 of 3"
    fallen = [stand("was", 1500, 50, kind="commander", share=0.2)]
    assert [(move.id, move.kind, move.change) for move in moves(fallen, LeagueConfig())] == [
        ("was", "candidate", "demoted")
    ]


@pytest.mark.requirement("R26")
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


@pytest.mark.requirement("R22")
def test_period_closed_by_another_process_stays_closed(tmp_path):
    store = fresh(tmp_path)
    a, b = (entry.id for entry in store.entries()[:2])
    store.record([fought(a, b, 0)])
    assert close_period(store, 1) == 1 and store.period == 2
    before = store.standings()
    assert close_period(store, 1) == 1 and store.period == 2 and store.standings() == before


def test_moves_are_recorded_in_their_period(tmp_path):
    store = Store.create(tmp_path / "league", BRIEF, LeagueConfig(min_games=1))
    entry = store.add(checkpoint_of(tmp_path, 1))
    store.record([fought(entry.id, store.entries()[0].id, 0)])
    close_period(store)
    assert [(change.period, change.change) for change in store.changes()] == [(1, "added"), (1, "promoted")]


@pytest.mark.requirement("R28")
@pytest.mark.parametrize(("seeds", "opponents"), [(4, {1400, 1650}), (5, {1000, 1400, 1650, 1900, 2300})])
def test_new_entry_plays_all_after_enough_games(tmp_path, seeds, opponents):
    store = fresh(tmp_path)
    ratings = dict(zip([entry.id for entry in store.entries()], (1000, 1400, 1650, 1900, 2300), strict=True))
    store.record([fought(a, b, n) for a in ratings for b in ratings for n in range(10) if a < b])
    store.close_period({who: (rating, 50.0, 0.06) for who, rating in ratings.items()})
    entry = store.add(checkpoint_of(tmp_path, 1))
    assert rate_entry(LeagueArena(store, ArenaConfig(torch.device("cpu"))), entry, seeds) == 2
    met = [{match.blue, match.red} - {entry.id} for match in store.matches(2)]
    assert {ratings[who] for (who,) in met} == opponents
    assert len(met) == 2 * seeds * len(opponents), "each seed on both sides, once"
    assert {ratings[who] for (who,) in met[: 4 * seeds]} == {1400, 1650}, "the near ones first"


def style_of(heat: float) -> Style:
    numbers = {"share_laser": 0.0} | {name: 0.0 for name in MEASURES if name != "share"}
    return Style("x", "league", "f", {**numbers, "heat": heat}, {"easy": 0.5}, (1,), {})


EQUALS = [stand(name, rating, 0) for name, rating in
          (("top", 1700), ("twin", 1510), ("odd", 1500), ("also", 1495), ("low", 1400))]  # fmt: skip
HEATS = {"top": 0.0, "twin": 0.0, "odd": 5.0, "also": 1.0, "low": 50.0}


@pytest.mark.parametrize(("kept", "gap", "retired"), [
    (1, 20.0, ["twin", "also", "low"]),  # odd stays: twin fights as top does, low is no equal
    (2, 20.0, ["twin", "low"]),
    (3, 20.0, ["low"]),
    (1, 0.0, ["odd", "also", "low"]),
    (1, 5.0, ["odd", "also", "low"]),
])  # fmt: skip
def test_dissimilar_styles_stay_among_equals(kept, gap, retired):
    config = LeagueConfig(commanders=1, candidates_kept=kept, equal_rating=gap)
    found = moves(EQUALS, config, {name: style_of(heat) for name, heat in HEATS.items()})
    assert sorted(move.id for move in found if move.change == "retired") == sorted(retired)
    whys = {move.id: move.reason for move in found}
    assert whys.get("twin", "by style among equals").endswith("by style among equals")


def test_of_two_of_one_style_one_stays():
    heats = {"top": 0.0, "twin": 3.0, "odd": 3.0, "also": 1.0}
    found = moves(EQUALS[:4], LeagueConfig(commanders=1, candidates_kept=2), {n: style_of(h) for n, h in heats.items()})
    assert [move.id for move in found if move.change == "retired"] == ["odd"], "the better of the two stays"


def test_style_choice_costs_at_most_equal_rating():
    """With random ratings and styles, the same number stays, no stayer is more than `equal_rating` below a retired one,
    and without styles ratings alone decide."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(50):
        ratings, heats = 1500 + 60 * torch.randn(30, generator=generator), torch.randn(30, generator=generator)
        stands = [stand(f"e{n}", rating, 0) for n, rating in enumerate(ratings.tolist())]
        styles = {f"e{n}": style_of(heat) for n, heat in enumerate(heats.tolist())}
        config = LeagueConfig(candidates_kept=10)
        plain = {*moves(stands, LeagueConfig(candidates_kept=10, equal_rating=0.0), styles)}
        assert {*moves(stands, config)} == plain == {*moves(stands, config, {"e0": styles["e0"]})}
        found = moves(stands, config, styles)
        out = {move.id for move in found if move.change == "retired"}
        assert len(out) == sum(move.change == "retired" for move in plain) == 15
        assert {m.id for m in found if m.change == "promoted"} == {m.id for m in plain if m.change == "promoted"}
        best_out = max(one.rating for one in stands if one.id in out)
        worst_in = min(one.rating for one in stands if one.id not in out)
        assert best_out - worst_in <= config.equal_rating

"""Battles of many commanders in one batch equal single battles, and are recorded (R13, R15, R16, R30)."""

import dataclasses
import json

import pytest
import torch
from leagues import BRIEF, TINY, checkpoint_of, fresh

from echelon.arena.batch_arena import Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.match import Match
from echelon.arena.resolve import resolve
from echelon.league.commands import evaluate
from echelon.league.league_arena import LeagueArena, match_seed, matches_of
from echelon.league.matchmaking import MOST_SEEDS, one_against, period_seeds, round_robin
from echelon.league.store import MAP_SEED
from echelon.learn.checkpoint.provenance import provenance_of

CPU = torch.device("cpu")
WIDER = dataclasses.replace(TINY, hidden=24)


def league(tmp_path):
    """Return a league of two networks of one architecture, one of another, and two scripted tiers."""
    store = fresh(tmp_path)
    for seed, model in ((1, TINY), (2, TINY), (3, WIDER)):
        store.add(checkpoint_of(tmp_path, seed, model))
    ids = [entry.id for entry in store.entries("candidate")]
    return store, [*ids, store.find("heuristic:trivial").id, store.find("heuristic:expert").id]


@pytest.mark.requirement("R30")
def test_every_pair_plays_every_seed_on_both_sides():
    battles = round_robin(["a", "b", "c"], [5, 6])
    assert len(battles) == len(set(battles)) == 3 * 2 * 2
    assert all(Battle(battle.red, battle.blue, battle.seed) in battles for battle in battles)
    assert {frozenset(battle[:2]) for battle in battles[:6]} == {frozenset(pair) for pair in ("ab", "ac", "bc")}
    assert one_against("a", ["a", "b"], [1]) == [Battle("a", "b", 1), Battle("b", "a", 1)]
    assert period_seeds(1, 3) == range(MOST_SEEDS, MOST_SEEDS + 3) and not set(period_seeds(1, 9)) & set(
        period_seeds(2, 9)
    )


@pytest.mark.requirement("R15")
def test_battle_is_identical_alone_and_in_a_batch(tmp_path):
    """Winner, score and every statistic are bit-identical, for networks and scripted commanders."""
    store, ids = league(tmp_path)
    arena = LeagueArena(store, ArenaConfig(CPU))
    battles = round_robin(ids, [7])
    together = matches_of(arena.play(battles))
    assert len(together) == len(battles) == len(store.matches()) == 20 and arena.unplayed(battles) == []
    for battle in (battles[0], battles[15]):
        (alone,) = arena.arena.play([battle._replace(seed=match_seed(battle.seed))]).results
        known = next(match for match in together if match[:3] == battle)
        stats = {side: list(json.loads(known.stats)[side].values()) for side in ("blue", "red")}
        assert (alone.state_hash, int(alone.winner), alone.decisions) == (
            known.state_hash,
            known.winner,
            known.decisions,
        )
        assert [list(own) for own in alone.stats] == [stats["blue"], stats["red"]]
    shots = [json.loads(match.stats)["blue"]["shots_autocannon"] for match in together]
    assert len(set(shots)) > 3, "these battles differ"


def test_recorded_battles_are_not_played_again(tmp_path):
    store, ids = league(tmp_path)
    arena = LeagueArena(store, ArenaConfig(CPU, batch=4))
    battles = round_robin(ids[2:4], [1, 2, 3])
    first = next(iter(arena.play(battles)))
    assert len(first.matches) == 4 == len(store.matches())
    rest = arena.unplayed(battles)
    assert rest == battles[4:]
    assert [len(fought.matches) for fought in arena.play(battles)] == [2] and len(store.matches()) == 6


def test_pair_plays_a_seed_once_at_any_precision(tmp_path):
    store, ids = league(tmp_path)
    battles = round_robin(ids[3:], period_seeds(1, 1))
    assert [len(fought.matches) for fought in LeagueArena(store, ArenaConfig(CPU)).play(battles)] == [2]
    assert LeagueArena(store, ArenaConfig(CPU, precision="bf16")).unplayed([*battles, battles[0]._replace(seed=7)]) == [
        battles[0]._replace(seed=7)
    ]


@pytest.mark.requirement("R16")
def test_a_battle_of_a_league_is_the_same_battle_outside_it(tmp_path):
    """With the same weights, seed and maps, a match of `arena.py play` and a league battle have equal bits."""
    store, ids = league(tmp_path)
    env = dataclasses.replace(store.env, map_seed=MAP_SEED)
    folders = {n: str(tmp_path / f"policy_{n}") for n in (1, 3)}
    assert [resolve(folder).id for folder in folders.values()] == [ids[0], ids[2]]
    one, three = (resolve(folder).policy(env, CPU) for folder in folders.values())
    outside = Match((ids[0], one), {ids[2]: three}, env, 4, ArenaConfig(CPU, batch=3)).play(5)[ids[2]].outcomes
    battles = [Battle(ids[0], ids[2], 5), Battle(ids[2], ids[0], 5)]
    others = one_against(ids[0], ids[3:], period_seeds(1, 2))
    (inside,) = LeagueArena(store, ArenaConfig(CPU)).play([*others, *battles])
    assert [match.state_hash for match in inside.matches[-2:]] == [outcome.state_hash for outcome in outside[:2]]
    assert len({match.state_hash for match in inside.matches}) == len(inside.matches)


def test_league_evaluation_reports_what_training_contained(tmp_path):
    """The result uses the names of entries, even if a checkpoint has others; the league stores provenance."""
    store, ids = league(tmp_path)
    provenance = provenance_of(dataclasses.replace(BRIEF, split="train"), ["heuristic:easy", ids[0]])
    path = checkpoint_of(tmp_path, 9, provenance=provenance)
    easy, hard, one, two = (store.find(name).name for name in ("easy", "hard", *ids[:2]))
    arena = LeagueArena(store, ArenaConfig(CPU, batch=5))
    found = evaluate(arena, str(path), 1, lambda batches, *_: list(batches), [easy, hard, one, two])
    assert found.met == {
        "maps": "unknown",
        "battle": "met",
        "opponents": {easy: "met", hard: "not met", one: "met", two: "not met"},
    }
    assert store.weights.open(store.add_weights(path)).provenance == provenance


def test_league_evaluation_equals_rated_battles(tmp_path):
    """Rated battles of the same seeds have the same bits; nothing is recorded, and weights that are already an entry
    do not play themselves."""
    store, ids = league(tmp_path)
    arena = LeagueArena(store, ArenaConfig(CPU, batch=5))
    totals = []

    def progress(batches, total, own):
        totals.append(total)
        return list(batches)

    found = evaluate(arena, str(tmp_path / "policy_1"), 1, progress)
    others = [entry for entry in store.active() if entry.id != ids[0]]
    assert list(found.results) == [entry.name for entry in others] and totals == [2 * len(others)]
    assert list(found.met["opponents"]) == list(found.results) and set(found.met["opponents"].values()) == {"unknown"}
    assert store.matches() == []
    battles = one_against(ids[0], [entry.id for entry in others], period_seeds(0, 1))
    played = [match for batch in arena.play(battles) for match in batch.matches]
    for number, result in enumerate(found.results.values()):
        own = [match for match in played if others[number].id in (match.blue, match.red)]
        assert [outcome.state_hash for outcome in result.outcomes] == [match.state_hash for match in own]
        assert result.x_wins == sum(match.points(ids[0]) == 1.0 for match in own)
    (one,) = evaluate(arena, str(tmp_path / "policy_1"), 1, progress, ["heuristic:expert"]).results
    assert one.startswith("heuristic:expert")

"""League training: roles in turn, evaluated, and kept or reset for a recorded reason (R27)."""

import dataclasses

import pytest
import torch
from leagues import BRIEF, TINY, checkpoint_of

from echelon.arena.config import ArenaConfig
from echelon.league.config import LeagueConfig
from echelon.league.evolution import Evolution, Progress, Role
from echelon.league.league_arena import LeagueArena
from echelon.league.store import Store
from echelon.learn.config import PPOConfig, TrainConfig
from echelon.rules.config import EnvConfig

CPU = torch.device("cpu")
SHORT = TrainConfig(
    env=BRIEF,
    model=TINY,
    num_envs=8,
    ppo=PPOConfig(rollout_decisions=8, chunk_decisions=4, minibatches=2, epochs=1),
    past_blocks=2,
    device="cpu",
    precision="fp32",
)


def evolution_of(store: Store) -> Evolution:
    return Evolution(LeagueArena(store, ArenaConfig(CPU)), SHORT, None, seeds=1, planned_turns=2, iterations=1)


@pytest.mark.requirement("R27")
def test_roles_train_in_turn_and_outcomes_are_recorded(tmp_path):
    rules = LeagueConfig(exploiter_turns=2, league_exploiter_reset=0.0, exploiter_wins=1.0, cold_games=0)
    store = Store.create(tmp_path / "league", BRIEF, rules)
    evolution = evolution_of(store)
    assert evolution.turn(Role.MAIN).joins
    main = store.entries("main")[0]
    assert evolution.opponent_shares(Role.MAIN_EXPLOITER, evolution.progress(Role.MAIN_EXPLOITER)) == {main.id: 1.0}
    first = evolution.turn(Role.MAIN_EXPLOITER)
    assert not first.joins and f"against {main.name}" in first.reason
    assert evolution.progress(Role.MAIN_EXPLOITER).turns == 1 and store.entries("exploiter") == []
    # A new process continues where the last one stopped.
    again = evolution_of(Store(store.folder))
    second = again.turn(Role.MAIN_EXPLOITER)
    assert again.trainers == {}, "it begins anew"
    assert not second.joins and second.resets and second.reason.startswith("out of turns")
    assert again.store.entries("exploiter") == [] and again.progress(Role.MAIN_EXPLOITER) == Progress(generation=1)
    # The same rules, except for the required wins.
    store.set_config(BRIEF, dataclasses.replace(rules, exploiter_wins=0.0))
    again = evolution_of(Store(store.folder))
    third = again.turn(Role.MAIN_EXPLOITER)
    assert third.joins and third.resets and third.reason.startswith("won: ")
    exploiter = again.store.entries("exploiter")[0]
    found = [(change.change, change.name) for change in again.store.changes()]
    assert found[-3:] == [("added", exploiter.name), ("judged", exploiter.name), ("reset", "")]
    assert again.progress(Role.MAIN_EXPLOITER) == Progress(generation=2)
    assert {s.name: s.games for s in again.store.standings()}[exploiter.name] == 2 * 6
    assert again._trainer(Role.MAIN_EXPLOITER, 2).counters.iterations == 0
    again.turn(Role.MAIN)
    assert [entry.parent for entry in again.store.entries("main")] == [None, main.id]


@pytest.mark.requirement("R27")
def test_opponents_follow_the_turns_mixture(tmp_path):
    evolution = evolution_of(Store.create(tmp_path / "league", BRIEF))
    evolution.turn(Role.MAIN)
    met = set().union(*evolution.trainers[Role.MAIN].opponents.frozen.names)
    assert met <= {"iteration 0", "iteration 1"}, "an empty league leaves it to itself"
    evolution.turn(Role.MAIN_EXPLOITER)
    met = set().union(*evolution.trainers[Role.MAIN_EXPLOITER].opponents.frozen.names)
    assert met == {evolution.store.entries("main")[0].id}


def test_reset_role_restarts_its_schedules(tmp_path):
    store = Store.create(tmp_path / "league", BRIEF)
    evolution = evolution_of(store)
    for _ in range(2):
        evolution.turn(Role.MAIN)
    assert evolution.trainers[Role.MAIN].finished
    trainer = evolution_of(store)._trainer(Role.MAIN, 0)
    assert trainer.counters.iterations == 2 and trainer.progress == pytest.approx(0.5)


@pytest.mark.requirement("R27")
def test_rating_and_evaluation_use_different_battles(tmp_path, monkeypatch):
    evolution = evolution_of(Store.create(tmp_path / "league", BRIEF, LeagueConfig(exploiter_wins=0.0)))
    seeds = {}

    def listen(name, played, seeds_of):
        def play(self, *args):
            seeds.setdefault(name, set()).update(seeds_of(args))
            return played(self, *args)

        monkeypatch.setattr(LeagueArena, name, play)

    listen("play", LeagueArena.play, lambda args: [battle.seed for battle in args[0]])
    listen("evaluate", LeagueArena.evaluate, lambda args: args[2])
    assert evolution.turn(Role.LEAGUE_EXPLOITER).joins
    assert seeds["play"] and seeds["evaluate"] and not seeds["play"] & seeds["evaluate"]


@pytest.mark.requirement("R27")
def test_main_exploiter_uses_results_against_the_previous_main(tmp_path):
    store = Store.create(tmp_path / "league", BRIEF)
    mains = [store.add(checkpoint_of(tmp_path, seed), "main") for seed in (1, 2, 3)]
    store.set_setting("role main", {"entry": mains[2].id})
    mixture = evolution_of(store).opponent_shares
    assert mixture(Role.MAIN_EXPLOITER, Progress()) == {mains[2].id: 1.0}
    lost = Progress(judged={mains[1].id: [4.0, 0.0]})
    assert set(mixture(Role.MAIN_EXPLOITER, lost)) == {mains[0].id, mains[1].id}
    won = Progress(judged={mains[1].id: [4.0, 1.0]})
    assert mixture(Role.MAIN_EXPLOITER, won) == {mains[2].id: 1.0}


def test_unrated_entry_of_an_interrupted_run_is_rated_later(tmp_path):
    store = Store.create(tmp_path / "league", BRIEF)
    left = store.add(checkpoint_of(tmp_path, 1), "main")
    evolution_of(store).turn(Role.MAIN)
    assert {standing.id: standing.games for standing in store.standings()}[left.id] == 2 * 5 + 2


@pytest.mark.requirement("R27")
@pytest.mark.long
def test_an_exploiter_beats_a_frozen_weak_main(tmp_path):
    """A main agent that never trained loses its battles to an exploiter that trains only against it."""
    store = Store.create(tmp_path / "league", dataclasses.replace(EnvConfig.small(), map_pool=8))
    main = store.add(checkpoint_of(tmp_path, 0, TrainConfig.quick().model, store.env), "main")
    store.set_setting("role main", {"entry": main.id})
    quick = TrainConfig.quick()
    config = dataclasses.replace(quick, num_envs=64, past_blocks=2, backend="eager", device="cpu")
    evolution = Evolution(LeagueArena(store, ArenaConfig(CPU)), config, None, seeds=8, planned_turns=2, iterations=20)
    verdicts = [evolution.turn(Role.MAIN_EXPLOITER)]
    while not verdicts[-1].joins:
        verdicts.append(evolution.turn(Role.MAIN_EXPLOITER))
    assert verdicts[-1].reason.startswith("won: ") and verdicts[-1].resets
    assert store.entries("exploiter")


def test_without_a_main_an_exploiter_plays_all_entries(tmp_path):
    store = Store.create(tmp_path / "league", BRIEF)
    retired = store.add(checkpoint_of(tmp_path, 2), "main")
    store.set_setting("role main", {"entry": retired.id})
    store.set_kind(retired, "retired", "retired", "by hand")
    points = evolution_of(store)._evaluate(Role.MAIN_EXPLOITER, store.add_weights(checkpoint_of(tmp_path, 1)))
    assert set(points) == {entry.id for entry in store.entries("scripted")}
    assert all(games == 2 for games, _ in points.values())

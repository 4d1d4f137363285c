"""A learner in a league: its opponents, and how it joins (R21, R25)."""

import dataclasses

import pytest
import torch
from leagues import BRIEF, TINY, checkpoint_of, fought, fresh, policy_of

from echelon.arena.config import ArenaConfig
from echelon.env.env import EchelonEnv
from echelon.league.config import LeagueConfig
from echelon.league.league_arena import LeagueArena
from echelon.league.league_callback import LeagueCallback
from echelon.league.matchmaking import OpponentSampler
from echelon.league.rating_period import close_period
from echelon.league.store import Store
from echelon.learn.config import PPOConfig, TrainConfig
from echelon.learn.opponents.assignment import SLOT, OpponentGroup, PolicyAssignment, count_readers
from echelon.learn.opponents.frozen import FrozenOpponents
from echelon.learn.trainer import Trainer

CPU = torch.device("cpu")


def readers_of(rivals, memory):
    return count_readers(memory, rivals.blocks, rivals.num_slots)


def test_opponents_share_the_learners_architecture(tmp_path):
    store = fresh(tmp_path)
    assert OpponentSampler(store, TINY).shares == {}, "the tiers are no networks"
    mine = store.add(checkpoint_of(tmp_path, 1))
    store.add(checkpoint_of(tmp_path, 2, dataclasses.replace(TINY, hidden=24)))
    retired = store.add(checkpoint_of(tmp_path, 3))
    store.set_kind(retired, "retired", "retired", "by hand")
    sampler = OpponentSampler(store, TINY)
    assert sampler.shares == {mine.id: 1.0}
    weights, stored = policy_of(1).state_dict(), sampler.weights_of(mine.id)
    assert all(torch.equal(stored[name], weights[name]) for name in weights)


@pytest.mark.requirement("R28")
def test_new_learner_plays_only_similar_ratings(tmp_path):
    store = fresh(tmp_path)
    near, far = (store.add(checkpoint_of(tmp_path, seed)) for seed in (1, 2))
    scripted = [entry.id for entry in store.entries() if entry.is_scripted]
    store.record([fought(far.id, other, n, 1) for other in scripted for n in range(20)])
    close_period(store)
    ratings = {standing.id: standing.rating for standing in store.standings()}
    assert abs(ratings[near.id] - 1500) < 200 < ratings[far.id] - 1500
    assert OpponentSampler(store, TINY).shares == {near.id: 1.0}, "before its first entry"
    me = store.add(checkpoint_of(tmp_path, 3))
    assert OpponentSampler(store, TINY, me.id).shares.keys() == {near.id, me.id}
    store.record([fought(me.id, scripted[0], n, 1 + n % 2) for n in range(20)])
    close_period(store)
    assert OpponentSampler(store, TINY, me.id).shares.keys() == {near.id, far.id, me.id}, "after twenty games all"


def test_hard_opponents_are_sampled_most(tmp_path):
    store = fresh(tmp_path)
    me, weak, strong = (store.add(checkpoint_of(tmp_path, seed)) for seed in (1, 2, 3))
    store.record(
        [fought(me.id, weak.id, n, 1) for n in range(20)] + [fought(me.id, strong.id, n, 2) for n in range(20)]
    )
    sampler = OpponentSampler(store, TINY, me.id)
    lost, won = 1 - 0.5 / 21, 1 - 20.5 / 21
    even = 0.5**2
    total = lost**2 + won**2 + even
    assert abs(sampler.shares[strong.id] - lost**2 / total) < 1e-9
    assert abs(sampler.shares[weak.id] - won**2 / total) < 1e-9


@pytest.mark.requirement("R25")
def test_refreshed_pool_applies_to_new_battles_with_empty_memory(tmp_path):
    """Running battles keep their opponents; new ones play the new entry with empty memory."""
    store = fresh(tmp_path)
    store.add(checkpoint_of(tmp_path, 1))
    sampler = OpponentSampler(store, TINY)
    rivals = FrozenOpponents(policy_of(0), 1, 2, sampler)
    seats = PolicyAssignment(policy_of(0), [OpponentGroup("past", rivals, 4)])
    env = EchelonEnv(BRIEF, 4, device="cpu", seed=0, memory=seats.memory)
    first = store.entries("candidate")[0]
    td, newcomer, met = env.reset(), None, []
    with torch.inference_mode():
        for decision in range(2 * BRIEF.rules.max_decisions + 4):
            begins = td["is_init"][:, 0]
            own = seats.view(td, "past")["memory"]
            assert not own["h"][begins].any(), "a battle begins with nothing in mind"
            seats.decide(td)
            slots = sum(td["next", group, "memory", "past", SLOT][:, 0, 0] for group in ("blue", "red"))
            met.append([rivals.names[0][int(slot) - 1] for slot in slots])
            _, td = env.step_and_maybe_reset(td)
            if decision == 3:
                store.set_kind(first, "retired", "retired", "by hand")
                newcomer = store.add(checkpoint_of(tmp_path, 2))
                sampler.refresh()
            if decision >= 3:
                rivals.refresh(readers_of(rivals, seats.view(td, "past")["memory"]).tolist())
    assert met[0] == met[BRIEF.rules.max_decisions - 1] == [first.id] * 4
    assert met[-1] == [newcomer.id] * 4


def test_run_joins_its_league_and_is_rated(tmp_path):
    store = Store.create(tmp_path / "league", BRIEF, LeagueConfig(cold_games=0))
    arena = LeagueArena(store, ArenaConfig(CPU))
    sampler = OpponentSampler(store, TINY)
    config = TrainConfig(
        env=BRIEF,
        model=TINY,
        num_envs=8,
        ppo=PPOConfig(rollout_decisions=8, chunk_decisions=4, minibatches=2, epochs=1),
        opponent=f"league:{store.folder}",
        past_blocks=1,
        device="cpu",
        precision="fp32",
    )
    assert config.past_battles == 8 and config.scripted_battles == 0
    trainer = Trainer(config, tmp_path / "run", opponent_pool=sampler)
    assert trainer.opponents.frozen.names == [["iteration 0"] * 2], "an empty league leaves it to itself"
    callback = LeagueCallback(arena, sampler, seeds=1)
    trainer.iterate()
    first = callback.submit(trainer.save())
    assert store.period == 2 and len(store.matches(1)) == 5 * 2
    trainer.iterate()
    second = callback.submit(trainer.save())
    assert second.parent == first.id and len(store.matches(2)) == 6 * 2
    assert callback.standing().startswith(f"{second.name} (candidate): ")
    assert set(sampler.shares) == {first.id, second.id}
    for _ in range(4):
        trainer.iterate()
    assert set(trainer.opponents.frozen.names[0]) & {first.id, second.id}
    lines = (store.folder / "log.jsonl").read_text().splitlines()
    submitted = [line for line in lines if '"submitted"' in line]
    assert len(submitted) == 2 and second.name in submitted[1]
    assert sum('"match"' in line for line in lines) == len(store.matches()), "the matches of a learner are logged too"


def test_league_battles_may_be_a_share():
    config = TrainConfig(num_envs=32, opponent="league:x", snapshot_opponent_share=0.5, ppo=PPOConfig(minibatches=1))
    assert (config.league, config.past_battles, config.scripted_battles) == ("x", 16, 16)
    assert TrainConfig(num_envs=16, ppo=PPOConfig(minibatches=1)).league == ""


def test_rated_entry_is_not_rated_again(tmp_path):
    store = fresh(tmp_path)
    arena = LeagueArena(store, ArenaConfig(CPU))
    path = checkpoint_of(tmp_path, 1)
    first = LeagueCallback(arena, OpponentSampler(store, TINY), 1)
    entry = first.submit(path)
    again = LeagueCallback(arena, OpponentSampler(store, TINY), 1)
    again.load_state_dict(first.state_dict())
    assert again.sampler.me == entry == again.submit(path) and store.period == 2
    assert len(store.matches()) == 2 * 5

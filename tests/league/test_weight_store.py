"""The cache of policies: its bound and its counts (R18)."""

import gc
import weakref

import pytest
import torch
from leagues import checkpoint_of, fresh

from echelon.arena.batch_arena import Battle
from echelon.arena.config import ArenaConfig
from echelon.league.league_arena import LeagueArena
from echelon.league.store import WeightStore


@pytest.mark.requirement("R18")
def test_cache_is_bounded_and_counts_hits(tmp_path):
    """With six opponents and two dozen requests, the number of live policies stays within the capacity."""
    store = fresh(tmp_path)
    digests = [store.add_weights(checkpoint_of(tmp_path, seed)) for seed in range(6)]
    weights = WeightStore(store.folder, capacity=2)
    alive = []
    for digest in [*digests, *digests]:
        alive.append(weakref.ref(weights.policy(digest)))
        assert weights.policy(digest) is alive[-1]()
        assert weights.load.cache_info().currsize <= 2
    gc.collect()
    assert sum(ref() is not None for ref in alive) == 2
    assert weights.load.cache_info()[:2] == (12, 12) and weights.hit_rate == 0.5


@pytest.mark.requirement("R18")
def test_the_least_recently_used_policy_goes_first(tmp_path):
    store = fresh(tmp_path)
    one, two, three = (store.add_weights(checkpoint_of(tmp_path, seed)) for seed in range(3))
    weights = WeightStore(store.folder, capacity=2)
    kept = weights.policy(one)
    for digest in (two, one, three):
        weights.policy(digest)
    assert weights.policy(one) is kept and weights.load.cache_info().misses == 3
    weights.policy(two)
    assert weights.load.cache_info().misses == 4


@pytest.mark.requirement("R18")
def test_memory_stays_flat_over_many_matches(tmp_path):
    """With sixteen matches among six policies, there are as many tensors at the end as after the first eight."""
    store = fresh(tmp_path)
    ids = [store.add(checkpoint_of(tmp_path, seed)).id for seed in range(6)]
    store.weights = WeightStore(store.folder, capacity=2)
    arena, counts = LeagueArena(store, ArenaConfig(torch.device("cpu"), batch=8)), []
    for start in range(0, 16, 4):
        pairs = [(ids[number % 6], ids[(number * 5 + 1) % 6], number) for number in range(start, start + 4)]
        arena.arena.play([Battle(*own) for x, y, seed in pairs for own in ((x, y, seed), (y, x, seed))])
        if start in (4, 12):
            gc.collect()
            # Compare types, because `isinstance` would call the object behind a weak reference of another test.
            counts.append(sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects()))
    assert store.weights.load.cache_info().currsize == 2 and counts[1] <= counts[0]

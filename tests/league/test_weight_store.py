"""Policies in the cache: bounded, and counted (R18)."""

import gc
import weakref

from leagues import checkpoint_of, fresh

from echelon.league.weight_store import WeightStore


def test_the_cache_is_bounded_and_counts(tmp_path):
    """A hundred opponents, four hundred requests: never more policies alive than it may keep."""
    store = fresh(tmp_path)
    digests = [store.add_weights(checkpoint_of(tmp_path, seed)) for seed in range(100)]
    weights = WeightStore(store.folder, capacity=8)
    alive = []
    for digest in [*digests, *digests]:
        alive.append(weakref.ref(weights.policy(digest)))
        assert weights.policy(digest) is alive[-1]()
        assert len(weights.cache) <= 8
    gc.collect()
    assert sum(ref() is not None for ref in alive) == 8
    assert (weights.hits, weights.misses) == (200, 200) and weights.hit_rate == 0.5

"""Policies at hand: bounded, and counted (R18)."""

import gc
import weakref

from leagues import checkpoint_of, fresh

from echelon.league.library import Library


def test_the_library_is_bounded_and_counts(tmp_path):
    """A hundred opponents, four hundred requests: never more policies alive than it may keep."""
    store = fresh(tmp_path)
    digests = [store.keep(checkpoint_of(tmp_path, seed)) for seed in range(100)]
    library = Library(store.vault, capacity=8)
    alive = []
    for digest in [*digests, *digests]:
        alive.append(weakref.ref(library.policy(digest)))
        assert library.policy(digest) is alive[-1]()
        assert len(library.kept) <= 8
    gc.collect()
    assert sum(ref() is not None for ref in alive) == 8
    assert (library.hits, library.misses) == (200, 200) and library.hit_rate == 0.5

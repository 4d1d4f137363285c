"""Lineages, and the rank correlation of age and rating (R29)."""

import json

import pytest
from leagues import checkpoint_of, fresh, policy_of

from echelon.league.commands import longest_line, spearman
from echelon.league.records import Entry
from echelon.learn.checkpoint.format import METADATA, open_checkpoint
from echelon.learn.checkpoint.provenance import weight_hash
from echelon.pipelines.league import Add


def child(name: str, parent: str | None) -> Entry:
    return Entry(name, "candidate", name, parent, "{}", 0.0)


def test_the_longest_line_is_found_oldest_first():
    entries = [child("a", None), child("b", "a"), child("x", "a"), child("c", "b"), child("other", "gone")]
    assert [entry.id for entry in longest_line(entries)] == ["a", "b", "c"]
    assert longest_line([]) == []


def test_cyclic_lineage_terminates():
    """An untrusted file may contain a cycle."""
    assert len(longest_line([child("a", "b"), child("b", "a")])) == 2


def test_policies_of_different_runs_have_no_parent(tmp_path):
    store = fresh(tmp_path)
    paths = [str(checkpoint_of(tmp_path, seed)) for seed in (1, 2, 3)]
    Add((*paths,), store.folder).run()
    assert [entry.parent for entry in store.entries("candidate")] == [None, None, None]
    assert longest_line(store.entries("candidate"))[1:] == []


def test_parent_is_the_newest_entry_that_the_file_names(tmp_path):
    store = fresh(tmp_path)
    first, pruned, child = (weight_hash(policy_of(seed).state_dict()) for seed in (1, 2, 3))
    paths = [
        checkpoint_of(tmp_path, 1),
        checkpoint_of(tmp_path, 3, ancestors=(first, pruned)),
        checkpoint_of(tmp_path, 4, ancestors=(child, first)),
    ]
    Add((*map(str, paths),), store.folder).run()
    assert [entry.parent for entry in store.entries("candidate")] == [None, first, first]


def test_named_parent_is_that_of_the_first_checkpoint_only(tmp_path):
    store = fresh(tmp_path)
    paths = [str(checkpoint_of(tmp_path, seed)) for seed in (1, 2)]
    Add((*paths,), store.folder, "heuristic:hard").run()
    assert [entry.parent for entry in store.entries("candidate")] == [store.find("hard").id, None]


def test_file_that_names_no_ancestors_has_none(tmp_path):
    """Echelon 1.0 wrote such files."""
    path = checkpoint_of(tmp_path, 1)
    metadata = json.loads((path / METADATA).read_text())
    del metadata["ancestors"]
    (path / METADATA).write_text(json.dumps(metadata))
    checkpoint = open_checkpoint(path)
    assert checkpoint.ancestors == () and checkpoint.lineage == (weight_hash(policy_of(1).state_dict()),)


@pytest.mark.requirement("R29")
def test_rank_correlation_textbook_example():
    # IQ and hours of television: rho = -29/165
    iq = [86, 97, 99, 100, 101, 103, 106, 110, 112, 113]
    hours = [2, 20, 28, 27, 50, 29, 7, 17, 6, 12]
    assert spearman(iq, hours) == pytest.approx(-29 / 165)
    assert spearman([1, 2, 3], [10, 40, 90]) == 1.0 and spearman([1, 2], [5, 5]) == 0.0
    assert spearman([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1.0)

"""Lines of descent and the rank correlation of age and rating (R29)."""

import pytest

from echelon.league.commands import longest_line, spearman
from echelon.league.records import Entry


def child(name: str, parent: str | None) -> Entry:
    return Entry(name, "candidate", name, parent, "{}", 0.0)


def test_the_longest_line_is_found_oldest_first():
    entries = [child("a", None), child("b", "a"), child("x", "a"), child("c", "b"), child("other", "gone")]
    assert [entry.id for entry in longest_line(entries)] == ["a", "b", "c"]
    assert longest_line([]) == []


def test_a_line_that_bites_its_tail_ends():
    """As a stranger's file may have it."""
    assert len(longest_line([child("a", "b"), child("b", "a")])) == 2


def test_rank_correlation_of_the_textbook():
    # IQ and hours of television: rho = -29/165
    iq = [86, 97, 99, 100, 101, 103, 106, 110, 112, 113]
    hours = [2, 20, 28, 27, 50, 29, 7, 17, 6, 12]
    assert spearman(iq, hours) == pytest.approx(-29 / 165)
    assert spearman([1, 2, 3], [10, 40, 90]) == 1.0 and spearman([1, 2], [5, 5]) == 0.0
    assert spearman([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1.0)

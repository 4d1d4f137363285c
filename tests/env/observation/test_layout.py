"""Columns of every stream, and their indices."""

import pytest
import torch

from echelon.env.observation import layout
from echelon.env.observation.layout import CONTACT, EGO, SQUAD, Feature, bounds, columns, pack, width

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("features", [CONTACT, SQUAD, EGO])
def test_features_have_unique_names_and_a_range(features):
    assert len({f.name for f in features}) == len(features)
    low, high = bounds(features)
    assert low.shape == high.shape == (width(features),) and (low < high).all()


def test_columns_are_contiguous():
    for stream in (CONTACT, SQUAD, EGO):
        end = 0
        for feature in stream:
            where = columns(stream, feature.name)
            assert (where.start, where.stop) == (end, end + feature.width)
            end = where.stop
        assert end == width(stream)


def test_stream_widths_match_the_rule_book():
    assert width(CONTACT) == 3 + 3 + 2 + 3 + 2 + 2 + 4 + 3 + 3
    assert width(SQUAD) == 3 + 4 + 1 + 2 + 2 + 3
    assert width(EGO) == 4 + 1 + 3 + 2 + 5 + 3 + 5 + 9 + 2 + 2 + 4 + 1 + 3 + 3 + 3 + 1 + 4 + 14


def test_unknown_feature_is_named():
    with pytest.raises(KeyError, match="no feature 'wings'"):
        columns(EGO, "wings")


def test_pack_concatenates_columns_in_order():
    features = (Feature("a", 1, 0, 1), Feature("b", 2, 0, 1), Feature("c", 1, 0, 1))
    values = {"c": torch.tensor([True, True]), "b": torch.tensor([[2.0, 3.0]] * 2), "a": torch.tensor([1, 5])}
    shown = torch.tensor([True, False])
    assert pack(features, values, shown).tolist() == [[1, 2, 3, 1], [0, 0, 0, 0]]
    assert pack(features, values, shown, always=("a",)).tolist() == [[1, 2, 3, 1], [5, 0, 0, 0]]


def test_equal_layouts_have_equal_hashes():
    assert layout.layout_hash(8) == layout.layout_hash(8) != layout.layout_hash(4)
    assert layout.describe(8)["action"][-1] == ["message", 8, -1.0, 1.0]
    assert layout.action_width(8) == 26

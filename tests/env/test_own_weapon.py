"""A custom weapon from a JSON file is fired and counted like built-in ones."""

import pytest
from builders import Scene
from own_catalog import CATALOG, armed_duel

from echelon.env import outcome
from echelon.env.outcome import STATS, stat_names
from echelon.rules.actions import Act
from echelon.rules.catalog import Catalog

pytestmark = pytest.mark.quick


def counted(s: Scene) -> dict[str, list[float]]:
    """Return the statistics of blue and red."""
    stats = outcome.statistics(s.state, s.sim_model)[0].T.tolist()
    return dict(zip(stat_names(s.sim_model.catalog), stats, strict=True))


def test_custom_weapon_fires_and_is_counted():
    s = armed_duel()
    s.run(s.orders((0, Act.TERTIARY, 1.0))).wait(6)
    told = counted(s)
    assert (told["shots_railgun"], told["hits_railgun"]) == ([1, 0], [1, 0])
    assert told["damage_railgun"] == [30, 0] == told["damage"] and told["damage_gauss"] == [0, 0]
    assert s.value("hp", 1) == 170 and 30 < s.value("heat", 0) < 40


def test_statistics_of_the_default_catalog_keep_their_columns():
    assert stat_names(Catalog()) == STATS
    assert [name for name in stat_names(CATALOG) if "railgun" not in name] == list(STATS)

"""Scripted commanders fire a new weapon of the catalog, according to its row."""

import pytest
from deciding import decide
from own_catalog import armed_duel

from echelon.agents.tiers import TIERS
from echelon.rules.actions import Act
from echelon.rules.catalog import Catalog


@pytest.mark.parametrize("tier", TIERS)
def test_commanders_that_use_the_trigger_fire_it(tier):
    act, _ = decide(armed_duel(), tier=tier)
    assert (act[Act.TERTIARY] > 0) == (tier in ("normal", "hard", "expert"))
    unarmed, _ = decide(armed_duel(Catalog()), tier=tier)
    assert unarmed[Act.TERTIARY] <= 0

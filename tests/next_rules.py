"""Future rules, for tests of files that were written under the current rules."""

import dataclasses

from echelon.rules import upgrade, versions
from echelon.rules.config import EnvConfig
from echelon.rules.versions import Change

OURS, NEXT = versions.RULES_VERSION, versions.RULES_VERSION + 1
STEP_UP_VOX, RADAR_VOX = 1.6, 20.0
"""Defaults of two settings under the next rules."""


def next_defaults() -> EnvConfig:
    """Return `EnvConfig()` under the next rules."""
    own = EnvConfig()
    rules = dataclasses.replace(own.rules, step_up_vox=STEP_UP_VOX)
    return dataclasses.replace(own, rules=rules, radar_range_vox=RADAR_VOX)


def change_rules(monkeypatch) -> None:
    """Switch to the next rules, which change two defaults."""
    own = EnvConfig()
    before = {"rules.step_up_vox": own.rules.step_up_vox, "radar_range_vox": own.radar_range_vox}
    monkeypatch.setattr(versions, "RULES_VERSION", NEXT)
    monkeypatch.setitem(versions.CHANGES, NEXT, Change("higher steps and a wider radar", before))
    monkeypatch.setattr(upgrade, "EnvConfig", next_defaults)

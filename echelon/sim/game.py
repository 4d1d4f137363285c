"""What a battle is played with, the same for every battle and moment."""

from __future__ import annotations

from dataclasses import dataclass

from echelon.catalog import Roster
from echelon.config import EnvConfig, RulesConfig
from echelon.state import Maps


@dataclass(frozen=True)
class Game:
    """Settings, roster and maps: the constants every system reads beside the state."""

    config: EnvConfig
    roster: Roster
    maps: Maps

    @property
    def rules(self) -> RulesConfig:
        """Clock, physics and victory."""
        return self.config.rules

"""Echelon: mech battles for multi-agent reinforcement learning, batched on the device."""

from echelon.env.env import EchelonEnv
from echelon.env.views import mechs, teams, versus
from echelon.rules.config import EnvConfig
from echelon.runtime.version import VERSION as __version__

__all__ = ["EchelonEnv", "EnvConfig", "__version__", "mechs", "teams", "versus"]

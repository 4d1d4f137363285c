"""Echelon: mech battles for multi-agent reinforcement learning, batched on the device."""

from echelon.config import EnvConfig
from echelon.env.env import EchelonEnv
from echelon.runtime.version import VERSION as __version__

__all__ = ["EchelonEnv", "EnvConfig", "__version__"]

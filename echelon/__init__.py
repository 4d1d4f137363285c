"""Echelon: mech battles for multi-agent reinforcement learning, batched on the device."""

from echelon.config import EnvConfig
from echelon.env.env import EchelonEnv

__all__ = ["EchelonEnv", "EnvConfig"]

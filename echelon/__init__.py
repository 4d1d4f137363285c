"""Echelon: mech battles for multi-agent reinforcement learning, batched on the device."""

from typing import TYPE_CHECKING, Any

from echelon.runtime.interrupts import end_while_importing

end_while_importing()  # The imports below take seconds.

from echelon.env.env import EchelonEnv  # noqa: E402
from echelon.env.make import make, register_view  # noqa: E402
from echelon.env.reward import RewardTerm  # noqa: E402
from echelon.env.tasks import Protocol, Task, register_task, tasks  # noqa: E402
from echelon.env.views import mechs, teams, versus  # noqa: E402
from echelon.rules.catalog import Catalog  # noqa: E402
from echelon.rules.catalog_json import read_catalog  # noqa: E402
from echelon.rules.config import EnvConfig, FeaturesConfig, RewardConfig, RulesConfig, WorldConfig  # noqa: E402
from echelon.rules.specs import HullSpec, WeaponSpec  # noqa: E402
from echelon.runtime.version import VERSION as __version__  # noqa: E402
from echelon.world.biomes import register_biome  # noqa: E402

if TYPE_CHECKING:
    from echelon.arena.evaluate import Evaluation, evaluate

__all__ = [
    "Catalog",
    "EchelonEnv",
    "EnvConfig",
    "Evaluation",
    "FeaturesConfig",
    "HullSpec",
    "Protocol",
    "RewardConfig",
    "RewardTerm",
    "RulesConfig",
    "Task",
    "WeaponSpec",
    "WorldConfig",
    "__version__",
    "evaluate",
    "make",
    "mechs",
    "read_catalog",
    "register_biome",
    "register_task",
    "register_view",
    "tasks",
    "teams",
    "versus",
]


def __getattr__(name: str) -> Any:
    """`evaluate` and `Evaluation`, imported when they are asked for: networks and leagues stand behind them."""
    if name not in ("evaluate", "Evaluation"):
        raise AttributeError(f"module 'echelon' has no attribute {name!r}")
    import echelon.league  # noqa: F401  (names `league:FOLDER/NAME`)
    from echelon.arena import evaluate as room

    return getattr(room, name)

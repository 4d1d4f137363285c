"""Mech battles for multi-agent reinforcement learning: TorchRL environments, batched on a GPU or a CPU.

    env = echelon.versus(echelon.EnvConfig.small(), "heuristic:normal", num_envs=64)
    print(env.rollout(10)["next", "agents", "reward"].shape)  # [64, 10, 5, 1]

Environments: `versus` (one team against a named opponent), `teams` (both teams), `mechs` (each mech as a row of the
batch), and `EchelonEnv`, which they are views of. Settings: `EnvConfig` with `WorldConfig`, `RulesConfig`,
`RewardConfig`, `FeaturesConfig` and the `Catalog` of `HullSpec` and `WeaponSpec`. Extensions: `RewardTerm`,
`register_biome`, `read_catalog`. Bad arguments raise `echelon.runtime.errors.ConfigError`, in one line.
"""

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

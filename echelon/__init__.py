"""Mech battles for multi-agent reinforcement learning, as TorchRL environments batched on a GPU or a CPU.

    env = echelon.versus(echelon.EnvConfig.small(), "heuristic:normal", num_envs=64)
    print(env.rollout(10)["next", "agents", "reward"].shape)  # [64, 10, 5, 1]

Each environment is a view of `EchelonEnv`. `versus` has one team play against a named opponent, `partners` a part of a
team beside a named partner, and `teams` both teams; in `mechs` each mech is a row of the batch, and in `commanders`
policies give orders to packs (groups of mechs). `EnvConfig` holds all settings, in `WorldConfig`, `RulesConfig`,
`RewardConfig`, `FeaturesConfig`, `CommandConfig` and the `Catalog` of `HullSpec` and `WeaponSpec`. `Scene`, `Scenario`
and `scene` start battles from authored positions, and `import_map` reads map files of other programs. `pieces` and
`skill_profile` are for set pieces, short battles that test one skill each. `style`, `whatif` and `fork` analyse
policies and battles, `trained` and `load_policy` load policies, and `CommandPort` receives orders from code or a
person. `RewardTerm`, `register_biome` and `read_catalog` extend the environment. Invalid arguments raise
`echelon.runtime.errors.ConfigError` with a message of one line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from echelon.runtime.interrupts import check_current_folder, end_while_importing
from echelon.runtime.providers import PROVIDERS
from echelon.runtime.version import VERSION as __version__

check_current_folder()
end_while_importing()  # The imports below take seconds: an interrupt during them ends the program without a traceback.
PROVIDERS.update(
    trained="echelon.learn.checkpoint.names",
    checkpoint="echelon.learn.checkpoint.names",
    league="echelon.league",
    llm="echelon.command.chat_policy",
    recorded="echelon.command.chat_policy",
    orders="echelon.command.scripted_orders",
)

if TYPE_CHECKING:
    from echelon.arena.evaluate import Evaluation, evaluate
    from echelon.arena.fork import fork
    from echelon.arena.resolve import load_policy
    from echelon.arena.skills import SkillProfile, skill_profile
    from echelon.arena.strangers.evaluation import StrangersEvaluation, evaluate_strangers
    from echelon.arena.strangers.verify import Verification, verify
    from echelon.arena.style import Style, style
    from echelon.arena.whatif import WhatIf, whatif
    from echelon.learn.checkpoint.shipped import TrainedPolicy, trained
    from echelon.public import *  # noqa: F403

__all__ = [  # noqa: F405
    "Box",
    "Catalog",
    "CommandConfig",
    "CommandPort",
    "EchelonEnv",
    "EnvConfig",
    "Evaluation",
    "FeaturesConfig",
    "HullSpec",
    "Objective",
    "Protocol",
    "RewardConfig",
    "RewardTerm",
    "RulesConfig",
    "Scenario",
    "Scene",
    "SkillProfile",
    "StrangersEvaluation",
    "Style",
    "Task",
    "TrainedPolicy",
    "Unit",
    "Verification",
    "WeaponSpec",
    "WhatIf",
    "WorldConfig",
    "__version__",
    "commanders",
    "evaluate",
    "evaluate_strangers",
    "find_scenario",
    "fork",
    "import_map",
    "latest",
    "load_policy",
    "make",
    "mechs",
    "partners",
    "pieces",
    "read_catalog",
    "read_scenario",
    "register_biome",
    "register_task",
    "register_view",
    "scenario_names",
    "scene",
    "scene_config",
    "skill_profile",
    "style",
    "tasks",
    "teams",
    "trained",
    "verify",
    "versus",
    "whatif",
]

NETWORKS = {
    "echelon.arena.evaluate": ("evaluate", "Evaluation"),
    "echelon.arena.skills": ("skill_profile", "SkillProfile"),
    "echelon.arena.strangers.evaluation": ("evaluate_strangers", "StrangersEvaluation"),
    "echelon.arena.strangers.verify": ("verify", "Verification"),
    "echelon.arena.style": ("style", "Style"),
    "echelon.arena.fork": ("fork",),
    "echelon.arena.whatif": ("whatif", "WhatIf"),
    "echelon.arena.resolve": ("load_policy",),
    "echelon.learn.checkpoint.shipped": ("trained", "TrainedPolicy"),
}
"""Public names that evaluate or load policies or replay battles, by module. Only these import networks."""
MODULES = {name: module for module, names in NETWORKS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on first access: torch and TorchRL take seconds, and `echelon --help` does not need them."""
    if name.startswith("__"):
        raise AttributeError(f"module 'echelon' has no attribute {name!r}")
    module = import_module(MODULES.get(name, "echelon.public"))
    # `import_module` may already have set this name: it sets a submodule as an attribute of its package.
    if name not in globals():
        if not hasattr(module, name):
            raise AttributeError(f"module 'echelon' has no attribute {name!r}")
        globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    """List the public names, including those not imported yet."""
    return sorted({*globals(), *__all__})

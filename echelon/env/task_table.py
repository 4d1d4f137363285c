"""The tasks of the package. A row never changes: what should be otherwise becomes a row of the next version.

`tests/env/test_tasks.py` holds the fingerprint of every row. All of them are of rules 3 and map maker 2.
"""

from __future__ import annotations

import dataclasses

from echelon.env.tasks import EVAL_SEED, Task, register_task
from echelon.rules.config import BIOME_NAMES, EnvConfig, FeaturesConfig, WorldConfig

SMALL, STANDARD, LARGE = EnvConfig.small(), EnvConfig.standard(), EnvConfig.large()
HELD_OUT = ("sunken_canal", "glass_desert", "volcanic_ridge", "server_farm")
"""Biomes that `biomes-5v5-v1` shows in evaluation only."""


def biomes_of(names: tuple[str, ...], config: EnvConfig) -> EnvConfig:
    """The same battles on ground of these biomes."""
    return dataclasses.replace(config, world=dataclasses.replace(config.world, biomes=names))


def add(name: str, about: str, config: EnvConfig, evaluation: EnvConfig | None = None) -> None:
    """A task of rules 3 with the usual protocol."""
    register_task(Task(name, about, config, 3, 2, evaluation))  # type: ignore[arg-type]


add("small-5v5-v1", "learns to fight at all: one pack against one, minutes of training on a CPU", SMALL)
add("standard-10v10-v1", "two packs coordinate under partial observation, the setting of the README", STANDARD)
add("large-10v10-v1", "long battles: finds the enemy and the zone on a large map within 90 s", LARGE)
add(
    "unequal-4v7-v1",
    "plays either role of an uneven fight: four heavy and medium mechs against seven light ones",
    EnvConfig(
        world=WorldConfig(40, 40, 16),
        blue=("heavy", "heavy", "medium", "medium"),
        red=("light", "light", "light", "light", "scout", "scout", "scout"),
    ),
)
add(
    "command-10v10-v1",
    "shares out roles: two packs of different hulls, whose commanders alone see what others sense",
    dataclasses.replace(
        STANDARD,
        command_suites=True,
        blue=("heavy", "heavy", "medium", "light", "scout", "medium", "medium", "light", "light", "scout"),
        red=("heavy", "heavy", "medium", "light", "scout", "medium", "medium", "light", "light", "scout"),
    ),
)
add(
    "full-5v5-v1",
    "fights with nothing hidden: what partial observation costs, beside small-5v5-v1",
    dataclasses.replace(SMALL, observation_mode="full"),
)
add(
    "silent-10v10-v1",
    "coordinates without messages: what communication is worth, beside standard-10v10-v1",
    dataclasses.replace(STANDARD, features=FeaturesConfig(comms=False)),
)
add(
    "biomes-5v5-v1",
    "carries over to ground never seen: trains on twelve biomes, is judged on four others",
    biomes_of(tuple(name for name in BIOME_NAMES if name not in HELD_OUT), SMALL),
    dataclasses.replace(biomes_of(HELD_OUT, SMALL), map_seed=EVAL_SEED),
)

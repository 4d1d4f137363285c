"""Print the hashes of some battles as JSON; `test_processors.py` runs this with settings of other processors."""

import dataclasses
import json
import sys

import torch

from echelon.arena.evaluate import evaluate
from echelon.arena.fingerprint import RANDOM, play
from echelon.env.tasks.task import Protocol, Task
from echelon.rules.config import EnvConfig, FeaturesConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.versions import current_versions

SEEDS = [1, 2, 3, 4, 5, 6, 7]
SCRIPTED, DRAWN = ("heuristic:expert", "heuristic:hard"), (RANDOM, RANDOM)
SMALL, STANDARD = (dataclasses.replace(preset(), map_pool=2) for preset in (EnvConfig.small, EnvConfig.standard))
TURNED = dataclasses.replace(
    SMALL,
    command_suites=True,
    observation_mode="full",
    map_spares=1,
    blue=("heavy", "medium", "scout"),
    rules=RulesConfig(max_episode_s=2.0, time_up_terminates=True),
)
"""All switches set to the opposite of their default."""
BARE = dataclasses.replace(
    SMALL, features=FeaturesConfig(**{field.name: False for field in dataclasses.fields(FeaturesConfig)})
)
BRIEF = {
    "small": (SMALL, 12, SCRIPTED),
    "random": (SMALL, 3, DRAWN),
    "switches turned": (TURNED, 10, SCRIPTED),
    "features off": (BARE, 3, SCRIPTED),
    "standard": (STANDARD, 3, SCRIPTED),
}
WHOLE = {
    f"{size} {commanders[0]}": (config, config.rules.max_decisions, commanders)
    for size, config in (("small", SMALL), ("standard", STANDARD))
    for commanders in (SCRIPTED, DRAWN)
}


SHORT = dataclasses.replace(SMALL, rules=RulesConfig(max_episode_s=1.0))
EVALUATED = Task("evaluated", "", SHORT, *current_versions(), protocol=Protocol(SCRIPTED[1:], battles=4))


def evaluated() -> list[str]:
    """Return an evaluation as JSON: state hash of each battle, rates and statistics."""
    told = evaluate(SCRIPTED[0], EVALUATED, device="cpu").as_json()
    del told["versions"], told["opponents"][SCRIPTED[1]]["battles_per_s"]
    return [json.dumps(told)]


def hashes(cases: dict, batch: int) -> dict[str, list[str]]:
    """Return the hashes of each case, keyed by seed, with the given batch size, and of an evaluation; or of whole
    battles of two seeds, without an evaluation."""
    seeds = SEEDS[:2] if cases is WHOLE else SEEDS
    groups = [seeds[first : first + batch] for first in range(0, len(seeds), batch)]
    found = {
        name: [each for group in groups for each in play(config, group, decisions, commanders)]
        for name, (config, decisions, commanders) in cases.items()
    }
    return found | {"evaluation": evaluated()} if cases is BRIEF else found


if __name__ == "__main__":
    length, threads, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    print(json.dumps(hashes(WHOLE if length == "whole" else BRIEF, size)))

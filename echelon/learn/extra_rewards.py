"""Custom reward terms from the command line: each has the name of a function, and a weight that may change over the
run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from echelon.env.env import EchelonEnv
from echelon.env.outcome import Ending
from echelon.env.reward import RewardFunction, RewardTerm, check_extra_terms
from echelon.learn.schedules import Schedule
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.runtime.imports import OBJECT_NAME, import_object, in_one_line
from echelon.runtime.shared_modes import kept_generators
from echelon.sim.model import SimModel
from echelon.state import State

FORM = "package.module:function=WEIGHT, or =FIRST..LAST for a weight that changes linearly over the run"
DOTS = ".."


@dataclass(frozen=True)
class ExtraReward:
    """A custom reward term and its weight over the run; only `load_extra_rewards` imports the function."""

    function: str
    """`package.module:function`."""
    first: float
    last: float

    @property
    def name(self) -> str:
        return self.function.partition(":")[2]

    @property
    def weight(self) -> float:
        """Weight in the environment: the larger of the first and last weight, scaled by `schedule`."""
        return max(self.first, self.last, key=abs)

    @property
    def schedule(self) -> Schedule:
        """Schedule of the factor on `weight` over the run."""
        return Schedule(self.first / self.weight, self.last / self.weight) if self.weight else Schedule()


def parse_extra_reward(text: str) -> ExtraReward:
    """Parse a text in the form `FORM` without importing anything."""
    function, equals, weights = text.partition("=")
    first, dots, last = weights.partition(DOTS)
    numbers = [as_number(number) for number in ((first, last) if dots else (first,))]
    is_valid = OBJECT_NAME.fullmatch(function) is not None and equals and None not in numbers
    require(bool(is_valid), "--extra-reward", FORM, text)
    finite = [number for number in numbers if number is not None]
    return ExtraReward(function, finite[0], finite[-1])


def as_number(text: str) -> float | None:
    """Return the finite number in a text; None for any other text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def parse_extra_rewards(texts: Sequence[str]) -> list[ExtraReward]:
    rewards = [parse_extra_reward(text) for text in texts]
    names = [reward.name for reward in rewards]
    limit = "functions with unique names, because each names its term"
    require(len(set(names)) == len(names), "--extra-reward", limit, list(texts))
    return rewards


def load_extra_rewards(texts: Sequence[str]) -> dict[str, RewardTerm]:
    """Import the reward terms, sorted by name, for `EchelonEnv(extra_rewards=...)`. The texts must come from the
    command line or a program, never from a file.
    """
    rewards = sorted(parse_extra_rewards(texts), key=lambda reward: reward.name)
    terms = {reward.name: RewardTerm(import_object(reward.function), reward.weight) for reward in rewards}
    check_extra_terms(terms)
    return terms


def check_extra_rewards(terms: Mapping[str, RewardTerm], config: EnvConfig, device: torch.device) -> None:
    """Call each term on the first decision of a battle, to reject broken terms before anything is written."""
    config = replace(config, map_pool=1, map_spares=0)
    maps = None
    for name, term in terms.items():
        with in_one_line(f"reward term {name}: expected a number for each mech"), kept_generators(torch.device("cpu")):
            checked = RewardTerm(partial(call_checked, name, term.function), term.weight)
            env = EchelonEnv(config, 1, device, 0, maps=maps, backend="eager", extra_rewards={name: checked})
            env.rand_step(env.reset())
        maps = env.sim_model.maps


def call_checked(
    name: str, function: RewardFunction, before: State, after: State, ending: Ending, sim_model: SimModel
) -> Tensor:
    """Call a reward term and check its result."""
    copies = before.clone(), after.clone()
    value = function(before, after, ending, sim_model)
    is_same = all(bool((copy == current).all()) for copy, current in zip(copies, (before, after), strict=True))
    require(is_same, f"reward term {name}", "a function that leaves both states unchanged", "one that changed a tensor")
    is_finite = not isinstance(value, Tensor) or bool(value.isfinite().all())
    require(is_finite, f"reward term {name}", "a function that returns finite numbers", "NaN or infinity")
    return value

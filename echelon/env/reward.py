"""Named reward terms, each with a weight in `RewardConfig`; their weighted sum is the reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from echelon.env.objectives.zone import is_inside, path_length
from echelon.env.outcome import Ending, Winner
from echelon.rules.config import RewardConfig
from echelon.runtime.compile import outside_graphs
from echelon.runtime.errors import require
from echelon.runtime.geometry import either
from echelon.runtime.limits import ANY, LONGEST_NAME, check_function, check_number, typed
from echelon.sim.model import SimModel
from echelon.state import State

TERMS = ("approach", "zone", "damage", "kill", "assist", "death", "terminal")
"""The named terms, in the order of the last axis of `weighted`."""
RewardFunction = Callable[[State, State, Ending, SimModel], Tensor]
"""What each mech earned in one decision, `[B, N]`: a function of the state before and after it, the battles that ended
and the constants. It reads tensors, never the host. Ground is changed in place: both states show it as it is after."""


@dataclass(frozen=True)
class RewardTerm:
    """A reward term of the user's, for `EchelonEnv(extra_rewards={"name": RewardTerm(function, 0.1)})`.

    The environment raises `ConfigError` where the weight is not finite, the name is taken, or the function returns a
    tensor of another shape.
    """

    function: RewardFunction
    """`function(before, after, ending, sim_model)` returns `[B, N]` float, the reward of each mech for one decision. It
    receives the `echelon.state.State` before and after the decision, the `echelon.env.outcome.Ending` of the battles
    and the constants. It must not read tensors on the host and must not modify them. It is never compiled."""
    weight: float = 1.0
    """What it is multiplied with."""


NO_EXTRA_TERMS: Mapping[str, RewardTerm] = MappingProxyType({})


def check_extra_terms(extra: Mapping[str, RewardTerm]) -> None:
    """Raise `ConfigError` where a term has a name that is taken, or no finite weight."""
    for name, term in extra.items():
        limit = f"an identifier other than {', '.join(TERMS)}"
        is_name = isinstance(name, str) and name.isidentifier() and len(name) <= LONGEST_NAME
        require(is_name and name not in TERMS, "a name in extra_rewards", limit, name)
        require(isinstance(term, RewardTerm), f"extra_rewards[{name!r}]", "a RewardTerm", term)
        where = f"extra_rewards[{name!r}].weight"
        check_number(where, typed(float, term.weight, where), ANY)
        check_function(f"extra_rewards[{name!r}]", term.function, "before, after, ending, sim_model")


def terms(before: State, after: State, ending: Ending, sim_model: SimModel) -> dict[str, Tensor]:
    """What each mech earned in one decision.

    `approach` is potential-based shaping (Ng, Harada & Russell 1999): gamma * phi' - phi with phi the negative
    walking distance to the zone, so its discounted sum telescopes along any path. phi is not set to zero where a battle
    terminates, as their theorem requires: optimal policies may differ from those without it (docs/RULES.md). `zone`
    pays those whose seconds in it grew in this decision.

    Returns:
        `[B, N]` by name of `TERMS`, a field of `RewardConfig` each.
    """
    cfg, roster, was, now = sim_model.config.reward, sim_model.roster, before.tally, after.tally
    alive = after.mechs.alive
    # Judged as the decision began: the fight that empties the zone was still a contest.
    contested = (before.control > 0).all(1, keepdim=True) & is_inside(before, sim_model)
    offence = either(contested, cfg.contested_offence, 1.0)
    died = before.mechs.alive & ~alive

    lead = (ending.winner == int(Winner.BLUE)).float() - (ending.winner == int(Winner.RED)).float()
    return {
        "approach": alive * (path_length(before, sim_model) - cfg.gamma * path_length(after, sim_model)),
        "zone": (now.zone_s > was.zone_s) * roster.of_own_team(after.control),
        "damage": offence * (now.damage - was.damage),
        "kill": offence * (now.kills - was.kills),
        "assist": offence * (now.assists - was.assists),
        "death": died * either(contested, cfg.contested_death, 1.0),
        "terminal": (ending.terminated * lead)[:, None] * either(roster.is_red, -1.0, 1.0),
    }


@outside_graphs
def extra_terms(
    before: State, after: State, ending: Ending, sim_model: SimModel, extra: Mapping[str, RewardTerm]
) -> dict[str, Tensor]:
    """`[B, N]` float32 by name: what each mech earned by the terms of the user's own.

    They run operation by operation in every form of a decision: torch.compile gives some of what users write another
    meaning, such as `tensor == Hull.SCOUT`, which is False in a graph.

    Raises:
        ConfigError: a function returns another shape.
    """
    result = {}
    for name, term in extra.items():
        value = term.function(before, after, ending, sim_model)
        shape = tuple(after.mechs.hp.shape)
        is_real = isinstance(value, Tensor) and not value.is_complex()
        require(is_real, f"extra_rewards[{name!r}]", "a tensor of real numbers", value)
        require(tuple(value.shape) == shape, f"extra_rewards[{name!r}]", f"of shape {shape}", tuple(value.shape))
        result[name] = value.to(torch.float32)
    return result


def term_weights(cfg: RewardConfig, extra: Mapping[str, RewardTerm] = NO_EXTRA_TERMS) -> dict[str, float]:
    """What each term is multiplied with, in the order of `TERMS`, then `extra`."""
    return {name: getattr(cfg, name) for name in TERMS} | {name: term.weight for name, term in extra.items()}


def weighted(
    named: dict[str, Tensor], cfg: RewardConfig, sim_model: SimModel, extra: Mapping[str, RewardTerm] = NO_EXTRA_TERMS
) -> Tensor:
    """`[B, N, len(named)]` what each term pays: times its weight, then mixed with the mean of the team.

    Mixing is linear, so the terms of a mech sum to its reward. The last axis is in the order of `TERMS`, then `extra`,
    of those that are `named`.
    """
    weights = term_weights(cfg, extra).items()
    paid = torch.stack([weight * named[name] for name, weight in weights if name in named])
    # In two steps, which takes a CPU half as long as to stack them so.
    individual = paid.permute(1, 2, 0).contiguous()
    team = (1 - cfg.team_mix_alpha) * sim_model.roster.team_mean(individual)
    return cfg.team_mix_alpha * individual + sim_model.roster.of_own_team(team)

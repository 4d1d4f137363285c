"""Named reward terms, each with a weight in `RewardConfig`; the reward is their weighted sum."""

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
from echelon.sim.formulas import approach, credited, mixed
from echelon.sim.model import SimModel
from echelon.state import State

TERMS = ("approach", "zone", "damage", "kill", "assist", "death", "terminal")
"""Names of the terms, in the order of the last axis of `weighted`."""
RewardFunction = Callable[[State, State, Ending, SimModel], Tensor]
"""A function of the states before and after a decision, the ended battles and the constants; returns `[B, N]`, each
mech's reward for the decision. It reads no tensor on the host. Terrain is changed in place: both hold the new one."""


@dataclass(frozen=True)
class RewardTerm:
    """A user's reward term, for `EchelonEnv(extra_rewards={"name": RewardTerm(function, 0.1)})`.

    The environment raises `ConfigError` if the weight is not finite, the name is taken, or the function returns a
    tensor of another shape.
    """

    function: RewardFunction
    """`function(before, after, ending, sim_model)` returns `[B, N]` float, the reward of each mech for one decision. It
    receives the `echelon.state.State` before and after the decision, the `echelon.env.outcome.Ending` of the battles
    and the constants. It must not read tensors on the host and must not modify them. It is never compiled."""
    weight: float = 1.0
    """Weight of the term in the reward."""


NO_EXTRA_TERMS: Mapping[str, RewardTerm] = MappingProxyType({})


def check_extra_terms(extra: Mapping[str, RewardTerm]) -> None:
    """Raise `ConfigError` if a term's name is taken or its weight is not finite."""
    for name, term in extra.items():
        limit = f"an identifier other than {', '.join(TERMS)}"
        is_name = isinstance(name, str) and name.isidentifier() and len(name) <= LONGEST_NAME
        require(is_name and name not in TERMS, "a name in extra_rewards", limit, name)
        require(isinstance(term, RewardTerm), f"extra_rewards[{name!r}]", "a RewardTerm", term)
        where = f"extra_rewards[{name!r}].weight"
        check_number(where, typed(float, term.weight, where), ANY)
        check_function(f"extra_rewards[{name!r}]", term.function, "before, after, ending, sim_model")


def terms(before: State, after: State, ending: Ending, sim_model: SimModel) -> dict[str, Tensor]:
    """Return each mech's unweighted reward terms for one decision.

    `approach` is potential-based shaping (Ng, Harada & Russell 1999): gamma * phi' - phi, where phi is the negative
    walking distance to the zone, so its discounted sum telescopes along any path. Their theorem requires phi = 0 at
    termination, which is not done: optimal policies may differ from those without shaping (docs/RULES.md). `zone`
    pays mechs whose time in the zone grew in this decision.

    Returns:
        `[B, N]` by name in `TERMS`, the fields of `RewardConfig`.
    """
    cfg, roster, was, now = sim_model.config.reward, sim_model.roster, before.tally, after.tally
    alive = after.mechs.alive
    # Contested as of the start of the decision: a fight that empties the zone counts as contested.
    contested = (before.control > 0).all(1, keepdim=True) & is_inside(before, sim_model)
    offence = either(contested, cfg.contested_offence, 1.0)
    died = before.mechs.alive & ~alive

    lead = (ending.winner == int(Winner.BLUE)).float() - (ending.winner == int(Winner.RED)).float()
    return {
        "approach": approach(alive, path_length(before, sim_model), path_length(after, sim_model), cfg.gamma),
        "zone": (now.zone_s > was.zone_s) * roster.of_own_team(after.control),
        "damage": credited(offence, was.damage, now.damage),
        "kill": credited(offence, was.kills, now.kills),
        "assist": credited(offence, was.assists, now.assists),
        "death": died * either(contested, cfg.contested_death, 1.0),
        "terminal": (ending.terminated * lead)[:, None] * either(roster.is_red, -1.0, 1.0),
    }


@outside_graphs
def extra_terms(
    before: State, after: State, ending: Ending, sim_model: SimModel, extra: Mapping[str, RewardTerm]
) -> dict[str, Tensor]:
    """Return `[B, N]` float32 by name: each mech's unweighted reward from the user's terms.

    They always run eagerly: torch.compile changes the meaning of some user code, such as `tensor == Hull.SCOUT`, which
    is False in a graph.

    Raises:
        ConfigError: a function returns another shape, or no tensor of real numbers.
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
    """Return the weight of each term, in the order of `TERMS`, then `extra`."""
    return {name: getattr(cfg, name) for name in TERMS} | {name: term.weight for name, term in extra.items()}


def weighted(
    named: dict[str, Tensor], cfg: RewardConfig, sim_model: SimModel, extra: Mapping[str, RewardTerm] = NO_EXTRA_TERMS
) -> Tensor:
    """Return `[B, N, len(named)]`: each term times its weight, then mixed with the mean of the team.

    Mixing is linear, so the terms of a mech sum to its reward. The last axis is in the order of `TERMS`, then `extra`,
    restricted to the names in `named`.
    """
    weights = term_weights(cfg, extra).items()
    paid = torch.stack([weight * named[name] for name, weight in weights if name in named])
    # Stack, then permute: on a CPU this takes half the time of stacking along the last axis.
    individual = paid.permute(1, 2, 0).contiguous()
    mean = sim_model.roster.of_own_team(sim_model.roster.team_mean(individual))
    return mixed(individual, mean, cfg.team_mix_alpha, 1 - cfg.team_mix_alpha)

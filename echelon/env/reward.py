"""Named reward terms, each with a weight in `RewardConfig`; their weighted sum is the reward."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.outcome import Ending, Winner
from echelon.env.zone import is_inside, path_length
from echelon.rules.config import RewardConfig
from echelon.sim.model import SimModel
from echelon.state import State

TERMS = ("approach", "zone", "damage", "kill", "assist", "death", "terminal")
"""The named terms, in the order of the last axis of `weighted`."""


def terms(before: State, after: State, ending: Ending, game: SimModel) -> dict[str, Tensor]:
    """What each mech earned in one decision.

    `approach` is potential-based shaping (Ng, Harada & Russell 1999): gamma * phi' - phi with phi the negative
    walking distance to the zone, so its discounted sum telescopes along any path.

    Returns:
        `[B, N]` by name of `TERMS`, a field of `RewardConfig` each.
    """
    cfg, roster = game.config.reward, game.roster
    alive = after.mechs.alive
    # Judged as the decision began: the fight that empties the zone was still a contest.
    contested = (before.control > 0).all(1, keepdim=True) & is_inside(before, game)
    offence = torch.where(contested, cfg.contested_offence, 1.0)
    died = before.mechs.alive & ~alive

    side = torch.where(roster.is_red, int(Winner.RED), int(Winner.BLUE))
    won = ending.winner[:, None] == side
    lost = (ending.winner[:, None] > 0) & ~won
    paid = ending.terminated[:, None]
    return {
        "approach": alive * (path_length(before, game) - cfg.gamma * path_length(after, game)),
        "zone": is_inside(after, game) * roster.of_own_team(after.control),
        "damage": offence * (after.tally.damage - before.tally.damage),
        "kill": offence * (after.tally.kills - before.tally.kills),
        "assist": offence * (after.tally.assists - before.tally.assists),
        "death": died * torch.where(contested, cfg.contested_death, 1.0),
        "terminal": paid * (won.float() - lost.float()),
    }


def weighted(named: dict[str, Tensor], cfg: RewardConfig, game: SimModel) -> Tensor:
    """`[B, N, len(TERMS)]` what each term pays: times its weight, then mixed with the mean of the team.

    Mixing is linear, so the terms of a mech sum to its reward.
    """
    own = torch.stack([getattr(cfg, name) * named[name] for name in TERMS], -1)
    team = game.roster.of_own_team(game.roster.team_mean(own))
    return cfg.team_mix_alpha * own + (1 - cfg.team_mix_alpha) * team

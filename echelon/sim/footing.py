"""Stability, falling and standing up again."""

from __future__ import annotations

import torch

from echelon.runtime.geometry import length
from echelon.sim import formulas
from echelon.sim.model import SimModel
from echelon.state import State

LEGGED_PENALTY = 0.5
WALKING_PENALTY = 0.5
WALKING_VOX_PER_S = 1.0
SUPPRESSED_PENALTY = 0.75
LEAST_REGENERATION = 0.1


def stand(state: State, game: SimModel) -> State:
    """Advance falls: mechs without stability fall, stand up after `fall_s` with half of it; others regenerate it.

    Regeneration per second is `stability_regen_per_s` times max(0.1, 1 - penalties).
    """
    rules, mechs = game.rules, state.mechs
    legged = mechs.legged.float()
    cap = rules.stability_cap * (1.0 - 0.5 * legged)

    was_down = mechs.fallen > 0
    fallen = (mechs.fallen - 1).clamp_min(0)
    rises = was_down & (fallen == 0)
    falls = mechs.alive & ~was_down & (mechs.stability <= 0)

    walks = length(mechs.vel) > WALKING_VOX_PER_S
    suppressed = (mechs.suppressed > 0).float()
    penalties = LEGGED_PENALTY, WALKING_PENALTY, SUPPRESSED_PENALTY
    penalty = formulas.unsteadiness(legged, walks.float(), suppressed, *penalties)
    gain = rules.stability_regen_per_s * (1 - penalty).clamp_min(LEAST_REGENERATION) * rules.dt_s
    steadies = mechs.alive & ~was_down & ~falls
    stability = torch.where(steadies, (mechs.stability + gain).minimum(cap), mechs.stability)
    stability = torch.where(rises, 0.5 * cap, stability)

    return state.replace(
        mechs=mechs.replace(
            fallen=torch.where(falls, rules.substeps(rules.fall_s), fallen).to(torch.int32),
            stability=stability,
            vel=torch.where(falls[..., None], 0.0, mechs.vel),
        ),
        tally=state.tally.replace(falls=state.tally.falls + falls),
    )

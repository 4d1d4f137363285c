"""Stability: mechs fall and stand up again."""

import torch

from echelon.runtime.geometry import either, length
from echelon.sim import formulas
from echelon.sim.model import SimModel
from echelon.state import State


def update_footing(state: State, sim_model: SimModel) -> State:
    """Update stability and falls of all mechs.

    A mech at zero stability falls, and stands up after `fall_s` with `risen_stability` of its maximum. Standing mechs
    regain `stability_regen_per_s` times the larger of `least_regeneration` and 1 - unsteadiness.
    """
    rules, mechs = sim_model.rules, state.mechs
    cap = rules.stability_cap * either(mechs.legged, rules.legged_stability, 1.0)

    was_down = mechs.fallen > 0
    fallen = (mechs.fallen - 1).clamp_min(0)
    rises = was_down & (fallen == 0)
    falls = mechs.alive & ~was_down & (mechs.stability <= 0)

    walks = length(mechs.vel) > rules.steady_vox_per_s
    suppressed = (mechs.suppressed > 0).float()
    shares = rules.legged_unsteadiness, rules.walking_unsteadiness, rules.suppressed_unsteadiness
    loss = formulas.unsteadiness(mechs.legged.float(), walks.float(), suppressed, *shares)
    gain = rules.stability_regen_per_s * (1 - loss).clamp_min(rules.least_regeneration) * rules.dt_s
    steadies = mechs.alive & ~was_down & ~falls
    stability = torch.where(steadies, (mechs.stability + gain).minimum(cap), mechs.stability)
    stability = torch.where(rises, rules.risen_stability * cap, stability)

    return state.replace(
        mechs=mechs.replace(
            fallen=torch.where(falls, rules.substeps(rules.fall_s), fallen).to(torch.int32),
            stability=stability,
            vel=torch.where(falls[..., None], 0.0, mechs.vel),
        ),
        tally=state.tally.replace(falls=state.tally.falls + falls),
    )

"""Anti-missile systems (AMS): a mech with an AMS shoots down hostile homing shots nearby."""

import torch
from torch import Tensor

from echelon.rules.actions import NO_MECH
from echelon.runtime import exact
from echelon.runtime.geometry import length
from echelon.sim.heat import is_running
from echelon.sim.model import SimModel
from echelon.state import State


def intercept(state: State, luck: Tensor, sim_model: SimModel) -> State:
    """Let each ready AMS try to shoot down the nearest hostile homing shot within `Catalog.ams_vox`.

    Each attempt succeeds with probability `ams_chance`, and sets the AMS cooldown to `ams_cooldown_s`.

    Args:
        state: the state before.
        luck: uniform samples in [0, 1), one per mech, `[B, N]`.
        sim_model: constants of the battle.
    """
    mechs, shots, roster, catalog = state.mechs, state.shots, sim_model.roster, sim_model.catalog
    span, guards = roster.interceptable, roster.ams
    if guards.shape[0] == 0 or span.start == span.stop:
        return state
    ready = is_running(mechs, sim_model)[:, guards] & (mechs.cooldown[:, guards, roster.ams_timer] == 0)
    comes = (shots.ttl[:, span] > 0) & (shots.target[:, span] != NO_MECH)
    by_enemy = roster.hostile[guards][:, roster.shots.shooter[span]]  # [H, M]
    distance = length(shots.pos[:, None, span] - mechs.pos[:, guards, None])  # [B, H, M]
    threat = by_enemy & comes[:, None] & (distance <= catalog.ams_vox)
    # If several shots are equally near, `min` returns the lowest slot.
    nearest, shot = torch.where(threat, distance, torch.inf).min(-1)
    tries = ready & nearest.isfinite()
    succeeds = tries & (luck[:, guards] < catalog.ams_chance)

    slot = torch.arange(span.stop - span.start, device=luck.device)
    shot_down = succeeds[..., None] & (shot[..., None] == slot)  # [B, H, M]
    # Several mechs may shoot down the same shot; only the first of these mechs is credited.
    credited = shot_down & (shot_down.cumsum(1) == 1)
    destroyed = torch.nn.functional.pad(shot_down.any(1), (span.start, roster.shots.count - span.stop))

    indices = torch.arange(roster.num_mechs, device=luck.device)
    is_guard = guards[:, None] == indices  # [H, N]
    tried = (tries[..., None] & is_guard).any(1)
    is_timer = torch.arange(roster.num_timers, device=luck.device) == roster.ams_timer
    cooldown = torch.where(
        tried[..., None] & is_timer, sim_model.rules.substeps(catalog.ams_cooldown_s), mechs.cooldown
    )
    intercepts = exact.sum(credited.any(-1)[..., None] & is_guard, 1)
    spared = exact.sum(torch.where(credited, roster.shots.damage[span], 0.0), -1)  # [B, H]
    tally = state.tally
    return state.replace(
        mechs=mechs.replace(cooldown=cooldown.to(torch.int32)),
        shots=shots.replace(ttl=torch.where(destroyed, 0, shots.ttl).to(torch.int32)),
        tally=tally.replace(
            intercepts=tally.intercepts + intercepts,
            intercepted_damage=tally.intercepted_damage + exact.sum(spared[..., None] * is_guard, 1),
        ),
    )

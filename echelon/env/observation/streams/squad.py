"""A mech's observation of its comrades: their positions and, depending on the mech's cockpit suite, their condition
and targets."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.observation.features import AHEAD_LEFT_UP, FULL, HULLS, MAP_SIDE, Feature, flag, pack
from echelon.env.observation.stream import Axis, Stream, StreamInputs
from echelon.rules.actions import NO_MECH
from echelon.rules.catalog import Hull
from echelon.runtime import exact
from echelon.runtime.geometry import heading, in_body_frame
from echelon.sim.heat import is_running
from echelon.sim.model import SimModel
from echelon.state import State

SQUAD = (
    Feature("rel_pos", 3, -1.5, 1.5, MAP_SIDE, "position relative to the viewer, in its body frame", AHEAD_LEFT_UP),
    Feature("hull", len(Hull), 0.0, 1.0, "one-hot", "its class", HULLS),
    flag("alive"),
    Feature("hp", 1, 0.0, 1.0, FULL, "hit points; visible with squad detail 1 or 2, and without suites"),
    Feature("heat", 1, 0.0, 2.0, "heat capacity", "visible with squad detail 1 or 2, and without suites"),
    Feature("stability", 1, 0.0, 1.0, FULL, "visible with squad detail 2, and without suites"),
    Feature("readiness", 1, 0.0, 1.0, "share of its weapons", "that can fire now; visible as stability is"),
    Feature(
        "target_rel_pos", 3, -1.5, 1.5, MAP_SIDE,
        "position of its focus target, as rel_pos; visible to suites with `sees_engaged` (`command_suites`)",
        AHEAD_LEFT_UP, ("target_preference", "suites"),
    ),
)  # fmt: skip


def readiness(state: State, sim_model: SimModel) -> Tensor:
    """Return the share of each mech's weapons whose cooldown is over, `[B, N]`; 0 if the mech is not running."""
    mechs = state.mechs
    carries = sim_model.roster.trigger >= 0  # [W, N]
    idle = torch.stack([mechs.cooldown[..., timer] == 0 for timer in sim_model.roster.timers], 1)  # [B, W, N]
    return is_running(mechs, sim_model) * exact.sum(idle & carries, 1).float() / exact.sum(carries, 0).clamp_min(1)


def squad(inputs: StreamInputs) -> tuple[Tensor, Tensor]:
    """Compute the observation of the comrades in the slots of `Roster.squad`. Dead comrades keep their position, with
    `alive` 0.

    Returns:
        The stream `[B, N, S, F]`, with a row of `SQUAD` columns per slot, zero for empty slots and for dead viewers;
        and whether each row contains a mech, `[B, N, S]` bool.
    """
    state, sim_model = inputs.state, inputs.sim_model
    mechs, roster = state.mechs, sim_model.roster
    mask = (roster.squad < roster.num_mechs) & mechs.alive[..., None]  # [B, N, S]
    mate = roster.squad.clamp_max(roster.num_mechs - 1)  # [N, S]
    facing = heading(mechs.yaw)
    alive = mechs.alive[:, mate]

    def from_detail(per_mech: Tensor, detail: int) -> Tensor:
        """Return a value of living comrades; 0 for viewers whose suite has less squad detail than `detail`."""
        return per_mech[:, mate] * (alive & (roster.cockpits.squad_detail >= detail)[:, None])

    def relative(pos: Tensor) -> Tensor:
        return exact.divide(in_body_frame(pos - mechs.pos[:, :, None], facing), sim_model.config.world.longest_side)

    target = inputs.orders.focus[:, mate]  # [B, N, S]
    index = target.clamp_min(0)
    targets_alive = mechs.alive.gather(1, index.flatten(1)).view_as(index)
    engages = alive & (target != NO_MECH) & targets_alive & roster.cockpits.sees_engaged[:, None]
    target_pos = mechs.pos.gather(1, index.flatten(1)[..., None].expand(-1, -1, 3)).view(*index.shape, 3)
    values = {
        "rel_pos": relative(mechs.pos[:, mate]),
        "hull": roster.hull_one_hot[mate].expand(*index.shape, -1),
        "alive": alive,
        "hp": from_detail(mechs.hp / roster.hp, 1),
        "heat": from_detail(mechs.heat / roster.heat_cap, 1),
        "stability": from_detail(exact.divide(mechs.stability, sim_model.rules.stability_cap), 2),
        "readiness": from_detail(readiness(state, sim_model), 2),
        "target_rel_pos": torch.where(engages[..., None], relative(target_pos), 0.0),
    }
    return pack(SQUAD, values, mask), mask


STREAM = Stream(
    name="squad",
    features=SQUAD,
    axes=(Axis("comrade", lambda config: config.squad_slots),),
    mask=flag("filled", "the row holds a mech"),
    dense=squad,
)

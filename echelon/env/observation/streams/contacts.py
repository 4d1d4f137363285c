"""The contact table of every mech: sensed mechs in the chosen order, then enemies reported by packmates."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from echelon.env.observation.features import (
    AHEAD_LEFT_UP,
    FULL,
    HULLS,
    MAP_SIDE,
    SIN_COS,
    SPEED_SCALE,
    TEN_VOX_PER_S,
    Feature,
    flag,
    pack,
)
from echelon.env.observation.sensing import Senses
from echelon.env.observation.stream import Axis, Stream, StreamInputs
from echelon.rules.actions import NO_MECH, PREFERENCES, Orders
from echelon.rules.catalog import Hull
from echelon.rules.config import EnvConfig
from echelon.runtime import exact
from echelon.runtime.compile import materialize
from echelon.runtime.geometry import TINY, dot, heading, in_body_frame, length, to_body
from echelon.sim.model import SimModel
from echelon.sim.shots import slug_drop
from echelon.state import State

MAX_CONTACTS = 24
FRIENDS, INTEL = 2.0, 3.0
"""Sort keys of friends and reported enemies, after those of sensed hostiles, which are in 0..1."""

CONTACT = (
    Feature("rel_pos", 3, -1.5, 1.5, MAP_SIDE, "position relative to the viewer, in its body frame", AHEAD_LEFT_UP),
    Feature("rel_vel", 3, -6.0, 6.0, TEN_VOX_PER_S, "its velocity minus the viewer's, in that frame", AHEAD_LEFT_UP),
    Feature("rel_yaw_sin_cos", 2, -1.0, 1.0, "", "its heading, in that frame", SIN_COS),
    Feature("hp", 1, 0.0, 1.0, FULL, "hit points; 0 without detail"),
    Feature("heat", 1, 0.0, 2.0, "heat capacity", "0 without detail"),
    Feature("stability", 1, 0.0, 1.0, FULL, "0 without detail"),
    flag("fallen", "it has fallen"),
    flag("legged", "its leg hit points are 0"),
    flag("friendly"),
    flag("hostile"),
    Feature("hull", len(Hull), 0.0, 1.0, "one-hot", "its class", HULLS),
    flag("painted", "by the viewer's pack"),
    flag("intel", "sensed or painted by packmates, not sensed by the viewer; 0 under full observation", "suites"),
    flag("detail", "hp, heat and stability are visible"),
    Feature("lead_pitch", 1, -2.0, 2.0, "pi/4 rad", "elevation at which the viewer's ballistic shot hits it"),
    Feature("closing", 1, -1.0, 1.0, TEN_VOX_PER_S, "closing speed, clipped"),
    Feature("crossing", 1, 0.0, 1.0, "", "1 - |cos| of the angle between its relative velocity and the line to it"),
)


def num_slots(config: EnvConfig) -> int:
    """Return C, the number of contact slots of a mech."""
    return min(config.num_mechs - 1, MAX_CONTACTS)


def contact_slots(senses: Senses, state: State, orders: Orders, sim_model: SimModel) -> tuple[Tensor, Tensor]:
    """Assign mechs to the contact slots of every mech.

    First come sensed hostiles in the chosen order, then sensed friends by distance, limited to the visual slots of the
    mech's cockpit suite. Next come enemies reported by packmates, by distance, limited to the suite's intel slots. Ties
    are broken by distance, then by index.

    Returns:
        The index of the mech in each slot, `[B, N, C]` int64, and whether each slot is filled, `[B, N, C]` bool.
    """
    mechs, roster, distance = state.mechs, sim_model.roster, senses.distance
    biggest = (1 - exact.divide(roster.tonnage, 100)).expand_as(distance)
    most_damaged = (mechs.hp / roster.hp)[:, None].expand_as(distance)
    by_mode = torch.stack((torch.zeros_like(distance), biggest, most_damaged), -1)  # [B, N, N, SORT_MODES]
    sort_value = by_mode.gather(-1, orders.sort_mode[..., None, None].expand(*distance.shape, 1)).squeeze(-1)

    wants_friends = ~orders.hostile_only[..., None]
    visual = senses.sees & (roster.hostile | wants_friends)
    key = torch.where(roster.hostile, sort_value, FRIENDS)
    key = torch.where(visual, key, torch.where(senses.intel, INTEL, torch.inf))
    ranked = lexsort(materialize(key), distance)  # [B, N, N]

    num_visual = exact.sum(visual, -1, keepdim=True)
    num_shown = num_visual.minimum(roster.cockpits.visual_slots[:, None])
    reported = exact.sum(senses.intel, -1, keepdim=True).minimum(roster.cockpits.intel_slots[:, None])
    count = num_slots(sim_model.config)
    slot = torch.arange(count, device=key.device)
    # Skip the visible mechs that exceed the cockpit's limit of visual slots.
    rank = torch.where(slot < num_shown, slot, slot - num_shown + num_visual)
    filled = slot < num_shown + reported
    return ranked.gather(-1, rank.clamp_max(roster.num_mechs - 1)), filled


def lexsort(key: Tensor, tie_key: Tensor) -> Tensor:
    """Return the indices that sort each row by `key`, then by `tie_key`, then by index, `[..., N]` int64.

    Args:
        key, tie_key: `[..., N]` float32.
    """
    index = torch.arange(key.shape[-1], device=key.device)
    mine, other = (key[..., None], tie_key[..., None]), (key[..., None, :], tie_key[..., None, :])
    sooner = (other[1] < mine[1]) | ((other[1] == mine[1]) & (index < index[:, None]))
    rank = exact.sum((other[0] < mine[0]) | ((other[0] == mine[0]) & sooner), -1)
    return torch.zeros_like(rank).scatter(-1, rank, index.expand_as(rank))


def hostile_slots(slots: Tensor, filled: Tensor, sim_model: SimModel) -> Tensor:
    """Return the index of the hostile in each of the first contact slots, or `NO_MECH`, `[B, N, PREFERENCES]` int64."""
    viewer_is_red = sim_model.roster.is_red[:, None]
    is_hostile = filled & (sim_model.roster.is_red[slots] != viewer_is_red)
    preferred = torch.where(is_hostile, slots, NO_MECH)[..., :PREFERENCES]
    num_missing = PREFERENCES - preferred.shape[-1]
    return torch.nn.functional.pad(preferred, (0, num_missing), value=NO_MECH)


def lead_pitch(offset: Tensor, distance: Tensor, sim_model: SimModel) -> Tensor:
    """Return the elevation, divided by pi / 4, at which a ballistic shot hits a target at `offset [B, N, C, 3]`."""
    rise = offset[..., 2] + slug_drop(distance, sim_model.roster.slug_speed, sim_model)
    return exact.divide(exact.atan2(rise, length(offset[..., :2])), math.pi / 4)


def contacts(inputs: StreamInputs) -> tuple[Tensor, Tensor]:
    """Return the stream `[B, N, C, F]`, with a row of `CONTACT` columns per filled slot and zeros elsewhere, and
    `filled [B, N, C]` bool."""
    state, slots, sim_model = inputs.state, inputs.slots, inputs.sim_model
    values = {**others(slots, inputs.senses, state, sim_model), **motion(slots, state, sim_model)}
    return pack(CONTACT, values, inputs.filled), inputs.filled


def known_bits(senses: Senses, sim_model: SimModel) -> Tensor:
    """Return three flags about each pair of mechs as bits of `[B, N, N]` int32: 1 for seen in detail, 2 for reported
    by packmates, 4 for painted by the pack."""
    in_detail = senses.line & (
        senses.distance <= (sim_model.config.sight_range_vox * sim_model.roster.cockpits.fidelity)[:, None]
    )
    return in_detail + 2 * senses.intel.int() + 4 * senses.painted.int()


def gather_rows(columns: Tensor, slots: Tensor) -> Tensor:
    """Return the rows of `columns [B, N, P]` of the mechs in the contact slots, `[B, N, C, P]`."""
    width = columns.shape[-1]
    return columns.gather(1, slots.flatten(1)[..., None].expand(-1, -1, width)).view(*slots.shape, width)


def others(slots: Tensor, senses: Senses, state: State, sim_model: SimModel) -> dict[str, Tensor]:
    """Return columns of `CONTACT`, `[B, N, C]` or `[B, N, C, width]` each: identity and condition of the contacts."""
    mechs, roster = state.mechs, sim_model.roster
    batch, count = mechs.yaw.shape
    columns = (
        mechs.hp / roster.hp,
        mechs.heat / roster.heat_cap,
        exact.divide(mechs.stability, sim_model.rules.stability_cap),
        (mechs.fallen > 0).to(mechs.hp.dtype),
        mechs.legged.to(mechs.hp.dtype),
        roster.is_red.to(mechs.hp.dtype).expand(batch, count),
    )
    table = torch.cat((torch.stack(columns, -1), roster.hull_one_hot.expand(batch, count, len(Hull))), -1)
    body, hull = gather_rows(table, slots).split((len(columns), len(Hull)), -1)
    hp, heat, stability, fallen, legged, is_red = body.unbind(-1)
    hostile = is_red != roster.is_red[:, None].to(is_red.dtype)
    # Pack three flags into one integer, because each gather is expensive.
    flags = materialize(known_bits(senses, sim_model)).gather(-1, slots)
    detail, intel, painted = ((flags >> bit) & 1 == 1 for bit in range(3))
    return {
        "hp": hp * detail,
        "heat": heat * detail,
        "stability": stability * detail,
        "fallen": fallen,
        "legged": legged,
        "friendly": ~hostile,
        "hostile": hostile,
        "hull": hull,
        "painted": painted & hostile,
        "intel": intel,
        "detail": detail,
    }


def motion(slots: Tensor, state: State, sim_model: SimModel) -> dict[str, Tensor]:
    """Return columns of `CONTACT`: position and motion of the contacts, and what a shot at them requires."""
    mechs, facing = state.mechs, heading(state.mechs.yaw)
    rows = gather_rows(torch.cat((mechs.pos, mechs.vel, facing), -1), slots)
    pos, vel, other_facing = rows.split((3, 3, 2), -1)
    offset = pos - mechs.pos[:, :, None]
    relative_vel = vel - mechs.vel[:, :, None]
    distance, speed = length(offset), length(relative_vel)
    # Radial speed in vox/s, positive if the mechs move apart
    radial = dot(offset.unbind(-1), relative_vel.unbind(-1)) / distance.clamp_min(TINY)
    moves = speed > TINY
    crossing = torch.where(moves, 1 - radial.abs() / speed.clamp_min(TINY), 0.0).clamp_min(0.0)
    ahead = to_body(other_facing, facing[:, :, None].expand_as(other_facing))
    return {
        "rel_pos": exact.divide(in_body_frame(offset, facing), sim_model.config.world.longest_side),
        "rel_vel": exact.divide(in_body_frame(relative_vel, facing), SPEED_SCALE),
        "rel_yaw_sin_cos": ahead.flip(-1).clamp(-1, 1),
        "lead_pitch": lead_pitch(offset, distance, sim_model),
        "closing": exact.divide(-radial, SPEED_SCALE).clamp(-1, 1),
        "crossing": crossing,
    }


STREAM = Stream(
    name="contacts",
    features=CONTACT,
    axes=(Axis("contact", num_slots),),
    mask=flag("filled", "the row holds a mech"),
    dense=contacts,
)

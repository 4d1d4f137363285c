"""Orders of commanders: read from actions between two decisions, sent to packs, and received by mechs after a delay."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.rules import actions
from echelon.rules.actions import NO_MECH, Act
from echelon.rules.orders import DISCIPLINES, KINDS, TARGETS, Discipline, OrderAction, OrderField, OrderKind
from echelon.runtime import exact, noise
from echelon.runtime.geometry import length, pairwise_offset
from echelon.runtime.noise import Stream
from echelon.sim import ewar
from echelon.sim.model import SimModel
from echelon.state import State
from echelon.world.walkways import is_reachable

DRAWS = 8
"""Number of random places that a drill draws; it takes the first reachable place."""


def apply_commands(state: State, action: Tensor, commands: Tensor | None, sim_model: SimModel) -> tuple[State, Tensor]:
    """Send the commanders' new orders, and deliver orders that have arrived to mechs, before a decision is played.

    Args:
        state: state of B battles.
        action: actions of the mechs, `[B, N, D]`, nominally in [-1, 1]; not modified.
        commands: actions of both teams' commanders, `[B, P, 13 + E]`, one commander per pack, blue's packs first; None
            without commanders. The columns of `commands` are those of `echelon.rules.orders`; the last E columns choose
            an enemy, where E is the size of the larger team.
        sim_model: rules, roster and maps.

    Returns:
        The state, and the action with triggers released for mechs whose order forbids them to fire.
    """
    state = send_orders(state, commands, sim_model)
    state = receive_orders(
        state, actions.decode(action, state.focus_slots, sim_model.roster, sim_model.config.features), sim_model
    )
    return state, mask_triggers(state, action, sim_model)


def known_enemies(state: State, sim_model: SimModel) -> Tensor:
    """Return which enemies each team knows, `[B, 2, N]` bool: living hostiles in the first contact slots of a living
    mech of the team."""
    slots = torch.where(state.mechs.alive[..., None], state.focus_slots, NO_MECH)  # [B, N, 5]
    indices = torch.arange(sim_model.roster.num_mechs, device=slots.device)
    is_shown = (slots[..., None] == indices).any(2)  # [B, N, N]
    by_team = torch.stack([is_shown[:, span].any(1) for span in sim_model.roster.teams.values()], 1)
    return by_team & state.mechs.alive[:, None]


def members(sim_model: SimModel) -> Tensor:
    """Return which mechs are members of each pack, `[P, N]` bool."""
    roster = sim_model.roster
    return torch.arange(roster.num_packs, device=roster.pack.device)[:, None] == roster.pack


def middle(state: State, sim_model: SimModel) -> Tensor:
    """Return the mean position of each pack's living mechs, `[B, P, 2]` vox; the origin if all mechs of the pack are
    dead."""
    weights = (members(sim_model) & state.mechs.alive[:, None]).to(torch.float32)  # [B, P, N]
    total = exact.sum(weights[..., None] * state.mechs.pos[:, None, :, :2], 2)
    return total / exact.sum(weights, 2).clamp_min(1.0)[..., None]


def send_orders(state: State, commands: Tensor | None, sim_model: SimModel) -> State:
    """Queue new orders in front of the orders in transit. New orders come from commanders if an order is due, else
    from a drill (random orders for training)."""
    command, rules = sim_model.config.command, sim_model.rules
    period = command.period * rules.decision_repeat
    is_due = (state.tick % period == 0)[:, None].expand(-1, sim_model.roster.num_packs)  # [B, P]
    orders, is_given = state.orders_sent[:, 0], torch.zeros_like(is_due)
    if command.drill_s > 0:
        drill = max(1, round(command.drill_s / (command.period * rules.decision_s))) * period
        orders, is_given = drill_orders(state, sim_model), is_due & (state.tick % drill == 0)[:, None]
    if commands is not None:
        new_orders, has_command = decode_commands(state, commands, sim_model)
        orders = torch.where(has_command[..., None], new_orders, orders)
        is_given = (has_command & is_due) | (is_given & ~has_command)
    queued = torch.cat((orders[:, None], state.orders_sent[:, :-1]), 1)
    return state.replace(orders_sent=torch.where(is_given[:, None, :, None], queued, state.orders_sent))


def decode_commands(state: State, commands: Tensor, sim_model: SimModel) -> tuple[Tensor, Tensor]:
    """Decode `commands` into orders `[B, P, OrderField]`, and return whether there is an order for each pack,
    `[B, P]` bool."""
    command = sanitize_commands(commands)
    preference, kind = command[..., KINDS].max(-1)
    position = (command[..., OrderAction.X : OrderAction.Y + 1] + 1) * 0.5 * sim_model.size[:2]
    is_stationary = (kind == int(OrderKind.HOLD)) | (kind == int(OrderKind.REGROUP))
    position = torch.where(is_stationary[..., None], middle(state, sim_model), position)

    target = preferred_enemy(state, command[..., TARGETS:], sim_model)  # [B, P]
    attacks = (kind == int(OrderKind.ATTACK)) & (target != NO_MECH)
    target_pos = state.mechs.pos[..., :2].gather(1, target.clamp_min(0)[..., None].expand(-1, -1, 2))
    position = torch.where(attacks[..., None], target_pos, position)
    columns = [
        kind.to(torch.float32),
        *position.unbind(-1),
        torch.where(attacks, target, NO_MECH).to(torch.float32),
        (command[..., OrderAction.URGENCY] + 1) * 0.5,
        command[..., DISCIPLINES].argmax(-1).to(torch.float32),
        state.tick.to(torch.float32)[:, None].expand_as(preference),
    ]
    return torch.stack(columns, -1), preference > 0


def sanitize_commands(commands: Tensor) -> Tensor:
    """Clamp commands to [-1, 1] and replace NaN and infinity by 0."""
    return torch.where(commands.isfinite(), commands, 0.0).clamp(-1.0, 1.0)


def preferred_enemy(state: State, wishes: Tensor, sim_model: SimModel) -> Tensor:
    """Return for each commander the known enemy with the highest preference above 0 in `wishes [B, P, E]`, or
    `NO_MECH`, as `[B, P]` int64."""
    roster, is_known = sim_model.roster, known_enemies(state, sim_model)
    first = {"blue": roster.num_blue, "red": 0}
    targets = []
    for team_index, team in enumerate(roster.teams):
        packs = slice(*pack_span(sim_model)[team])
        count = roster.num_mechs - roster.num_blue if team == "blue" else roster.num_blue
        rows = wishes[:, packs, :count]
        is_visible = is_known[:, None, team_index, first[team] : first[team] + count]
        best, index = torch.where(is_visible, rows, 0.0).max(-1)
        targets.append(torch.where(best > 0, index + first[team], NO_MECH))
    return torch.cat(targets, 1)


def pack_span(sim_model: SimModel) -> dict[str, tuple[int, int]]:
    """Return for each team the index of its first pack, and the index after its last pack."""
    roster = sim_model.roster
    blue = sum(span.start < roster.num_blue for span in roster.packs)
    return {"blue": (0, blue), "red": (blue, roster.num_packs)}


def drill_orders(state: State, sim_model: SimModel) -> Tensor:
    """Return for each pack a move order to a random reachable place, `[B, P, OrderField]`."""
    packs, batch = sim_model.roster.num_packs, state.seed.shape[0]
    share = noise.uniform(state.seed, state.tick, Stream.DRILL, packs * DRAWS * 2).view(batch, packs, DRAWS, 2)
    places = share * sim_model.size[:2]
    is_reached = is_reachable(sim_model.maps.ways, state.map_id, places.flatten(1, 2), sim_model.config)
    # argmax of a mask is the index of its first True, and 0 if there is none.
    first = is_reached.view(batch, packs, DRAWS).to(torch.int8).argmax(-1)
    place = places.gather(2, first[..., None, None].expand(-1, -1, 1, 2))[:, :, 0]
    tick = state.tick.to(torch.float32)[:, None].expand(-1, packs)
    zeros = torch.zeros_like(tick)
    columns = [zeros + int(OrderKind.MOVE), *place.unbind(-1), zeros + NO_MECH, zeros, zeros, tick]
    return torch.stack(columns, -1)


def receive_orders(state: State, orders: actions.Orders, sim_model: SimModel) -> State:
    """Deliver orders that have arrived and are newer than a mech's current order, to mechs that the radio net
    reaches and whose reception is not jammed."""
    command, roster = sim_model.config.command, sim_model.roster
    distance = length(pairwise_offset(state.mechs.pos))
    in_range = distance <= command.range_vox
    reached = (roster.order_net & in_range & state.mechs.alive[:, None]).any(-1)
    reached = reached | ~roster.order_net.any(-1)
    listens = state.mechs.alive & reached & (ewar.sense(state, orders, distance, sim_model).jam <= command.jam_limit)
    delay = round(command.delay_s / sim_model.rules.dt_s)
    received = state.orders_heard
    # Each `order` has the shape [B, N, OrderField]; the oldest order comes first.
    for order in reversed(state.orders_sent[:, :, roster.pack].unbind(1)):
        issued = order[..., OrderField.ISSUED]
        is_new = (issued > received[..., OrderField.ISSUED]) & (issued + delay <= state.tick[:, None])
        received = torch.where((is_new & listens)[..., None], order, received)
    return state.replace(orders_heard=received)


def mask_triggers(state: State, action: Tensor, sim_model: SimModel) -> Tensor:
    """Return the action `[B, N, D]` with triggers released for mechs whose order is to hold fire, and for mechs that
    may only return fire and are not under fire."""
    if not sim_model.config.command.steers:
        return action
    discipline = state.orders_heard[..., OrderField.DISCIPLINE]
    returns = (discipline == int(Discipline.RETURN)) & (state.mechs.under_fire == 0)
    holds_fire = (discipline == int(Discipline.HOLD)) | returns
    column = torch.arange(action.shape[-1], device=action.device)
    is_trigger = (column == int(Act.PRIMARY)) | (column == int(Act.TERTIARY)) | (column == int(Act.SPECIAL))
    # On mechs with an electronic-warfare emitter, the secondary trigger controls the emitter and fires no weapon.
    is_trigger = is_trigger | ((column == int(Act.SECONDARY)) & ~sim_model.roster.has_ewar[:, None])
    return torch.where(holds_fire[..., None] & is_trigger, -1.0, action)

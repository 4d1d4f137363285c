"""What commanders are shown: reports of their packs, known enemies, and the state of the battle."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.env.objectives.zone import is_inside
from echelon.env.observation import layout
from echelon.env.observation.contacts import SPEED_SCALE
from echelon.env.orders.issue import known_enemies, members, middle, pack_span
from echelon.env.orders.order_stream import LONGEST_AGE_S
from echelon.rules.config import EnvConfig
from echelon.rules.orders import PLACE, OrderField, OrderKind
from echelon.runtime import exact
from echelon.runtime.geometry import length
from echelon.sim.model import SimModel
from echelon.state import State


def commanders_of(config: EnvConfig) -> dict[str, list[str]]:
    """Names of the commanders by group: one for each pack of each team, where orders are on."""
    if not config.command.enabled:
        return {}
    sizes = {"blue": len(config.blue), "red": len(config.red)}
    packs = {team: -(-size // layout.PACK_SIZE) for team, size in sizes.items()}
    return {layout.COMMAND[team]: [f"{team}_pack_{n}" for n in range(count)] for team, count in packs.items()}


def command_view(state: State, game: SimModel) -> dict[tuple[str, ...], Tensor]:
    """What the commanders of both teams observe, one for each of a team's P packs, by key.

    Returns:
        Under `(group, "observation", stream)` of the groups `layout.COMMAND`: `packs [B, P, P, F]`, reports in which
        the commander's own pack stands first, the others behind it in order; `tracks [B, P, E, F]`, a row for each
        enemy, zero for one that nobody of the team knows of, and `tracks_mask [B, P, E]` bool; `situation [B, P, F]`.
        Under `(group, "mask")` `[B, P]` bool: the pack has living mechs.
    """
    is_known, at_pack = known_enemies(state, game), middle(state, game)
    reports, lives = pack_reports(state, at_pack, game)
    view: dict[tuple[str, ...], Tensor] = {}
    for index, (team, group) in enumerate(layout.COMMAND.items()):
        own_packs, enemy = slice(*pack_span(game)[team]), game.roster.teams["red" if team == "blue" else "blue"]
        count = own_packs.stop - own_packs.start
        indices = torch.arange(count, device=reports.device)
        order = (indices[:, None] + indices) % count
        mask = is_known[:, None, index, enemy].expand(-1, count, -1)
        streams = {
            "packs": reports[:, own_packs][:, order],
            "tracks": tracks(state, enemy, at_pack[:, own_packs], mask, game),
            "tracks_mask": mask,
            "situation": situation(state, index, game)[:, None].expand(-1, count, -1),
        }
        view |= {(group, "observation", name): value for name, value in streams.items()}
        view[group, "mask"] = lives[:, own_packs]
    return view


def pack_reports(state: State, at_pack: Tensor, game: SimModel) -> tuple[Tensor, Tensor]:
    """`[B, P, F]` a row of `layout.PACK_REPORT` for every pack, zero for one without living mechs, and which have;
    their middles are `at_pack [B, P, 2]`."""
    mechs, roster = state.mechs, game.roster
    belongs = members(game)
    weights = (belongs & mechs.alive[:, None]).to(torch.float32)  # [B, P, N]
    count = exact.sum(weights, 2)

    def mean(per_mech: Tensor) -> Tensor:
        return exact.sum(weights * per_mech[:, None], 2) / count.clamp_min(1.0)

    distance = length(mechs.pos[:, None, :, :2] - at_pack[:, :, None])  # [B, P, N]
    standing = state.orders_sent[:, 0]
    issued = standing[..., OrderField.ISSUED]
    kinds = torch.arange(1, len(OrderKind), device=weights.device)
    age_s = (state.tick[:, None] - issued) * game.rules.dt_s
    hears = state.orders_heard[..., OrderField.ISSUED] == issued[:, roster.pack]
    is_told = issued >= 0
    hp = exact.sum(belongs * mechs.hp[:, None], 2) / exact.sum(belongs * roster.hp, 1)
    size = game.size[:2]
    values = {
        "position": at_pack / size,
        "alive": count / exact.sum(belongs.to(torch.float32), 1),
        "hp": hp,
        "heat": mean(mechs.heat / roster.heat_cap),
        "spread": exact.divide(exact.sum(weights * distance, 2) / count.clamp_min(1.0), game.config.world.longest_side),
        "in_zone": mean(is_inside(state, game).to(torch.float32)),
        "under_fire": mean((mechs.under_fire > 0).to(torch.float32)),
        "kind": standing[..., OrderField.KIND, None] == kinds,
        "place": standing[..., PLACE] / size * is_told[..., None],
        "age": exact.divide(age_s, LONGEST_AGE_S).clamp_max(1.0) * is_told,
        "heard": mean(hears.to(torch.float32)) * is_told,
    }
    lives = count > 0
    return layout.pack(layout.PACK_REPORT, values, lives), lives


def tracks(state: State, enemy: slice, at_pack: Tensor, mask: Tensor, game: SimModel) -> Tensor:
    """`[B, P, E, F]` a row of `layout.TRACK` for each enemy, for packs whose middles are `at_pack [B, P, 2]`, zero
    where `mask [B, P, E]` bool is False."""
    mechs = state.mechs
    pos = mechs.pos[:, None, enemy, :2].expand(-1, at_pack.shape[1], -1, -1)
    values = {
        "position": pos / game.size[:2],
        "velocity": exact.divide(mechs.vel[:, None, enemy, :2], SPEED_SCALE).expand_as(pos),
        "hull": game.roster.hull_one_hot[enemy].expand(*mask.shape, -1),
        "from_pack": exact.divide(pos - at_pack[:, :, None], game.config.world.longest_side),
    }
    return layout.pack(layout.TRACK, values, mask)


def situation(state: State, team: int, game: SimModel) -> Tensor:
    """`[B, F]` a row of `layout.SITUATION` for the commanders of `team`, 0 blue and 1 red."""
    rules, maps = game.rules, game.maps
    score = exact.divide(state.score, rules.zone_score_to_win_s).clamp_max(1.0)
    mask = torch.ones_like(state.seed, dtype=torch.bool)
    values = {
        "zone": maps.zone_center[state.map_id] / game.size[:2],
        "zone_radius": exact.divide(maps.zone_radius[state.map_id], game.config.world.longest_side),
        "own_score": score[:, team],
        "enemy_score": score[:, 1 - team],
        "control": state.control[:, team] - state.control[:, 1 - team],
        "time": exact.divide(state.tick.float(), rules.max_decisions * rules.decision_repeat),
        "is_heard": state.tick % (game.config.command.period * rules.decision_repeat) == 0,
    }
    return layout.pack(layout.SITUATION, values, mask)


def team_rewards(paid: Tensor, game: SimModel) -> dict[tuple[str, ...], Tensor]:
    """`(group, "reward") [B, P, 1]` of every commander: the mean reward of its team's mechs, `paid [B, N]`."""
    means = game.roster.team_mean(paid)
    spans = pack_span(game)
    return {
        (group, "reward"): means[:, index, None, None].expand(-1, spans[team][1] - spans[team][0], -1)
        for index, (team, group) in enumerate(layout.COMMAND.items())
    }


def commander_groups(view: dict[tuple[str, ...], Tensor], paid: Tensor, game: SimModel) -> TensorDict:
    """What commanders are shown and paid as TorchRL has it, of batch `[B, P]` a group.

    Args:
        view: as `command_view` returns it.
        paid: `[B, N]` reward of every mech.
    """
    groups: dict[str, TensorDict] = {}
    for (group, *rest), value in (view | team_rewards(paid, game)).items():
        team = groups.setdefault(group, TensorDict({}, value.shape[:2], device=paid.device))
        team.set(tuple(rest), value)
    return TensorDict({**groups}, paid.shape[:1], device=paid.device)

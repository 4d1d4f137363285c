"""The observation of commanders: reports of their packs, known enemies, and the state of the battle."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.env.observation import layout
from echelon.env.observation.streams.packs import pack_reports
from echelon.env.observation.streams.situation import situation
from echelon.env.observation.streams.tracks import tracks
from echelon.env.orders.issue import known_enemies, middle, pack_span
from echelon.rules.config import EnvConfig
from echelon.sim.model import SimModel
from echelon.state import State


def commanders_of(config: EnvConfig) -> dict[str, list[str]]:
    """Return the names of the commanders by group, one commander per pack of each team; empty if orders are
    disabled."""
    if not config.command.enabled:
        return {}
    sizes = {"blue": len(config.blue), "red": len(config.red)}
    packs = {team: -(-size // layout.PACK_SIZE) for team, size in sizes.items()}
    return {layout.COMMAND[team]: [f"{team}_pack_{n}" for n in range(count)] for team, count in packs.items()}


def command_view(state: State, sim_model: SimModel) -> dict[tuple[str, ...], Tensor]:
    """Return the observation of both teams' commanders as a flat dict by key; each of a team's P packs has a commander.

    Returns:
        Under `(group, "observation", stream)`, for the groups in `layout.COMMAND`, the streams `packs [B, P, P, F]`,
        reports of the commander's own pack first, then of the other packs in order; `tracks [B, P, E, F]`, a row per
        enemy, zero if no mech of the team observes the enemy, and `tracks_mask [B, P, E]` bool; `situation [B, P, F]`.
        Under `(group, "mask")`, whether the pack has living mechs, `[B, P]` bool.
    """
    is_known, at_pack = known_enemies(state, sim_model), middle(state, sim_model)
    reports, lives = pack_reports(state, at_pack, sim_model)
    view: dict[tuple[str, ...], Tensor] = {}
    for index, (team, group) in enumerate(layout.COMMAND.items()):
        own_packs, enemy = (
            slice(*pack_span(sim_model)[team]),
            sim_model.roster.teams["red" if team == "blue" else "blue"],
        )
        count = own_packs.stop - own_packs.start
        indices = torch.arange(count, device=reports.device)
        order = (indices[:, None] + indices) % count
        mask = is_known[:, None, index, enemy].expand(-1, count, -1)
        streams = {
            "packs": reports[:, own_packs][:, order],
            "tracks": tracks(state, enemy, at_pack[:, own_packs], mask, sim_model),
            "tracks_mask": mask,
            "situation": situation(state, index, sim_model)[:, None].expand(-1, count, -1),
        }
        view |= {(group, "observation", name): value for name, value in streams.items()}
        view[group, "mask"] = lives[:, own_packs]
    return view


def team_rewards(paid: Tensor, sim_model: SimModel) -> dict[tuple[str, ...], Tensor]:
    """Return the reward of each commander, `(group, "reward") [B, P, 1]`: the mean of the rewards `paid [B, N]` of
    its team's mechs."""
    means = sim_model.roster.team_mean(paid)
    spans = pack_span(sim_model)
    return {
        (group, "reward"): means[:, index, None, None].expand(-1, spans[team][1] - spans[team][0], -1)
        for index, (team, group) in enumerate(layout.COMMAND.items())
    }


def commander_groups(view: dict[tuple[str, ...], Tensor], paid: Tensor, sim_model: SimModel) -> TensorDict:
    """Return commanders' observations and rewards as a TensorDict, of batch `[B, P]` per group.

    Args:
        view: result of `command_view`.
        paid: reward of every mech, `[B, N]`.
        sim_model: rules, roster and maps.
    """
    groups: dict[str, TensorDict] = {}
    for (group, *rest), value in (view | team_rewards(paid, sim_model)).items():
        team = groups.setdefault(group, TensorDict({}, value.shape[:2], device=paid.device))
        team.set(tuple(rest), value)
    return TensorDict({**groups}, paid.shape[:1], device=paid.device)

"""Harm's one door: every hit is worked out and applied here."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.catalog import Roster, WeaponSpec
from echelon.geometry import heading
from echelon.sim.game import Game
from echelon.sim.heat import bounded
from echelon.state import State


@dataclass(frozen=True)
class Strikes:
    """Impacts of one weapon: R rows, each meets at most one mech."""

    lands: Tensor
    """[B, R] bool: the row hit somebody."""
    target: Tensor
    """[B, R] int64: whom."""
    direction: Tensor
    """[B, R, 3] unit vector along the attack's travel."""
    height: Tensor
    """[B, R] vox, z of the impact."""


@dataclass(frozen=True)
class Hits:
    """Harm done within one phase, before anybody has felt it. R rows of origin, N targets."""

    damage: Tensor
    """[B, R, N] hp."""
    strikes: Tensor
    """[B, R, N] int32 impacts."""
    leg_damage: Tensor
    """[B, N] leg hp, by target."""
    stability: Tensor
    """[B, N] by target."""
    heat: Tensor
    """[B, N] heat points, by target."""
    suppress: Tensor
    """[B, N] int32 substeps of suppression, by target."""

    def by_shooter(self, roster: Roster) -> Hits:
        """The same harm with its rows summed from shot slots to the mechs that own them."""
        return Hits(
            damage=roster.per_shooter(self.damage),
            strikes=roster.per_shooter(self.strikes),
            leg_damage=self.leg_damage,
            stability=self.stability,
            heat=self.heat,
            suppress=self.suppress,
        )


def of_target(per_mech: Tensor, target: Tensor) -> Tensor:
    """`[B, N]` or `[B, N, D]` values of the mechs named by `target [B, R]`."""
    if per_mech.dim() == 2:
        return per_mech.gather(1, target)
    return per_mech.gather(1, target[..., None].expand(-1, -1, per_mech.shape[-1]))


def harm(spec: WeaponSpec, strikes: Strikes, state: State, game: Game) -> Hits:
    """What impacts of one weapon do. Rear hits count `rear_factor` times; low ones strike the legs.

    A leg hit takes its full damage from the legs and half of it from the hull.
    """
    rules, mechs = game.rules, state.mechs
    facing = of_target(heading(mechs.yaw), strikes.target)  # [B, R, 2]
    from_behind = (strikes.direction[..., :2] * facing).sum(-1) > rules.rear_arc_cos
    factor = torch.where(from_behind, rules.rear_factor, 1.0)

    half_height = game.roster.half_size[:, 2]
    knee = mechs.pos[..., 2] - half_height * (1 - 2 * rules.leg_height)
    at_legs = strikes.height < of_target(knee, strikes.target)

    everyone = torch.arange(game.roster.num_mechs, device=mechs.hp.device)
    on = strikes.lands[..., None] & (strikes.target[..., None] == everyone)  # [B, R, N]

    def spread(per_row: Tensor) -> Tensor:
        return torch.where(on, per_row[..., None], 0.0)

    damage = spec.damage * factor
    return Hits(
        damage=spread(torch.where(at_legs, 0.5 * damage, damage)),
        strikes=on.to(torch.int32),
        leg_damage=spread(torch.where(at_legs, damage, 0.0)).sum(1),
        stability=spread(spec.stability * factor).sum(1),
        heat=on.sum(1) * spec.target_heat,
        suppress=on.any(1).to(torch.int32) * rules.substeps(spec.suppress_s),
    )


def apply(state: State, hits: Hits, dealt: Tensor, game: Game) -> tuple[State, Tensor]:
    """Everybody feels the phase's hits at once; the dead are credited.

    Damage counts up to the hp removed. A kill goes to whoever dealt most of it so far in this substep, ties to
    the lowest index.

    Args:
        hits: the phase's harm, a row for each mech.
        dealt: `[B, N, N]` hp already counted in this substep, by shooter and target.

    Returns:
        The state after the hits, and `dealt` with them counted.
    """
    mechs, tally, roster = state.mechs, state.tally, game.roster
    incoming = hits.damage.sum(1)  # [B, N]
    removed = incoming.minimum(mechs.hp)
    share = removed / torch.where(incoming > 0, incoming, 1.0)
    counted = hits.damage * share[:, None]
    dealt = dealt + counted

    mechs = mechs.replace(
        hp=mechs.hp - removed,
        leg_hp=(mechs.leg_hp - hits.leg_damage).clamp_min(0.0),
        stability=(mechs.stability - hits.stability).clamp_min(0.0),
        heat=bounded(mechs.heat + hits.heat, game),
        suppressed=mechs.suppressed.maximum(hits.suppress),
    )
    kills, team_kills = credited_kills(state.mechs.alive & ~mechs.alive, dealt, game)
    tally = tally.replace(
        damage=tally.damage + (counted * roster.hostile).sum(2),
        hits=tally.hits + (hits.strikes * roster.hostile).sum(2),
        kills=tally.kills + kills,
        team_kills=tally.team_kills + team_kills,
    )
    return state.replace(mechs=mechs, tally=tally), dealt


def credited_kills(died: Tensor, dealt: Tensor, game: Game) -> tuple[Tensor, Tensor]:
    """`[B, N]` enemies killed and `[B, N]` own mechs killed, by shooter, for the mechs that `died [B, N]`."""
    most, killer = dealt.max(1)  # [B, N] by target; the first shooter wins a tie
    everyone = torch.arange(game.roster.num_mechs, device=died.device)
    kill = (died & (most > 0))[:, None] & (killer[:, None] == everyone[:, None])  # [B, N, N]
    return (kill & game.roster.hostile).sum(2), (kill & ~game.roster.hostile).sum(2)


def wither(state: State, damage: Tensor) -> State:
    """Take `damage [B, N]` hp that nobody is credited with: lava and burning debris."""
    mechs = state.mechs
    return state.replace(mechs=mechs.replace(hp=mechs.hp - damage.minimum(mechs.hp)))

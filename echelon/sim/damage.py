"""Harm's one door: every hit is worked out and applied here."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.actions import NO_MECH
from echelon.rules.catalog import PAINT_BONUS
from echelon.rules.damage_sources import DamageSources
from echelon.runtime import exact
from echelon.runtime.geometry import dot, heading, unit
from echelon.sim.heat import bounded
from echelon.sim.model import SimModel
from echelon.sim.targeting import painted_by_pack
from echelon.state import Mechs, State


@dataclass(frozen=True)
class Strikes:
    """Direct impacts: R rows, each meets at most one mech."""

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
    """Harm done within one phase, before anybody has felt it."""

    damage: Tensor
    """[B, N, N] hp, by shooter and target."""
    leg_damage: Tensor
    """[B, N, N] leg hp, by shooter and target."""
    stability: Tensor
    """[B, N] by target."""
    heat: Tensor
    """[B, N] heat points, by target."""
    suppress: Tensor
    """[B, N] int32 substeps of suppression, by target."""
    came_from: Tensor
    """[B, N, 2] by target: where its damage came from, each hit as long as its damage."""
    landed: Tensor
    """[B, N, W] direct impacts, by shooter and weapon."""
    by_weapon: Tensor
    """[B, W, N] hp, by weapon of an enemy and target."""

    def __add__(self, other: Hits) -> Hits:
        """Both harms of one phase together."""
        return Hits(
            damage=self.damage + other.damage,
            leg_damage=self.leg_damage + other.leg_damage,
            stability=self.stability + other.stability,
            heat=self.heat + other.heat,
            suppress=self.suppress.maximum(other.suppress),
            came_from=self.came_from + other.came_from,
            landed=self.landed + other.landed,
            by_weapon=self.by_weapon + other.by_weapon,
        )


@dataclass(frozen=True)
class Dealt:
    """Hit points taken in a substep so far, counted up to those there were."""

    by_shooter: Tensor
    """[B, N, N], by shooter and target."""
    by_weapon: Tensor
    """[B, W, N], by weapon of an enemy and target."""

    @property
    def killer(self) -> Tensor:
        """[B, N] int64: whoever took most from each mech, ties to the lowest index; `NO_MECH` where nobody did."""
        most, shooter = self.by_shooter.max(1)
        return torch.where(most > 0, shooter, NO_MECH)

    @property
    def deadliest(self) -> Tensor:
        """[B, N] int64: the enemies' weapon that took most from each mech, ties to the first; -1 where none did."""
        most, weapon = self.by_weapon.max(1)
        return torch.where(most > 0, weapon, -1)


def nothing_dealt(state: State) -> Dealt:
    """The beginning of a substep."""
    nothing = no_hits(state)
    return Dealt(nothing.damage, nothing.by_weapon)


def no_hits(state: State) -> Hits:
    """Harm of a phase in which nothing happens."""
    mechs, count = state.mechs, state.mechs.hp.shape[1]
    by_pair = torch.zeros_like(mechs.hp)[..., None].expand(-1, -1, count)
    return Hits(
        damage=by_pair,
        leg_damage=by_pair,
        stability=torch.zeros_like(mechs.hp),
        heat=torch.zeros_like(mechs.hp),
        suppress=torch.zeros_like(mechs.suppressed),
        came_from=torch.zeros_like(mechs.hit_from),
        landed=torch.zeros_like(state.tally.hits),
        by_weapon=torch.zeros_like(state.tally.taken).transpose(1, 2),
    )


def of_target(per_mech: Tensor, target: Tensor) -> Tensor:
    """`[B, N]` or `[B, N, D]` values of the mechs named by `target [B, R]`."""
    if per_mech.dim() == 2:
        return per_mech.gather(1, target)
    return per_mech.gather(1, target[..., None].expand(-1, -1, per_mech.shape[-1]))


def marked_factor(state: State, game: SimModel) -> Tensor:
    """`[B, N, N]` factor on damage by shooter and target: more where a packmate of the shooter has painted it."""
    pack = game.roster.pack
    everyone = torch.arange(pack.shape[0], device=pack.device)
    painter = state.mechs.painter[..., pack].transpose(1, 2)  # [B, shooter, target]
    by_packmate = painted_by_pack(state, game) & (painter != everyone[:, None])
    return 1 + PAINT_BONUS * by_packmate


def harm(sources: DamageSources, strikes: Strikes, marked: Tensor, state: State, game: SimModel) -> Hits:
    """What direct impacts do. Rear hits count `rear_factor` times; low ones strike the legs.

    A leg hit takes its full damage from the legs and half of it from the hull.

    Args:
        sources: of the R rows of the strikes.
        marked: `marked_factor` of the phase.
    """
    rules, mechs = game.rules, state.mechs
    facing = of_target(heading(mechs.yaw), strikes.target)  # [B, R, 2]
    from_behind = dot(strikes.direction[..., :2].unbind(-1), facing.unbind(-1)) > rules.rear_arc_cos
    factor = torch.where(from_behind, rules.rear_factor, 1.0)

    half_height = game.roster.half_size[:, 2]
    knee = mechs.pos[..., 2] - half_height * (1 - 2 * rules.leg_height)
    at_legs = strikes.height < of_target(knee, strikes.target)

    everyone = torch.arange(game.roster.num_mechs, device=mechs.hp.device)
    on = strikes.lands[..., None] & (strikes.target[..., None] == everyone)  # [B, R, N]

    def spread(per_row: Tensor) -> Tensor:
        return torch.where(on, per_row[..., None], 0.0)

    damage = sources.damage * factor
    hull_damage = spread(torch.where(at_legs, 0.5 * damage, damage))  # [B, R, N]
    return Hits(
        damage=sources.by_shooter(hull_damage) * marked,
        leg_damage=sources.by_shooter(spread(torch.where(at_legs, damage, 0.0))) * marked,
        stability=exact.sum(spread(sources.stability * factor), 1),
        heat=exact.sum(spread(sources.target_heat.expand_as(damage)), 1),
        # As floats, of which a CPU finds the largest of many at once.
        suppress=spread(sources.suppress.expand_as(damage)).amax(1).to(torch.int32),
        came_from=pushed(hull_damage, -strikes.direction[:, :, None, :2]),
        landed=sources.by_shooter(strikes.lands[..., None] * sources.weapon),
        by_weapon=sources.by_weapon(hull_damage * marked[:, sources.shooter]),
    )


def pushed(damage: Tensor, towards: Tensor) -> Tensor:
    """`[B, N, 2]` sum over rows of `damage [B, R, N]` along `towards`, which broadcasts to `[B, R, N, 2]`."""
    # An axis at a time: a last axis of two numbers keeps a CPU from adding up many mechs at once.
    return torch.stack([exact.sum(damage * along, 1) for along in towards.unbind(-1)], -1)


def splash(sources: DamageSources, felt: Tensor, origin: Tensor, marked: Tensor, state: State, game: SimModel) -> Hits:
    """What bursts do to those near them, friend and foe: a share of the damage, from no particular side.

    Args:
        sources: of the R bursts.
        felt: `[B, R, N]` bool, who is within a burst and not behind a wall.
        origin: `[B, R, 3]` vox.
        marked: `marked_factor` of the phase.
    """
    mechs = state.mechs
    damage = torch.where(felt, (sources.damage * sources.splash_scale)[:, None], 0.0)
    towards = unit(origin[:, :, None, :2] - mechs.pos[:, None, :, :2])  # [B, R, N, 2]
    nothing = no_hits(state)
    return Hits(
        damage=sources.by_shooter(damage) * marked,
        leg_damage=nothing.leg_damage,
        stability=nothing.stability,
        heat=nothing.heat,
        suppress=nothing.suppress,
        came_from=pushed(damage, towards),
        landed=nothing.landed,
        by_weapon=sources.by_weapon(damage * marked[:, sources.shooter] * game.roster.hostile[sources.shooter]),
    )


def apply(state: State, hits: Hits, dealt: Dealt, game: SimModel) -> tuple[State, Dealt]:
    """Everybody feels the phase's hits at once; the dead are credited.

    Damage counts up to the hp removed. A kill goes to whoever dealt most of it so far in this substep, ties to
    the lowest index; an assist to the packmate that had painted the target for the killer.

    Args:
        hits: the phase's harm.
        dealt: what was counted in this substep before.

    Returns:
        The state after the hits, and `dealt` with them counted.
    """
    old, tally, roster = state.mechs, state.tally, game.roster
    incoming = exact.sum(hits.damage, 1)  # [B, N]
    removed = incoming.minimum(old.hp)
    share = removed / torch.where(incoming > 0, incoming, 1.0)
    counted = hits.damage * share[:, None]
    taken = hits.by_weapon * share[:, None]  # [B, W, N]
    dealt = Dealt(dealt.by_shooter + counted, dealt.by_weapon + taken)

    mechs = struck(old, hits, incoming, removed, game)
    state = state.replace(mechs=mechs)
    kills, team_kills, assists, killed_by = credited_kills(old.alive & ~mechs.alive, dealt, state, game)
    tally = tally.replace(
        damage=tally.damage + exact.sum(counted * roster.hostile, 2),
        hits=tally.hits + hits.landed,
        kills=tally.kills + kills,
        team_kills=tally.team_kills + team_kills,
        assists=tally.assists + assists,
        legs_lost=tally.legs_lost + (mechs.legged & ~old.legged),
        taken=tally.taken + taken.transpose(1, 2),
        killed_by=tally.killed_by + killed_by,
    )
    return state.replace(tally=tally), dealt


def struck(mechs: Mechs, hits: Hits, incoming: Tensor, removed: Tensor, game: SimModel) -> Mechs:
    """The mechs after a phase's hits.

    Args:
        mechs: before them.
        hits: the phase's harm.
        incoming: `[B, N]` hp, the damage at each mech.
        removed: `[B, N]` hp, as much of it as there were hp.
    """
    hurt = mechs.alive & (incoming > 0)
    alarm = torch.where(hurt, game.rules.substeps(game.rules.under_fire_s), mechs.under_fire).to(torch.int32)
    return mechs.replace(
        hp=mechs.hp - removed,
        leg_hp=(mechs.leg_hp - exact.sum(hits.leg_damage, 1)).clamp_min(0.0),
        stability=(mechs.stability - hits.stability).clamp_min(0.0),
        heat=bounded(mechs.heat + hits.heat, game),
        suppressed=mechs.suppressed.maximum(hits.suppress),
        under_fire=alarm,
        hit_from=torch.where(hurt[..., None], unit(hits.came_from), mechs.hit_from),
    )


def credited_kills(died: Tensor, dealt: Dealt, state: State, game: SimModel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Whom the mechs that `died [B, N]` count for.

    Returns:
        `[B, N]` enemies killed, own mechs killed, and kills assisted by paint, by who is credited; and
        `[B, N, W]` bool by who died, the weapon to which an enemy owes the kill.
    """
    mechs, roster, killer = state.mechs, game.roster, dealt.killer
    everyone = torch.arange(roster.num_mechs, device=died.device)
    weapons = torch.arange(dealt.by_weapon.shape[1], device=died.device)
    killed = died & (killer != NO_MECH)
    kill = killed[:, None] & (killer[:, None] == everyone[:, None])  # [B, N, N]

    pack = roster.pack[killer.clamp_min(0)][..., None]  # [B, N, 1] by target
    painter = mechs.painter.gather(-1, pack).squeeze(-1)
    painted = (mechs.paint.gather(-1, pack).squeeze(-1) > 0) & (painter != killer)
    assist = (killed & painted)[:, None] & (painter[:, None] == everyone[:, None])
    by_enemy = (kill & roster.hostile).any(1)[..., None] & (dealt.deadliest[..., None] == weapons)
    kills, team_kills = exact.sum(kill & roster.hostile, 2), exact.sum(kill & ~roster.hostile, 2)
    return kills, team_kills, exact.sum(assist, 2), by_enemy


def wither(state: State, damage: Tensor) -> State:
    """Take `damage [B, N]` hp that nobody is credited with: lava and burning debris."""
    mechs = state.mechs
    return state.replace(mechs=mechs.replace(hp=mechs.hp - damage.minimum(mechs.hp)))

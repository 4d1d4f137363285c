"""Computes and applies all damage. No other module lowers the hp, leg hp or stability of mechs because of hits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.actions import NO_MECH
from echelon.rules.damage_sources import DamageSources
from echelon.runtime import exact
from echelon.runtime.geometry import dot, either, heading, unit
from echelon.sim import formulas
from echelon.sim.heat import bounded
from echelon.sim.model import SimModel
from echelon.sim.targeting import of_own_pack, painted_by_pack
from echelon.state import Mechs, State


@dataclass(frozen=True)
class Strikes:
    """R rows of direct impacts. Each row hits at most one mech."""

    lands: Tensor
    """[B, R] bool: the row hit a mech."""
    target: Tensor
    """[B, R] int64: index of the mech that was hit."""
    direction: Tensor
    """[B, R, 3] unit vector, the direction of flight."""
    height: Tensor
    """[B, R] vox, z coordinate of the impact."""


@dataclass(frozen=True)
class Hits:
    """Effects of all hits of one phase, before they are applied."""

    damage: Tensor
    """[B, N, N] hp, by shooter and target."""
    leg_damage: Tensor
    """[B, N, N] leg hp, by shooter and target."""
    stability: Tensor
    """[B, N] loss of stability, by target."""
    heat: Tensor
    """[B, N] heat points, by target."""
    suppress: Tensor
    """[B, N] int32 substeps of suppression, by target."""
    came_from: Tensor
    """[B, N, 2] by target: sum of the unit vectors towards the origins of the hits, weighted by their damage."""
    landed: Tensor
    """[B, N, W] number of direct impacts, by shooter and weapon."""
    by_weapon: Tensor
    """[B, W, N] hp, by enemy weapon and target."""

    def __add__(self, other: Hits) -> Hits:
        """Return the combined hits: the maximum of `suppress`, and the sum of every other field."""
        added = [name for name in Hits.__dataclass_fields__ if name != "suppress"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in added}
        return Hits(**sums, suppress=self.suppress.maximum(other.suppress))


@dataclass(frozen=True)
class Dealt:
    """Hull damage dealt so far in a substep, in hp. Damage in excess of the remaining hp is not counted."""

    by_shooter: Tensor
    """[B, N, N] hp, by shooter and target."""
    by_weapon: Tensor
    """[B, W, N] hp, by enemy weapon and target."""

    @property
    def killer(self) -> Tensor:
        """[B, N] int64: the mech that dealt most damage to each target, or `NO_MECH` if none did. If several mechs
        dealt equal damage, the lowest index counts."""
        highest, shooter = self.by_shooter.max(1)
        return torch.where(highest > 0, shooter, NO_MECH)

    @property
    def deadliest(self) -> Tensor:
        """[B, N] int64: the enemy weapon that dealt most damage to each target, or -1 if none did. If several weapons
        dealt equal damage, the first one counts."""
        highest, weapon = self.by_weapon.max(1)
        return torch.where(highest > 0, weapon, -1)


def nothing_dealt(state: State) -> Dealt:
    """Return zero damage, for the start of a substep."""
    zero = no_hits(state)
    return Dealt(zero.damage, zero.by_weapon)


def no_hits(state: State) -> Hits:
    """Return the `Hits` of a phase without impacts: all zero."""
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
    """Gather values `[B, N]` or `[B, N, D]` of mechs by the indices `target [B, R]` int64 to `[B, R]` or
    `[B, R, D]`."""
    if per_mech.dim() == 2:
        return per_mech.gather(1, target)
    return per_mech.gather(1, target[..., None].expand(-1, -1, per_mech.shape[-1]))


def paint_factor(state: State, sim_model: SimModel) -> Tensor:
    """`[B, N, N]` damage factor by shooter and target. The factor is 1 + `Catalog.paint_bonus` if a packmate painted
    (marked) the target, else 1."""
    indices = torch.arange(sim_model.roster.num_mechs, device=state.mechs.painter.device)
    painter = of_own_pack(state.mechs.painter, sim_model)  # [B, shooter, target]
    by_packmate = painted_by_pack(state, sim_model) & (painter != indices[:, None])
    return 1 + sim_model.catalog.paint_bonus * by_packmate.float()


def direct_hit_damage(
    sources: DamageSources, strikes: Strikes, paint_factors: Tensor, state: State, sim_model: SimModel
) -> Hits:
    """Compute the effects of direct impacts. Hits from behind are multiplied by `rear_factor`; low hits are leg hits.

    A leg hit deals its full damage to the legs and half of it to the hull.

    Args:
        sources: damage sources of the R rows of `strikes`.
        strikes: the impacts.
        paint_factors: the result of `paint_factor` for the substep.
        state: the state before the phase.
        sim_model: constants of the battle.
    """
    rules, mechs = sim_model.rules, state.mechs
    facing = of_target(heading(mechs.yaw), strikes.target)  # [B, R, 2]
    from_behind = dot(strikes.direction[..., :2].unbind(-1), facing.unbind(-1)) > rules.rear_arc_cos
    factor = either(from_behind, rules.rear_factor, 1.0)

    half_height = sim_model.roster.half_size[:, 2]
    knee = formulas.knee_height(mechs.pos[..., 2], half_height, 1 - 2 * rules.leg_height)
    at_legs = strikes.height < of_target(knee, strikes.target)

    indices = torch.arange(sim_model.roster.num_mechs, device=mechs.hp.device)
    lands_on = strikes.lands[..., None] & (strikes.target[..., None] == indices)  # [B, R, N]

    def spread(per_row: Tensor) -> Tensor:
        return torch.where(lands_on, per_row[..., None], 0.0)

    damage = sources.damage * factor
    hull_damage = spread(torch.where(at_legs, sim_model.rules.leg_hit_share * damage, damage))  # [B, R, N]
    return Hits(
        damage=sources.by_shooter(hull_damage) * paint_factors,
        leg_damage=sources.by_shooter(spread(torch.where(at_legs, damage, 0.0))) * paint_factors,
        stability=exact.sum(spread(sources.stability * factor), 1),
        heat=exact.sum(spread(sources.target_heat.expand_as(damage)), 1),
        # On a CPU, torch vectorizes the maximum of floats but not of integers, so convert afterwards.
        suppress=spread(sources.suppress.expand_as(damage)).amax(1).to(torch.int32),
        came_from=sum_damage_by_direction(hull_damage, -strikes.direction[:, :, None, :2]),
        landed=sources.by_shooter(strikes.lands[..., None] * sources.weapon),
        by_weapon=sources.by_weapon(hull_damage * paint_factors[:, sources.shooter]),
    )


def sum_damage_by_direction(damage: Tensor, towards: Tensor) -> Tensor:
    """Return the sum over the R rows of `damage [B, R, N]` times the directions `towards`, which broadcast to
    `[B, R, N, 2]`. The result is `[B, N, 2]`."""
    # Sum x and y separately: a last dimension of size 2 prevents vectorization over mechs on a CPU.
    return torch.stack([exact.sum(damage * component, 1) for component in towards.unbind(-1)], -1)


def splash(
    sources: DamageSources, exposed: Tensor, origin: Tensor, paint_factors: Tensor, state: State, sim_model: SimModel
) -> Hits:
    """Compute the effects of explosions on nearby mechs of both teams. The damage is multiplied by `splash_scale`, but
    not by the rear factor.

    Args:
        sources: damage sources of the R explosions.
        exposed: mechs within the radius and not shielded by terrain, `[B, R, N]` bool.
        origin: the centres of the explosions, `[B, R, 3]` vox.
        paint_factors: the result of `paint_factor` for the substep.
        state: the state before the phase.
        sim_model: constants of the battle.
    """
    mechs = state.mechs
    damage = torch.where(exposed, (sources.damage * sources.splash_scale)[:, None], 0.0)
    towards = unit(origin[:, :, None, :2] - mechs.pos[:, None, :, :2])  # [B, R, N, 2]
    zero = no_hits(state)
    return Hits(
        damage=sources.by_shooter(damage) * paint_factors,
        came_from=sum_damage_by_direction(damage, towards),
        by_weapon=sources.by_weapon(
            damage * paint_factors[:, sources.shooter] * sim_model.roster.hostile[sources.shooter]
        ),
        **{name: getattr(zero, name) for name in ("leg_damage", "stability", "heat", "suppress", "landed")},
    )


def apply(state: State, hits: Hits, dealt: Dealt, sim_model: SimModel) -> tuple[State, Dealt]:
    """Apply the hits of a phase to all mechs at once and credit kills.

    Damage in excess of the remaining hp is not counted. A kill is credited to the mech that dealt most damage to the
    target in this substep; ties go to the lowest index. The packmate that had painted (marked) the target gets an
    assist.

    Args:
        state: the state before the hits.
        hits: hits of the phase.
        dealt: damage of the earlier phases of this substep.
        sim_model: constants of the battle.

    Returns:
        The state after the hits, and `dealt` including the damage of these hits.
    """
    before, tally, roster = state.mechs, state.tally, sim_model.roster
    incoming = exact.sum(hits.damage, 1)  # [B, N]
    removed = incoming.minimum(before.hp)
    share = removed / torch.where(incoming > 0, incoming, 1.0)
    counted = hits.damage * share[:, None]
    damage_taken = hits.by_weapon * share[:, None]  # [B, W, N]
    dealt = Dealt(dealt.by_shooter + counted, dealt.by_weapon + damage_taken)

    mechs = struck(before, hits, incoming, removed, sim_model)
    state = state.replace(mechs=mechs)
    credit = credited_kills(before.alive & ~mechs.alive, dealt, state, sim_model)
    tally = tally.replace(
        damage=tally.damage + exact.sum(counted * roster.hostile, 2),
        hits=tally.hits + hits.landed,
        legs_lost=tally.legs_lost + (mechs.legged & ~before.legged),
        taken=tally.taken + damage_taken.transpose(1, 2),
        **{name: getattr(tally, name) + credited for name, credited in credit.items()},
    )
    return state.replace(tally=tally), dealt


def struck(mechs: Mechs, hits: Hits, incoming: Tensor, removed: Tensor, sim_model: SimModel) -> Mechs:
    """Return the mechs after the hits of a phase.

    Args:
        mechs: the mechs before the hits.
        hits: hits of the phase.
        incoming: total damage to each target, `[B, N]` hp.
        removed: the damage of `incoming` up to the remaining hp, `[B, N]` hp.
        sim_model: constants of the battle.
    """
    hurt = mechs.alive & (incoming > 0)
    alarm = torch.where(hurt, sim_model.rules.substeps(sim_model.rules.under_fire_s), mechs.under_fire).to(torch.int32)
    return mechs.replace(
        hp=mechs.hp - removed,
        leg_hp=(mechs.leg_hp - exact.sum(hits.leg_damage, 1)).clamp_min(0.0),
        stability=(mechs.stability - hits.stability).clamp_min(0.0),
        heat=bounded(mechs.heat + hits.heat, sim_model),
        suppressed=mechs.suppressed.maximum(hits.suppress),
        under_fire=alarm,
        hit_from=torch.where(hurt[..., None], unit(hits.came_from), mechs.hit_from),
    )


def credited_kills(died: Tensor, dealt: Dealt, state: State, sim_model: SimModel) -> dict[str, Tensor]:
    """Return the increments of `Tally` fields, keyed by field name, for the mechs that `died`, `[B, N]` bool."""
    mechs, roster, killer = state.mechs, sim_model.roster, dealt.killer
    indices = torch.arange(roster.num_mechs, device=died.device)
    weapons = torch.arange(dealt.by_weapon.shape[1], device=died.device)
    killed = died & (killer != NO_MECH)
    kill = killed[:, None] & (killer[:, None] == indices[:, None])  # [B, N, N]

    pack = roster.pack[killer.clamp_min(0)][..., None]  # [B, N, 1] by target
    painter = mechs.painter.gather(-1, pack).squeeze(-1)
    painted = (mechs.paint.gather(-1, pack).squeeze(-1) > 0) & (painter != killer)
    assist = (killed & painted)[:, None] & (painter[:, None] == indices[:, None])
    by_enemy = (kill & roster.hostile).any(1)
    return {
        "kills": exact.sum(kill & roster.hostile, 2),
        "team_kills": exact.sum(kill & ~roster.hostile, 2),
        "assists": exact.sum(assist, 2),
        "assist_hp": exact.sum(torch.where(assist, roster.hp, 0.0), 2),
        "killed_by": by_enemy[..., None] & (dealt.deadliest[..., None] == weapons),
    }


def credit_paint(state: State, painter: Tensor, paint_factors: Tensor, dealt: Dealt, sim_model: SimModel) -> State:
    """Credit each mech that painted (marked) targets with the extra damage that its packmates dealt to them in a
    substep.

    Args:
        state: the state after all damage of the substep.
        painter: index of the mech that had painted each mech for each pack when the damage was dealt, `[B, N, P]`
            int64.
        paint_factors: the result of `paint_factor` for the substep.
        dealt: damage of the substep.
        sim_model: constants of the battle.
    """
    roster, tally = sim_model.roster, state.tally
    if not roster.painters:
        return state
    bonus = formulas.damage_by_paint(dealt.by_shooter, paint_factors)  # [B, shooter, target]
    by_pack = torch.stack([exact.sum(bonus[:, span], 1) for span in roster.packs], -1)  # [B, target, P]
    indices = torch.arange(roster.num_mechs, device=bonus.device)
    # A mech that painted (marked) a target is credited only with the damage of its own pack.
    is_painter = of_own_pack(painter, sim_model) == indices[:, None]  # [B, N, target]
    credited = torch.where(is_painter, of_own_pack(by_pack, sim_model), 0.0)
    return state.replace(tally=tally.replace(paint_damage=tally.paint_damage + exact.sum(credited, 2)))


def apply_uncredited_damage(state: State, damage: Tensor) -> State:
    """Apply the damage of lava and burning debris, `damage [B, N]` hp. This damage is credited to no mech."""
    mechs = state.mechs
    return state.replace(mechs=mechs.replace(hp=mechs.hp - damage.minimum(mechs.hp)))

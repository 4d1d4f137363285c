"""Damage: effects of hits, and credit for kills."""

import math
from dataclasses import dataclass, field

from first_catalog import CATALOG, WEAPONS, Weapon

from .battle import Battle, Mech
from .body import warm
from .hair import below, weigh
from .vectors import Vector, add, dot, minus, norm, times, unit


@dataclass
class Harm:
    """The effects of all hits on one mech in one phase."""

    by: dict[int, float] = field(default_factory=dict)
    by_weapon: dict[Weapon, float] = field(default_factory=dict)
    by_paint: dict[int, float] = field(default_factory=dict)
    to_legs: float = 0.0
    stability: float = 0.0
    heat: float = 0.0
    suppress: int = 0
    came_from: Vector = field(default_factory=lambda: [0.0, 0.0])

    def hurt(self, shooter: Mech, target: Mech, damage: float) -> float:
        """Add hull damage by a mech, including its paint bonus, and return the total."""
        extra = 0.0
        if painted_by_packmate(shooter, target):
            extra = damage * CATALOG.paint_bonus
            painter = target.painter[shooter.pack]
            self.by_paint[painter] = self.by_paint.get(painter, 0.0) + extra
        self.by[shooter.index] = self.by.get(shooter.index, 0.0) + damage + extra
        return damage + extra


Harms = dict[int, Harm]
"""Effects keyed by target."""


def painted_by_packmate(shooter: Mech, target: Mech) -> bool:
    """Return True if another mech of the shooter's pack painted the target."""
    return target.paint[shooter.pack] > 0 and target.painter[shooter.pack] != shooter.index


def hit(battle: Battle, harms: Harms, weapon: Weapon, shooter: Mech, target: Mech, way: Vector, height: float) -> None:
    """Add a direct hit with direction `way` at `height`."""
    spec, rules = WEAPONS[weapon], battle.rules
    facing = [math.cos(target.yaw), math.sin(target.yaw)]
    from_behind = below(rules.rear_arc_cos, dot(way[:2], facing), "rear arc")
    factor = rules.rear_factor if from_behind else 1.0
    knee = target.bottom + rules.leg_height * 2 * target.half[2]
    at_legs = below(height, knee, "knee")
    harm = harms.setdefault(target.index, Harm())

    full = spec.damage * factor
    to_hull = full / 2 if at_legs else full
    to_enemy = harm.hurt(shooter, target, to_hull)
    harm.by_weapon[weapon] = harm.by_weapon.get(weapon, 0.0) + to_enemy
    harm.to_legs += 2 * to_enemy if at_legs else 0.0
    harm.stability += spec.stability * factor
    harm.heat += spec.target_heat
    harm.suppress = max(harm.suppress, rules.substeps(spec.suppress_s))
    harm.came_from = minus(harm.came_from, times(way[:2], to_hull))
    shooter.tally.hits[weapon] += 1


def splash(harms: Harms, weapon: Weapon, shooter: Mech, target: Mech, origin: Vector) -> None:
    """Add splash damage of a shot that exploded."""
    damage = WEAPONS[weapon].damage * WEAPONS[weapon].splash_scale
    harm = harms.setdefault(target.index, Harm())
    felt = harm.hurt(shooter, target, damage)
    if shooter.is_enemy(target):
        harm.by_weapon[weapon] = harm.by_weapon.get(weapon, 0.0) + felt
    harm.came_from = add(harm.came_from, times(unit(minus(origin[:2], target.pos[:2])), damage))


Dealt = dict[tuple[int | str, int], float]
"""hp removed in this substep, keyed by (shooter, target) and by (name of an enemy weapon, target)."""


def feel(battle: Battle, harms: Harms, dealt: Dealt) -> None:
    """Apply the hits of a phase to all mechs at once, and credit kills."""
    for index, harm in harms.items():
        target = battle.mechs[index]
        incoming = sum(harm.by.values())
        was_alive, was_legged = target.alive, target.legged
        if was_alive and incoming > 0:
            target.under_fire = battle.rules.substeps(battle.rules.under_fire_s)
            weigh(norm(harm.came_from), 0.0, "hit from all sides")
            target.hit_from = unit(harm.came_from)
        weigh(target.hp, incoming, "death")
        removed = min(target.hp, incoming)
        target.hp -= removed
        weigh(target.leg_hp, harm.to_legs, "legs")
        target.leg_hp = max(0.0, target.leg_hp - harm.to_legs)
        target.tally.legs_lost += target.legged and not was_legged
        weigh(target.stability, harm.stability, "balance")
        target.stability = max(0.0, target.stability - harm.stability)
        warm(battle, target, harm.heat)
        target.suppressed = max(target.suppressed, harm.suppress)
        for shooter, damage in harm.by.items():
            counted = damage * removed / incoming if incoming > 0 else 0.0
            dealt[shooter, index] = dealt.get((shooter, index), 0.0) + counted
            if battle.mechs[shooter].is_enemy(target):
                battle.mechs[shooter].tally.damage += counted
        for painter, damage in harm.by_paint.items():
            battle.mechs[painter].tally.paint_damage += damage * removed / incoming if incoming > 0 else 0.0
        for weapon, damage in harm.by_weapon.items():
            counted = damage * removed / incoming if incoming > 0 else 0.0
            dealt[weapon.name, index] = dealt.get((weapon.name, index), 0.0) + counted
            target.tally.taken[weapon] += counted
        if was_alive and not target.alive:
            credit(battle, target, dealt)


def credit(battle: Battle, dead: Mech, dealt: Dealt) -> None:
    """Credit the kill to the mech that dealt most damage in this substep, and the assist to the painter of its pack."""
    shares = [(dealt.get((mech.index, dead.index), 0.0), mech) for mech in battle.mechs]
    most = max(share for share, _ in shares)
    if most <= 0:
        return
    for share, _ in shares:
        weigh(share, most, "who dealt most")
    killer = next(mech for share, mech in shares if share == most)
    if not killer.is_enemy(dead):
        killer.tally.team_kills += 1
        return
    killer.tally.kills += 1
    dead.tally.killed_by[max(Weapon, key=lambda weapon: dealt.get((weapon.name, dead.index), 0.0))] += 1
    if painted_by_packmate(killer, dead):
        painter = battle.mechs[dead.painter[killer.pack]]
        painter.tally.assists += 1
        painter.tally.assist_hp += dead.spec.hp

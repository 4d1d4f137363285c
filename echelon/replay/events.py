"""What happened between the moments of a battle, as tables of whole numbers whose columns `battle.TABLES` names."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from echelon.replay.battle import FLIGHTS, NOBODY, POINTS, POS_PER_VOX, Condition, Met
from echelon.sim.model import SimModel
from echelon.sim.terrain import has_bit, now_made_of

Arrays = dict[str, np.ndarray]


def events_of(now: Arrays, ticks: Arrays, game: SimModel) -> Arrays:
    """The event tables of one battle, `Battle.voxels` apart.

    Args:
        now: what was kept at each of T + 1 moments, `[T + 1, ...]`.
        ticks: what was kept of each of K substeps, `[K, ...]`.
    """
    flights, waypoints = flown(ticks, game)
    return {
        "beams": beams(now, ticks, game),
        "flights": flights,
        "waypoints": waypoints,
        "harms": harms(ticks, game),
        "deaths": deaths(ticks),
        "conditions": conditions(ticks, game),
        "clouds": clouds(now, game),
    }


def table(*columns: np.ndarray | int) -> np.ndarray:
    """int32 `[rows, columns]` of columns `[rows]`, `[rows, 3]` or one number for all rows, ordered by the first."""
    rows = next(len(column) for column in columns if isinstance(column, np.ndarray))
    parts = [np.full((rows, 1), c) if isinstance(c, int) else c if c.ndim == 2 else c[:, None] for c in columns]
    joined = np.concatenate(parts, 1).astype(np.int32)
    return joined[np.argsort(joined[:, 0], kind="stable")]


def place(pos: np.ndarray) -> np.ndarray:
    return np.rint(pos * POS_PER_VOX).astype(np.int32)


def beams(now: Arrays, ticks: Arrays, game: SimModel) -> np.ndarray:
    """Beams run from where their mechs stood as they fired: before the tick moved them."""
    stood = place(np.concatenate((now["pos"][:1], ticks["pos"][:-1])))  # [K, N, 3]
    found = []
    for weapon in game.roster.rays:
        target = ticks.get(f"beam_{weapon}")
        if target is not None:
            tick, shooter = np.nonzero(target != NOBODY)
            struck = target[tick, shooter]
            found.append(table(tick, shooter, struck, weapon, stood[tick, shooter], stood[tick, struck]))
    return table(np.concatenate(found)) if found else np.zeros((0, 10), np.int32)


def harms(ticks: Arrays, game: SimModel) -> np.ndarray:
    """What one mech took from another with a weapon in a tick."""
    tick, shooter, target, weapon, taken = by_weapon(ticks, game)
    return table(tick, shooter, target, np.rint(taken * POINTS), weapon)


def deaths(ticks: Arrays) -> np.ndarray:
    """Who died, by whom, by what."""
    before = np.concatenate((np.ones_like(ticks["alive"][:1]), ticks["alive"][:-1]))
    tick, victim = np.nonzero(before & ~ticks["alive"])
    return table(tick, victim, ticks["killer"][tick, victim], ticks["deadliest"][tick, victim])


def conditions(ticks: Arrays, game: SimModel) -> np.ndarray:
    """What began and ended for each mech, tick by tick, as the simulation counts it."""
    marks, alive = ticks["marks"], ticks["alive"]  # [K, N, marks]
    before = np.concatenate((np.zeros_like(marks[:1]), marks[:-1]))
    grown = marks > before
    cap = game.roster.heat_cap.cpu().numpy()
    cools = (before[..., HEAT] > cap) & (marks[..., HEAT] <= cap)
    rises = (before[..., FALLEN] > 0) & (marks[..., FALLEN] == 0)
    entered = {
        Condition.SHUT_DOWN: grown[..., SHUTDOWNS],
        Condition.RESTARTED: cools & alive,
        Condition.FELL: grown[..., FALLS],
        Condition.STOOD_UP: rises & alive,
        Condition.LEGGED: grown[..., LEGS_LOST],
    }
    found = []
    for condition, on in entered.items():
        tick, mech = np.nonzero(on)
        found.append(table(tick, mech, int(condition)))
    return table(np.concatenate(found))


def flown(ticks: Arrays, game: SimModel) -> tuple[np.ndarray, np.ndarray]:
    """Every shot from its launch to its end, and the points of its way."""
    roster = game.roster
    shooter = roster.shots.shooter.cpu().numpy()
    weapon = roster.shots.weapon.argmax(-1).cpu().numpy()
    curves = (roster.homing | roster.ballistic).cpu().numpy()
    flies = ticks["flies"]  # [K, S] after the tick
    flew = np.concatenate((np.zeros_like(flies[:1]), flies[:-1]))  # before it
    ends = flew & (ticks["ends"] | ~ticks["flew"])
    launched = flies & (~flew | ends)
    rows, ways, count = [], [], 0
    for slot in np.flatnonzero(launched.any(0)).tolist():
        begun, ended = np.flatnonzero(launched[:, slot]), np.flatnonzero(ends[:, slot])
        ended = np.append(ended, np.full(len(begun) - len(ended), len(flies) - 1))
        for first, last in zip(begun.tolist(), ended.tolist(), strict=True):
            met, victim, end = how_it_ended(ticks, slot, last, bool(ends[last, slot]))
            way = ticks["shot_pos"][first : max(last, first + 1), slot]
            way = np.vstack((way if curves[slot] else way[:1], end))
            lock = int(ticks["lock"][first, slot])
            by = interceptor(ticks, slot, last, game) if met is Met.AMS else NOBODY
            rows.append((first, last, shooter[slot], weapon[slot], lock, int(met), victim, count, len(way), by))
            ways.append(place(way))
            count += len(way)
    if not rows:
        return np.zeros((0, len(FLIGHTS)), np.int32), np.zeros((0, 3), np.int16)
    return table(np.array(rows)), np.concatenate(ways).astype(np.int16)


def how_it_ended(ticks: Arrays, slot: int, tick: int, ends: bool) -> tuple[Met, int, np.ndarray]:
    """What ended a flight in a tick, whom it hit, and where."""
    if not ends:
        return Met.BATTLE_END, NOBODY, ticks["shot_pos"][tick, slot]
    if not ticks["flew"][tick, slot]:
        return Met.AMS, NOBODY, ticks["shot_pos"][tick - 1, slot]
    point = ticks["point"][tick, slot]
    if ticks["on_mech"][tick, slot]:
        return Met.MECH, int(ticks["victim"][tick, slot]), point
    stopped = {Met.VOXEL: ticks["on_voxel"], Met.FLOOR: ticks["on_floor"]}
    return next((met for met, on in stopped.items() if on[tick, slot]), Met.NOTHING), NOBODY, point


def clouds(now: Arrays, game: SimModel) -> np.ndarray:
    """Every cloud: its clock at the moments it hung tells when it began, a whole number of ticks before."""
    life = game.rules.substeps(game.catalog.cloud_s)
    owner = game.roster.launchers.cpu().numpy()
    moment, where = np.nonzero(now["cloud_ttl"] > 0)
    begun = moment * game.rules.decision_repeat - 1 - (life - now["cloud_ttl"][moment, where])
    _, first = np.unique(np.stack((begun, where)), axis=1, return_index=True)
    moment, where, begun = moment[first], where[first], begun[first]
    return table(begun, begun + life, owner[where // game.roster.clouds_each], place(now["cloud_pos"][moment, where]))


def changes(columns: dict[str, Tensor], map_id: int, game: SimModel) -> np.ndarray:
    """`Battle.voxels`, from the bit columns `solid`, `opaque` and `rubble`, `[T + 1, Y, X]`, of each moment."""
    maps = game.maps
    differs = columns["solid"][1:] ^ columns["solid"][:-1]
    for name in ("opaque", "rubble"):
        differs = differs | (columns[name][1:] ^ columns[name][:-1])
    decision, y, x = differs.nonzero().unbind(1)
    found = []
    for z in range(maps.material.shape[1]):
        here = ((differs[decision, y, x] >> z) & 1).bool()
        d, v, u = decision[here], y[here], x[here]

        level = torch.full_like(d, z)
        solid, opaque, filled = (has_bit(columns[name][d + 1, v, u], level) for name in ("solid", "opaque", "rubble"))
        was_solid, was_opaque = (has_bit(kept[map_id, v, u], level) for kept in (maps.solid, maps.opaque))
        made_of = maps.material[map_id, level, v, u]
        material = now_made_of(made_of, (was_solid, was_opaque), (solid, opaque), filled)
        found.append(torch.stack((d, u, v, level, material.long()), 1))
    return table(torch.cat(found).cpu().numpy())


MARKS = ("shutdowns", "falls", "legs_lost", "intercepts", "heat", "fallen")
"""What is kept of every mech in a tick: counts of `Tally`, and fields of `Mechs`."""
SHUTDOWNS, FALLS, LEGS_LOST, INTERCEPTS, HEAT, FALLEN = range(len(MARKS))
NEGLIGIBLE = 1e-3
"""Hit points below which a remainder is rounding."""
SWEEPS = 200
"""Of proportional fitting, where sums alone leave more than one answer."""


def by_weapon(ticks: Arrays, game: SimModel) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every (tick, shooter, target, weapon) and the hit points taken, `[rows]` each; weapon `NOBODY` if unknown.

    A tick keeps what each shooter and what each weapon took from each target. With the beams that fired and the shots
    that ended, that tells the weapon of each pair but where two mechs hit one target with the same two weapons in one
    tick; there the damage is shared in proportion.
    """
    dealt = ticks["dealt_by"]
    tick, shooter, target = np.nonzero(dealt > 0)
    taken = dealt[tick, shooter, target]
    able = may_have_struck(ticks, game)[tick, shooter, :, target]  # [rows, W]
    rows = np.arange(len(tick))
    weapon = np.where(able.any(1), able.argmax(1), NOBODY)
    several = able.sum(1) > 1
    parts = [(rows[~several], weapon[~several], taken[~several])]
    groups = np.unique(np.stack((tick, target), 1)[several], axis=0)
    hostile, nominal = game.roster.hostile.cpu().numpy(), np.array([spec.damage for spec in game.roster.weapons])
    for when, whom in groups.tolist():
        own = rows[(tick == when) & (target == whom)]
        of_enemy = hostile[shooter[own], whom]
        shares = np.zeros((len(own), able.shape[1]))
        shares[of_enemy] = shared(
            able[own][of_enemy], taken[own][of_enemy], ticks["dealt_with"][when, :, whom], nominal
        )
        # What weapons took is told of enemies alone.
        shares[~of_enemy] = in_proportion(able[own][~of_enemy], taken[own][~of_enemy], nominal)
        split = several[own]
        which, with_what = np.nonzero((shares > NEGLIGIBLE) & split[:, None])
        parts.append((own[which], with_what, shares[which, with_what]))
    which, weapon, taken = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((weapon, which))
    which = which[order]
    return tick[which], shooter[which], target[which], weapon[order], taken[order]


def may_have_struck(ticks: Arrays, game: SimModel) -> np.ndarray:
    """`[K, N, W, N]` bool: in a tick a weapon of the shooter may have hurt the target."""
    roster, count = game.roster, ticks["pos"].shape[1]
    found = np.zeros((len(ticks["pos"]), count, len(roster.weapons), count), bool)
    for weapon in roster.rays:
        struck = ticks.get(f"beam_{weapon}")
        if struck is not None:
            tick, shooter = np.nonzero(struck != NOBODY)
            found[tick, shooter, weapon, struck[tick, shooter]] = True
    of_slot, weapon_of = roster.shots.shooter.cpu().numpy(), roster.shots.weapon.argmax(-1).cpu().numpy()
    tick, slot = np.nonzero(ticks["ends"] & ticks["on_mech"])
    found[tick, of_slot[slot], weapon_of[slot], ticks["victim"][tick, slot]] = True
    splashes = np.array([spec.splash_vox > 0 for spec in roster.weapons])[weapon_of]
    tick, slot = np.nonzero(ticks["ends"] & splashes)
    found[tick, of_slot[slot], weapon_of[slot]] = True
    return found


def shared(able: np.ndarray, by_row: np.ndarray, by_column: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """`[R, W]` numbers of given sums by row and column, zero where not `able`."""
    able, found = able.copy(), np.zeros(able.shape)
    by_row, by_column = by_row.astype(np.float64), by_column.astype(np.float64)
    while True:
        able &= (by_row > NEGLIGIBLE)[:, None] & (by_column > NEGLIGIBLE)
        alone = able & ((able.sum(0) == 1) | (able.sum(1) == 1)[:, None])
        if not alone.any():
            break
        row, column = np.argwhere(alone)[0]
        # The last of its column takes all that is left there, the last of its row all that the row has.
        amount = min(by_row[row], by_column[column])
        found[row, column] = amount
        by_row[row] -= amount
        by_column[column] -= amount
        able[row, column] = False
    if not able.any():
        return found
    rest = able * np.where(nominal > 0, nominal, 1.0)
    for _ in range(SWEEPS):
        rest *= np.divide(by_row, rest.sum(1), out=np.zeros_like(by_row), where=rest.sum(1) > 0)[:, None]
        rest *= np.divide(by_column, rest.sum(0), out=np.zeros_like(by_column), where=rest.sum(0) > 0)
    return found + rest


def in_proportion(able: np.ndarray, by_row: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """`[R, W]` each row's number shared among the weapons that are able, by their damage."""
    weight = able * np.where(nominal > 0, nominal, 1.0)
    return weight / weight.sum(1, keepdims=True).clip(1e-9) * by_row[:, None]


def interceptor(ticks: Arrays, slot: int, tick: int, game: SimModel) -> int:
    """The mech whose AMS destroyed the shot of a slot in a tick: of those credited, the one that had it nearest."""
    marks = ticks["marks"][..., INTERCEPTS]
    credited = marks[tick] > (marks[tick - 1] if tick else 0)  # [N]
    hostile = game.roster.hostile.cpu().numpy()[:, int(game.roster.shots.shooter[slot])]
    guards = np.flatnonzero(credited & hostile)
    if not len(guards):
        return NOBODY
    # Shots that were in flight before the tick and did not fly; both as they stood before it moved them.
    gone = np.flatnonzero(ticks["flies"][tick - 1] & ~ticks["flew"][tick])
    away = np.linalg.norm(ticks["shot_pos"][tick - 1, gone] - ticks["pos"][tick - 1, guards][:, None], axis=-1)
    firm = game.roster.hostile.cpu().numpy()[guards][:, game.roster.shots.shooter.cpu().numpy()[gone]]
    nearest = gone[np.where(firm, away, np.inf).argmin(1)]
    return int(guards[np.flatnonzero(nearest == slot)[0]]) if (nearest == slot).any() else NOBODY

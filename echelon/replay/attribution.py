"""Which weapon did how much of what one mech took from another, and whose AMS destroyed which shot."""

from __future__ import annotations

import numpy as np

from echelon.replay.battle import NOBODY
from echelon.sim.model import SimModel

Arrays = dict[str, np.ndarray]
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

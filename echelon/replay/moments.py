"""Converts recorded tensors of a battle to integers: its moments, and the events between them.

`battle.TABLES` lists the columns of the event tables.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.env.observation import layout
from echelon.replay import battle
from echelon.replay.battle import FLIGHTS, NO_INDEX, POINTS, POS_PER_VOX, Condition, FlightEnd
from echelon.sim.model import SimModel
from echelon.sim.sight import crosses_smoke
from echelon.sim.terrain import current_material, has_bit

KEPT = (
    "pos",
    "yaw",
    "hp",
    "leg_hp",
    "heat",
    "stability",
    "fallen",
    "suppressed",
    "under_fire",
    "paint",
)
"""Fields of `Mechs` that a moment contains."""


def whole(values: np.ndarray, scale: float, kind: type[np.signedinteger | np.unsignedinteger]) -> np.ndarray:
    """Return `values` times `scale`, rounded to integers of a dtype.

    An overflow would be a bug, so it raises an assertion error.
    """
    scaled = np.rint(values * scale)
    limits = np.iinfo(kind)
    assert scaled.size == 0 or (limits.min <= scaled.min() and scaled.max() <= limits.max)
    return scaled.astype(kind)


def wrapped(angle: Any) -> Any:
    """Wrap angles to [-pi, pi) rad; for NumPy arrays and for numbers.

    Unlike `geometry.wrap_angle`, this also rounds angles that are already in the range; stored files depend on these
    bits.
    """
    return (angle + np.pi) % (2 * np.pi) - np.pi


def quantised(moments: dict[str, np.ndarray], sim_model: SimModel) -> dict[str, np.ndarray]:
    """Return the arrays of `Battle` with one row per moment, as integers, from recorded values `[T + 1, ...]`."""
    weights = 1 << np.arange(8)
    packs = (moments["paint"] > 0) * weights[: moments["paint"].shape[-1]]  # [T + 1, N, P]
    fact_bits = (moments["contact_facts"] > 0) * weights[: moments["contact_facts"].shape[-1]]
    # Move the weapon axis to the end, to pack the weapons of a mech (at most 16) into bits.
    fire = np.moveaxis(moments["fire"], 1, -1)  # [T + 1, N, W]
    low, high = (bound.numpy() for bound in layout.bounds(layout.EGO))
    return {
        "pos": whole(moments["pos"], battle.POS_PER_VOX, np.int16),
        "yaw": whole(wrapped(moments["yaw"]), battle.YAW_PER_RAD, np.int16),
        "hp": whole(moments["hp"], battle.POINTS, np.int16),
        "leg_hp": whole(moments["leg_hp"], battle.POINTS, np.int16),
        "heat": whole(moments["heat"], battle.POINTS, np.uint16),
        "stability": whole(moments["stability"], battle.POINTS, np.int16),
        "facts": facts(moments, sim_model),
        "paint": packs.sum(-1).astype(np.uint8),
        "focus": moments["focus"].astype(np.int8),
        "contacts": moments["contacts"].astype(np.int8),
        "contact_facts": (fact_bits.sum(-1) | ways_known(moments, sim_model)).astype(np.uint8),
        "lines": np.packbits(moments["lines"], axis=-1, bitorder="little"),
        "ego": whole(((moments["ego"] - low) / (high - low)).clip(0, 1), 255, np.uint8),
        "messages": whole(moments["messages"], 127, np.int8),
        "moves": whole(moments["moves"], 127, np.int8),
        "triggers": (fire * (1 << np.arange(fire.shape[-1]))).sum(-1).astype(np.uint16),
        "switches": switches(moments),
        "score": whole(moments["score"], battle.SCORE_PER_S, np.int32),
        "control": whole(moments["control"], 255, np.uint8),
        **({"orders": quantised_orders(moments["orders"])} if "orders" in moments else {}),
        "rewards": in_reward_units(
            np.stack(
                [moments["reward"][:, span].astype(np.float64).mean(1) for span in sim_model.roster.teams.values()], 1
            )
        ),
    }


def quantised_orders(received: np.ndarray) -> np.ndarray:
    """Return `Battle.orders` from `State.orders_heard`, the orders `[T + 1, N, K]` that mechs received."""
    scale = np.ones(received.shape[-1])
    scale[battle.ORDER_PLACE] = battle.POS_PER_VOX
    return np.rint(received * scale).astype(np.int32)


def in_reward_units(values: np.ndarray) -> np.ndarray:
    """Convert rewards or values to the integers that a file stores; NaN becomes `NO_VALUE`."""
    limit = 2**31 - battle.REWARD_UNITS
    units = np.rint(np.clip(values.astype(np.float64) * battle.REWARD_UNITS, -limit, limit))
    return np.where(np.isnan(units), battle.NO_VALUE, units).astype(np.int32)


def facts(moments: dict[str, np.ndarray], sim_model: SimModel) -> np.ndarray:
    alive = moments["hp"] > 0
    is_fallen = alive & (moments["fallen"] > 0)
    shut_down = alive & (moments["heat"] > sim_model.roster.heat_cap.cpu().numpy())
    bits = {
        battle.Fact.ALIVE: alive,
        battle.Fact.FALLEN: is_fallen,
        battle.Fact.SHUT_DOWN: shut_down,
        battle.Fact.LEGGED: alive & (moments["leg_hp"] <= 0),
        battle.Fact.SUPPRESSED: alive & (moments["suppressed"] > 0),
        battle.Fact.VENTING: moments["vent"] & alive & ~is_fallen & ~shut_down,
        battle.Fact.ECM: ego_feature(moments, "ecm") > 0,
        battle.Fact.ECCM: ego_feature(moments, "eccm") > 0,
        battle.Fact.IN_ZONE: ego_feature(moments, "in_zone") > 0,
        battle.Fact.UNDER_FIRE: alive & (moments["under_fire"] > 0),
    }
    return np.bitwise_or.reduce([np.where(mask, int(bit), 0) for bit, mask in bits.items()]).astype(np.uint16)


def switches(moments: dict[str, np.ndarray]) -> np.ndarray:
    flags = [(battle.Switch[name.upper()], moments[name]) for name in ("vent", "ecm", "eccm", "hostile_only")]
    # Sort modes by their number in `rules.actions`: 0 closest, 1 biggest, 2 most damaged
    modes = [
        (battle.Switch.SORT_BIGGEST, moments["sort_mode"] == 1),
        (battle.Switch.SORT_MOST_DAMAGED, moments["sort_mode"] == 2),
    ]
    return np.bitwise_or.reduce([np.where(mask, int(bit), 0) for bit, mask in (*flags, *modes)]).astype(np.uint8)


Arrays = dict[str, np.ndarray]


def ways_known(moments: Arrays, sim_model: SimModel) -> np.ndarray:
    """Return how each contact was sensed, `[T + 1, N, C]`: the bits SIGHT, RADAR, PAINT and BLOOM of `Shown`.

    No bit is set for a contact that packmates reported, and in observation mode `full`, in which all mechs are visible.

    Args:
        moments: recorded values of T + 1 moments, `[T + 1, ...]`.
        sim_model: rules, roster and maps.
    """
    slots = moments["contacts"]
    if sim_model.config.observation_mode == "full":
        return np.zeros(slots.shape, np.int64)
    quality = ego_feature(moments, "sensor_quality") * sim_model.rules.best_quality  # [T + 1, N]
    sources = {
        battle.Shown.SIGHT: moments["lines"],
        battle.Shown.RADAR: on_radar(moments, quality, sim_model),
        battle.Shown.PAINT: by_paint(moments, quality, sim_model),
        battle.Shown.BLOOM: by_bloom(moments, sim_model),
    }
    bits = np.bitwise_or.reduce([np.where(mask, int(source), 0) for source, mask in sources.items()])  # [T + 1, N, N]
    slot_bits = np.take_along_axis(bits, slots.clip(0).astype(np.int64), -1)
    is_intel = moments["contact_facts"][..., 1] > 0
    return np.where((slots >= 0) & ~is_intel, slot_bits, 0)


def ego_feature(moments: Arrays, name: str) -> np.ndarray:
    """Return a feature of the ego stream that has one column, `[T + 1, N]`."""
    return moments["ego"][..., layout.columns(layout.EGO, name).start]


def on_radar(moments: Arrays, quality: np.ndarray, sim_model: SimModel) -> np.ndarray:
    """Return which mechs are within a mech's radar range, `[T + 1, N, N]` bool (observer, observed)."""
    offset = moments["pos"][:, None] - moments["pos"][:, :, None]
    distance = np.sqrt((offset.astype(np.float32) ** 2).sum(-1))
    reach = sim_model.config.radar_range_vox * quality * sim_model.roster.cockpits.sensor_factor.cpu().numpy()
    return distance <= reach[..., None]


def by_paint(moments: Arrays, quality: np.ndarray, sim_model: SimModel) -> np.ndarray:
    """Return which mechs a mech senses by paint, `[T + 1, N, N]` bool.

    A mech senses what its own pack painted (marked by laser), if its sensors are good enough.
    """
    pack = sim_model.roster.pack.cpu().numpy()
    # `is_painted[t, row, column]`: the column's mech is painted (marked) by the pack of the row's mech.
    is_painted = np.moveaxis(moments["paint"][..., pack] > 0, -1, 1)
    return is_painted & (quality >= sim_model.catalog.lock_quality)[..., None]


def by_bloom(moments: Arrays, sim_model: SimModel) -> np.ndarray:
    """Return which mechs a mech senses by bloom, `[T + 1, N, N]` bool.

    Bloom is the heat or the jamming of a hostile, without smoke in between.
    """
    roster, pairs = sim_model.roster, sim_model.roster.everyone
    hot = moments["heat"] > sim_model.rules.bloom_heat * roster.heat_cap.cpu().numpy()
    glows = hot | (ego_feature(moments, "ecm") > 0) | (ego_feature(moments, "eccm") > 0)
    glowing = glows[:, None] & roster.hostile.cpu().numpy()
    if not sim_model.config.features.smoke or moments["cloud_pos"].shape[1] == 0:
        return glowing
    first, second = pairs.first.cpu(), pairs.second.cpu()
    pos, clouds, ttl = (torch.from_numpy(moments[name]) for name in ("pos", "cloud_pos", "cloud_ttl"))
    query = torch.ones((len(pos), len(first)), dtype=torch.bool, device="cpu")
    smoky = crosses_smoke(pos, clouds, ttl > 0, first, second, sim_model.catalog.cloud_vox, query).numpy()
    clear = np.ones(glowing.shape, bool)
    i, j = first.numpy(), second.numpy()
    clear[:, i, j] = clear[:, j, i] = ~smoky
    return glowing & clear


def events_of(moments: Arrays, ticks: Arrays, sim_model: SimModel) -> Arrays:
    """Return the event tables of one battle, except `Battle.voxels`.

    Args:
        moments: recorded values of T + 1 moments, `[T + 1, ...]`.
        ticks: recorded values of K ticks (substeps), `[K, ...]`.
        sim_model: rules, roster and maps.
    """
    flights, waypoints = flight_tables(ticks, sim_model)
    return {
        "beams": beams(moments, ticks, sim_model),
        "flights": flights,
        "waypoints": waypoints,
        "harms": harms(ticks, sim_model),
        "deaths": deaths(ticks),
        "conditions": conditions(ticks, sim_model),
        "clouds": clouds(moments, sim_model),
    }


def table(*columns: np.ndarray | int) -> np.ndarray:
    """Build an int32 table `[rows, columns]` from columns, sorted by the first one.

    A column is an array `[rows]` or `[rows, 3]`, or a scalar.
    """
    rows = next(len(column) for column in columns if isinstance(column, np.ndarray))
    blocks = [np.full((rows, 1), c) if isinstance(c, int) else c if c.ndim == 2 else c[:, None] for c in columns]
    joined = np.concatenate(blocks, 1).astype(np.int32)
    return joined[np.argsort(joined[:, 0], kind="stable")]


def place(pos: np.ndarray) -> np.ndarray:
    return np.rint(pos * POS_PER_VOX).astype(np.int32)


def beams(moments: Arrays, ticks: Arrays, sim_model: SimModel) -> np.ndarray:
    """Return the beams. A beam starts at the position of the shooter before the tick moved it."""
    stood = place(np.concatenate((moments["pos"][:1], ticks["pos"][:-1])))  # [K, N, 3]
    tables = []
    for weapon in sim_model.roster.rays:
        target = ticks.get(f"beam_{weapon}")
        if target is not None:
            tick, shooter = np.nonzero(target != NO_INDEX)
            struck = target[tick, shooter]
            tables.append(table(tick, shooter, struck, weapon, stood[tick, shooter], stood[tick, struck]))
    return table(np.concatenate(tables)) if tables else np.zeros((0, 10), np.int32)


def harms(ticks: Arrays, sim_model: SimModel) -> np.ndarray:
    """Return the table of damage, with tick, shooter, target, damage and weapon."""
    tick, shooter, target, weapon, damage = by_weapon(ticks, sim_model)
    return table(tick, shooter, target, np.rint(damage * POINTS), weapon)


def deaths(ticks: Arrays) -> np.ndarray:
    """Return the table of deaths, with tick, victim, killer and weapon."""
    before = np.concatenate((np.ones_like(ticks["alive"][:1]), ticks["alive"][:-1]))
    tick, victim = np.nonzero(before & ~ticks["alive"])
    return table(tick, victim, ticks["killer"][tick, victim], ticks["deadliest"][tick, victim])


def conditions(ticks: Arrays, sim_model: SimModel) -> np.ndarray:
    """Return the table of conditions that mechs entered or left in each tick, counted as in the simulation."""
    marks, alive = ticks["marks"], ticks["alive"]  # [K, N, marks]
    before = np.concatenate((np.zeros_like(marks[:1]), marks[:-1]))
    is_new = marks > before
    cap = sim_model.roster.heat_cap.cpu().numpy()
    cools = (before[..., HEAT] > cap) & (marks[..., HEAT] <= cap)
    rises = (before[..., FALLEN] > 0) & (marks[..., FALLEN] == 0)
    entered = {
        Condition.SHUT_DOWN: is_new[..., SHUTDOWNS],
        Condition.RESTARTED: cools & alive,
        Condition.FELL: is_new[..., FALLS],
        Condition.STOOD_UP: rises & alive,
        Condition.LEGGED: is_new[..., LEGS_LOST],
    }
    tables = []
    for condition, mask in entered.items():
        tick, mech = np.nonzero(mask)
        tables.append(table(tick, mech, int(condition)))
    return table(np.concatenate(tables))


def flight_tables(ticks: Arrays, sim_model: SimModel) -> tuple[np.ndarray, np.ndarray]:
    """Return the table of all shots from launch to end, and their waypoints."""
    roster = sim_model.roster
    shooter = roster.shots.shooter.cpu().numpy()
    weapon = roster.shots.weapon.argmax(-1).cpu().numpy()
    curves = (roster.homing | roster.ballistic).cpu().numpy()
    flies = ticks["flies"]  # [K, S] bool, shots in flight after the tick
    flew = np.concatenate((np.zeros_like(flies[:1]), flies[:-1]))  # in flight before the tick
    ends = flew & (ticks["ends"] | ~ticks["flew"])
    launched = flies & (~flew | ends)
    rows, waypoints, count = [], [], 0
    for slot in np.flatnonzero(launched.any(0)).tolist():
        launches, ended = np.flatnonzero(launched[:, slot]), np.flatnonzero(ends[:, slot])
        ended = np.append(ended, np.full(len(launches) - len(ended), len(flies) - 1))
        for first, last in zip(launches.tolist(), ended.tolist(), strict=True):
            met, victim, end = flight_end(ticks, slot, last, bool(ends[last, slot]))
            points = ticks["shot_pos"][first : max(last, first + 1), slot]
            points = np.vstack((points if curves[slot] else points[:1], end))
            lock = int(ticks["lock"][first, slot])
            by = interceptor(ticks, slot, last, sim_model) if met is FlightEnd.AMS else NO_INDEX
            rows.append((first, last, shooter[slot], weapon[slot], lock, int(met), victim, count, len(points), by))
            waypoints.append(place(points))
            count += len(points)
    if not rows:
        return np.zeros((0, len(FLIGHTS)), np.int32), np.zeros((0, 3), np.int16)
    return table(np.array(rows)), np.concatenate(waypoints).astype(np.int16)


def flight_end(ticks: Arrays, slot: int, tick: int, ends: bool) -> tuple[FlightEnd, int, np.ndarray]:
    """Return why a flight ended in a tick, the mech that the shot hit, and the end point."""
    if not ends:
        return FlightEnd.BATTLE_END, NO_INDEX, ticks["shot_pos"][tick, slot]
    if not ticks["flew"][tick, slot]:
        return FlightEnd.AMS, NO_INDEX, ticks["shot_pos"][tick - 1, slot]
    point = ticks["point"][tick, slot]
    if ticks["on_mech"][tick, slot]:
        return FlightEnd.MECH, int(ticks["victim"][tick, slot]), point
    hit_by_surface = {FlightEnd.VOXEL: ticks["on_voxel"], FlightEnd.FLOOR: ticks["on_floor"]}
    return (
        next((met for met, hit_mask in hit_by_surface.items() if hit_mask[tick, slot]), FlightEnd.NOTHING),
        NO_INDEX,
        point,
    )


def clouds(moments: Arrays, sim_model: SimModel) -> np.ndarray:
    """Return every cloud.

    A cloud's start, a whole number of ticks before a moment, follows from the cloud's timer at that moment.
    """
    life = sim_model.rules.substeps(sim_model.catalog.cloud_s)
    owner = sim_model.roster.launchers.cpu().numpy()
    moment, cloud = np.nonzero(moments["cloud_ttl"] > 0)
    start = moment * sim_model.rules.decision_repeat - 1 - (life - moments["cloud_ttl"][moment, cloud])
    _, first = np.unique(np.stack((start, cloud)), axis=1, return_index=True)
    moment, cloud, start = moment[first], cloud[first], start[first]
    pos = moments["cloud_pos"][moment, cloud]
    return table(start, start + life, owner[cloud // sim_model.roster.clouds_each], place(pos))


def changes(columns: dict[str, Tensor], map_id: int, sim_model: SimModel) -> np.ndarray:
    """Return `Battle.voxels`, the changed voxels, from the bit columns `[T + 1, Y, X]` of each moment.

    The bit columns are `solid`, `opaque` and `rubble`.
    """
    maps = sim_model.maps
    differs = columns["solid"][1:] ^ columns["solid"][:-1]
    for name in ("opaque", "rubble"):
        differs = differs | (columns[name][1:] ^ columns[name][:-1])
    decision, y, x = differs.nonzero().unbind(1)
    rows = []
    for z in range(maps.material.shape[1]):
        in_voxel = ((differs[decision, y, x] >> z) & 1).bool()
        d, v, u = decision[in_voxel], y[in_voxel], x[in_voxel]

        level = torch.full_like(d, z)
        solid, opaque, is_rubble = (
            has_bit(columns[name][d + 1, v, u], level) for name in ("solid", "opaque", "rubble")
        )
        was_solid, was_opaque = (has_bit(masks[map_id, v, u], level) for masks in (maps.solid, maps.opaque))
        made_of = maps.material[map_id, level, v, u]
        material = current_material(made_of, (was_solid, was_opaque), (solid, opaque), is_rubble)
        rows.append(torch.stack((d, u, v, level, material.long()), 1))
    return table(torch.cat(rows).cpu().numpy())


MARKS = ("shutdowns", "falls", "legs_lost", "intercepts", "heat", "fallen")
"""Recorded values of every mech in a tick: counts of `Tally`, and fields of `Mechs`."""
SHUTDOWNS, FALLS, LEGS_LOST, INTERCEPTS, HEAT, FALLEN = range(len(MARKS))
NEGLIGIBLE = 1e-3
"""Remainders below this number of hit points are rounding errors."""
SWEEPS = 200
"""Iterations of proportional fitting, which selects one of several solutions with the same sums."""


def by_weapon(ticks: Arrays, sim_model: SimModel) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return tick, shooter, target, weapon and damage (hit points) of all hits, `[rows]` each.

    The weapon is `NO_INDEX` if unknown. The recording has, for each tick, the damage per shooter and target, and for
    enemies also per weapon and target. With the fired beams and ended shots, these numbers usually determine the weapon
    of each shooter and target. The weapon remains ambiguous if two mechs hit one target with the same two weapons in
    one tick, or if one tick damages a comrade with two weapons. The damage is then split in proportion to the weapons'
    nominal damage.
    """
    dealt = ticks["dealt_by"]
    tick, shooter, target = np.nonzero(dealt > 0)
    damage = dealt[tick, shooter, target]
    possible = possible_weapons(ticks, sim_model)[tick, shooter, :, target]  # [rows, W]
    rows = np.arange(len(tick))
    weapon = np.where(possible.any(1), possible.argmax(1), NO_INDEX)
    is_shared = possible.sum(1) > 1
    blocks = [(rows[~is_shared], weapon[~is_shared], damage[~is_shared])]
    groups = np.unique(np.stack((tick, target), 1)[is_shared], axis=0)
    hostile, nominal = (
        sim_model.roster.hostile.cpu().numpy(),
        np.array([spec.damage for spec in sim_model.roster.weapons]),
    )
    for at_tick, victim in groups.tolist():
        indices = rows[(tick == at_tick) & (target == victim)]
        of_enemy = hostile[shooter[indices], victim]
        shares = np.zeros((len(indices), possible.shape[1]))
        shares[of_enemy] = shared(
            possible[indices][of_enemy], damage[indices][of_enemy], ticks["dealt_with"][at_tick, :, victim], nominal
        )
        # Damage per weapon is recorded only for damage by enemies, so split other damage in proportion.
        shares[~of_enemy] = in_proportion(possible[indices][~of_enemy], damage[indices][~of_enemy], nominal)
        split = is_shared[indices]
        index, weapon_index = np.nonzero((shares > NEGLIGIBLE) & split[:, None])
        blocks.append((indices[index], weapon_index, shares[index, weapon_index]))
    index, weapon, damage = (np.concatenate(column) for column in zip(*blocks, strict=True))
    order = np.lexsort((weapon, index))
    index = index[order]
    return tick[index], shooter[index], target[index], weapon[order], damage[order]


def possible_weapons(ticks: Arrays, sim_model: SimModel) -> np.ndarray:
    """Return which weapons may have damaged a target in a tick, `[K, N, W, N]` bool (tick, shooter, weapon, target)."""
    roster, count = sim_model.roster, ticks["pos"].shape[1]
    possible = np.zeros((len(ticks["pos"]), count, len(roster.weapons), count), bool)
    for weapon in roster.rays:
        struck = ticks.get(f"beam_{weapon}")
        if struck is not None:
            tick, shooter = np.nonzero(struck != NO_INDEX)
            possible[tick, shooter, weapon, struck[tick, shooter]] = True
    shooter_of, weapon_of = roster.shots.shooter.cpu().numpy(), roster.shots.weapon.argmax(-1).cpu().numpy()
    tick, slot = np.nonzero(ticks["ends"] & ticks["on_mech"])
    possible[tick, shooter_of[slot], weapon_of[slot], ticks["victim"][tick, slot]] = True
    splashes = np.array([spec.splash_vox > 0 for spec in roster.weapons])[weapon_of]
    tick, slot = np.nonzero(ticks["ends"] & splashes)
    possible[tick, shooter_of[slot], weapon_of[slot]] = True
    return possible


def shared(able: np.ndarray, by_row: np.ndarray, by_column: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """Return non-negative numbers `[R, W]` with the given sums of rows and columns, and 0 where `able` is False."""
    able, amounts = able.copy(), np.zeros(able.shape)
    by_row, by_column = by_row.astype(np.float64), by_column.astype(np.float64)
    while True:
        able &= (by_row > NEGLIGIBLE)[:, None] & (by_column > NEGLIGIBLE)
        is_forced = able & ((able.sum(0) == 1) | (able.sum(1) == 1)[:, None])
        if not is_forced.any():
            break
        row, column = np.argwhere(is_forced)[0]
        # If a row or column has one possible entry left, this entry receives the whole remaining amount.
        amount = min(by_row[row], by_column[column])
        amounts[row, column] = amount
        by_row[row] -= amount
        by_column[column] -= amount
        able[row, column] = False
    if not able.any():
        return amounts
    weights = able * np.where(nominal > 0, nominal, 1.0)
    for _ in range(SWEEPS):
        weights *= np.divide(by_row, weights.sum(1), out=np.zeros_like(by_row), where=weights.sum(1) > 0)[:, None]
        weights *= np.divide(by_column, weights.sum(0), out=np.zeros_like(by_column), where=weights.sum(0) > 0)
    return amounts + weights


def in_proportion(able: np.ndarray, by_row: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """Split each row's number among the row's able weapons in proportion to their damage; return `[R, W]`."""
    weight = able * np.where(nominal > 0, nominal, 1.0)
    return weight / weight.sum(1, keepdims=True).clip(1e-9) * by_row[:, None]


def interceptor(ticks: Arrays, slot: int, tick: int, sim_model: SimModel) -> int:
    """Return the mech whose AMS (anti-missile system) destroyed a shot in a tick, or `NO_INDEX`.

    The mech is one that the simulation credits with an interception, and to which the shot was nearest.
    """
    marks = ticks["marks"][..., INTERCEPTS]
    credited = marks[tick] > (marks[tick - 1] if tick else 0)  # [N]
    hostile = sim_model.roster.hostile.cpu().numpy()[:, int(sim_model.roster.shots.shooter[slot])]
    guards = np.flatnonzero(credited & hostile)
    if not len(guards):
        return NO_INDEX
    # Only shots that were in flight before the tick but did not fly in it can have been shot down.
    vanished = np.flatnonzero(ticks["flies"][tick - 1] & ~ticks["flew"][tick])
    distance = np.linalg.norm(ticks["shot_pos"][tick - 1, vanished] - ticks["pos"][tick - 1, guards][:, None], axis=-1)
    is_hostile = sim_model.roster.hostile.cpu().numpy()[guards][
        :, sim_model.roster.shots.shooter.cpu().numpy()[vanished]
    ]
    nearest = vanished[np.where(is_hostile, distance, np.inf).argmin(1)]
    return int(guards[np.flatnonzero(nearest == slot)[0]]) if (nearest == slot).any() else NO_INDEX

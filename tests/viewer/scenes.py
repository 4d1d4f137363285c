"""Made-up replays: a small battle in which everything happens once, and a long one full of noise."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from first_catalog import CATALOG, STANDARD

from echelon.env.observation import layout
from echelon.replay.battle import (
    BEAMS,
    CLOUDS,
    CONDITIONS,
    DEATHS,
    FLIGHTS,
    HARMS,
    NO_INDEX,
    NO_VALUE,
    POINTS,
    POS_PER_VOX,
    RECORD,
    REWARD_UNITS,
    SCORE_PER_S,
    VOXELS,
    YAW_PER_RAD,
    Battle,
    Condition,
    Fact,
    FlightEnd,
    Replay,
    Shown,
    Switch,
)
from echelon.replay.ground import trigger_labels, weapon_specs

HULLS = ("scout", "light", "medium", "heavy")
WEAPONS = ("laser", "flamer", "missile", "gauss", "autocannon", "painter", "smoke")
LASER, FLAMER, MISSILE, GAUSS, AUTOCANNON, PAINTER, SMOKE = range(len(WEAPONS))
MATERIALS = (
    *("air", "dirt", "lava", "water", "solid", "debris_field"),
    *("solid_debris", "glass", "reinforced", "foliage"),
)
AIR, DIRT, LAVA, WATER, SOLID, DEBRIS_FIELD, SOLID_DEBRIS, GLASS, REINFORCED, FOLIAGE = range(len(MATERIALS))
SPECS = (  # size, hp, leg hp, heat cap, weapons
    ((1.2, 1.2, 1.8), 60.0, 30.0, 75.0, [PAINTER, SMOKE]),
    ((1.5, 1.5, 2.0), 80.0, 40.0, 80.0, [LASER, FLAMER, PAINTER, SMOKE]),
    ((2.5, 2.5, 3.0), 150.0, 75.0, 100.0, [LASER, AUTOCANNON, PAINTER, SMOKE]),
    ((3.5, 3.5, 4.0), 200.0, 100.0, 130.0, [LASER, MISSILE, GAUSS, SMOKE]),
)
FLAGS = ("targeted", "under_fire", "painted", "shut_down", "critical_heat", "incoming_missile", "suppressed")
EGO = [
    ["hp", 1, 0.0, 1.0],
    ["leg_hp", 1, 0.0, 1.0],
    ["heat", 1, 0.0, 2.0],
    ["stability_risk", 1, 0.0, 1.0],
    ["cooldown", 5, 0.0, 1.0],
    *([flag, 1, 0.0, 1.0] for flag in (*FLAGS, "ecm", "eccm", "in_zone")),
    ["sensor_quality", 1, 0.0, 1.0],
    ["jam", 1, 0.0, 1.0],
    ["acoustics", 4, 0.0, 2.0],
    ["zone_vector", 2, -1.5, 1.5],
    ["zone_radius", 1, 0.0, 1.0],
    ["path_direction", 2, -1.0, 1.0],
]
EGO_WIDTH = sum(feature[1] for feature in EGO)
REPEAT, DT_S = 5, 0.05


def about(blue: tuple[str, ...], red: tuple[str, ...], size: tuple[int, int, int]) -> dict[str, Any]:
    """What all battles of a replay have in common."""
    names, count = (*blue, *red), len(blue) + len(red)
    packs = -(-len(blue) // 5)
    mechs = []
    for n, name in enumerate(names):
        hull = HULLS.index(name)
        extent, hp, leg_hp, heat_cap, weapons = SPECS[hull]
        is_red = n >= len(blue)
        pack = packs + (n - len(blue)) // 5 if is_red else n // 5
        team = range(len(blue), count) if is_red else range(len(blue))
        mechs.append(
            {
                "hull": name,
                "class": name,
                "team": "red" if is_red else "blue",
                "pack": pack,
                "size": list(extent),
                "hp": hp,
                "leg_hp": leg_hp,
                "heat_cap": heat_cap,
                "suite": "scout_recon" if name == "scout" else "none",
                "squad": [m for m in team if m != n][:5],
                "squad_detail": 0,
                "sees_engaged": False,
                "weapons": [WEAPONS[w] for w in weapons],
                "cooldowns": trigger_labels(name, CATALOG),
            }
        )
    return {
        "record": RECORD,
        "env": STANDARD.signature(),
        "dt_s": DT_S,
        "decision_repeat": REPEAT,
        "size": list(size),
        "teams": {"blue": [0, len(blue)], "red": [len(blue), count]},
        "mechs": mechs,
        "hulls": list(HULLS),
        "weapons": list(WEAPONS),
        "materials": list(MATERIALS),
        "weapon_specs": weapon_specs(CATALOG),
        "ego": EGO,
        "stability_cap": 100.0,
        "zone_score_to_win_s": 30.0,
        "sight_range_vox": 60.0,
        "cloud_vox": 4.0,
    }


def table(rows: list[list[Any]], columns: tuple[str, ...]) -> np.ndarray:
    """An event table, ordered by its first column."""
    return np.array(sorted(rows), np.int32).reshape(len(rows), len(columns))


def vox(*point: float) -> list[int]:
    """A point as it is kept."""
    return [round(x * POS_PER_VOX) for x in point]


def ego_of(common: dict[str, Any], pos: np.ndarray, yaw: np.ndarray, zone: tuple[float, float, float]) -> np.ndarray:
    """`[T + 1, N, F]` a cockpit's own stream: where the zone lies, and full gauges."""
    values = np.zeros((*yaw.shape, EGO_WIDTH))
    at, longest = {}, max(common["size"][:2])
    for name, width, low, high in EGO:
        at[name] = slice(sum(f[1] for f in EGO[: len(at)]), sum(f[1] for f in EGO[: len(at)]) + width)
        values[..., at[name]] = np.clip(0.0, low, high)
    offset = np.stack((zone[0] - pos[..., 0], zone[1] - pos[..., 1]), -1)
    c, s = np.cos(yaw), np.sin(yaw)
    ahead, left = c * offset[..., 0] + s * offset[..., 1], -s * offset[..., 0] + c * offset[..., 1]
    values[..., at["zone_vector"]] = np.stack((ahead, left), -1) / longest
    values[..., at["path_direction"]] = np.stack((ahead, left), -1) / np.hypot(ahead, left).clip(1e-6)[..., None]
    values[..., at["zone_radius"]] = zone[2] / longest
    values[..., at["hp"]] = values[..., at["leg_hp"]] = 1.0
    values[..., at["sensor_quality"]] = 0.66
    values[..., at["acoustics"]] = (0.4, 0.0, 0.1, 0.2)
    low = np.array([f[2] for f in EGO for _ in range(f[1])])
    high = np.array([f[3] for f in EGO for _ in range(f[1])])
    return np.rint((values - low) / (high - low) * 255).astype(np.uint8)


SEEN_PAINTED = Shown.DETAIL | Shown.PAINTED | Shown.SIGHT | Shown.PAINT
SIZE = (24, 20, 8)
ZONE = (12.0, 10.0, 4.0)
DECISIONS = 24
BLUE, RED = ("heavy", "scout"), ("medium", "light")
HEAVY, SCOUT, MEDIUM, LIGHT = range(4)


def small_ground() -> np.ndarray:
    """A field with one of everything."""
    ground = np.zeros(SIZE[::-1], np.uint8)
    ground[0] = DIRT
    ground[0, 2:5, 2:6], ground[0, 15:18, 3:6] = WATER, LAVA
    ground[0:4, 4:6, 14:16] = SOLID
    ground[0:3, 15:18, 10:12] = GLASS
    ground[0:2, 12:15, 18:20] = FOLIAGE
    ground[0:5, 2, 20:23] = REINFORCED
    return ground


def small_replay(battles: int = 2) -> tuple[Replay, list[np.ndarray]]:
    """Two against two for 6 s; every later battle is one decision shorter than the one before."""
    common = about(BLUE, RED, SIZE)
    fought = [small_battle(common, DECISIONS - i) for i in range(battles)]
    return Replay(common, fought), [small_ground() for _ in fought]


def small_battle(common: dict[str, Any], decisions: int) -> Battle:
    """The heavy and the scout walk right, the others left; the heavy kills the light, and lava the scout."""
    moments, count = decisions + 1, 4
    m = np.arange(moments)
    pos = np.zeros((moments, count, 3))
    for n, (x, y, speed) in enumerate(((4.0, 8.0, 0.15), (4.0, 14.0, 0.3), (20.0, 9.0, -0.12), (19.0, 13.0, -0.2))):
        pos[:, n] = np.stack(
            (x + speed * m, np.full(moments, y), np.full(moments, common["mechs"][n]["size"][2] / 2)), -1
        )
    yaw = np.zeros((moments, count))
    yaw[:, 2:] = math.pi - 0.02 * m[:, None]
    yaw = (yaw + math.pi) % (2 * math.pi) - math.pi

    full = np.array([mech["hp"] for mech in common["mechs"]])
    hp = np.repeat(full[None], moments, 0)
    hp[6:, MEDIUM] -= 40
    hp[16:, LIGHT] = 0
    hp[20:, SCOUT] = 0
    facts = np.where(hp > 0, int(Fact.ALIVE), 0)
    facts[8:12, MEDIUM] |= Fact.FALLEN | Fact.SUPPRESSED
    facts[12:15, HEAVY] |= Fact.SHUT_DOWN
    facts[10:, MEDIUM] |= Fact.LEGGED
    facts[5:9, SCOUT] |= Fact.ECM | Fact.IN_ZONE
    heat = np.zeros((moments, count))
    heat[10:15, HEAVY] = 140
    paint = np.zeros((moments, count), np.uint8)
    paint[4:16, LIGHT] = 1
    contacts, shown = small_contacts(moments, hp)
    score = np.stack((np.linspace(0, 4, moments), np.linspace(0, 2, moments)), -1)
    control = np.zeros((moments, 2), np.uint8)
    control[4:10, 0], control[8:14, 1], control[18:, 0] = 255, 64, 255
    winner = {
        "winner": "blue",
        "reason": "time_up",
        "score": [4.0, 2.0],
        "stats": {"kills": [1, 0], "kills_gauss": [1, 0]},
    }
    names = {"blue": "heuristic:expert", "red": "heuristic:hard <b>bold</b>"}
    return Battle(
        about={**names, "seed": 7, "map": {}, "zone": [*ZONE], "outcome": winner},
        pos=np.rint(pos * POS_PER_VOX).astype(np.int16),
        yaw=np.rint(yaw * YAW_PER_RAD).astype(np.int16),
        hp=np.rint(hp * POINTS).astype(np.int16),
        leg_hp=np.rint(hp / 2 * POINTS).astype(np.int16),
        heat=np.rint(heat * POINTS).astype(np.uint16),
        stability=np.full((moments, count), 100 * POINTS, np.int16),
        facts=facts.astype(np.uint16),
        paint=paint,
        focus=np.tile(np.array([LIGHT, NO_INDEX, HEAVY, NO_INDEX], np.int8), (moments, 1)),
        contacts=contacts,
        contact_facts=shown,
        lines=np.full((moments, count, 1), 0b1101, np.uint8),
        ego=ego_of(common, pos, yaw, ZONE),
        messages=np.eye(count, 8, dtype=np.int8)[None].repeat(moments, 0) * 127,
        **small_orders(moments, count),
        score=np.rint(score * SCORE_PER_S).astype(np.int32),
        control=control,
        rewards=small_rewards(moments),
        values=small_values(moments),
        **small_events(),
    )


def small_rewards(moments: int) -> np.ndarray:
    """A tenth for blue in every decision; red loses a half when its light dies."""
    rewards = np.zeros((moments, 2), np.int32)
    rewards[1:, 0] = round(0.1 * REWARD_UNITS)
    rewards[16, 1] = -round(0.5 * REWARD_UNITS)
    return rewards


def small_values(moments: int) -> np.ndarray:
    """Blue expects more as time goes on, from -1 to 1; red has no value head."""
    values = np.full((moments, 2), NO_VALUE, np.int64)
    values[:-1, 0] = np.rint(np.linspace(-1, 1, moments - 1) * REWARD_UNITS)
    return values.astype(np.int32)


def small_orders(moments: int, count: int) -> dict[str, np.ndarray]:
    """The heavy walks ahead at full throttle, turning, and holds its laser and gauss rifle until it shuts down."""
    moves = np.zeros((moments, count, 4), np.int8)
    moves[1:, HEAVY, 0], moves[1:, HEAVY, 3] = 127, -64
    triggers, switches = np.zeros((moments, count), np.uint16), np.zeros((moments, count), np.uint8)
    triggers[1:12, HEAVY] = (1 << LASER) | (1 << GAUSS)
    switches[12:, HEAVY] = Switch.VENT
    return {"moves": moves, "triggers": triggers, "switches": switches}


def small_contacts(moments: int, hp: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The heavy sees the light from moment 3 on, first as intel, and knows nothing of the medium before moment 8."""
    contacts = np.full((moments, 4, 3), NO_INDEX, np.int8)
    facts = np.zeros((moments, 4, 3), np.uint8)
    for m in range(moments):
        rows = [
            [],
            [(HEAVY, Shown.SIGHT)],
            [(HEAVY, Shown.HOSTILE | Shown.DETAIL | Shown.SIGHT | Shown.RADAR)],
            [(SCOUT, Shown.HOSTILE | Shown.BLOOM)],
        ]
        if m >= 3:
            rows[HEAVY].append((LIGHT, Shown.HOSTILE | (Shown.INTEL if m < 6 else SEEN_PAINTED)))
        if m >= 8:
            rows[HEAVY].append((MEDIUM, Shown.HOSTILE | Shown.RADAR))
        for n, row in enumerate(rows):
            living = [(other, fact) for other, fact in row if hp[m, other] > 0 and hp[m, n] > 0]
            for slot, (other, fact) in enumerate(living):
                contacts[m, n, slot], facts[m, n, slot] = other, int(fact)
    return contacts, facts


def small_events() -> dict[str, np.ndarray]:
    """One of each."""
    ways = [
        [vox(6, 8, 4), vox(9, 9, 7), vox(13, 11, 6), vox(17, 13, 2)],
        [vox(6, 8, 4), vox(10, 9, 6), vox(14, 9, 4)],
        [vox(6, 8, 3), vox(10, 10, 3.2), vox(16, 13, 1.5)],
        [vox(18, 9, 2), vox(15, 5, 2)],
        [vox(8, 14, 2), vox(13, 12, 2)],
    ]
    flights = [
        [22, 45, HEAVY, MISSILE, LIGHT, FlightEnd.MECH, LIGHT],
        [30, 48, HEAVY, MISSILE, MEDIUM, FlightEnd.AMS, NO_INDEX],
        [70, 78, HEAVY, GAUSS, NO_INDEX, FlightEnd.MECH, LIGHT],
        [50, 55, MEDIUM, AUTOCANNON, NO_INDEX, FlightEnd.VOXEL, NO_INDEX],
        [60, 68, SCOUT, SMOKE, NO_INDEX, FlightEnd.NOTHING, NO_INDEX],
    ]
    first = [sum(len(way) for way in ways[:i]) for i in range(len(ways))]
    by = [MEDIUM if flight[5] == FlightEnd.AMS else NO_INDEX for flight in flights]
    rows = [[*flight, first[i], len(ways[i]), by[i]] for i, flight in enumerate(flights)]
    return {
        "beams": table(
            [
                [18, SCOUT, LIGHT, PAINTER, *vox(5, 14, 1), *vox(18, 13, 1)],
                [28, HEAVY, MEDIUM, LASER, *vox(5, 8, 2), *vox(19, 9, 1.5)],
                [64, LIGHT, SCOUT, FLAMER, *vox(16, 13, 1), *vox(13, 14, 1)],
            ],
            BEAMS,
        ),
        "flights": table(rows, FLIGHTS),
        "waypoints": np.array([point for way in ways for point in way], np.int16),
        "harms": table(
            [
                [28, HEAVY, MEDIUM, 40 * POINTS, LASER],
                [45, HEAVY, LIGHT, 20 * POINTS, MISSILE],
                [78, HEAVY, LIGHT, 60 * POINTS, GAUSS],
            ],
            HARMS,
        ),
        "deaths": table([[78, LIGHT, HEAVY, GAUSS], [97, SCOUT, NO_INDEX, NO_INDEX]], DEATHS),
        "conditions": table(
            [
                [38, MEDIUM, Condition.FELL],
                [47, MEDIUM, Condition.LEGGED],
                [58, HEAVY, Condition.SHUT_DOWN],
                [59, MEDIUM, Condition.STOOD_UP],
                [73, HEAVY, Condition.RESTARTED],
                [77, LIGHT, Condition.SHUT_DOWN],
            ],
            CONDITIONS,
        ),
        "clouds": table([[68, 110, SCOUT, *vox(13, 12, 2)]], CLOUDS),
        "voxels": table(
            [
                [10, 15, 5, 3, AIR],
                [15, 16, 13, 0, DEBRIS_FIELD],
                [15, 16, 13, 1, DEBRIS_FIELD],
                [15, 15, 13, 0, SOLID_DEBRIS],
            ],
            VOXELS,
        ),
    }


def with_observations(replay: Replay) -> Replay:
    """The same battles with noise of the right form as what mechs observed; contacts are those of the cockpits."""
    rng = np.random.default_rng(0)

    def noise(features: tuple[layout.Feature, ...], *shape: int) -> np.ndarray:
        low, high = (bound.numpy() for bound in layout.bounds(features))
        return rng.uniform(low, high, (*shape, len(low))).astype(np.float16)

    def of(battle: Battle) -> dict[str, np.ndarray]:
        moments, mechs, slots = battle.contacts.shape
        streams, side = layout.streams(battle.messages.shape[-1]), layout.LOCAL_MAP_CELLS
        return {
            "contacts": noise(streams["contacts"], moments, mechs, slots),
            "contacts_mask": battle.contacts != NO_INDEX,
            "squad": noise(streams["squad"], moments, mechs, 1),
            "squad_mask": np.ones((moments, mechs, 1), bool),
            "comms": noise(streams["comms"], moments, mechs, layout.PACK_SIZE),
            "local_map": rng.integers(0, 2, (moments, mechs, side, side)).astype(np.float16),
        }

    battles = [dataclasses.replace(battle, observations=of(battle)) for battle in replay.battles]
    return Replay(replay.about, battles)


PACK = ("heavy", "medium", "medium", "light", "scout")


def noisy_replay(decisions: int = 240) -> tuple[Replay, list[np.ndarray]]:
    """Ten against ten for a minute, with more noise in everything than any real battle has."""
    rng = np.random.default_rng(0)
    common = about(PACK * 2, PACK * 2, (64, 64, 20))
    moments, count, ticks = decisions + 1, 20, decisions * REPEAT

    def events(rows: int, columns: tuple[str, ...], high: int) -> np.ndarray:
        made = rng.integers(0, high, (rows, len(columns)))
        made[:, 0] = np.sort(rng.integers(0, ticks, rows))
        return made.astype(np.int32)

    steps = rng.normal(0, 0.5, (moments, count, 3)) * (1, 1, 0.1)
    pos = np.clip(np.cumsum(steps, 0) + rng.uniform(8, 56, (count, 3)) * (1, 1, 0.1), 1, 63)
    yaw = (np.cumsum(rng.normal(0, 0.1, (moments, count)), 0) + math.pi) % (2 * math.pi) - math.pi
    ego = ego_of(common, pos, yaw, (32.0, 32.0, 8.0))
    ego[..., :-5] = rng.integers(0, 256, ego[..., :-5].shape)  # all but where the zone lies
    flights = events(2000, FLIGHTS, 5)
    flights[:, 9] = NO_INDEX
    flights[:, 1], flights[:, 7], flights[:, 8] = flights[:, 0] + 20, np.arange(2000) * 6, 6
    beams, clouds, voxels = events(3000, BEAMS, 5), events(60, CLOUDS, 16000), events(1500, VOXELS, 10)
    beams[:, 1:3], beams[:, 3] = rng.integers(0, 20, (3000, 2)), rng.choice((LASER, FLAMER, PAINTER), 3000)
    beams[:, 4:] = rng.integers(0, 16000, (3000, 6))
    flights[:, 2], flights[:, 3] = rng.integers(0, 20, 2000), rng.choice((MISSILE, GAUSS, AUTOCANNON, SMOKE), 2000)
    clouds[:, 1], clouds[:, 2] = clouds[:, 0] + 200, rng.integers(0, 20, 60)
    voxels[:, 0] //= REPEAT
    voxels[:, 1:3] = rng.integers(0, 64, (1500, 2))
    contacts = rng.integers(-1, 20, (moments, count, 19)).astype(np.int8)
    outcome = {"winner": "draw", "reason": "time_up", "score": [9.0, 9.0], "stats": {}}
    battle = Battle(
        about={"blue": "noise", "red": "noise", "seed": 0, "map": {}, "zone": [32.0, 32.0, 8.0], "outcome": outcome},
        pos=np.rint(pos * POS_PER_VOX).astype(np.int16),
        yaw=np.rint(yaw * YAW_PER_RAD).astype(np.int16),
        hp=rng.integers(1, 200 * POINTS, (moments, count)).astype(np.int16),
        leg_hp=rng.integers(0, 100 * POINTS, (moments, count)).astype(np.int16),
        heat=rng.integers(0, 200 * POINTS, (moments, count)).astype(np.uint16),
        stability=rng.integers(0, 100 * POINTS, (moments, count)).astype(np.int16),
        facts=(rng.integers(0, 512, (moments, count)) * 2 + 1).astype(np.uint16),
        paint=rng.integers(0, 16, (moments, count)).astype(np.uint8),
        focus=rng.integers(-1, 20, (moments, count)).astype(np.int8),
        contacts=contacts,
        contact_facts=rng.integers(0, 16, contacts.shape).astype(np.uint8),
        lines=rng.integers(0, 256, (moments, count, 3)).astype(np.uint8),
        ego=ego,
        messages=rng.integers(-127, 128, (moments, count, 8)).astype(np.int8),
        moves=rng.integers(-127, 128, (moments, count, 4)).astype(np.int8),
        triggers=rng.integers(0, 128, (moments, count)).astype(np.uint16),
        switches=rng.integers(0, 64, (moments, count)).astype(np.uint8),
        score=np.cumsum(rng.integers(0, 256, (moments, 2)), 0).astype(np.int32),
        control=rng.integers(0, 256, (moments, 2)).astype(np.uint8),
        rewards=rng.integers(-(1 << 16), 1 << 16, (moments, 2)).astype(np.int32),
        values=rng.integers(-(1 << 16), 1 << 16, (moments, 2)).astype(np.int32),
        beams=beams,
        flights=flights,
        waypoints=rng.integers(0, 16000, (12000, 3)).astype(np.int16),
        harms=events(4000, HARMS, 7),
        deaths=events(0, DEATHS, 1),
        conditions=events(200, CONDITIONS, 5),
        clouds=clouds,
        voxels=voxels,
    )
    ground = rng.integers(0, 10, (20, 64, 64)).astype(np.uint8)
    return Replay(common, [battle]), [ground]

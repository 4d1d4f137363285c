"""The moments of a battle in whole numbers."""

from typing import Any

import numpy as np
import torch

from echelon.env.observation import layout
from echelon.replay import battle
from echelon.sim.model import SimModel
from echelon.sim.sight import crosses_smoke

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
"""Fields of `Mechs` that a moment is made of."""


def whole(values: np.ndarray, scale: float, kind: type[np.signedinteger | np.unsignedinteger]) -> np.ndarray:
    """`values` times `scale`, rounded; what does not fit the type would be a bug, so it is refused."""
    scaled = np.rint(values * scale)
    limits = np.iinfo(kind)
    assert scaled.size == 0 or (limits.min <= scaled.min() and scaled.max() <= limits.max)
    return scaled.astype(kind)


def wrapped(angle: Any) -> Any:
    """An angle within [-pi, pi) rad, of arrays and of numbers. Unlike `geometry.wrap_angle` it also rounds angles that
    are within these limits: files hold its bits."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def quantised(moments: dict[str, np.ndarray], game: SimModel) -> dict[str, np.ndarray]:
    """The arrays of `Battle` that hold a row for each moment, from the values `[T + 1, ...]` that were kept."""
    weights = 1 << np.arange(8)
    packs = (moments["paint"] > 0) * weights[: moments["paint"].shape[-1]]  # [T + 1, N, P]
    fact_bits = (moments["contact_facts"] > 0) * weights[: moments["contact_facts"].shape[-1]]
    # A trigger needs the weapon axis last; a catalog has at most 16 weapons.
    fire = np.moveaxis(moments["fire"], 1, -1)  # [T + 1, N, W]
    low, high = (bound.numpy() for bound in layout.bounds(layout.EGO))
    return {
        "pos": whole(moments["pos"], battle.POS_PER_VOX, np.int16),
        "yaw": whole(wrapped(moments["yaw"]), battle.YAW_PER_RAD, np.int16),
        "hp": whole(moments["hp"], battle.POINTS, np.int16),
        "leg_hp": whole(moments["leg_hp"], battle.POINTS, np.int16),
        "heat": whole(moments["heat"], battle.POINTS, np.uint16),
        "stability": whole(moments["stability"], battle.POINTS, np.int16),
        "facts": facts(moments, game),
        "paint": packs.sum(-1).astype(np.uint8),
        "focus": moments["focus"].astype(np.int8),
        "contacts": moments["contacts"].astype(np.int8),
        "contact_facts": (fact_bits.sum(-1) | ways_known(moments, game)).astype(np.uint8),
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
            np.stack([moments["reward"][:, span].astype(np.float64).mean(1) for span in game.roster.teams.values()], 1)
        ),
    }


def quantised_orders(heard: np.ndarray) -> np.ndarray:
    """`Battle.orders` from `State.orders_heard`, `[T + 1, N, K]`."""
    scale = np.ones(heard.shape[-1])
    scale[battle.ORDER_PLACE] = battle.POS_PER_VOX
    return np.rint(heard * scale).astype(np.int32)


def in_reward_units(values: np.ndarray) -> np.ndarray:
    """Rewards or values as they are kept; `NO_VALUE` for NaN."""
    limit = 2**31 - battle.REWARD_UNITS
    units = np.rint(np.clip(values.astype(np.float64) * battle.REWARD_UNITS, -limit, limit))
    return np.where(np.isnan(units), battle.NO_VALUE, units).astype(np.int32)


def facts(moments: dict[str, np.ndarray], game: SimModel) -> np.ndarray:
    alive = moments["hp"] > 0
    is_fallen = alive & (moments["fallen"] > 0)
    shut_down = alive & (moments["heat"] > game.roster.heat_cap.cpu().numpy())
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
    # In the order of `rules.actions`: closest, biggest, most damaged.
    modes = [
        (battle.Switch.SORT_BIGGEST, moments["sort_mode"] == 1),
        (battle.Switch.SORT_MOST_DAMAGED, moments["sort_mode"] == 2),
    ]
    return np.bitwise_or.reduce([np.where(mask, int(bit), 0) for bit, mask in (*flags, *modes)]).astype(np.uint8)


Arrays = dict[str, np.ndarray]


def ways_known(moments: Arrays, game: SimModel) -> np.ndarray:
    """`[T + 1, N, C]` int bits SIGHT, RADAR, PAINT and BLOOM of `Shown` for each contact slot; none for what packmates
    tell, and in the observation mode `full`, which shows everything.

    Args:
        moments: what was kept at each of T + 1 moments, `[T + 1, ...]`.
    """
    slots = moments["contacts"]
    if game.config.observation_mode == "full":
        return np.zeros(slots.shape, np.int64)
    quality = ego_feature(moments, "sensor_quality") * game.rules.best_quality  # [T + 1, N]
    sources = {
        battle.Shown.SIGHT: moments["lines"],
        battle.Shown.RADAR: on_radar(moments, quality, game),
        battle.Shown.PAINT: by_paint(moments, quality, game),
        battle.Shown.BLOOM: by_bloom(moments, game),
    }
    bits = np.bitwise_or.reduce([np.where(mask, int(source), 0) for source, mask in sources.items()])  # [T + 1, N, N]
    slot_bits = np.take_along_axis(bits, slots.clip(0).astype(np.int64), -1)
    is_intel = moments["contact_facts"][..., 1] > 0
    return np.where((slots >= 0) & ~is_intel, slot_bits, 0)


def ego_feature(moments: Arrays, name: str) -> np.ndarray:
    """`[T + 1, N]` a feature of the ego stream that has one column."""
    return moments["ego"][..., layout.columns(layout.EGO, name).start]


def on_radar(moments: Arrays, quality: np.ndarray, game: SimModel) -> np.ndarray:
    """`[T + 1, N, N]` bool: within the range of the row's radar."""
    offset = moments["pos"][:, None] - moments["pos"][:, :, None]
    distance = np.sqrt((offset.astype(np.float32) ** 2).sum(-1))
    reach = game.config.radar_range_vox * quality * game.roster.cockpits.sensor_factor.cpu().numpy()
    return distance <= reach[..., None]


def by_paint(moments: Arrays, quality: np.ndarray, game: SimModel) -> np.ndarray:
    """`[T + 1, N, N]` bool: painted by the pack of the row, whose sensors are good enough for it."""
    pack = game.roster.pack.cpu().numpy()
    is_painted = np.moveaxis(moments["paint"][..., pack] > 0, -1, 1)  # the column, by the pack of the row
    return is_painted & (quality >= game.catalog.lock_quality)[..., None]


def by_bloom(moments: Arrays, game: SimModel) -> np.ndarray:
    """`[T + 1, N, N]` bool: a hostile that is hot or jams, with no smoke between."""
    roster, pairs = game.roster, game.roster.everyone
    hot = moments["heat"] > game.rules.bloom_heat * roster.heat_cap.cpu().numpy()
    glows = hot | (ego_feature(moments, "ecm") > 0) | (ego_feature(moments, "eccm") > 0)
    glowing = glows[:, None] & roster.hostile.cpu().numpy()
    if not game.config.features.smoke or moments["cloud_pos"].shape[1] == 0:
        return glowing
    first, second = pairs.first.cpu(), pairs.second.cpu()
    pos, clouds, ttl = (torch.from_numpy(moments[name]) for name in ("pos", "cloud_pos", "cloud_ttl"))
    query = torch.ones((len(pos), len(first)), dtype=torch.bool, device="cpu")
    smoky = crosses_smoke(pos, clouds, ttl > 0, first, second, game.catalog.cloud_vox, query).numpy()
    clear = np.ones(glowing.shape, bool)
    i, j = first.numpy(), second.numpy()
    clear[:, i, j] = clear[:, j, i] = ~smoky
    return glowing & clear

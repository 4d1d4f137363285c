"""How a mech knows of its contacts, told from what was kept by the rules of `env.observation.sensing`."""

from __future__ import annotations

import numpy as np
import torch

from echelon.env.observation import layout
from echelon.replay.battle import Shown
from echelon.sim.model import SimModel
from echelon.sim.sight import crosses_smoke

Arrays = dict[str, np.ndarray]


def ways_known(now: Arrays, game: SimModel) -> np.ndarray:
    """`[T + 1, N, C]` int bits SIGHT, RADAR, PAINT and BLOOM of `Shown` for each contact slot; none for what packmates
    tell, and in the observation mode `full`, which shows everything.

    Args:
        now: what was kept at each of T + 1 moments, `[T + 1, ...]`.
    """
    slots = now["contacts"]
    if game.config.observation_mode == "full":
        return np.zeros(slots.shape, np.int64)
    quality = told(now, "sensor_quality") * game.rules.best_quality  # [T + 1, N]
    ways = {
        Shown.SIGHT: now["lines"],
        Shown.RADAR: on_radar(now, quality, game),
        Shown.PAINT: by_paint(now, quality, game),
        Shown.BLOOM: by_bloom(now, game),
    }
    bits = np.bitwise_or.reduce([np.where(known, int(way), 0) for way, known in ways.items()])  # [T + 1, N, N]
    of_slot = np.take_along_axis(bits, slots.clip(0).astype(np.int64), -1)
    is_intel = now["contact_facts"][..., 1] > 0
    return np.where((slots >= 0) & ~is_intel, of_slot, 0)


def told(now: Arrays, name: str) -> np.ndarray:
    """`[T + 1, N]` a feature of the ego stream that has one column."""
    return now["ego"][..., layout.columns(layout.EGO, name).start]


def on_radar(now: Arrays, quality: np.ndarray, game: SimModel) -> np.ndarray:
    """`[T + 1, N, N]` bool: within the range of the row's radar."""
    offset = now["pos"][:, None] - now["pos"][:, :, None]
    distance = np.sqrt((offset.astype(np.float32) ** 2).sum(-1))
    reach = game.config.radar_range_vox * quality * game.roster.cockpits.sensor_factor.cpu().numpy()
    return distance <= reach[..., None]


def by_paint(now: Arrays, quality: np.ndarray, game: SimModel) -> np.ndarray:
    """`[T + 1, N, N]` bool: painted by the pack of the row, whose sensors are good enough for it."""
    pack = game.roster.pack.cpu().numpy()
    painted = np.moveaxis(now["paint"][..., pack] > 0, -1, 1)  # the column, by the pack of the row
    return painted & (quality >= game.catalog.lock_quality)[..., None]


def by_bloom(now: Arrays, game: SimModel) -> np.ndarray:
    """`[T + 1, N, N]` bool: a hostile that is hot or jams, with no smoke between."""
    roster, pairs = game.roster, game.roster.everyone
    hot = now["heat"] > game.rules.bloom_heat * roster.heat_cap.cpu().numpy()
    glows = hot | (told(now, "ecm") > 0) | (told(now, "eccm") > 0)
    seen = glows[:, None] & roster.hostile.cpu().numpy()
    if not game.config.features.smoke or now["cloud_pos"].shape[1] == 0:
        return seen
    first, second = pairs.first.cpu(), pairs.second.cpu()
    pos, clouds, ttl = (torch.from_numpy(now[name]) for name in ("pos", "cloud_pos", "cloud_ttl"))
    asked = torch.ones((len(pos), len(first)), dtype=torch.bool, device="cpu")
    smoky = crosses_smoke(pos, clouds, ttl > 0, first, second, game.catalog.cloud_vox, asked).numpy()
    clear = np.ones(seen.shape, bool)
    one, other = first.numpy(), second.numpy()
    clear[:, one, other] = clear[:, other, one] = ~smoky
    return seen & clear

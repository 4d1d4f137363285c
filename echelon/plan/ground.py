"""The ground of a map from above, lit."""

from __future__ import annotations

import numpy as np

COLOURS = {
    "air": (158, 144, 120),
    "dirt": (205, 192, 164),
    "lava": (255, 122, 40),
    "water": (92, 150, 190),
    "solid": (186, 190, 196),
    "debris_field": (96, 74, 56),
    "solid_debris": (84, 74, 66),
    "glass": (176, 216, 228),
    "reinforced": (124, 134, 150),
    "foliage": (118, 158, 92),
}
TEAM = ((38, 118, 226), (226, 82, 26))
TEAM_LIGHT = ((178, 214, 255), (255, 205, 178))
GOLD, WHITE, FIRE, SOOT = (235, 190, 50), (255, 255, 255), (255, 176, 64), (60, 54, 50)


SUN = (-0.5, 0.62)
"""Where light comes from, over the ground; the picture's top is +y."""


def shade(ground: np.ndarray, names: list[str]) -> np.ndarray:
    """`[Y, X, 3]` uint8 the ground from above: what lies on top, lighter the higher, with the shadows it casts."""
    table = np.array([COLOURS[name] for name in names], np.float32)
    levels = np.arange(1, len(ground) + 1)[:, None, None]
    low = np.isin(ground, [names.index(name) for name in ("air", "dirt", "lava", "water")])
    height = np.where(low, 0, levels).max(0)
    top = np.where(height > 0, np.take_along_axis(ground, (height - 1).clip(0)[None], 0)[0], ground[0])
    colour = table[top] * (0.95 + 0.02 * height.clip(0, 10))[..., None]
    colour *= np.random.default_rng(0).uniform(0.98, 1.02, top.shape)[..., None].astype(np.float32)
    return (colour * sunlight(height)[..., None]).clip(0, 255).astype(np.uint8)


def sunlight(height: np.ndarray) -> np.ndarray:
    """`[Y, X]` share of light: less in the shadow of what stands towards the sun, and at the foot of walls."""
    light = np.ones(height.shape, np.float32)
    padded = np.pad(height, 12)
    size_y, size_x = height.shape
    for step in range(1, 11):
        dx, dy = round(SUN[0] * step), round(SUN[1] * step)
        towards = padded[12 + dy : 12 + dy + size_y, 12 + dx : 12 + dx + size_x]
        light = np.minimum(light, np.where(towards - height > step * 0.9, 0.76, 1.0))
    crowd = sum(
        (padded[12 + y : 12 + y + size_y, 12 + x : 12 + x + size_x] > height).astype(np.float32)
        for y in (-1, 0, 1)
        for x in (-1, 0, 1)
    )
    return light * (1 - 0.035 * crowd)

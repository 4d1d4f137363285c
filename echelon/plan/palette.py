"""Colours, as red, green, blue of 0..255."""

from __future__ import annotations

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

"""Limits that several settings of a battle have: beyond what anybody plays, within what a machine computes in float32
and ends in a day. The catalog has its own in `echelon.rules.specs`."""

from echelon.runtime.limits import Limits

LARGEST_MAP_VOX = 500
"""Longest side of a map, so that a stranger's settings cannot ask for more memory than there is."""
MOST_COMMS = 1024
"""Numbers in a message."""
MOST_MAPS = 100_000
MOST_BATTLES = 1 << 24
"""Battles side by side."""
LONGEST_BATTLE_SUBSTEPS = 1_000_000
"""A battle of the standard rules has 1,200."""
SIDE = Limits(32, LARGEST_MAP_VOX, "vox: room for both spawn areas and a zone")
HEAT_PER_S = Limits(-1e3, 1e3, "heat points a second")
FACTOR, SECONDS, RANGE = Limits(0, 1e3), Limits(0, 3600, "s"), Limits(0, 1e6, "vox")
WEIGHT = Limits(-1e6, 1e6)

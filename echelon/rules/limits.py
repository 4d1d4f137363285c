"""Limits that several settings of a battle share. The limits allow every useful value, keep float32 arithmetic
accurate, and keep battles shorter than a day. For the limits of the catalog see `echelon.rules.specs`."""

from echelon.runtime.limits import Limits

LARGEST_MAP_VOX = 500
"""Maximum side of a map, vox. Keeps untrusted settings from exhausting the memory."""
MOST_COMMS = 1024
"""Maximum number of values in a message."""
MOST_MAPS = 100_000
MOST_BATTLES = 1 << 24
"""Maximum number of parallel battles."""
LONGEST_BATTLE_SUBSTEPS = 1_000_000
"""Maximum number of substeps. A battle of the standard rules has 1,200."""
SIDE = Limits(32, LARGEST_MAP_VOX, "vox: room for both spawn areas and a zone")
HEAT_PER_S = Limits(-1e3, 1e3, "heat points a second")
FACTOR, SECONDS, RANGE = Limits(0, 1e3), Limits(0, 3600, "s"), Limits(0, 1e6, "vox")
WEIGHT = Limits(-1e6, 1e6)

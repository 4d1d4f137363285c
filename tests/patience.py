"""How long tests wait for other processes: as long as it takes."""

STUCK_S = 3600
"""A process that has not ended by then is stuck. No machine is so busy that a test reaches it."""

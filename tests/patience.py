"""How long tests wait for other processes: as long as it takes."""

STUCK_S = 3600
"""A process that has not ended by then is stuck. No machine is so busy that a test reaches it."""
PATIENT = {"open_timeout": STUCK_S, "ping_timeout": STUCK_S}
"""What `connect` of websockets takes: its own 10 and 20 s pass on a busy machine."""

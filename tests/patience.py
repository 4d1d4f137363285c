"""Time limits of tests that wait for other processes."""

STUCK_S = 3600
"""A process that runs longer is stuck. Busy machines do not reach this limit."""
PATIENT = {"open_timeout": STUCK_S, "ping_timeout": STUCK_S}
"""Arguments for `connect` of websockets: its defaults of 10 and 20 s are too short on a busy machine."""

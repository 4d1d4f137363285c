"""Observation and scoring as loops over battles and mechs, compiled by numba for a CPU; see `echelon.sim.loops`."""

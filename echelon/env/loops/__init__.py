"""What a decision's end has as loops over battles and mechs, compiled by numba for a CPU; see `echelon.sim.loops`."""

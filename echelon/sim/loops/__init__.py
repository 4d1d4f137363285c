"""The simulation as loops over battles, mechs and shots, compiled by numba for a CPU.

Each function is the numba version of the `echelon.sim` function that its docstring names, and returns the same bits.
See there for the rule. `env/loops/decision.py` runs one battle at a time, in the order of `sim/step.py`, so that its
data stays in the L1 cache. `records.py` defines the records that loops read and write.
"""

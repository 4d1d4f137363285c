"""The simulation as loops over battles, mechs and shots, compiled by numba for a CPU.

Functions are loop forms of the systems of `echelon.sim` that their docstrings name, where the rules are told, and give
the same bits. `decision.py` runs them in the order of `sim/step.py`, a battle at a time, so that it stays in the first
cache. `records.py` says what they read and write.
"""

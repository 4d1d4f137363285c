"""A reference implementation of the rules in plain Python, without tensors. Tests compare the simulation with it."""

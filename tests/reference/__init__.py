"""The rule book as slow, plain Python: what the game is held against. Floats, loops and `math`; no tensors."""

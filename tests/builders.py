"""Scenes for tests: a flat or hand-made map, and mechs put where a test wants them."""

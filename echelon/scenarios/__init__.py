"""Battles that start from an authored position: scenarios, set pieces, and imports of map files."""

"""Battles that start from a given position."""

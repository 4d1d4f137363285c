"""Battles that begin in a position that somebody has written down."""

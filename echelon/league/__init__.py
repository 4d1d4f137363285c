"""Leagues. Importing this package lets `echelon.arena.resolve` find their entries by name."""

from echelon.arena.resolve import register_resolver
from echelon.league.entry_policy import FORM, resolve_entry

register_resolver("league", FORM, resolve_entry)

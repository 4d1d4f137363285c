"""Leagues. Importing this package lets `echelon.agents.names` find their entries by name."""

from echelon.agents.names import register_resolver
from echelon.league.entry_policy import FORM, resolve_entry

register_resolver("league", FORM, resolve_entry)

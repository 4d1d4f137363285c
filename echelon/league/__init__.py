"""Leagues.

Importing this package registers commander names of the form `league:FOLDER/NAME` in `echelon.agents.names`.
"""

from echelon.agents.names import register_resolver
from echelon.league.entry_policy import FORM, resolve_entry

register_resolver("league", FORM, resolve_entry)

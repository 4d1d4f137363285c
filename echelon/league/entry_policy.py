"""Resolves a commander name `league:FOLDER/NAME` to an entry of a league, for `echelon.agents.names`."""

from contextlib import closing
from pathlib import Path

from echelon.agents.heuristic import full_name, is_scripted
from echelon.agents.names import Commander
from echelon.league.store import FILE, Store
from echelon.learn.config import LEAGUE
from echelon.runtime.errors import require

FORM = "league:FOLDER/NAME"


def resolve_entry(name: str) -> Commander:
    """Return the commander of `league:FOLDER/NAME`, where NAME is an entry's name or the start of its id.

    An entry that is a scripted tier resolves to this tier's commander. Entry names come from an untrusted file, so they
    are never imported as Python modules.
    """
    folder, _, entry_name = name.partition(":")[2].rpartition("/")
    names_league = folder == "" or (Path(folder) / entry_name / FILE).exists()
    require(not names_league, "a commander from a league", f"{FORM}, one of its entries", name)
    with closing(Store(folder)) as store:
        entry = store.find(entry_name)
        return Commander(full_name(entry.name)) if entry.is_scripted else Commander(name, store.weights.open(entry.id))


def qualified_name(name: str, league: Path) -> str:
    """Return the commander name to pass to `resolve` for a name that may be that of an entry of `league`.

    Names of scripted commanders, names with a prefix or a module, and existing paths are returned unchanged. An entry
    name never contains a colon.
    """
    is_entry = ":" not in name and not is_scripted(name) and not Path(name).exists()
    return f"{LEAGUE}{league}/{name}" if is_entry else name

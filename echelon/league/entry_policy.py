"""Resolves `league:FOLDER/NAME`: an entry of a league as a commander, as `echelon.agents.names` registers it."""

from contextlib import closing
from pathlib import Path

from echelon.agents.heuristic import full_name, is_scripted
from echelon.agents.names import Commander
from echelon.league.store import FILE, Store
from echelon.learn.config import LEAGUE
from echelon.runtime.errors import require

FORM = "league:FOLDER/NAME"


def resolve_entry(name: str) -> Commander:
    """The commander of `league:FOLDER/NAME`, where NAME is the name of an entry or the beginning of its id.

    A scripted entry means the tier of its name. Names of entries come from a file, so none of them is imported.
    """
    folder, _, entry_name = name.partition(":")[2].rpartition("/")
    names_league = folder == "" or (Path(folder) / entry_name / FILE).exists()
    require(not names_league, "a commander from a league", f"{FORM}, one of its entries", name)
    with closing(Store(folder)) as store:
        entry = store.find(entry_name)
        return Commander(full_name(entry.name)) if entry.is_scripted else Commander(name, store.weights.open(entry.id))


def qualified_name(name: str, league: Path) -> str:
    """The name for `resolve` of a commander that is an entry of `league` unless it is named otherwise.

    Scripted commanders, names with a prefix or a module and paths that exist stay as they are: names of entries hold no
    colon.
    """
    is_entry = ":" not in name and not is_scripted(name) and not Path(name).exists()
    return f"{LEAGUE}{league}/{name}" if is_entry else name

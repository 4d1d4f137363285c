"""Three populations of commanders, listed by name and hash: for training, for model selection and for the final
test."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from echelon.agents.heuristic import full_name, is_scripted
from echelon.agents.tiers import STYLE, STYLES, TIERS, Tier
from echelon.rules.config import Split

TABLE = Path(__file__).with_name("populations.json")
OPPONENT, PARTNER = "opponent", "partner"


@dataclass(frozen=True)
class Stranger:
    """A commander of a population: a row of `populations.json`."""

    name: str
    """Name that users type: `heuristic:TIER`, `style:NAME` or `trained:NAME`."""
    population: Split
    """The one population that it belongs to."""
    roles: tuple[str, ...]
    """`opponent`, `partner` or both."""
    sha256: str
    """Hash of the weights, or of a scripted commander's abilities. Its code is covered by the rules version."""


@cache
def strangers() -> dict[str, Stranger]:
    """Return all commanders of the populations, by name."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    return {row["name"]: Stranger(**{**row, "roles": tuple(row["roles"])}) for row in rows}


def names_in(population: Split, role: str) -> tuple[str, ...]:
    """Return the names of a population's opponents or partners, in the table's order."""
    return tuple(s.name for s in strangers().values() if s.population == population and role in s.roles)


def held_out(name: str, digest: str = "") -> bool:
    """Return whether a commander is in the test population, by its name or by the sha256 of its weights."""
    full = full_name(name)
    return any(s.population == "test" and (full == s.name or digest == s.sha256) for s in strangers().values())


def scripted_hash(name: str) -> str | None:
    """Return the sha256 of a scripted commander's abilities; None for any other commander."""
    full = full_name(name)
    kind, _, name_in_table = full.partition(":")
    table = TIERS if is_scripted(full) else STYLES if kind == STYLE else {}
    tier: Tier | None = table.get(name_in_table)
    if tier is None:
        return None
    # Hash only the abilities that differ from the defaults, so that a new ability does not change existing hashes.
    has = {ability: value for ability, value in asdict(tier).items() if value != getattr(Tier, ability)}
    return hashlib.sha256(json.dumps(has, sort_keys=True).encode()).hexdigest()

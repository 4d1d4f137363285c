"""Populations of commanders, by name and hash: whom one trains against, chooses by, and is judged by."""

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
    """As a user names it: `heuristic:TIER`, `style:NAME` or `trained:NAME`."""
    population: Split
    """Which of the three it belongs to, and to no other."""
    roles: tuple[str, ...]
    """`opponent`, `partner` or both."""
    sha256: str
    """Of its weights, or of the abilities of a scripted one; what its code does goes with the version of the rules."""


@cache
def strangers() -> dict[str, Stranger]:
    """Every commander of a population, by name."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    return {row["name"]: Stranger(**{**row, "roles": tuple(row["roles"])}) for row in rows}


def names_in(population: Split, role: str) -> tuple[str, ...]:
    """Names of a population's opponents or partners, in the order of the table."""
    return tuple(s.name for s in strangers().values() if s.population == population and role in s.roles)


def held_out(name: str, digest: str = "") -> bool:
    """Whether a commander is of the test population, by its name or by the sha256 of its weights."""
    full = full_name(name)
    return any(s.population == "test" and (full == s.name or digest == s.sha256) for s in strangers().values())


def scripted_hash(name: str) -> str | None:
    """sha256 of the abilities of a scripted commander; None for any other."""
    full = full_name(name)
    kind, _, name_in_table = full.partition(":")
    table = TIERS if is_scripted(full) else STYLES if kind == STYLE else {}
    tier: Tier | None = table.get(name_in_table)
    if tier is None:
        return None
    # Those that it has: an ability that comes later, which it lacks, leaves its hash alone.
    has = {ability: value for ability, value in asdict(tier).items() if value != getattr(Tier, ability)}
    return hashlib.sha256(json.dumps(has, sort_keys=True).encode()).hexdigest()

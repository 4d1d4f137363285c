"""Rows of the database of a league: entries, matches, standings and changes."""

import hashlib
import itertools
import json
import time
from dataclasses import dataclass
from typing import NamedTuple

from echelon.agents.heuristic import is_scripted
from echelon.arena.batch_arena import Battle
from echelon.league.ratings import POINTS_OF_BLUE
from echelon.rules.versions import Versions, current_versions, stored_versions
from echelon.runtime.errors import require


class Entry(NamedTuple):
    """A participant of a league."""

    id: str
    """sha256 of its weights, or `scripted_id` of a scripted tier."""
    kind: str
    """One of `database.KINDS`."""
    name: str
    parent: str | None
    """Id of its parent entry."""
    env: str
    """Signature of the environment config it was trained with, as JSON."""
    created: float
    """Unix time, s."""

    @property
    def is_scripted(self) -> bool:
        """Whether the entry is a scripted tier; only names of tiers contain a colon."""
        return ":" in self.name


class MatchRecord(NamedTuple):
    """A recorded battle."""

    blue: str
    red: str
    seed: int
    recipe: str
    """JSON, see `match_recipe`."""
    winner: int
    """0 for a draw, 1 for blue, 2 for red."""
    reason: str
    decisions: int
    duration_s: float
    stats: str
    """JSON: per side (blue, red), the values of `echelon.env.outcome.stat_names`, and the score."""
    state_hash: str
    """Hash of the final state, see `echelon.arena.fingerprint.state_hash`."""

    @property
    def key(self) -> str:
        """Unique key of the match, built from both entries, the seed and the recipe."""
        return match_key(Battle(self.blue, self.red, self.seed), self.recipe)

    def points(self, who: str) -> float:
        """Return the points of the entry `who` in this match: 1 for a win, 0.5 for a draw, 0 for a loss."""
        blue = POINTS_OF_BLUE[self.winner]
        return blue if who == self.blue else 1 - blue


MATCH_COLUMNS = ", ".join(MatchRecord._fields)
"""Columns of the table `matches` that form a `MatchRecord`."""


def match_key(battle: Battle, recipe: str) -> str:
    return f"{recipe}/{battle.seed}/{battle.blue}/{battle.red}"


def match_recipe(map_seed: int, precision: str) -> str:
    """Return the parameters of a match besides entries and seed, as JSON: versions, map seed and precision."""
    return json.dumps({**current_versions().as_json(), "map_seed": map_seed, "precision": precision})


def recipe_versions(recipe: str) -> Versions:
    """Return the versions of the game rules and of the map generator that a match's recipe names."""
    try:
        values = json.loads(recipe)
    except (ValueError, RecursionError):
        values = None
    require(isinstance(values, dict), "recipe", "a JSON object", recipe[:100])
    return stored_versions(values, "recipe")


class Standing(NamedTuple):
    """Rating of an entry after the last closed rating period, and totals of all its games."""

    id: str
    name: str
    kind: str
    rating: float
    deviation: float
    volatility: float
    games: int
    score: float
    """Points in these games: 1 for a win, 0.5 for a draw."""

    def conservative(self, conservatism: float) -> float:
        """Return the conservative rating r - k RD: the rating minus k = `conservatism` deviations."""
        return self.rating - conservatism * self.deviation


@dataclass(frozen=True)
class Change:
    """A recorded change of an entry or of a training role, with its reason."""

    period: int
    name: str
    change: str
    reason: str


def scripted_id(name: str) -> str | None:
    """Return the id of a scripted entry `heuristic:TIER@RULES`, the sha256 of its name; None for other names."""
    return hashlib.sha256(name.encode()).hexdigest() if is_scripted(name) else None


def scripted_entry(tier: str) -> Entry:
    # The name contains the rules version, because a scripted tier may decide differently under other rules.
    name = f"heuristic:{tier}@{current_versions().rules}"
    return Entry(str(scripted_id(name)), "scripted", name, None, "{}", time.time())


ADJECTIVES = (
    *("amber", "ashen", "bitter", "blazing", "brazen", "calm", "cold", "crimson", "dire", "eager", "fabled", "fell"),
    *("fervent", "gaunt", "gilded", "grave", "grim", "hollow", "iron", "keen", "lucid", "lurking", "marble", "mute"),
    *("nimble", "obsidian", "pale", "patient", "proud", "quiet", "ragged", "restless", "rusted", "sable", "savage"),
    *("silent", "stern", "stubborn", "sudden", "sullen", "swift", "tireless", "vagrant", "veiled", "wary", "wild"),
)
NOUNS = (
    *("adder", "anvil", "badger", "basilisk", "bastion", "boar", "bulwark", "cobra", "condor", "dervish", "drake"),
    *("falcon", "ferret", "gargoyle", "golem", "griffin", "hammer", "harrier", "hornet", "hound", "hydra", "ibex"),
    *("jackal", "kestrel", "kraken", "lance", "lynx", "mantis", "marten", "mastiff", "monolith", "osprey", "otter"),
    *("panther", "raven", "rook", "sentinel", "serpent", "sphinx", "stoat", "talon", "viper", "warden", "wolf"),
)


def commander_name(digest: str, used: set[str]) -> str:
    """Return a readable name derived from a sha256 in hexadecimal.

    If `used` contains this name, a number is appended.
    """
    number = int(digest[:16], 16)
    name = f"{ADJECTIVES[number % len(ADJECTIVES)]}-{NOUNS[number // len(ADJECTIVES) % len(NOUNS)]}"
    numbered = (f"{name}-{count}" for count in itertools.count(2))
    return next(free for free in itertools.chain([name], numbered) if free not in used)

"""Provenance: what weights were trained against, as a set that a checkpoint carries and its children inherit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import safetensors.torch
from torch import Tensor

from echelon.rules.config import EnvConfig
from echelon.rules.versions import RULES
from echelon.runtime.files import FileError
from echelon.runtime.json_checks import SHA256, Check, listed, matching, one_of, record, text

PROVENANCE = "provenance"
"""Entry of `checkpoint.json`; a file that lacks it tells nothing."""
SELF = "self"
"""The learner itself, as it was at the time, or an earlier snapshot of its run."""
MOST = 256
"""Entries of a kind."""
NAME = text(255)
ENTRIES: dict[str, Check] = {
    "battles": matching("[0-9a-f]{16}", "16 hexadecimal digits of a battle's signature"),
    "opponents": NAME,
    "partners": NAME,
    "rules": matching("[1-9][0-9]{0,8}", "a version of the rules"),
    "splits": matching("train|validation|test|none:[0-9]{1,19}", "a split, or none: and a map seed"),
}
"""What an entry of each kind looks like."""
Verdict = Literal["met", "not met", "unknown"]


@dataclass(frozen=True)
class Provenance:
    """What weights were trained against, and what they were begun from; sorted words, of each kind at most `MOST`."""

    battles: tuple[str, ...] = ()
    """`battle_hashes` of each."""
    opponents: tuple[str, ...] = ()
    """sha256 of weights, names of other commanders, `SELF`."""
    partners: tuple[str, ...] = ()
    """The same, of who commanded mechs of the learner's own team."""
    rules: tuple[str, ...] = ()
    """Versions of the rules."""
    splits: tuple[str, ...] = ()
    """Splits, and `none:SEED` for maps of a map seed without one."""
    unknown: tuple[str, ...] = ()
    """Kinds of which not everything is listed: an ancestor told nothing, or there was more than `MOST`."""

    def union(self, other: Provenance) -> Provenance:
        """Of both. Where they are more than `MOST`, what is here stays, what is left out is the last of the other by
        name, and the kind is unknown from then on."""
        if other == self:
            return self
        entries_by_kind, unknown = {}, {*self.unknown, *other.unknown}
        for kind in ENTRIES:
            entries = getattr(self, kind)
            new = sorted(set(getattr(other, kind)) - set(entries))
            entries_by_kind[kind] = tuple(sorted([*entries, *new[: MOST - len(entries)]]))
            if len(entries) + len(new) > MOST:
                unknown.add(kind)
        return Provenance(**entries_by_kind, unknown=tuple(sorted(unknown)))

    def has_met(self, kind: str, entry: str) -> Verdict:
        """Whether an entry of a kind was met."""
        if entry in getattr(self, kind):
            return "met"
        return "unknown" if kind in self.unknown else "not met"

    def has_met_battle(self, config: EnvConfig) -> Verdict:
        """Whether a config's battle was met; of several positions, any of them."""
        verdicts = {self.has_met("battles", entry) for entry in battle_hashes(config)}
        return "met" if "met" in verdicts else verdicts.pop()

    def has_met_opponent(self, entry: str) -> Verdict:
        """Whether a commander was met. Weights may be those of an earlier `SELF`, which nobody has hashed."""
        return self._has_met_commander("opponents", entry)

    def has_met_anywhere(self, entry: str) -> Verdict:
        """Whether a commander was met, as an opponent or as a partner."""
        verdicts = [self._has_met_commander(kind, entry) for kind in ("opponents", "partners")]
        return next((one for one in ("met", "unknown") if one in verdicts), "not met")  # type: ignore[return-value]

    def _has_met_commander(self, kind: str, entry: str) -> Verdict:
        verdict = self.has_met(kind, entry)
        may_be_own = SELF in getattr(self, kind) and SHA256.holds(entry)
        return "unknown" if verdict == "not met" and may_be_own else verdict

    def has_met_maps(self, config: EnvConfig) -> Verdict:
        """Whether maps and battles of a config's split were met: without a split on either side none is excluded.

        The map of a position is met with its battle.
        """
        if config.positions:
            return self.has_met_battle(config)
        verdict = self.has_met("splits", split_of(config))
        has_none = config.split is None or any(split.startswith("none") for split in self.splits)
        return "unknown" if verdict == "not met" and self.splits and has_none else verdict

    def as_json(self) -> dict[str, list[str]]:
        """Plain JSON values."""
        return {name: list(getattr(self, name)) for name in (*ENTRIES, "unknown")}


NOTHING = Provenance()
"""Of weights that have learnt nothing yet."""
UNKNOWN = Provenance(unknown=tuple(ENTRIES))
"""Of weights of which nobody told."""
CHECK = record(
    {kind: listed(entry, 0, MOST) for kind, entry in ENTRIES.items()}
    | {"unknown": listed(one_of(ENTRIES), 0, len(ENTRIES))}
)


def provenance_from_json(claims: Mapping[str, Any], name: str) -> Provenance:
    """The provenance in a stranger's `checkpoint.json`, the file `name`; unknown where it tells none.

    Raises:
        FileError: an entry is of another form, twice, or out of order.
    """
    if PROVENANCE not in claims:
        return UNKNOWN
    values = claims[PROVENANCE]
    CHECK(f"{name}: {PROVENANCE}", values)
    for kind, entries in values.items():
        if entries != sorted(set(entries)):
            raise FileError(f"{name}: {PROVENANCE}.{kind} must be sorted, each entry once")
    return Provenance(**{kind: tuple(entries) for kind, entries in values.items()})


def met_in(config: EnvConfig, opponents: Iterable[str] = ()) -> Provenance:
    """What a learner meets that commands a whole team in battles of a config against some opponents."""
    splits = () if config.positions and config.split is None else (split_of(config),)
    provenance = Provenance(battles=battle_hashes(config), partners=(SELF,), splits=splits)
    rules = str(config.signature()[RULES])
    return replace(provenance, opponents=tuple(sorted(opponents)), rules=(rules,))


def split_of(config: EnvConfig) -> str:
    """The entry of a config's split."""
    return config.split or f"none:{config.map_seed}"


def battle_hashes(config: EnvConfig) -> tuple[str, ...]:
    """`battle_hash` of each position alone that battles begin in, sorted; without positions that of the config."""
    alone = [replace(config, positions=(replace(position, weight=1),)) for position in config.positions]
    return tuple(sorted({battle_hash(battle_config) for battle_config in alone or [config]}))


def battle_hash(config: EnvConfig) -> str:
    """The beginning of the sha256 of a config's signature, without what makes no other battle: how it is paid, and the
    number of maps."""
    settings = {
        name: value for name, value in config.signature().items() if name not in ("reward", "map_pool", "map_spares")
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def name_entry(name: str) -> str:
    """The entry of a commander without weights: its name, or the sha256 of one that no file may hold."""
    return name if NAME.holds(name) else hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def weight_bytes(weights: Mapping[str, Tensor]) -> bytes:
    """Weights as they stand in a checkpoint's file."""
    return safetensors.torch.save({key: value.detach().contiguous().cpu() for key, value in weights.items()})


def weight_hash(weights: Mapping[str, Tensor]) -> str:
    """sha256 of weights: that of their file in any checkpoint, and the id of their entry in a league."""
    return hashlib.sha256(weight_bytes(weights)).hexdigest()

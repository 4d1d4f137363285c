"""Provenance: the training history of weights, stored in checkpoints and inherited by policies trained from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import safetensors.torch
from torch import Tensor

from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.position import TEAMS, USES
from echelon.rules.versions import RULES
from echelon.runtime.files import FileError
from echelon.runtime.json_checks import SHA256, Check, listed, matching, one_of, record, text

PROVENANCE = "provenance"
"""Key in `checkpoint.json`; without it the history is unknown."""
SELF = "self"
"""Entry for the learner itself or an earlier snapshot of its run."""
MOST = 256
"""Maximum number of entries per kind."""
NAME = text(255)
ENTRIES: dict[str, Check] = {
    "battles": matching("[0-9a-f]{16}", "16 hexadecimal digits of a battle's signature"),
    "opponents": NAME,
    "partners": NAME,
    "rules": matching("[1-9][0-9]{0,8}", "a version of the rules"),
    "splits": matching("train|validation|test|none:[0-9]{1,19}", "a split, or none: and a map seed"),
}
"""Form of the entries of each kind."""
Exposure = Literal["met", "not met", "unknown"]


@dataclass(frozen=True)
class Provenance:
    """Training history of weights and of their initial policy: sorted strings, at most `MOST` per kind."""

    battles: tuple[str, ...] = ()
    """`battle_hashes` of the training battles."""
    opponents: tuple[str, ...] = ()
    """Opponents: sha256 of weights, names of other commanders, or `SELF`."""
    partners: tuple[str, ...] = ()
    """Commanders of other mechs in the learner's team, in the same form."""
    rules: tuple[str, ...] = ()
    """Versions of the rules."""
    splits: tuple[str, ...] = ()
    """Splits, or `none:SEED` for maps of map seed SEED without a split."""
    unknown: tuple[str, ...] = ()
    """Incomplete kinds: an ancestor had no history, or there were more than `MOST` entries."""

    def union(self, other: Provenance) -> Provenance:
        """Merge two histories. If a kind would exceed `MOST` entries, keep all of `self`, drop the entries of `other`
        that sort last, and mark the kind as unknown.
        """
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

    def exposure(self, kind: str, entry: str) -> Exposure:
        """Return whether training used `entry`, which is of a `kind` such as `opponents`."""
        if entry in getattr(self, kind):
            return "met"
        return "unknown" if kind in self.unknown else "not met"

    def battle_exposure(self, config: EnvConfig) -> Exposure:
        """Return whether a config's battle, or any of its positions, was used in training."""
        entries = {*battle_hashes(config), *(battle_hash(one) for one in configs_by_position(config))}
        exposures = {self.exposure("battles", entry) for entry in entries}
        return "met" if "met" in exposures else exposures.pop()

    def opponent_exposure(self, entry: str) -> Exposure:
        """Return whether training included this opponent. After self-play, the result for weights is never `not met`,
        because they may be an earlier snapshot of the learner.
        """
        return self._exposure_of_kind("opponents", entry)

    def commander_exposure(self, entry: str) -> Exposure:
        """Return whether training included this commander as an opponent or as a partner."""
        exposures = [self._exposure_of_kind(kind, entry) for kind in ("opponents", "partners")]
        return next((one for one in ("met", "unknown") if one in exposures), "not met")  # type: ignore[return-value]

    def _exposure_of_kind(self, kind: str, entry: str) -> Exposure:
        exposure = self.exposure(kind, entry)
        may_be_own = SELF in getattr(self, kind) and SHA256.holds(entry)
        return "unknown" if exposure == "not met" and may_be_own else exposure

    def map_exposure(self, config: EnvConfig) -> Exposure:
        """Return whether training used the maps of a config's split. If this config or a training config has no split,
        any map may have been used, so `not met` becomes `unknown`.

        The map of an authored position counts as used if training used the position's battle.
        """
        if config.positions:
            return self.battle_exposure(config)
        exposure = self.exposure("splits", split_of(config))
        has_none = config.split is None or any(split.startswith("none") for split in self.splits)
        return "unknown" if exposure == "not met" and self.splits and has_none else exposure

    def as_json(self) -> dict[str, list[str]]:
        """Return plain JSON values."""
        return {name: list(getattr(self, name)) for name in (*ENTRIES, "unknown")}


NOTHING = Provenance()
"""History of untrained weights."""
UNKNOWN = Provenance(unknown=tuple(ENTRIES))
"""History of weights without any information."""
CHECK = record(
    {kind: listed(entry, 0, MOST) for kind, entry in ENTRIES.items()}
    | {"unknown": listed(one_of(ENTRIES), 0, len(ENTRIES))}
)


def provenance_from_json(metadata: Mapping[str, Any], name: str) -> Provenance:
    """Read the provenance from the metadata in an untrusted file called `name`; return `UNKNOWN` if it contains none.

    Raises:
        FileError: if an entry is invalid, duplicate or not in order.
    """
    if PROVENANCE not in metadata:
        return UNKNOWN
    values = metadata[PROVENANCE]
    CHECK(f"{name}: {PROVENANCE}", values)
    for kind, entries in values.items():
        if entries != sorted(set(entries)):
            raise FileError(f"{name}: {PROVENANCE}.{kind} must be sorted, without duplicates")
    return Provenance(**{kind: tuple(entries) for kind, entries in values.items()})


def provenance_of(config: EnvConfig, opponents: Iterable[str] = ()) -> Provenance:
    """Return the provenance of a learner that commands a whole team in battles of `config` against `opponents`."""
    is_authored = all(position.map_index < 0 for position in config.positions) and len(config.positions) > 0
    splits = () if is_authored and config.split is None else (split_of(config),)
    provenance = Provenance(battles=battle_hashes(config), partners=(SELF,), splits=splits)
    rules = str(config.signature()[RULES])
    return replace(provenance, opponents=tuple(sorted(opponents)), rules=(rules,))


def split_of(config: EnvConfig) -> str:
    """Return the provenance entry of a config's split (train, validation or test), or of its map seed without a
    split.
    """
    return config.split or f"none:{config.map_seed}"


def battle_hashes(config: EnvConfig) -> tuple[str, ...]:
    """Return the sorted `battle_hash` of each position that battles start from, or of the config without positions.

    A position has the same hash in a scenario of its own and in a batch of several scenarios; see `canonical_config`.
    """
    return tuple(sorted({battle_hash(canonical_config(one)) for one in configs_by_position(config)}))


def configs_by_position(config: EnvConfig) -> list[EnvConfig]:
    """Return a config of each position, or the config itself without positions. Checkpoints of version 1.0 contain the
    hashes of these configs."""
    return [replace(config, positions=(replace(one, weight=1),)) for one in config.positions] or [config]


def canonical_config(config: EnvConfig) -> EnvConfig:
    """Return a config of at most one position in the form that it has without other scenarios in its batch: without
    absent mechs, with the time limit and the winning score in the rules, and with each team's mechs sorted by hull.
    """
    # This rule only changes what a learner expects after the last step.
    config = replace(config, rules=replace(config.rules, time_up_terminates=RulesConfig.time_up_terminates))
    if not config.positions:
        return replace(config, blue=tuple(sorted(config.blue)), red=tuple(sorted(config.red)))
    (position,), rules = config.positions, config.rules
    present = sorted((pair for pair in position.named if pair[1].hp > 0), key=lambda pair: pair[1].hull)
    blue, red = (tuple(unit.hull for _, unit in present if unit.team == team) for team in TEAMS)
    rules = replace(rules, max_episode_s=position.limit_s(rules))
    if position.map_index >= 0:
        return replace(config, blue=blue, red=red, rules=rules, positions=())
    objective = position.objective
    if "control_s" in USES[objective.kind]:
        objective = replace(objective, control_s=objective.control_s or rules.zone_score_to_win_s)
    rules = replace(rules, zone_score_to_win_s=RulesConfig.zone_score_to_win_s)
    if objective.mech:
        team = objective.mech.partition("_")[0]
        names = [name for name, unit in present if unit.team == team]
        objective = replace(objective, mech=f"{team}_{names.index(objective.mech)}")
    units = tuple(unit for _, unit in present)
    kept = replace(position, units=units, objective=objective, weight=1, longest_s=0.0, opponent="")
    return replace(config, blue=blue, red=red, rules=rules, positions=(kept,))


def battle_hash(config: EnvConfig) -> str:
    """Return the first digits of the sha256 of a config's signature, without the fields that do not change the battle:
    rewards and the number of maps."""
    settings = {
        name: value for name, value in config.signature().items() if name not in ("reward", "map_pool", "map_spares")
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def name_entry(name: str) -> str:
    """Return the provenance entry of a commander without weights: its name, or the sha256 of a name that is too long or
    unprintable.
    """
    return name if NAME.holds(name) else hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def weight_bytes(weights: Mapping[str, Tensor]) -> bytes:
    """Serialise weights as in a checkpoint's file."""
    return safetensors.torch.save({key: value.detach().contiguous().cpu() for key, value in weights.items()})


def weight_hash(weights: Mapping[str, Tensor]) -> str:
    """Return the sha256 of weights, which equals the sha256 of the weights' file in any checkpoint and the id of the
    weights in a league.
    """
    return hashlib.sha256(weight_bytes(weights)).hexdigest()

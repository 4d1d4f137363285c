"""Whether a policy has met in training what it is judged on, as the provenance of its weights tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.arena.resolve import resolve
from echelon.learn.checkpoint.provenance import NOTHING, SELF, UNKNOWN, Provenance, weight_hash
from echelon.learn.models.actor_critic import ActorCritic
from echelon.rules.config import EnvConfig

VERDICTS = ("met", "not met", "unknown")


def provenance_of(policy: Any) -> Provenance:
    """That of a policy's name, or of the policy: a checkpoint tells, scripted commanders learn nothing, and of all
    others nobody knows."""
    if not isinstance(policy, str):
        return UNKNOWN
    commander = resolve(policy)
    if commander.checkpoint is not None:
        return commander.checkpoint.provenance
    return NOTHING if commander.factory is None else UNKNOWN


def entries_of(own: str, ids: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, str | None]:
    """What provenance calls opponents, by name; None where nobody can tell.

    Args:
        own: the policy's id.
        ids: that of each opponent.
        given: opponents by name, None for those that the name means.
    """
    entries: dict[str, str | None] = {}
    for name, each in given.items():
        hashed = weight_hash(each.state_dict()) if isinstance(each, ActorCritic) else None
        entries[name] = SELF if ids[name] == own else ids[name] if each is None else hashed
    return entries


def met_before(provenance: Provenance, config: EnvConfig, opponents: Mapping[str, str | None]) -> dict[str, Any]:
    """Whether the maps, the battle and each opponent of an evaluation were `met`, `not met`, or that is `unknown`.

    Args:
        config: of the evaluation's battles.
        opponents: what provenance calls each, by name.
    """
    return {
        "maps": provenance.has_met_maps(config),
        "battle": provenance.has_met_battle(config),
        "opponents": {
            name: "unknown" if entry is None else provenance.has_met_opponent(entry)
            for name, entry in opponents.items()
        },
    }


def met_line(met: Mapping[str, Any]) -> str:
    """What `met_before` found, in one line."""
    verdicts = {"maps": met["maps"], "battle": met["battle"], **met["opponents"]}
    parts = {verdict: [name for name, one in verdicts.items() if one == verdict] for verdict in VERDICTS}
    return "in training " + "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in parts.items() if names)

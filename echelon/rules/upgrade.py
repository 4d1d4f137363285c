"""Upgrade settings from a file of an earlier rules version to the current rules."""

from collections.abc import Sequence
from typing import Any

from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.config_json import as_json
from echelon.rules.versions import current_versions, earlier_defaults, stored_versions


def env_under_current_rules(signature: dict[str, Any]) -> EnvConfig:
    """Return the config of an `EnvConfig.signature`, upgraded to the current rules.

    A setting that had the default of its rules version gets the current default; other settings keep their value. To
    keep the original values, use `env_from_json`.
    """
    recorded = env_from_json(signature)
    values, today = {**current_versions().as_json(), **as_json(recorded, whole=True)}, as_json(EnvConfig(), whole=True)
    for path, default in earlier_defaults(stored_versions(signature, "env").rules).items():
        *parents, name = path.split(".")
        stored, current = part_of(values, parents), part_of(today, parents)
        if name in current and stored.get(name) == default:
            stored[name] = current[name]
    return env_from_json(values)


def part_of(values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the nested settings at the path `names`, an empty dict if there are none."""
    for name in names:
        values = values.get(name, {})
    return values

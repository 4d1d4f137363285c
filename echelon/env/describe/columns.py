"""Describes an environment or a view: one `Column` for every column of its specs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torchrl.data import Composite, TensorSpec
from torchrl.envs import EnvBase

from echelon.env.describe.description import Column, Description, Kind, Leaf
from echelon.env.describe.outcome_columns import (
    Switches,
    of_action_mask,
    of_cooldown,
    of_triggers,
    outcome_columns,
    reward_columns,
)
from echelon.env.observation import layout
from echelon.env.observation.layout import PACK_SIZE, STREAMS, Feature
from echelon.env.reward import term_weights
from echelon.env.specs import DONE_KEYS, Specs
from echelon.env.views.discrete import ACTIONS
from echelon.rules.actions import TRIGGER_COLUMNS
from echelon.rules.catalog import Trigger
from echelon.rules.config import EnvConfig

Name = tuple[str, ...]
"""A key without its group."""
ENDS = {
    "done": "the battle ended in this decision",
    "terminated": "by elimination, by the zone or an objective, or by the clock where that is part of the game",
    "truncated": "by the clock",
}
MOVED: dict[str, Kind] = {"outcome": "outcome", "reward_terms": "reward"}
"""What stands among the observations because TorchRL takes every leaf of `reward_spec` for a reward of its own."""
TRAILING: dict[Name, tuple[str, ...]] = {
    ("observation", "contacts"): ("contact", "column"),
    ("observation", "contacts_mask"): ("contact",),
    ("observation", "squad"): ("comrade", "column"),
    ("observation", "squad_mask"): ("comrade",),
    ("observation", "comms"): ("packmate", "column"),
    ("observation", "local_map"): ("cell ahead", "cell left"),
    ("mask",): (),
    ("telemetry",): ("y", "x"),
    ("outcome", "stats"): ("team", "column"),
}
"""Axes behind the batch and the mechs of a group; of others it is `column`."""


def describe_specs(
    specs: Mapping[Kind, Composite], groups: Collection[str], config: EnvConfig, weights: Mapping[str, float]
) -> Description:
    """The columns of all leaves of `specs`.

    Args:
        groups: names that keys may begin with.
    """
    columns, leaves = Columns(config, weights), []
    for kind, composite in specs.items():
        for path in composite.keys(include_nested=True, leaves_only=True):
            key = (path,) if isinstance(path, str) else tuple(path)
            name = key[1:] if len(key) > 1 and key[0] in groups else key
            if name[0] != "memory":
                leaves.append(leaf_of(key, name, kind, composite[path], columns))
    return Description(tuple(leaves), tuple(group for group in groups if any(leaf.key[0] == group for leaf in leaves)))


def leaf_of(key: Name, name: Name, kind: Kind, spec: TensorSpec, columns: Columns) -> Leaf:
    is_index = name == ("action",) and not spec.dtype.is_floating_point
    trailing = () if is_index else TRAILING.get(name, ("column",))
    leading = ("battle", "mech")[: len(spec.shape) - len(trailing)]
    own = columns.discrete_action if is_index else columns.of(name)
    return Leaf(key, MOVED.get(name[0], kind), tuple(spec.shape), (*leading, *trailing), str(spec.dtype), own)


def describe_env(env: EnvBase, groups: Collection[str], config: EnvConfig, weights: Mapping[str, float]) -> Description:
    """The columns of all that an environment or a view takes and gives; see `describe_specs`."""
    specs: dict[Kind, Composite] = {
        "action": env.full_action_spec,
        "observation": env.full_observation_spec,
        "reward": env.full_reward_spec,
        "done": env.full_done_spec,
    }
    return describe_specs(specs, groups, config, weights)


def describe_battle(config: EnvConfig) -> Description:
    """What `EchelonEnv(config).describe()` would tell of one battle, without making its maps."""
    sizes = {"blue": len(config.blue), "red": len(config.red)}
    specs = Specs(config, sizes, Composite(), 1, torch.device("cpu"))
    parts: dict[Kind, Composite] = {
        "action": specs.action(),
        "observation": specs.observation(),
        "reward": specs.reward(),
        "done": specs.done(),
    }
    return describe_specs(parts, sizes, config, term_weights(config.reward))


@dataclass(frozen=True)
class Columns:
    """The columns of every tensor of a battle, by the name of the tensor."""

    config: EnvConfig
    weights: Mapping[str, float]
    """Weight of each reward term, in their order."""

    def of(self, name: Name) -> tuple[Column, ...]:
        """The columns of a tensor, given its key without the group."""
        if name == ("observation",):
            return self.flat
        if name[0] == "observation":
            return self.streams[name[1]]
        return outcome_columns(self.config.catalog)[name[1]] if name[0] == "outcome" else self.others[name[0]]

    @cached_property
    def streams(self) -> dict[str, tuple[Column, ...]]:
        """Of actions, of every stream of a mech, and of the map."""
        named = layout.streams(self.config.comm_dim)
        columns = {stream: tuple(self._expanded(features)) for stream, features in named.items()}
        for grid in ("local_map", "telemetry"):
            # One column, as all cells mean the same.
            columns[grid] = tuple(one for feature in named[grid] for one in columns_of(feature._replace(width=1)))
        shown = Column("filled", "flag", 0.0, 1.0, (), "the row holds somebody")
        triggers = {
            column.name.lower(): of_triggers((trigger,), self.config) for trigger, column in TRIGGER_COLUMNS.items()
        }
        columns["action"] = switched(columns["action"], triggers)
        return {**columns, "contacts_mask": (shown,), "squad_mask": (shown,)}

    def _expanded(self, features: tuple[Feature, ...]) -> Iterator[Column]:
        """A column for each number of each feature."""
        cooldowns = {f"cooldown.{trigger.name.lower()}": of_cooldown(trigger, self.config) for trigger in Trigger}
        for feature in features:
            yield from switched(columns_of(feature), cooldowns)

    @property
    def flat(self) -> tuple[Column, ...]:
        """Of the vector that `FlatObservation` makes: all streams, one after the other."""
        side = layout.LOCAL_MAP_CELLS
        contacts, comrades = min(self.config.num_mechs - 1, layout.MAX_CONTACTS), self.config.squad_slots
        places: dict[str, list[str]] = {
            **{name: [f"{name}[{i}]" for i in range(contacts)] for name in ("contacts", "contacts_mask")},
            **{name: [f"{name}[{i}]" for i in range(comrades)] for name in ("squad", "squad_mask")},
            "ego": ["ego"],
            "comms": [f"comms[{i}]" for i in range(PACK_SIZE)],
            "local_map": [f"local_map[{ahead},{left}]" for ahead in range(side) for left in range(side)],
        }
        return tuple(
            replace(column, name=f"{place}.{column.name}")
            for name in STREAMS
            for place in places[name]
            for column in self.streams[name]
        )

    @property
    def discrete_action(self) -> tuple[Column, ...]:
        """Of an index of a composite action."""
        return (Column("action", "index", 0, len(ACTIONS) - 1, (), "which of echelon.env.views.discrete.ACTIONS"),)

    @property
    def others(self) -> dict[str, tuple[Column, ...]]:
        """Of what is neither an observation nor part of the outcome."""
        mechs = range(self.config.num_mechs)
        ego = self.streams["ego"]
        return {
            "action": self.streams["action"],
            "action_mask": tuple(
                Column(one.name, "flag", 0, 1, of_action_mask(one.triggers, self.config), "it can be carried out now")
                for one in ACTIONS
            ),
            "mask": (Column("alive", "flag", 0, 1, (), "when observed"),),
            "reward": (Column("reward", "reward", meaning="sum of the terms, after the mix within the team"),),
            "reward_terms": reward_columns(self.weights),
            "telemetry": self.streams["telemetry"],
            "state": tuple(replace(column, name=f"ego[{n}].{column.name}") for n in mechs for column in ego),
            "is_init": (Column("is_init", "flag", 0, 1, (), "the battle has just begun"),),
            **{name: (Column(name, "flag", 0, 1, (), ENDS[name]),) for name in DONE_KEYS},
        }


def columns_of(feature: Feature) -> Iterator[Column]:
    """A column for each number of a feature."""
    numbered = ("",) if feature.width == 1 else tuple(map(str, range(feature.width)))
    for part in feature.parts or numbered:
        switches = () if part in feature.unswitched else feature.switches
        name = f"{feature.name}.{part}" if part else feature.name
        yield Column(name, feature.unit, feature.low, feature.high, switches, feature.meaning)


def switched(columns: Iterable[Column], switches: Mapping[str, Switches]) -> tuple[Column, ...]:
    """The columns, those that are named here with these switches."""
    return tuple(replace(one, switches=switches.get(one.name, one.switches)) for one in columns)

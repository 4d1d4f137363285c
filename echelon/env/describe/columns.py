"""Description of an environment or a view: a `Column` for every column of its specs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import SimpleNamespace

import torch
from torchrl.data import Composite, MultiCategorical, TensorSpec

from echelon.env.describe.description import Column, Description, Kind, Leaf
from echelon.env.discrete import ACTIONS, COMPOSITES, CompositeAction, Factor, factors
from echelon.env.observation import layout
from echelon.env.observation.layout import COMMAND, GROUPS, Feature
from echelon.env.observation.stream import Stream
from echelon.env.observation.streams.registry import IN_ALL_BATTLES, OF_BATTLES, OF_COMMANDERS, OF_MECHS
from echelon.env.orders.commander_view import commanders_of
from echelon.env.outcome import BY_HULL, BY_WEAPON, OF_THE_TEAM, OWN
from echelon.env.reward import term_weights
from echelon.env.specs import DONE_KEYS, Specs
from echelon.rules import orders
from echelon.rules.actions import TRIGGER_COLUMNS
from echelon.rules.catalog import Catalog, Hull, Trigger
from echelon.rules.config import EnvConfig, FeaturesConfig
from echelon.rules.specs import WeaponSpec

SWITCH = SimpleNamespace(**{f.name: f.name for f in fields(FeaturesConfig)})
"""Names of the switches, the fields of `FeaturesConfig`."""
Switches = tuple[str, ...]


def of_weapon(spec: WeaponSpec) -> Switches:
    """Return the feature switches (fields of `FeaturesConfig`) that must be on for a weapon to fire."""
    clouds = (SWITCH.smoke,) if spec.effect == "cloud" else ()
    waits_for_focus = "target" in spec.needs and "focus" in spec.needs
    return (*clouds, *((SWITCH.target_preference,) if waits_for_focus else ()))


def of_triggers(triggers: Collection[Trigger], config: EnvConfig) -> Switches:
    """Return the feature switches that every weapon or emitter on these triggers needs, over all hulls of the
    battle."""
    names, catalog = {trigger.name.lower() for trigger in triggers}, config.catalog
    hulls = {*config.blue, *config.red}
    users = [
        of_weapon(spec) for spec in catalog.weapons.values() if any(spec.mounts.get(hull) in names for hull in hulls)
    ]
    emits = Trigger.SECONDARY in triggers and any(catalog.hulls[hull].ewar for hull in hulls)
    return common([*users, (SWITCH.ewar,)] if emits else users)


def of_option(option: CompositeAction, config: EnvConfig) -> Switches:
    """Return the feature switches that must be on for an option to be available in the action mask; masks of
    triggers ignore focus targets."""
    own = () if option.feature is None else (option.feature,)
    return (*own, *(switch for switch in of_triggers(option.triggers, config) if switch != SWITCH.target_preference))


def of_cooldown(trigger: Trigger, config: EnvConfig) -> Switches:
    """Return the feature switches that must be on for a trigger's cooldown to become nonzero, over all hulls of the
    battle.

    A cooldown stays 0 if no weapon on its timer ever fires.
    """
    name, catalog = trigger.name.lower(), config.catalog
    users = []
    for hull in sorted({*config.blue, *config.red}):
        carried = catalog.carried(hull).values()
        timers = {spec.timer for spec in carried if spec.mounts[hull] == name}
        users += [of_weapon(spec) for spec in carried if spec.timer in timers]
    return common(users)


def common(users: Iterable[Switches]) -> Switches:
    """Return the feature switches that every one of `users` (weapons and emitters) needs."""
    needed = list(users)
    return tuple(switch for switch in vars(SWITCH) if needed and all(switch in switches for switches in needed))


REWARD_MEANINGS = {
    "approach": "walking to the zone: gamma * phi' - phi, phi = - walking distance / longest side of the map",
    "zone": "each decision in the zone, times its team's zone tick",
    "damage": "hit points taken from enemies; in a contested zone times `contested_offence`",
    "kill": "an enemy killed; in a contested zone times `contested_offence`",
    "assist": "a packmate's kill of a target that it painted",
    "death": "its own death; in a contested zone times `contested_death`",
    "terminal": "end of a battle that terminates: win 1, loss -1, draw 0; dead mechs included",
}
STATISTICS: dict[str, tuple[str, str]] = {
    "damage": ("hp", "damage to enemies"),
    "kills": ("mechs", "enemies killed"),
    "team_kills": ("mechs", "own mechs killed"),
    "assists": ("mechs", "kills by packmates of targets that it painted"),
    "intercepts": ("shots", "destroyed by its AMS"),
    "shutdowns": ("times", "shutdowns by heat"),
    "vent_s": ("mech-seconds", "spent venting"),
    "zone_s": ("mech-seconds", "in the zone"),
    "bad_actions": ("numbers", "NaN or infinite numbers in its actions"),
    "deaths": ("mechs", "own mechs that died"),
    "knockdowns": ("times", "it knocked an enemy down"),
    "leggings": ("times", "it reduced leg hit points of an enemy to 0"),
    "paints": ("hits", "painter hits on enemies"),
    "assist_hp": ("hp", "maximum hit points of the targets of its assists"),
    "paint_damage": ("hp", "damage that its paint added for packmates"),
    "intercepted_damage": ("hp", "direct-hit damage of the shots that its AMS destroyed"),
    "shots": ("shots", "fired"),
    "hits": ("hits", "direct hits on enemies"),
}
"""Unit and meaning of each statistic, which is a sum over a team, one weapon or one class."""


def reward_columns(weights: Mapping[str, float]) -> tuple[Column, ...]:
    """Return a column for each reward term, given the weights of the terms."""
    mixed = "mixed with the team mean"
    return tuple(
        Column(name, "reward", meaning=f"{REWARD_MEANINGS.get(name, 'a term of the user')}; times {weight:g}, {mixed}")
        for name, weight in weights.items()
    )


def statistics_columns(catalog: Catalog) -> tuple[Column, ...]:
    """Return a column for each statistic in `outcome.stat_names`, in order; a statistic is a sum over a team."""

    def column(what: str, by: str = "", where: str = "", switches: Switches = ()) -> Column:
        unit, meaning = STATISTICS[what]
        return Column(f"{what}_{by}" if by else what, unit, 0.0, math.inf, switches, meaning + where)

    # A statistic that is always 0, such as the damage of a weapon without damage, needs no feature switch.
    by_weapon = (
        column(what, name, ", by this weapon", of_weapon(spec) if what == "shots" or spec.damage > 0 else ())
        for what in BY_WEAPON
        for name, spec in catalog.weapons.items()
    )
    classes = [hull.name.lower() for hull in Hull]
    by_hull = (column(what, kind, ", by mechs of this class") for what in BY_HULL for kind in classes)
    died = (column("deaths", kind, ", of this class") for kind in classes)
    return (*map(column, (*OWN, *OF_THE_TEAM)), *by_weapon, *by_hull, *died)


def outcome_columns(catalog: Catalog) -> dict[str, tuple[Column, ...]]:
    """Return the columns of each entry of `outcome`. In a running battle, the winner is -1 and all other entries are
    0."""
    return {
        "winner": (Column("winner", "", -1, 2, (), "-1 running, 0 draw, 1 blue, 2 red"),),
        "reason": (Column("reason", "", 0, 4, (), "0 running, 1 elimination, 2 zone, 3 time up, 4 objective"),),
        "score": tuple(
            Column(team, "s", 0.0, math.inf, (), "seconds of zone control, or the equivalent of an objective")
            for team in GROUPS
        ),
        "decisions": (Column("decisions", "decisions", 0, math.inf, (), "length of the battle"),),
        "idle_s": (Column("idle_s", "s", 0.0, math.inf, (), "time without damage or score at the end of the battle"),),
        "stats": statistics_columns(catalog),
        "won": (Column("won", "flag", 0, 1, (), "the commanded team won"),),
    }


Name = tuple[str, ...]
"""A key without its group."""
ENDS = {
    "done": "the battle ended in this decision",
    "terminated": "ended by elimination, zone or objective, or by time with `time_up_terminates`",
    "truncated": "ended by time",
}
SPECS: tuple[Kind, ...] = ("action", "observation", "reward", "done")
"""Kinds of specs that an environment has."""
MOVED: dict[str, Kind] = {"outcome": "outcome", "reward_terms": "reward"}
"""Entries of the observation spec of another kind: TorchRL treats every leaf of `reward_spec` as a separate reward."""


def axes_of(streams: Iterable[Stream], *prefix: str) -> dict[Name, tuple[str, ...]]:
    """Return the names of the axes after the mech axis, for each stream and its mask, by key."""
    axes: dict[Name, tuple[str, ...]] = {}
    for stream in streams:
        rows = tuple(axis.name for axis in stream.axes)
        axes[(*prefix, stream.name)] = rows if stream.is_grid else (*rows, "column")
        axes |= {(*prefix, name): rows for name in stream.names[1:]}
    return axes


TRAILING: dict[Name, tuple[str, ...]] = {
    **axes_of(OF_MECHS, "observation"),
    **axes_of(OF_COMMANDERS, "command", "observation"),
    **axes_of(OF_BATTLES),
    ("mask",): (),
    ("command", "mask"): (),
    ("outcome", "stats"): ("team", "column"),
}
"""Names of the axes after the batch and the mechs, by key; by default `column`."""


def describe_specs(
    specs: Mapping[Kind, Composite], groups: Collection[str], config: EnvConfig, weights: Mapping[str, float]
) -> Description:
    """Describe all leaves of `specs`.

    Args:
        specs: specs by kind.
        groups: names of the agent groups, which are the first part of keys.
        config: the battle configuration.
        weights: weight of each reward term.
    """
    columns, leaves = Columns(config, weights), []
    for kind, composite in specs.items():
        for path in composite.keys(include_nested=True, leaves_only=True):
            key = (path,) if isinstance(path, str) else tuple(path)
            name = key[1:] if len(key) > 1 and key[0] in groups else key
            if key[0] in COMMAND.values():
                name = ("command", *key[1:])
            if name[0] != "memory":
                leaves.append(leaf_of(key, name, kind, composite[path], columns))
    return Description(tuple(leaves), tuple(group for group in groups if any(leaf.key[0] == group for leaf in leaves)))


def leaf_of(key: Name, name: Name, kind: Kind, spec: TensorSpec, columns: Columns) -> Leaf:
    is_index = name == ("action",) and not spec.dtype.is_floating_point
    is_factored = isinstance(spec, MultiCategorical)
    trailing = () if is_index and not is_factored else TRAILING.get(name, ("column",))
    agent = "commander" if name[0] == "command" else "mech"
    leading = ("battle", agent)[: len(spec.shape) - len(trailing)]
    own = columns.factors if is_factored else columns.composites
    leaf_columns = own if is_index else columns.of(name, spec.shape[-1])
    return Leaf(key, MOVED.get(name[0], kind), tuple(spec.shape), (*leading, *trailing), str(spec.dtype), leaf_columns)


def describe_battle(config: EnvConfig) -> Description:
    """Return the description of `EchelonEnv(config)` with one battle, without generating its maps."""
    sizes = {"blue": len(config.blue), "red": len(config.red)}
    specs = Specs(config, sizes, Composite(), 1, torch.device("cpu"), has_commanders=True)
    by_kind = {kind: getattr(specs, kind)() for kind in SPECS}
    return describe_specs(by_kind, (*sizes, *commanders_of(config)), config, term_weights(config.reward))


@dataclass(frozen=True)
class Columns:
    """Provides the columns of every tensor of a battle by the tensor's name."""

    config: EnvConfig
    weights: Mapping[str, float]
    """Weight of each reward term, in order."""

    def of(self, name: Name, width: int) -> tuple[Column, ...]:
        """Return the columns of a tensor of this width, given its key without the group."""
        if name[0] == "command":
            return self.of_commander(name[-1], width)
        if name == ("observation",):
            return self.flat
        if name == ("action_mask",):
            return self.masks((COMPOSITES,) if width == len(ACTIONS) else factors(self.config.comm_dim))
        if name[0] == "observation":
            return self.streams[name[1]]
        return outcome_columns(self.config.catalog)[name[1]] if name[0] == "outcome" else self.others[name[0]]

    @cached_property
    def streams(self) -> dict[str, tuple[Column, ...]]:
        """Columns of actions, of every mech stream and of telemetry, by name."""
        comm_dim = self.config.comm_dim
        columns = {"action": tuple(self._expanded(layout.streams(comm_dim)["action"]))}
        for stream in (*OF_MECHS, *OF_BATTLES):
            columns[stream.name] = tuple(self._expanded(stream.last_axis(comm_dim)))
            columns |= {name: tuple(columns_of(stream.mask)) for name in stream.names[1:] if stream.mask}
        triggers = {
            column.name.lower(): of_triggers((trigger,), self.config) for trigger, column in TRIGGER_COLUMNS.items()
        }
        return {**columns, "action": switched(columns["action"], triggers)}

    @property
    def composites(self) -> tuple[Column, ...]:
        """The column of a discrete action."""
        return (Column("action", "index", 0, len(ACTIONS) - 1, (), "index into echelon.env.discrete.ACTIONS"),)

    @property
    def factors(self) -> tuple[Column, ...]:
        """Columns of a multi-discrete action."""
        return tuple(
            Column(factor.name, "index", 0, len(factor.options) - 1, (), ", ".join(one.name for one in factor.options))
            for factor in factors(self.config.comm_dim)
        )

    def masks(self, of: Iterable[Factor]) -> tuple[Column, ...]:
        """Return the columns of an action mask, one for each option of the given factors."""
        return tuple(
            Column(
                option.name if factor is COMPOSITES else f"{factor.name}.{option.name}",
                "flag",
                0,
                1,
                of_option(option, self.config),
                "this action is possible now",
            )
            for factor in of
            for option in factor.options
        )

    def of_commander(self, name: str, width: int) -> tuple[Column, ...]:
        """Return the columns of a commander's observation, reward or action."""
        if name == "mask":
            return (Column("alive", "flag", 0, 1, (), "its pack has living mechs"),)
        if name == "reward":
            return (Column("reward", "reward", meaning="mean reward of its team's mechs"),)
        masks = {mask: (stream.mask,) for stream in OF_COMMANDERS for mask in stream.names[1:] if stream.mask}
        features = {**layout.command_streams(width - orders.action_width(0)), **masks}[name]
        return tuple(column for feature in features for column in columns_of(feature))

    def _expanded(self, features: tuple[Feature, ...]) -> Iterator[Column]:
        """Yield a `Column` for each column of each feature."""
        cooldowns = {f"cooldown.{trigger.name.lower()}": of_cooldown(trigger, self.config) for trigger in Trigger}
        for feature in features:
            yield from switched(columns_of(feature), cooldowns)

    @property
    def flat(self) -> tuple[Column, ...]:
        """Columns of the vector made by `FlatObservation`: all streams, concatenated."""
        return tuple(
            replace(column, name=f"{name}{index}.{column.name}")
            for stream in IN_ALL_BATTLES
            for name in stream.names
            for index in indices(stream.rows(self.config))
            for column in self.streams[name]
        )

    @property
    def others(self) -> dict[str, tuple[Column, ...]]:
        """Columns of the tensors that are neither observations nor part of the outcome, by name."""
        mechs = range(self.config.num_mechs)
        ego = self.streams["ego"]
        return {
            "action": self.streams["action"],
            "mask": (Column("alive", "flag", 0, 1, (), "alive at the time of observation"),),
            "reward": (Column("reward", "reward", meaning="sum of the terms, after mixing within the team"),),
            "reward_terms": reward_columns(self.weights),
            "telemetry": self.streams["telemetry"],
            "state": tuple(replace(column, name=f"ego[{n}].{column.name}") for n in mechs for column in ego),
            "is_init": (Column("is_init", "flag", 0, 1, (), "the battle has just begun"),),
            **{name: (Column(name, "flag", 0, 1, (), ENDS[name]),) for name in DONE_KEYS},
        }


def indices(lengths: tuple[int, ...]) -> Iterator[str]:
    """Yield the index of each row of a stream as text, such as `[3]` or `[3,10]`; without rows, yield one empty
    text."""
    for index in itertools.product(*map(range, lengths)):
        yield f"[{','.join(map(str, index))}]" if index else ""


def columns_of(feature: Feature) -> Iterator[Column]:
    """Yield the columns of a feature."""
    numbered = ("",) if feature.width == 1 else tuple(map(str, range(feature.width)))
    for part in feature.parts or numbered:
        switches = () if part in feature.unswitched else feature.switches
        name = f"{feature.name}.{part}" if part else feature.name
        yield Column(name, feature.unit, feature.low, feature.high, switches, feature.meaning)


def switched(columns: Iterable[Column], switches: Mapping[str, Switches]) -> tuple[Column, ...]:
    """Return the columns; a column whose name is a key of `switches` gets the feature switches of that key."""
    return tuple(replace(column, switches=switches.get(column.name, column.switches)) for column in columns)

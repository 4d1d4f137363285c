"""The arrays of a replay file: their types and shapes, told by its header, and the range of their numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from echelon.env.observation.layout import MAX_CONTACTS, STREAMS
from echelon.replay.battle import NOBODY, OPTIONAL, TABLES, Battle, Condition, Fact, Met, Shown, Switch
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig
from echelon.rules.orders import Discipline, OrderField, OrderKind, action_width
from echelon.rules.roster import build_formation
from echelon.runtime.errors import quoted
from echelon.runtime.files import FileError, expect

Shape = tuple[int, ...]
Arrays = Mapping[str, np.ndarray]
Limits = tuple[int, int]
NAMES = tuple(field.name for field in fields(Battle) if field.name not in ("about", "observations", *OPTIONAL))
"""Arrays that every battle has; battle b keeps its array `pos` as the tensor `b/pos`."""
OBSERVATION = "observation_"
"""What the names of the arrays of `Battle.observations` begin with."""
FEW, MANY = 1 << 10, 1 << 16
"""Most numbers of a mech at a moment: in an array, and in an observation stream."""
KINDS = {
    **dict.fromkeys(("pos", "yaw", "hp", "leg_hp", "stability", "waypoints"), ("I16", "int16")),
    **dict.fromkeys(("heat", "facts", "triggers"), ("U16", "uint16")),
    **dict.fromkeys(("paint", "contact_facts", "lines", "ego", "control", "switches"), ("U8", "uint8")),
    **dict.fromkeys(("focus", "contacts", "messages", "moves"), ("I8", "int8")),
    **dict.fromkeys(("score", "rewards", "values", "orders", *TABLES), ("I32", "int32")),
    "commands": ("F32", "float32"),
}
"""Type of every array, as safetensors calls it and as NumPy does."""
SHOWN_AS = {"F16": "float16", "F32": "float32", "F64": "float64", "I64": "int64", "BOOL": "bool"}
SHOWN_AS |= dict(KINDS.values())
WHOLE = 2**31 - 1


@dataclass(frozen=True)
class Sizes:
    """What the settings of a battle and its number of moments say of its arrays."""

    config: EnvConfig
    moments: int
    ego: int
    """Columns of the ego stream."""
    waypoints: int

    @property
    def ticks(self) -> int:
        """Substeps that were played."""
        return (self.moments - 1) * self.config.rules.decision_repeat

    @property
    def packs(self) -> int:
        """Of both teams."""
        return max(build_formation(self.config).pack) + 1


def check_shapes(where: str, listed: Mapping[str, tuple[str, Shape]], config: EnvConfig, ego: int) -> Sizes:
    """Check the types and shapes of the arrays of one battle before any of them is read."""
    keys = {*NAMES, *(key for key in OPTIONAL if key in listed)}
    for key in listed.keys() - keys - {f"{OBSERVATION}{stream}" for stream in STREAMS}:
        raise FileError(f"{where}: unexpected array {key}")
    for key, (kind, known_as) in ((key, KINDS[key]) for key in KINDS if key in keys):
        got = listed.get(key)
        if got is None or got[0] != kind:
            raise FileError(
                f"{where}: {key} must be of {known_as}, got {'none' if got is None else SHOWN_AS.get(got[0], got[0])}"
            )
    moments = listed["yaw"][1][0] if listed["yaw"][1] else 0
    longest = config.rules.max_decisions + 1
    limit = f"of 1..{longest} moments, as long as a battle may last"
    expect(1 <= moments <= longest, f"{where}: yaw", limit, moments)
    sizes = Sizes(config, moments, ego, waypoints=(listed["waypoints"][1] or (0,))[0])
    for key, wanted in ((key, sides) for key, sides in shapes_of(sizes).items() if key in keys):
        got_shape = listed[key][1]
        fits = len(got_shape) == len(wanted) and all(
            side <= high if least is None else side == least
            for side, (least, high) in zip(got_shape, wanted, strict=False)
        )
        if not fits:
            sides = " x ".join(f"at most {high}" if least is None else f"{least}" for least, high in wanted)
            raise FileError(f"{where}: {key} must be of shape {sides}, got {quoted(got_shape)}")
    if listed["contacts"][1] != listed["contact_facts"][1]:
        raise FileError(f"{where}: contact_facts must be of the shape of contacts, got another")
    check_observations(where, listed, sizes)
    return sizes


def check_observations(where: str, listed: Mapping[str, tuple[str, Shape]], sizes: Sizes) -> None:
    """Check the types and shapes of whole observations, where a battle has them."""
    moments, mechs = sizes.moments, sizes.config.num_mechs
    for key in (key for key in listed if key.startswith(OBSERVATION)):
        kind, shape = listed[key]
        count = int(np.prod(shape[2:], dtype=np.float64))
        if kind not in ("F16", "BOOL") or shape[:2] != (moments, mechs) or count > MANY:
            limit = f"float16 or bool, of shape {moments} x {mechs} x at most {MANY} numbers"
            raise FileError(f"{where}: {key} must be of {limit}, got {SHOWN_AS.get(kind, kind)} of {quoted(shape)}")


def shapes_of(sizes: Sizes) -> dict[str, list[tuple[int | None, int]]]:
    """The sides of every array: `(n, n)` for n, `(None, n)` for at most n."""
    config = sizes.config
    count = config.num_mechs
    pairs, shots = sizes.ticks * count * count, sizes.ticks * count * len(config.catalog.weapons)
    rows = {
        **{
            "harms": pairs * len(config.catalog.weapons),
            "deaths": count,
            "conditions": sizes.ticks * count * len(Condition),
        },
        **{"beams": shots, "flights": shots, "clouds": shots},
        "voxels": sizes.ticks * FEW * count,
    }
    per_moment = {
        **{"pos": (3,), "ego": (sizes.ego,), "messages": (config.comm_dim,), "lines": (-(-count // 8),), "moves": (4,)},
        **dict.fromkeys(("yaw", "hp", "leg_hp", "heat", "stability", "facts", "paint", "focus"), ()),
        **dict.fromkeys(("triggers", "switches"), ()),
    }
    exact = {key: (sizes.moments, count, *sides) for key, sides in per_moment.items()}
    exact |= dict.fromkeys(("score", "control", "rewards", "values"), (sizes.moments, 2))
    exact["orders"] = (sizes.moments, count, len(OrderField))
    num_orders = -(-(sizes.moments - 1) // config.command.period)
    exact["commands"] = (num_orders, sizes.packs, action_width(max(len(config.blue), len(config.red))))
    shapes: dict[str, list[tuple[int | None, int]]] = {
        key: [(side, side) for side in sides] for key, sides in exact.items()
    }
    contacts = [(sizes.moments, sizes.moments), (count, count), (None, MAX_CONTACTS)]
    shapes |= {"contacts": list(contacts), "contact_facts": list(contacts)}
    shapes |= {key: [(None, rows[key]), (len(columns), len(columns))] for key, columns in TABLES.items()}
    return {**shapes, "waypoints": [(None, shots * FEW), (3, 3)]}


def check_numbers(where: str, arrays: Arrays, sizes: Sizes) -> None:
    """Check that every number of one battle is within its range, so that whoever draws it may use it as an index."""
    config = sizes.config
    mechs, packs = config.num_mechs, sizes.packs
    bits = {"facts": sum(Fact), "contact_facts": sum(Shown), "paint": 2**packs - 1}
    bits |= {"triggers": 2 ** len(config.catalog.weapons) - 1, "switches": sum(Switch)}
    for key in ("focus", "contacts"):
        check_range(where, key, arrays[key], (NOBODY, mechs - 1))
    for key, all_set in bits.items():
        check_range(where, key, arrays[key], (0, all_set))
    if "orders" in arrays:
        check_orders(where, arrays["orders"], sizes)
    if "commands" in arrays:
        check_range(where, "commands", arrays["commands"], (-1, 1))
    for key, columns in TABLES.items():
        limits = columns_of(key, sizes)
        for number, column in enumerate(columns):
            check_range(where, f"{key}.{column}", arrays[key][:, number], limits[column])
        if (np.diff(arrays[key][:, 0]) < 0).any():
            raise FileError(f"{where}: {key} must be ordered by {columns[0]}")
    flights, clouds = arrays["flights"].astype(np.int64), arrays["clouds"]
    ends = flights[:, 7] + flights[:, 8]
    if (ends > sizes.waypoints).any():
        raise FileError(f"{where}: flights must go by {sizes.waypoints} waypoints, got {ends.max()}")
    if (flights[:, 1] < flights[:, 0]).any() or (clouds[:, 1] < clouds[:, 0]).any():
        raise FileError(f"{where}: flights and clouds must end after they begin")
    for key in (key for key in arrays if key.startswith(OBSERVATION)):
        if not np.isfinite(arrays[key]).all():
            raise FileError(f"{where}: {key} must be finite, got NaN or infinity")


def check_orders(where: str, orders: np.ndarray, sizes: Sizes) -> None:
    """Check what mechs were told, `Battle.orders`."""
    limits = {
        OrderField.KIND: (0, max(OrderKind)),
        OrderField.TARGET: (NOBODY, sizes.config.num_mechs - 1),
        OrderField.DISCIPLINE: (0, max(Discipline)),
        OrderField.ISSUED: (-1, sizes.ticks),
    }
    for column, allowed in limits.items():
        check_range(where, f"orders.{column.name.lower()}", orders[..., column], allowed)


def check_range(where: str, key: str, array: np.ndarray, limits: Limits) -> None:
    """Refuse numbers below the first or above the second of the limits."""
    low, high = limits
    if array.size and not low <= array.min() <= array.max() <= high:
        raise FileError(f"{where}: {key} must be {low}..{high}, got {array.min()}..{array.max()}")


def columns_of(key: str, sizes: Sizes) -> dict[str, Limits]:
    """The range of each column of an event table."""
    config = sizes.config
    world, coordinate = config.world, (-(2**15), 2**15 - 1)
    tick, mech, mech_or_none = (0, sizes.ticks - 1), (0, config.num_mechs - 1), (NOBODY, config.num_mechs - 1)
    weapon, points = (0, len(config.catalog.weapons) - 1), (0, WHOLE)
    points_xyz = {f"{axis}{end}": coordinate for axis in "xyz" for end in ("", "0", "1")}
    integers = {"damage": points, "first": points, "points": (1, WHOLE), "met": (0, max(Met)), "weapon": weapon}
    by_name: dict[str, Limits] = {
        **{name: tick for name in ("launch_tick", "end_tick", "tick")},
        **{name: mech for name in ("shooter", "target", "victim", "owner", "mech")},
        **{name: mech_or_none for name in ("lock", "killer", "by")},
        "condition": (0, max(Condition)),
        **points_xyz,
        **integers,
    }
    special: dict[str, dict[str, Limits]] = {
        "flights": {"victim": mech_or_none},
        "deaths": {"weapon": (NOBODY, weapon[1])},
        "harms": {"weapon": (NOBODY, weapon[1])},
        # Smoke may hang on when the battle has ended.
        "clouds": {"tick": (-1, sizes.ticks - 1), "end_tick": points},
        "voxels": {
            "decision": (0, sizes.moments - 2),
            **{"x": (0, world.size_x - 1), "y": (0, world.size_y - 1), "z": (0, world.size_z - 1)},
            "material": (0, len(Material) - 1),
        },
    }
    return {**by_name, **special.get(key, {})}

"""Replay files: one safetensors file, whose metadata has the other data of the battles as JSON.

Types and shapes are checked in the header before arrays are read; then the range of all numbers is checked.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.numpy

from echelon.env.observation.layout import MAX_CONTACTS, STREAMS
from echelon.env.outcome import Reason, Winner
from echelon.replay.battle import (
    NO_INDEX,
    OPTIONAL,
    RECORD,
    TABLES,
    Battle,
    Condition,
    Fact,
    FlightEnd,
    Replay,
    Shown,
    Switch,
)
from echelon.replay.ground import POSITION
from echelon.rules.catalog import Hull, Material, Trigger
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.orders import Discipline, OrderField, OrderKind, action_width
from echelon.rules.roster import build_formation
from echelon.rules.specs import CLASSES, COLOUR, EFFECTS, LOOKS
from echelon.rules.versions import stored_versions
from echelon.runtime import json_checks as checks
from echelon.runtime import version
from echelon.runtime.errors import quoted
from echelon.runtime.files import FileError, as_file_error, expect, parse_json, write_whole
from echelon.runtime.tensor_files import Header, read_tensors
from echelon.world.pool import RECIPE_FIELDS, recipe_from_json

Shape = tuple[int, ...]
Arrays = Mapping[str, np.ndarray]
Limits = tuple[int, int]
NAMES = tuple(field.name for field in fields(Battle) if field.name not in ("about", "observations", *OPTIONAL))
"""Arrays of every battle; battle b stores its array `pos` as the tensor `b/pos`."""
OBSERVATION = "observation_"
"""Prefix of the names of the arrays in `Battle.observations`."""
FEW, MANY = 1 << 10, 1 << 16
"""Maximum numbers per mech and moment: in an array, and in an observation stream."""
KINDS = {
    **dict.fromkeys(("pos", "yaw", "hp", "leg_hp", "stability", "waypoints"), ("I16", "int16")),
    **dict.fromkeys(("heat", "facts", "triggers"), ("U16", "uint16")),
    **dict.fromkeys(("paint", "contact_facts", "lines", "ego", "control", "switches"), ("U8", "uint8")),
    **dict.fromkeys(("focus", "contacts", "messages", "moves"), ("I8", "int8")),
    **dict.fromkeys(("score", "rewards", "values", "orders", *TABLES), ("I32", "int32")),
    "commands": ("F32", "float32"),
}
"""Type of every array, as named by safetensors and by NumPy."""
SHOWN_AS = {"F16": "float16", "F32": "float32", "F64": "float64", "I64": "int64", "BOOL": "bool"}
SHOWN_AS |= dict(KINDS.values())
WHOLE = 2**31 - 1


@dataclass(frozen=True)
class Sizes:
    """Sizes of a battle's arrays, which follow from its settings and its number of moments."""

    config: EnvConfig
    moments: int
    ego: int
    """Number of columns of the ego stream."""
    waypoints: int

    @property
    def ticks(self) -> int:
        """Number of substeps."""
        return (self.moments - 1) * self.config.rules.decision_repeat

    @property
    def packs(self) -> int:
        """Number of packs in both teams."""
        return max(build_formation(self.config).pack) + 1


def check_shapes(where: str, listed: Mapping[str, tuple[str, Shape]], config: EnvConfig, ego: int) -> Sizes:
    """Check types and shapes of one battle's arrays, before any array is read."""
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
    limit = f"of 1..{longest} moments, the longest battle"
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
        raise FileError(f"{where}: contact_facts must be of the shape of contacts, got another shape")
    check_observations(where, listed, sizes)
    return sizes


def check_observations(where: str, listed: Mapping[str, tuple[str, Shape]], sizes: Sizes) -> None:
    """Check types and shapes of the recorded observations, if the battle has any."""
    moments, mechs = sizes.moments, sizes.config.num_mechs
    for key in (key for key in listed if key.startswith(OBSERVATION)):
        kind, shape = listed[key]
        count = int(np.prod(shape[2:], dtype=np.float64))
        if kind not in ("F16", "BOOL") or shape[:2] != (moments, mechs) or count > MANY:
            limit = f"float16 or bool, of shape {moments} x {mechs} x at most {MANY} numbers"
            raise FileError(f"{where}: {key} must be of {limit}, got {SHOWN_AS.get(kind, kind)} of {quoted(shape)}")


def shapes_of(sizes: Sizes) -> dict[str, list[tuple[int | None, int]]]:
    """Return the allowed size of each array dimension, where `(n, n)` means exactly n and `(None, n)` at most n."""
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
    """Check the range of every number of one battle, because drawing code uses the numbers as indices."""
    config = sizes.config
    mechs, packs = config.num_mechs, sizes.packs
    bits = {"facts": sum(Fact), "contact_facts": sum(Shown), "paint": 2**packs - 1}
    bits |= {"triggers": 2 ** len(config.catalog.weapons) - 1, "switches": sum(Switch)}
    for key in ("focus", "contacts"):
        check_range(where, key, arrays[key], (NO_INDEX, mechs - 1))
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
            raise FileError(f"{where}: {key} must be sorted by {columns[0]}")
    flights, clouds = arrays["flights"].astype(np.int64), arrays["clouds"]
    ends = flights[:, 7] + flights[:, 8]
    if (ends > sizes.waypoints).any():
        raise FileError(f"{where}: flights must use at most {sizes.waypoints} waypoints, got {ends.max()}")
    if (flights[:, 1] < flights[:, 0]).any() or (clouds[:, 1] < clouds[:, 0]).any():
        raise FileError(f"{where}: flights and clouds must end after they begin")
    for key in (key for key in arrays if key.startswith(OBSERVATION)):
        if not np.isfinite(arrays[key]).all():
            raise FileError(f"{where}: {key} must be finite, got NaN or infinity")


def check_orders(where: str, orders: np.ndarray, sizes: Sizes) -> None:
    """Check the values of `Battle.orders`, the last order that each mech received."""
    limits = {
        OrderField.KIND: (0, max(OrderKind)),
        OrderField.TARGET: (NO_INDEX, sizes.config.num_mechs - 1),
        OrderField.DISCIPLINE: (0, max(Discipline)),
        OrderField.ISSUED: (-1, sizes.ticks),
    }
    for column, allowed in limits.items():
        check_range(where, f"orders.{column.name.lower()}", orders[..., column], allowed)


def check_range(where: str, key: str, array: np.ndarray, limits: Limits) -> None:
    """Raise `FileError` if a number is outside `limits`, a pair of the lowest and the highest value."""
    low, high = limits
    if array.size and not low <= array.min() <= array.max() <= high:
        raise FileError(f"{where}: {key} must be {low}..{high}, got {array.min()}..{array.max()}")


def columns_of(key: str, sizes: Sizes) -> dict[str, Limits]:
    """Return the allowed range of each column of an event table."""
    config = sizes.config
    world, coordinate = config.world, (-(2**15), 2**15 - 1)
    tick, mech, mech_or_none = (0, sizes.ticks - 1), (0, config.num_mechs - 1), (NO_INDEX, config.num_mechs - 1)
    weapon, points = (0, len(config.catalog.weapons) - 1), (0, WHOLE)
    points_xyz = {f"{axis}{end}": coordinate for axis in "xyz" for end in ("", "0", "1")}
    integers = {"damage": points, "first": points, "points": (1, WHOLE), "met": (0, max(FlightEnd)), "weapon": weapon}
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
        "deaths": {"weapon": (NO_INDEX, weapon[1])},
        "harms": {"weapon": (NO_INDEX, weapon[1])},
        # A smoke cloud may end after the battle, so `end_tick` has a larger limit than `tick`.
        "clouds": {"tick": (-1, sizes.ticks - 1), "end_tick": points},
        "voxels": {
            "decision": (0, sizes.moments - 2),
            **{"x": (0, world.size_x - 1), "y": (0, world.size_y - 1), "z": (0, world.size_z - 1)},
            "material": (0, len(Material) - 1),
        },
    }
    return {**by_name, **special.get(key, {})}


SCHEMA, VERSION = "echelon-replay", 1
HASH = "claims_sha256"
"""Metadata key of the sha256 of all other metadata."""
MOST_BATTLES = 1024
LONGEST_COMMANDER = 4096
"""Maximum length of a commander's name, which may be the path of a checkpoint."""
WORD, POINTS = checks.text(64), checks.number(1e-3, 1e6)


def anything(where: str, value: Any) -> None:
    """Accept any value; another check validates it."""


ENVELOPE = checks.record(
    {
        **{
            "schema": checks.exactly(SCHEMA),
            "version": checks.exactly(VERSION),
            "written_by": WORD,
            "sha256": checks.SHA256,
            HASH: checks.SHA256,
        },
        **{"replay": checks.OBJECT, "battles": checks.listed(anything, 1, MOST_BATTLES)},
    }
)
"""Checks of all metadata."""

WEAPON = checks.record(
    {
        **{"range_vox": checks.number(0, 1e6), "arc_deg": checks.number(0, 360)},
        **{"effect": checks.one_of(EFFECTS), "look": checks.one_of(LOOKS)},
        "colour": checks.matching(f"({COLOUR.pattern})?", "#rrggbb in small letters"),
        **dict.fromkeys(("damage", "self_heat", "target_heat"), checks.number(0, 1e6)),
    }
)
"""Checks of a weapon's data."""


def signed(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata with the additional key `HASH`, its sha256."""
    return {**metadata, HASH: metadata_digest(metadata)}


def metadata_digest(metadata: dict[str, Any]) -> str:
    """Return the sha256 of the metadata as JSON, without the key `HASH`."""
    unhashed = {name: value for name, value in metadata.items() if name != HASH}
    return hashlib.sha256(json.dumps(unhashed, sort_keys=True).encode()).hexdigest()


def check_metadata(name: str, metadata: Any) -> EnvConfig:
    """Check all metadata of a replay, and return the environment config of its battles."""
    checks.check_schema(name, metadata, SCHEMA, VERSION)
    checks.OBJECT(f"{name}: replay", metadata.get("replay"))
    env = metadata["replay"].get("env")
    checks.OBJECT(f"{name}: replay.env", env)
    with as_file_error(name):
        # Check the versions first, because all other fields may differ in a file of another version.
        stored_versions(env, "env")
        ENVELOPE(name, metadata)
        if metadata[HASH] != metadata_digest(metadata):
            raise FileError(
                f"{name}: {HASH} mismatch: expected {quoted(metadata[HASH])}, got {metadata_digest(metadata)}"
            )
        config = env_from_json(env)
        checks.listed(battle_check(config), 1, MOST_BATTLES)(f"{name}: battles", metadata["battles"])
    rules, world, count = config.rules, config.world, len(config.blue)
    checks.record(
        {
            "record": checks.exactly(RECORD),
            "env": anything,
            "dt_s": checks.exactly(rules.dt_s),
            "decision_repeat": checks.exactly(rules.decision_repeat),
            "size": checks.exactly([world.size_x, world.size_y, world.size_z]),
            "teams": checks.exactly({"blue": [0, count], "red": [count, config.num_mechs]}),
            "mechs": checks.row(*(mech_check(n, config) for n in range(config.num_mechs))),
            "hulls": checks.exactly([hull.name.lower() for hull in Hull]),
            "weapons": checks.exactly(list(config.catalog.weapons)),
            "materials": checks.exactly([material.name.lower() for material in Material]),
            "weapon_specs": checks.record(dict.fromkeys(config.catalog.weapons, WEAPON)),
            "ego": checks.listed(check_feature, 1, 256),
            "stability_cap": POINTS,
            "zone_score_to_win_s": POINTS,
            "sight_range_vox": POINTS,
            "cloud_vox": checks.number(0, 1e3),
        }
    )(f"{name}: replay", metadata["replay"])
    return config


def mech_check(n: int, config: EnvConfig) -> checks.Check:
    formation, catalog = build_formation(config), config.catalog
    return checks.record(
        {
            "hull": checks.exactly(formation.hulls[n]),
            "class": checks.one_of(CLASSES),
            "team": checks.exactly("red" if formation.is_red[n] else "blue"),
            "pack": checks.exactly(formation.pack[n]),
            "size": checks.listed(checks.number(1e-3, 100), 3, 3),
            "hp": POINTS,
            "leg_hp": POINTS,
            "heat_cap": POINTS,
            "suite": WORD,
            "squad": checks.listed(checks.integer(0, config.num_mechs - 1), 0, config.num_mechs),
            "squad_detail": checks.integer(0, 100),
            "sees_engaged": checks.FLAG,
            "weapons": checks.listed(checks.one_of(catalog.weapons), 0, len(catalog.weapons)),
            "cooldowns": checks.listed(WORD, 1, len(Trigger) + 1),
        }
    )


def check_feature(where: str, value: Any) -> None:
    """Check a feature of the ego stream (a mech's own condition): name, number of columns, lowest and highest value."""
    checks.row(WORD, checks.integer(1, 256), checks.number(-1e6, 1e6), checks.number(-1e6, 1e6))(where, value)
    expect(value[2] < value[3], where, "a range from low to high", value)


def battle_check(config: EnvConfig) -> checks.Check:
    world, pair = config.world, checks.row(checks.number(-1e12, 1e12), checks.number(-1e12, 1e12))
    return checks.record(
        {
            "blue": checks.text(LONGEST_COMMANDER),
            "red": checks.text(LONGEST_COMMANDER),
            "seed": checks.integer(-(2**63), 2**63 - 1),
            "map": map_check(config),
            "zone": checks.row(
                checks.number(0, world.size_x), checks.number(0, world.size_y), checks.number(0.1, world.longest_side)
            ),
            "outcome": checks.record(
                {
                    "winner": checks.one_of([winner.name.lower() for winner in Winner]),
                    "reason": checks.one_of([reason.name.lower() for reason in Reason]),
                    "score": pair,
                    "stats": checks.table(pair, 1024, WORD),
                }
            ),
        }
    )


def map_check(config: EnvConfig) -> checks.Check:
    """Return the check for a battle's `map`, which is a recipe or the index of a position in the config."""
    if config.positions:
        return checks.record({POSITION: checks.integer(0, len(config.positions) - 1)})
    return check_recipe


def check_recipe(where: str, value: Any) -> None:
    """Check a map recipe."""
    checks.record(dict.fromkeys(RECIPE_FIELDS, anything))(where, value)
    recipe_from_json(value)


T = TypeVar("T")
METADATA = "claims"
"""Metadata key of the JSON object that describes the battles."""


def save(replay: Replay, path: Path | str) -> None:
    """Write a replay file atomically.

    Args:
        replay: the replay.
        path: the file.

    Raises:
        FileError: if the file cannot be written.
    """
    tensors = {
        f"{b}/{name}": np.ascontiguousarray(array)
        for b, battle in enumerate(replay.battles)
        for name, array in arrays_of(battle).items()
    }
    metadata = {
        "schema": SCHEMA,
        "version": VERSION,
        "written_by": version.VERSION,
        "sha256": digest(tensors),
        "replay": replay.about,
        "battles": [battle.about for battle in replay.battles],
    }
    # Store the metadata as one entry, because safetensors writes several entries in arbitrary order.
    write_whole(Path(path), safetensors.numpy.save(tensors, {METADATA: json.dumps(signed(metadata))}))


def arrays_of(battle: Battle) -> dict[str, np.ndarray]:
    """Return every array of a battle, keyed by its name in a file."""
    arrays = {name: getattr(battle, name) for name in NAMES}
    arrays |= {name: array for name in OPTIONAL if (array := getattr(battle, name)) is not None}
    return {**arrays, **{f"{OBSERVATION}{name}": array for name, array in battle.observations.items()}}


def digest(tensors: dict[str, np.ndarray]) -> str:
    """Return the sha256 of the tensors, in the order of their names."""
    sha256 = hashlib.sha256()
    for name in sorted(tensors):
        sha256.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        sha256.update(tensors[name].tobytes())
    return sha256.hexdigest()


def read(path: Path | str) -> Replay:
    """Read a replay and check all of it: first the metadata and shapes, then the numbers.

    Args:
        path: the file.

    Returns:
        The replay.

    Raises:
        FileError: if the file cannot be read, or its content is invalid.
    """
    path = Path(path)
    name, parsed = path.name, list[tuple[dict[str, Any], list[Sizes]]]()
    # The header is checked before the arrays are read.
    tensors, _ = read_tensors(path, check=lambda header: parsed.append(contents_of(name, header)))
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
    ((metadata, all_sizes),), found_hash = parsed, digest(arrays)
    if found_hash != metadata["sha256"]:
        raise FileError(f"{name}: sha256 mismatch: expected {quoted(metadata['sha256'])}, got {found_hash}")
    battles = []
    for b, sizes in enumerate(all_sizes):
        battle_arrays = of_battle(b, arrays)
        check_numbers(f"{name}: battle {b}", battle_arrays, sizes)
        streams = {
            key.removeprefix(OBSERVATION): battle_arrays[key] for key in battle_arrays if key.startswith(OBSERVATION)
        }
        about = metadata["battles"][b]
        fields = {key: battle_arrays[key] for key in (*NAMES, *OPTIONAL) if key in battle_arrays}
        battles.append(Battle(about, **fields, observations=streams))
    return Replay(metadata["replay"], battles)


def contents_of(name: str, header: Header) -> tuple[dict[str, Any], list[Sizes]]:
    """Check the header of a replay file; return its metadata and the array sizes of each battle.

    The file must contain exactly the arrays of the battles that its metadata lists.
    """
    metadata = parse_json(name, header.metadata.get(METADATA, "{}").encode())
    config = check_metadata(name, metadata)
    count, ego = len(metadata["battles"]), sum(feature[1] for feature in metadata["replay"]["ego"])
    numbers = {str(number) for number in range(count)}
    for key in header.tensors:
        if key.partition("/")[0] not in numbers:
            raise FileError(f"{name}: tensor {key} must belong to one of {count} battles")
    by_battle = [of_battle(number, header.tensors) for number in range(count)]
    return metadata, [
        check_shapes(f"{name}: battle {number}", tensors, config, ego) for number, tensors in enumerate(by_battle)
    ]


def of_battle(number: int, values: Mapping[str, T]) -> dict[str, T]:
    start = f"{number}/"
    return {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}

"""Replays as one file: safetensors, with what is said of the battles as JSON in its metadata."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.numpy

from echelon.env.outcome import Reason, Winner
from echelon.replay.arrays import NAMES, OBSERVATION, Sizes, check_numbers, check_shapes
from echelon.replay.battle import OPTIONAL, RECORD, Battle, Replay
from echelon.replay.ground import POSITION
from echelon.rules.catalog import Hull, Material, Trigger
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.roster import build_formation
from echelon.rules.specs import CLASSES, COLOUR, EFFECTS, LOOKS
from echelon.rules.versions import stored_versions
from echelon.runtime import json_checks as checks
from echelon.runtime import version
from echelon.runtime.errors import quoted
from echelon.runtime.files import FileError, as_file_error, expect, parse_json, write_whole
from echelon.runtime.tensor_files import Header, read_tensors
from echelon.world.pool import RECIPE_FIELDS, recipe_from_json

SCHEMA, VERSION = "echelon-replay", 1
HASH = "claims_sha256"
"""The claim that is the sha256 of all others."""
MOST_BATTLES = 1024
LONGEST_COMMANDER = 4096
"""Letters of a commander's name, which may be the path of a checkpoint."""
WORD, POINTS = checks.text(64), checks.number(1e-3, 1e6)


def anything(where: str, value: Any) -> None:
    """What is checked elsewhere."""


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
"""Every claim."""

WEAPON = checks.record(
    {
        **{"range_vox": checks.number(0, 1e6), "arc_deg": checks.number(0, 360)},
        **{"effect": checks.one_of(EFFECTS), "look": checks.one_of(LOOKS)},
        "colour": checks.matching(f"({COLOUR.pattern})?", "#rrggbb in small letters"),
        **dict.fromkeys(("damage", "self_heat", "target_heat"), checks.number(0, 1e6)),
    }
)
"""What is told of a weapon."""


def signed(claims: dict[str, Any]) -> dict[str, Any]:
    """Claims with their own hash."""
    return {**claims, HASH: claims_digest(claims)}


def claims_digest(claims: dict[str, Any]) -> str:
    """sha256 of claims as JSON, but for the hash among them."""
    unhashed = {name: value for name, value in claims.items() if name != HASH}
    return hashlib.sha256(json.dumps(unhashed, sort_keys=True).encode()).hexdigest()


def check_claims(name: str, claims: Any) -> EnvConfig:
    """Check all that a replay says, and return the settings of its battles."""
    checks.check_schema(name, claims, SCHEMA, VERSION)
    checks.OBJECT(f"{name}: replay", claims.get("replay"))
    env = claims["replay"].get("env")
    checks.OBJECT(f"{name}: replay.env", env)
    with as_file_error(name):
        stored_versions(env, "env")  # First, as all that follows may be otherwise in another version's file.
        ENVELOPE(name, claims)
        if claims[HASH] != claims_digest(claims):
            raise FileError(f"{name}: {HASH} mismatch: expected {quoted(claims[HASH])}, got {claims_digest(claims)}")
        config = env_from_json(env)
        checks.listed(battle_check(config), 1, MOST_BATTLES)(f"{name}: battles", claims["battles"])
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
    )(f"{name}: replay", claims["replay"])
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
    """Columns of the ego stream: a name, how many, and their range."""
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
    """What ground can be made from: a recipe, or which of the config's positions it is."""
    if config.positions:
        return checks.record({POSITION: checks.integer(0, len(config.positions) - 1)})
    return check_recipe


def check_recipe(where: str, value: Any) -> None:
    """What a map can be made from."""
    checks.record(dict.fromkeys(RECIPE_FIELDS, anything))(where, value)
    recipe_from_json(value)


T = TypeVar("T")
CLAIMS = "claims"
"""The entry of the metadata that says everything but the numbers, as JSON."""


def save(replay: Replay, path: Path) -> None:
    """Write a replay, whole or not at all.

    Raises:
        FileError: it cannot be written.
    """
    tensors = {
        f"{b}/{name}": np.ascontiguousarray(array)
        for b, battle in enumerate(replay.battles)
        for name, array in arrays_of(battle).items()
    }
    claims = {
        "schema": SCHEMA,
        "version": VERSION,
        "written_by": version.VERSION,
        "sha256": digest(tensors),
        "replay": replay.about,
        "battles": [battle.about for battle in replay.battles],
    }
    # One entry, because safetensors writes several in any order.
    write_whole(path, safetensors.numpy.save(tensors, {CLAIMS: json.dumps(signed(claims))}))


def arrays_of(battle: Battle) -> dict[str, np.ndarray]:
    """Every array of a battle by name, as a file keeps it."""
    arrays = {name: getattr(battle, name) for name in NAMES}
    arrays |= {name: array for name in OPTIONAL if (array := getattr(battle, name)) is not None}
    return {**arrays, **{f"{OBSERVATION}{name}": array for name, array in battle.observations.items()}}


def digest(tensors: dict[str, np.ndarray]) -> str:
    """sha256 over the tensors in the order of their names."""
    sha256 = hashlib.sha256()
    for name in sorted(tensors):
        sha256.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        sha256.update(tensors[name].tobytes())
    return sha256.hexdigest()


def read(path: Path) -> Replay:
    """Read a replay and check all of it: first what it says and the shapes of its arrays, then their numbers.

    Raises:
        FileError: it cannot be read, or something in it cannot be.
    """
    name, parsed = path.name, list[tuple[dict[str, Any], list[Sizes]]]()
    # Checked before the body is read.
    tensors, _ = read_tensors(path, check=lambda header: parsed.append(contents_of(name, header)))
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
    ((claims, all_sizes),), found_hash = parsed, digest(arrays)
    if found_hash != claims["sha256"]:
        raise FileError(f"{name}: sha256 mismatch: expected {quoted(claims['sha256'])}, got {found_hash}")
    battles = []
    for b, sizes in enumerate(all_sizes):
        battle_arrays = of_battle(b, arrays)
        check_numbers(f"{name}: battle {b}", battle_arrays, sizes)
        streams = {
            key.removeprefix(OBSERVATION): battle_arrays[key] for key in battle_arrays if key.startswith(OBSERVATION)
        }
        about = claims["battles"][b]
        fields = {key: battle_arrays[key] for key in (*NAMES, *OPTIONAL) if key in battle_arrays}
        battles.append(Battle(about, **fields, observations=streams))
    return Replay(claims["replay"], battles)


def contents_of(name: str, header: Header) -> tuple[dict[str, Any], list[Sizes]]:
    """What the header of a replay file says, and the sizes of each battle: it holds the arrays of the battles that its
    claims name and no others."""
    claims = parse_json(name, header.metadata.get(CLAIMS, "{}").encode())
    config = check_claims(name, claims)
    count, ego = len(claims["battles"]), sum(feature[1] for feature in claims["replay"]["ego"])
    numbers = {str(number) for number in range(count)}
    for key in header.tensors:
        if key.partition("/")[0] not in numbers:
            raise FileError(f"{name}: tensor {key} must be one of {count} battles'")
    by_battle = [of_battle(number, header.tensors) for number in range(count)]
    return claims, [
        check_shapes(f"{name}: battle {number}", tensors, config, ego) for number, tensors in enumerate(by_battle)
    ]


def of_battle(number: int, values: Mapping[str, T]) -> dict[str, T]:
    start = f"{number}/"
    return {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}

"""Rewrites files of older versions in the current format. Reading them does not require a conversion."""

from __future__ import annotations

from pathlib import Path

from echelon.league import import_export as trade
from echelon.league.config import LeagueConfig
from echelon.league.store import FILE, Store
from echelon.learn.checkpoint.files import checkpoints_in
from echelon.learn.checkpoint.format import CLAIMS, open_checkpoint
from echelon.learn.models.registry import model_to_json
from echelon.replay import file as replay_file
from echelon.rules.config import as_json, env_from_json, from_json
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError, json_bytes, parse_json, read_file, write_whole
from echelon.runtime.version import VERSION


def convert(path: Path) -> list[str]:
    """Rewrite a checkpoint, the checkpoints of a run, a league, an exported league or a replay, in place.

    Afterwards the file holds every setting under its current name, with the value that the old file implied. Weights
    are not changed, because a league identifies its entries by their hashes.

    Args:
        path: the file or folder.

    Returns:
        A line per rewritten file.

    Raises:
        FileError: if it is none of these, or cannot be read.
    """
    try:
        if (path / CLAIMS).is_file():
            return [convert_checkpoint(path)]
        if (path / "checkpoints").is_dir():
            return [convert_checkpoint(found) for found in checkpoints_in(path / "checkpoints")]
        if (path / FILE).is_file():
            return convert_league(path)
        if path.suffix == ".json" and path.is_file():
            return convert_export(path)
        if path.is_file():
            return [convert_replay(path)]
    except ConfigError as error:
        raise FileError(f"{path}: {error}") from None
    raise FileError(f"{path}: expected a checkpoint, a run, a league, a league's .json or a replay, found none")


def convert_checkpoint(path: Path) -> str:
    """Rewrite the metadata of a checkpoint."""
    found = open_checkpoint(path)
    claims = {
        **found.claims,
        "written_by": VERSION,
        "env": found.env.signature(found.extra_rewards),
        "model": model_to_json(found.model),
        "counters": as_json(found.counters),
        "curriculum": as_json(found.curriculum),
        "battles": found.battles,
    }
    write_whole(path / CLAIMS, json_bytes(claims))
    return f"checkpoint {path}"


def convert_league(path: Path) -> list[str]:
    """Rewrite the schema and settings of a league, and the metadata of its weights."""
    store = Store(path)
    with store.writing():
        store.set_setting("env", store.env.signature())
        store.set_setting("rules", as_json(store.rules))
        store.set_setting("written_by", {"version": VERSION})
    weights = [
        convert_checkpoint(store.weights.path(e.id)) for e in store.entries() if store.weights.path(e.id).exists()
    ]
    store.close()
    return [f"league {path}", *weights]


def convert_export(path: Path) -> list[str]:
    """Rewrite the settings of an exported league, and the metadata of the weights next to it."""
    document = parse_json(path.name, read_file(path, trade.MAX_BYTES), only_finite=False)
    trade.check(path.name, document)
    env, rules = env_from_json(document["env"]), from_json(LeagueConfig, document["rules"], "rules")
    document |= {"written_by": VERSION, "env": env.signature(), "rules": as_json(rules)}
    write_whole(path, json_bytes(document))
    named = [path.parent / entry["weights"] for entry in document["entries"] if entry["weights"] is not None]
    return [f"league {path}", *(convert_checkpoint(weights) for weights in named)]


def convert_replay(path: Path) -> str:
    """Rewrite the settings of a replay; its battles are not changed."""
    replay = replay_file.read(path)
    about = {**replay.about, "env": env_from_json(replay.about["env"]).signature()}
    replay_file.save(type(replay)(about, replay.battles), path)
    return f"replay {path}"

"""Rewrites files of older versions in the current format. Reading them does not require a conversion."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from echelon.league import import_export as trade
from echelon.league.config import LeagueConfig
from echelon.league.new_rules import backup_path, take_over, take_over_rows
from echelon.league.store import FILE, Store
from echelon.league.weight_store import FOLDER
from echelon.learn.checkpoint.files import checkpoints_in
from echelon.learn.checkpoint.format import CLAIMS, open_checkpoint
from echelon.learn.models.registry import model_to_json
from echelon.replay import file as replay_file
from echelon.rules.config import as_json, env_from_json, from_json
from echelon.rules.versions import current_versions, stored_versions
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError, json_bytes, replacing, write_whole
from echelon.runtime.version import VERSION


def convert(path: Path, watched: trade.Watched = lambda file: file) -> list[str]:
    """Rewrite a checkpoint, the checkpoints of a run, a league, an exported league or a replay, in place.

    Afterwards the file holds every setting under its current name, with the value that the old file implied. A league
    of earlier rules becomes one of today's, without matches and ratings; checkpoints and replays still name the rules
    that they were made under. Weights are not changed, because a league identifies its entries by their hashes.

    Args:
        path: the file or folder.
        watched: called with an exported league, as in `read_league`.

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
            return convert_export(path, watched)
        if path.is_file():
            return [convert_replay(path)]
    except ConfigError as error:
        raise FileError(f"{path}: {error}") from None
    raise FileError(f"{path}: expected a checkpoint, a run, a league, a league's .json or a replay, found none")


def convert_checkpoint(path: Path) -> str:
    """Rewrite the metadata of a checkpoint. It names the rules that it was trained under, with their numbers."""
    found = open_checkpoint(path)
    recorded = env_from_json(found.claims["env"])
    claims = {
        **found.claims,
        "written_by": VERSION,
        "env": {**recorded.signature(found.extra_rewards), **found.versions.as_json()},
        "model": model_to_json(found.model),
        "counters": as_json(found.counters),
        "curriculum": as_json(found.curriculum),
        "battles": found.battles,
    }
    write_whole(path / CLAIMS, json_bytes(claims))
    return f"checkpoint {path}"


def convert_league(path: Path) -> list[str]:
    """Rewrite the schema and settings of a league, and the metadata of its weights. One of earlier rules keeps its
    entries and drops matches and ratings, which stay in a copy of its database."""
    with closing(Store(path, any_rules=True)) as store:
        backup = take_over(store)
        told = [f"league {path}", *([] if backup is None else [f"as it was under earlier rules: {backup}"])]
        with store.writing():
            store.set_config(store.env, store.rules)
        weights = [store.weights.path(entry.id) for entry in store.entries()]
        return [*told, *(convert_checkpoint(found) for found in weights if found.exists())]


def convert_export(path: Path, watched: trade.Watched) -> list[str]:
    """Rewrite the settings of an exported league, and the metadata of the weights next to it. One of earlier rules
    keeps its entries and drops matches and ratings, which stay in a copy of the file."""
    told = [f"league {path}"]
    with trade.staged(path, path.name, watched) as (settings, store):
        versions = stored_versions(settings["env"], "env")
        if versions.rules != current_versions().rules:
            backup = backup_path(path, versions.rules)
            with replacing(backup) as draft:
                shutil.copyfile(path, draft)
            told.append(f"as it was under earlier rules: {backup}")
            settings["env"] = take_over_rows(store, settings["env"])
        env, rules = env_from_json(settings["env"]), from_json(LeagueConfig, settings["rules"], "rules")
        settings |= {"written_by": VERSION, "env": env.signature(), "rules": as_json(rules)}
        with replacing(path) as draft:
            trade.write_rows(path, draft, settings, store)
        return [*told, *(convert_checkpoint(path.parent / FOLDER / digest) for _, digest in trade.networks(store))]


def convert_replay(path: Path) -> str:
    """Rewrite the settings of a replay; its battles and the versions that they were played under are not changed."""
    replay = replay_file.read(path)
    env = replay.about["env"]
    versions = stored_versions(env, "env").as_json()
    about = {**replay.about, "env": {**env_from_json(env).signature(), **versions}}
    replay_file.save(type(replay)(about, replay.battles), path)
    return f"replay {path}"

"""Files of each release are read, played, resumed and watched. Files from before the first release are refused."""

import dataclasses
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from fixtures.write import RUN
from forged import forged, taken_apart
from next_rules import NEXT, OURS, STEP_UP_VOX, change_rules
from releases import RELEASES

import echelon
from echelon.arena import exploit, match
from echelon.arena.batch_arena import Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.proof import read_claims
from echelon.arena.resolve import common_env, resolve
from echelon.arena.strangers import leaderboard
from echelon.command.reply import KIND_NAMES
from echelon.command.session import Session
from echelon.datasets.dataset import open_dataset
from echelon.env.tasks.task import Task, register_task, task_from_json
from echelon.league.import_export import read_league
from echelon.league.league_arena import LeagueArena, is_unrecorded, record_file
from echelon.league.matchmaking import compatible_entries
from echelon.league.store import FILE, Store
from echelon.learn.checkpoint.files import checkpoints_in, inspect_checkpoint, newest_checkpoint
from echelon.learn.checkpoint.format import METADATA, Checkpoint, open_checkpoint
from echelon.learn.config import TrainConfig
from echelon.learn.trainer import Trainer
from echelon.replay import file
from echelon.replay.ground import rebuild
from echelon.rules.config_json import as_json, from_json
from echelon.rules.physics import RulesConfig
from echelon.rules.versions import ADDED
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.viewer.page import write_page

CPU = torch.device("cpu")
UNREAD = "files from before the first release are not supported, create the file again with this Echelon"


@pytest.fixture(params=RELEASES, ids=lambda folder: folder.name)
def kept(tmp_path, request) -> Path:
    """Return a copy of the files of a release."""
    return shutil.copytree(request.param, tmp_path / "kept")


def rules_of(kept: Path) -> int:
    """Return the rules version of its files."""
    return inspect_checkpoint(newest_checkpoint(kept / "run" / "checkpoints")).versions["rules_version"]


@pytest.fixture
def kept_today(kept) -> Path:
    """Return a copy of the files of a release with the current rules. Runs, matches and results need these."""
    if rules_of(kept) != OURS:
        pytest.skip(f"files of rules {rules_of(kept)}")
    return kept


def run_of(start: Checkpoint) -> TrainConfig:
    """Return the settings of the run that wrote the checkpoints, with two more iterations."""
    return dataclasses.replace(RUN, env=start.env, model=start.model, total_agent_steps=2 * RUN.total_agent_steps)


def test_fixtures_are_small_and_name_their_release():
    for folder in RELEASES:
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < 1_000_000
        metadata = [json.loads(path.read_text()) for path in files if path.name == METADATA]
        assert metadata and {told["written_by"] for told in metadata} == {folder.name}


def test_checkpoints_are_read_and_play(kept):
    for path in checkpoints_in(kept / "run" / "checkpoints"):
        assert inspect_checkpoint(path).is_valid
    last = newest_checkpoint(kept / "run" / "checkpoints")
    ours = [resolve(name) for name in (str(last), "heuristic:easy")]
    env = common_env(ours)
    policy, other = (commander.policy(env, CPU) for commander in ours)
    assert match.play(policy, other, env, 2, 0, ArenaConfig(CPU)).battles == 2


def test_run_resumes(kept_today):
    start = open_checkpoint(newest_checkpoint(kept_today / "run" / "checkpoints"))
    trainer = Trainer(run_of(start), kept_today / "further", start)
    has_todays_columns = start.specs.columns == start.specs.today
    assert (trainer.resume_note == "") == has_todays_columns, "battles of other columns begin anew"
    trainer.train(1)
    assert trainer.counters.iterations == start.counters.iterations + 1


def test_league_plays_more_matches(kept_today):
    league = Store(kept_today / "league")
    assert len(league.entries()) == 7 and league.rated() == {entry.id for entry in league.active()}
    one, two = (entry.id for entry in league.entries() if not entry.is_scripted)
    (fought,) = LeagueArena(league, ArenaConfig(CPU)).play([Battle(one, two, 77)])
    assert len(fought.matches) == 1 and league.played([Battle(one, two, 77)])
    start = open_checkpoint(newest_checkpoint(kept_today / "run" / "checkpoints"))
    assert len(compatible_entries(start.model, league, start.specs.columns)) == 2, (
        "its policies are opponents to a learner"
    )
    assert league.add(start.path).id in {entry.id for entry in league.entries()}


def test_export_is_imported(kept_today):
    league = read_league(kept_today / "export" / "league.json", kept_today / "imported")
    assert len(league.entries()) == 7 and len(league.matches()) == len(Store(kept_today / "league").matches())


def test_unrecorded_battles_of_a_league_are_recorded(kept_today):
    league = Store(kept_today / "league")
    before = len(league.matches())
    assert is_unrecorded(kept_today / "unrecorded.json")
    assert record_file(kept_today / "unrecorded.json", league) == (1, 1) and len(league.matches()) == before + 1


def test_dataset_is_read(kept):
    battles = open_dataset(kept / "dataset.safetensors")
    assert battles.commanders == ("heuristic:expert", "heuristic:hard") and len(battles.battles) == 2
    (rows,) = battles.transitions()
    assert len(rows) == len(battles) == battles.battles["decisions"].sum()
    assert rows["next", "blue", "observation"].isfinite().all()


def test_certificate_is_read(kept):
    """It contains battles of a network, whose bits are equal only on processors of the same kind."""
    told = read_claims(kept / "run" / exploit.FILE, exploit.CHECK)
    best = exploit.checkpoint_with_weights(kept / "run" / exploit.FILE, told["response"]["id"])
    assert open_checkpoint(Path(best)).counters.iterations == told["response"]["iteration"]
    assert exploit.certificate_line(told).startswith(
        "a best response trained for 128 agent-steps beats heuristic:trivial in "
    )


@pytest.fixture
def task(kept_today, monkeypatch) -> Task:
    """Register the task of the files in this process."""
    monkeypatch.setattr("echelon.env.tasks.task._REGISTERED", {})
    return register_task(task_from_json(json.loads((kept_today / "task.jsonl").read_text())))


def test_result_is_verified_by_replay(kept_today, task):
    found = echelon.verify(kept_today / "result.json", sample=0, device="cpu")
    assert found.record["task"] == task.name and found.record["fingerprint"] == task.fingerprint
    assert found.replayed == found.battles and found.is_sealed


def test_leaderboard_is_read_and_refuses_duplicates(kept_today, task):
    (row,) = leaderboard.read_table(kept_today / "leaderboard.json")
    assert row["name"] == "hard" and row["fingerprint"] == task.fingerprint
    with pytest.raises(ConfigError, match="not yet in"):
        leaderboard.add_result(kept_today / "leaderboard.json", kept_today / "result.json", "again", device="cpu")


def test_scenario_is_read_and_played(kept):
    scenario = echelon.read_scenario(kept / "scenario.json")
    assert scenario.as_json() == json.loads((kept / "scenario.json").read_text())
    assert scenario.objective == echelon.Objective("hold", attackers="red", seconds=30.0)
    assert scenario.units[0] == echelon.Unit("blue", "medium", x=12, y=20, heat=0.5)
    assert echelon.scene(scenario, 2, "cpu").rollout(1)["blue", "mask"].all()


def test_catalog_is_read(kept):
    assert echelon.read_catalog(kept / "catalog.json").weapons["railgun"].cooldown_s == 4


def test_orders_are_taken(kept):
    config = dataclasses.replace(RUN.env, command=echelon.CommandConfig(enabled=True))
    session = Session(echelon.CommandPort(echelon.commanders(config, num_envs=1, seed=0, device="cpu")))
    session.begin()
    session.report()
    refused = [session.receive(line) for line in (kept / "orders.jsonl").read_text().splitlines()]
    assert refused == [None, None] and session.accepted > len(KIND_NAMES)


def test_replay_is_watched(kept):
    replay = file.read(kept / "battles.echelon")
    grounds = [rebuild(replay, battle) for battle in replay.battles]
    write_page(replay, grounds, kept / "battles.html")
    assert (kept / "battles.html").stat().st_size > 100_000


def test_under_later_rules_policies_play_and_replays_are_watched(kept, monkeypatch, caplog):
    """Resuming, matches and ratings are not available."""
    last, replay = newest_checkpoint(kept / "run" / "checkpoints"), file.read(kept / "battles.echelon")
    grounds = [rebuild(replay, battle) for battle in replay.battles]
    change_rules(monkeypatch)
    start, env = open_checkpoint(last), common_env([resolve(str(last))])
    assert env.rules.step_up_vox == STEP_UP_VOX and env.rules.max_episode_s == 5.0
    policy, other = (resolve(name).policy(env, CPU) for name in (str(last), "heuristic:easy"))
    assert match.play(policy, other, env, 2, 0, ArenaConfig(CPU)).battles == 2
    written = rules_of(kept)
    says = f"{last}: trained under rules {written}, but plays under rules {NEXT}, which may differ"
    assert [record.getMessage() for record in caplog.records] == [says]
    with pytest.raises(ConfigError, match=f"rules_version must be {NEXT} to continue a run, got {written}"):
        Trainer(run_of(start), kept / "further", start)
    again = file.read(kept / "battles.echelon")
    assert all((rebuild(again, battle) == ground).all() for battle, ground in zip(again.battles, grounds, strict=True))
    assert rules_of(kept) == written


def test_policies_of_a_league_of_earlier_rules_join_a_new_one(kept, monkeypatch):
    """The error message of the league describes this."""
    change_rules(monkeypatch)
    with pytest.raises(FileError, match=r"`arena.py add` adds its weights/\* to a new league"):
        Store(kept / "league")
    weights = sorted((kept / "league" / "weights").iterdir())
    store = Store.create(kept / "new", common_env([resolve(str(path)) for path in weights]))
    assert sorted(store.add(path).id for path in weights) == [path.name for path in weights]


# From before the first release


def with_rules(env: dict, rules: int | None) -> dict:
    """Return battle settings in the format of earlier versions; the first ones named no rules."""
    others = {name: value for name, value in env.items() if name != "rules_version"}
    return others if rules is None else {**others, "rules_version": rules}


def rewrite_json(path: Path, rules: int | None) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "env": with_rules(document["env"], rules)}))


def old_checkpoint(kept: Path, rules: int | None) -> str:
    path = newest_checkpoint(kept / "run" / "checkpoints")
    rewrite_json(path / METADATA, rules)
    with pytest.raises(FileError) as error:
        resolve(str(path))
    return str(error.value)


def old_league(kept: Path, rules: int | None) -> str:
    with closing(sqlite3.connect(kept / "league" / FILE)) as database, database:
        ((text,),) = database.execute("SELECT value FROM league WHERE name = 'env'")
        env = json.dumps(with_rules(json.loads(text), rules))
        database.execute("UPDATE league SET value = ? WHERE name = 'env'", (env,))
    with pytest.raises(FileError) as error:
        Store(kept / "league")
    return str(error.value)


def old_export(kept: Path, rules: int | None) -> str:
    rewrite_json(kept / "export" / "league.json", rules)
    with pytest.raises(FileError) as error:
        read_league(kept / "export" / "league.json", kept / "imported")
    assert not (kept / "imported").exists()
    return str(error.value)


def old_replay(kept: Path, rules: int | None) -> str:
    path = kept / "battles.echelon"
    tensors, metadata = taken_apart(path.read_bytes())
    metadata["replay"]["env"] = with_rules(metadata["replay"]["env"], rules)
    del metadata["claims_sha256"], metadata["replay"]["record"]
    path.write_bytes(forged(tensors, metadata, json.dumps(metadata)))
    with pytest.raises(FileError) as error:
        file.read(path)
    return str(error.value)


@pytest.mark.parametrize("rules", [None, 1, 2])
@pytest.mark.parametrize(
    ("refused", "name"),
    [
        (old_checkpoint, "checkpoint.json"),
        (old_league, FILE),
        (old_export, "league.json"),
        (old_replay, "battles.echelon"),
    ],
)
def test_file_of_earlier_rules_is_refused_in_one_line(kept, refused, name, rules):
    says = refused(kept, rules)
    assert says.endswith(f"{name}: env.rules_version must be 3 or later, got {rules or 'none'}: {UNREAD}")
    assert "\n" not in says


def test_league_of_earlier_format_is_refused_in_one_line(kept):
    with closing(sqlite3.connect(kept / "league" / FILE)) as database:
        database.execute("PRAGMA application_id = 0")
        database.execute("PRAGMA user_version = 4")
    with pytest.raises(FileError) as error:
        Store(kept / "league")
    hint = "leagues from before the first release are not supported: create a new one with `arena.py init`"
    assert str(error.value) == f"{kept / 'league' / FILE}: version must be 6, got 4: {hint}"


# Required settings of a file


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ballast": 3}, "here.ballast must be absent: this version of Echelon has no such setting, got 3"),
        ({"dt_s": None}, "here.dt_s must be a float, got None"),
        ({"dt_s": "fast"}, "here.dt_s must be a float, got 'fast'"),
    ],
)
def test_invalid_settings_are_refused_by_name(change, says):
    with pytest.raises(ConfigError) as error:
        from_json(RulesConfig, {**as_json(RulesConfig()), **change}, "here")
    assert str(error.value) == says


@pytest.mark.parametrize("name", sorted(as_json(RulesConfig()).keys() - ADDED["RulesConfig"].keys()))
def test_file_without_a_setting_is_refused_by_its_name(name):
    values = as_json(RulesConfig())
    del values[name]
    with pytest.raises(ConfigError, match=f"^here must be complete: this RulesConfig lacks {name}, got "):
        from_json(RulesConfig, values, "here")

"""Files written by older versions are read, played, gone on with and watched, whatever settings came since."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from fixtures.write import RUN
from next_rules import NEXT, OURS, STEP_UP_VOX, change_rules

from echelon.arena import match
from echelon.arena.batch_arena import Battle
from echelon.arena.resolve import common_env, resolve
from echelon.convert import convert
from echelon.league import import_export as trade
from echelon.league import store
from echelon.league.league_arena import LeagueArena
from echelon.league.opponent_sampler import compatible_entries
from echelon.league.store import Store
from echelon.learn.checkpoint.files import checkpoints_in, newest_checkpoint
from echelon.learn.checkpoint.format import Checkpoint, open_checkpoint
from echelon.learn.checkpoint.inspect import inspect_checkpoint
from echelon.learn.config import TrainConfig
from echelon.learn.models import lstm
from echelon.learn.models.mlp import MLPConfig
from echelon.learn.models.registry import model_from_json, model_to_json
from echelon.learn.trainer import Trainer
from echelon.replay import file
from echelon.replay.ground import rebuild
from echelon.rules import config
from echelon.rules.catalog_json import catalog_under
from echelon.rules.config import EnvConfig, RulesConfig, as_json, env_from_json, from_json, setting
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.runtime.version import VERSION
from echelon.view.page import write_page

FIXTURES = sorted(path for path in (Path(__file__).parent / "fixtures").iterdir() if path.is_dir())


def rules_of(files: Path) -> int:
    """The version of the rules that a fixture was written under."""
    return inspect_checkpoint(newest_checkpoint(files / "run" / "checkpoints")).versions["rules_version"]


CURRENT = [path for path in FIXTURES if rules_of(path) == OURS]
RECORD = Path(__file__).parent / "golden" / "absent.json"
SETTINGS = {
    **{name: (config,) for name in ("WorldConfig", "RulesConfig", "RewardConfig", "FeaturesConfig", "EnvConfig")},
    "LSTMConfig": (lstm,),
    "LeagueConfig": (store, trade),
}
"""Classes whose fields stand in files, and the modules that read them by their names."""
CPU = torch.device("cpu")


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name)
def old(request, tmp_path) -> Path:
    """A copy of the files of a version."""
    return shutil.copytree(request.param, tmp_path / "old")


@pytest.fixture(params=CURRENT, ids=lambda path: path.name)
def current(request, tmp_path) -> Path:
    """A copy of the files of a version with the rules of today: runs and leagues go on under their own rules alone."""
    return shutil.copytree(request.param, tmp_path / "old")


@pytest.fixture(params=["as it is", *SETTINGS])
def with_more_settings(request, monkeypatch) -> None:
    """A version to come, in which one of the classes has another field."""
    if request.param != "as it is":
        modules = SETTINGS[request.param]
        kind = getattr(modules[0], request.param)
        extra = [("hindsight", float, dataclasses.field(default=0.25))]
        more = dataclasses.make_dataclass(request.param, extra, bases=(kind,), frozen=True)
        for module in modules:
            monkeypatch.setattr(module, request.param, more)


def run_of(start: Checkpoint) -> TrainConfig:
    """The settings of the run that the fixtures were made by, two iterations longer."""
    return dataclasses.replace(RUN, env=start.env, model=start.model, total_agent_steps=5 * 128)


def test_checkpoints_are_read_and_play(old, with_more_settings):
    for path in checkpoints_in(old / "run" / "checkpoints"):
        assert inspect_checkpoint(path).is_valid
    last = newest_checkpoint(old / "run" / "checkpoints")
    ours = [resolve(name) for name in (str(last), "heuristic:easy")]
    env = common_env(ours)
    policy, other = (commander.policy(env, CPU) for commander in ours)
    assert match.play(policy, other, env, 2, 0, CPU).battles == 2


@pytest.mark.parametrize("iteration", [0, 3])
def test_a_run_goes_on(current, with_more_settings, iteration):
    start = open_checkpoint(current / "run" / "checkpoints" / f"iteration_{iteration:06}")
    trainer = Trainer(run_of(start), current / "further", start)
    assert trainer.resume_note == "", "its battles are fought on"
    trainer.train(1)
    assert trainer.counters.iterations == iteration + 1


def test_a_league_fights_on(old, with_more_settings):
    is_current = rules_of(old) == OURS
    if not is_current:
        convert(old / "league")
    league = Store(old / "league")
    assert len(league.entries()) == 8 and league.rated() == ({e.id for e in league.entries()} if is_current else set())
    arena = LeagueArena(league, CPU)
    one, two, _ = (entry.id for entry in league.entries() if not entry.is_scripted)
    (fought,) = arena.play([Battle(one, two, 77)])
    assert len(fought.matches) == 1 and Battle(one, two, 77) in league.played()
    start = open_checkpoint(newest_checkpoint(old / "run" / "checkpoints"))
    assert len(compatible_entries(start.model, league)) == 3, "its policies are opponents to a learner"
    assert league.add(start.path).id in {entry.id for entry in league.entries()}


def test_an_export_is_imported(old, with_more_settings):
    if rules_of(old) != OURS:
        convert(old / "export" / "league.json")
        convert(old / "league")
    league = trade.read_league(old / "export" / "league.json", old / "imported")
    assert len(league.entries()) == 8 and len(league.matches()) == len(Store(old / "league").matches())


def test_a_replay_is_watched(old, with_more_settings):
    replay = file.read(old / "battles.echelon")
    grounds = [rebuild(replay, battle) for battle in replay.battles]
    write_page(replay, grounds, old / "battles.html")
    assert (old / "battles.html").stat().st_size > 100_000


def test_what_is_converted_names_every_setting_and_keeps_its_weights(current, with_more_settings):
    """Converted, the files of a version are what that version would have written with the settings of today."""
    old = current
    before = {path: path.read_bytes() for path in old.rglob("*.safetensors")}
    told = [line for name in ("run", "league", "export/league.json", "battles.echelon") for line in convert(old / name)]
    assert len(told) == 3 + 4 + 4 + 1
    assert before == {path: path.read_bytes() for path in old.rglob("*.safetensors")}
    start = open_checkpoint(newest_checkpoint(old / "run" / "checkpoints"))
    assert start.claims["env"] == json.loads(json.dumps(start.env.signature()))
    assert start.claims["model"] == model_to_json(start.model) and start.claims["written_by"] == VERSION
    assert inspect_checkpoint(start.path).is_valid and Trainer(run_of(start), old / "further", start).resume_note == ""
    league = Store(old / "league")
    assert league.get_setting("env") == json.loads(json.dumps(league.env.signature()))
    assert len(trade.read_league(old / "export" / "league.json", old / "imported").entries()) == 8
    assert len(file.read(old / "battles.echelon").battles) == 1


def test_under_later_rules_files_are_played_watched_and_converted(old, monkeypatch, caplog):
    """Rules that come later: nothing is lost but resuming, matches and ratings."""
    last, own = newest_checkpoint(old / "run" / "checkpoints"), rules_of(old)
    digest = open_checkpoint(last).claims["files"]["policy.safetensors"]
    change_rules(monkeypatch)
    start, weights = open_checkpoint(last), {path: path.read_bytes() for path in old.rglob("*.safetensors")}
    env = common_env([resolve(str(last))])
    assert env.rules.step_up_vox == STEP_UP_VOX and env.rules.max_episode_s == 5.0
    policy, other = (resolve(name).policy(env, CPU) for name in (str(last), "heuristic:easy"))
    assert match.play(policy, other, env, 2, 0, CPU).battles == 2
    says = f"{last}: trained under rules {own}, plays under rules {NEXT}, which are new to it"
    assert [record.getMessage() for record in caplog.records] == [says]
    with pytest.raises(ConfigError, match=f"rules_version must be {NEXT} to go on with a run, got {own}"):
        Trainer(run_of(start), old / "further", start)
    replay = file.read(old / "battles.echelon")
    grounds = [rebuild(replay, battle) for battle in replay.battles]
    for name in ("run", "league", "export/league.json", "battles.echelon"):
        convert(old / name)
    assert weights == {path: path.read_bytes() for path in old.rglob("*.safetensors")}
    again = file.read(old / "battles.echelon")
    assert all((rebuild(again, battle) == ground).all() for battle, ground in zip(again.battles, grounds, strict=True))
    for path, versions in ((last, inspect_checkpoint(last).versions), (old, again.about["env"])):
        assert versions["rules_version"] == own, path
    for league in (Store(old / "league"), trade.read_league(old / "export" / "league.json", old / "imported")):
        assert league.find(digest).id == digest and len(league.entries()) == 8 and league.matches() == []
        assert league.rated() == set() and league.env.rules.step_up_vox == STEP_UP_VOX


def test_what_is_no_file_of_ours_is_not_converted(tmp_path):
    (tmp_path / "notes.txt").write_text("Dear diary")
    for path in (tmp_path, tmp_path / "notes.txt", tmp_path / "none"):
        with pytest.raises(FileError) as error:
            convert(path)
        assert "\n" not in str(error.value)
    assert (tmp_path / "notes.txt").read_text() == "Dear diary"


# What a file means that does not name a setting


@dataclasses.dataclass(frozen=True)
class Grown:
    """Settings that changed since files were written."""

    kept: int = 1
    pace: float = setting(2.0, absent=1.5, was=("speed", "haste"))
    size: tuple[str, ...] = ("a",)


def test_a_missing_setting_means_what_its_absence_meant():
    assert from_json(Grown, {}, "here") == Grown(pace=1.5) and Grown().pace == 2.0
    assert from_json(Grown, as_json(Grown(pace=3.0)), "here") == Grown(pace=3.0)


def test_a_renamed_setting_is_known_by_its_old_names():
    assert from_json(Grown, {"haste": 4}, "here") == from_json(Grown, {"speed": 4.0}, "here") == Grown(pace=4.0)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"ballast": 3}, "here.ballast must be absent: this version of Echelon has no such setting, got 3"),
        ({"speed": 1.0, "pace": 2.0}, "here.pace must be told once, whatever its name, got 2.0"),
        ({"speed": "fast"}, "here.pace must be a float, got 'fast'"),
    ],
)
def test_what_cannot_be_a_setting_is_refused_by_name(values, says):
    with pytest.raises(ConfigError) as error:
        from_json(Grown, values, "here")
    assert str(error.value) == says


def test_a_battle_needs_no_part():
    first = EnvConfig(rules=RulesConfig(zone_score_to_win_s=30.0), catalog=catalog_under(1))
    assert env_from_json({}) == first and env_from_json({"rules": {}}) == first


def test_what_absence_means_never_changes():
    """A default that changes must say by `setting(new, absent=old)` what files written before meant."""
    kinds = [getattr(modules[0], name) for name, modules in SETTINGS.items() if name not in ("EnvConfig", "LSTMConfig")]
    meant = {kind.__name__: as_json(from_json(kind, {}, "file")) for kind in kinds}
    meant["EnvConfig"] = as_json(env_from_json({}))
    meant["ModelConfig"] = as_json(model_from_json({}))
    recorded = json.loads(RECORD.read_text())
    for name, values in recorded.items():
        for key, value in values.items():
            assert meant[name][key] == value, f"{name}.{key}"
    assert recorded == meant, f"new settings: write {json.dumps(meant)} into {RECORD}"


def test_a_model_of_version_0_1_was_an_lstm_unless_it_said_otherwise():
    assert type(model_from_json({"hidden": 16})) is type(model_from_json({"recurrent": True})) is lstm.LSTMConfig
    assert model_from_json({"recurrent": False, "hidden": 16}) == MLPConfig(hidden=16, eval_std_scale=1.0)

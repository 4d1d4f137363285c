"""Old names of a training's settings: keywords, attributes, flags and files."""

import dataclasses
import json
import logging
import warnings

import pytest
from tiny_runs import tiny_run

from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import METADATA, open_checkpoint
from echelon.learn.checkpoint.resume import changed_settings, stored_config
from echelon.learn.config import CurriculumConfig, TrainConfig
from echelon.learn.trainer import Trainer
from echelon.runtime.renamed import RENAMED, current_flags, renamed_settings

VALUES = {
    "past_share": 0.5,
    "init": "trained:quick",
    "live": True,
    "live_port": 80,
    "live_host": ("0.0.0.0",),
    "curriculum.levels": "plr",
    "curriculum.levels_uniform": 0.2,
    "curriculum.levels_stale": 0.3,
    "curriculum.step_up": 0.7,
}


def test_every_old_name_has_a_current_setting():
    names = {field.name for field in dataclasses.fields(TrainConfig)}
    names |= {f"curriculum.{field.name}" for field in dataclasses.fields(CurriculumConfig)}
    assert set(RENAMED.values()) <= names and not set(RENAMED) & names and set(VALUES) == set(RENAMED)


@pytest.mark.parametrize("old", RENAMED)
def test_old_keyword_and_attribute_work_with_a_warning(old):
    kind = CurriculumConfig if old.startswith("curriculum.") else TrainConfig
    prefix = "curriculum." if kind is CurriculumConfig else ""
    before, now = old.removeprefix(prefix), RENAMED[old].removeprefix(prefix)
    message = rf"^{kind.__name__}\.{before} is {kind.__name__}\.{now} now; the old name works until 2\.0$"
    with pytest.warns(FutureWarning, match=message) as caught:
        config = kind(**{before: VALUES[old]})
    assert caught[0].filename == __file__
    assert getattr(config, now) == VALUES[old] and config == kind(**{now: VALUES[old]})
    with pytest.warns(FutureWarning, match=message):
        assert getattr(config, before) == VALUES[old]
    with pytest.warns(FutureWarning, match=message):
        assert dataclasses.replace(kind(), **{before: VALUES[old]}) == config


def test_current_names_do_not_warn_and_unknown_ones_raise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = TrainConfig(snapshot_opponent_share=0.5)
        assert dataclasses.replace(config, seed=1).snapshot_opponent_share == 0.5
    with pytest.raises(TypeError, match="past_shares"):
        TrainConfig(past_shares=0.5)
    with pytest.raises(AttributeError, match="'TrainConfig' object has no attribute 'past_shares'"):
        _ = config.past_shares


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--past-share", "0.5"], ["--snapshot-opponent-share", "0.5"]),
        (["--past_share=0.5"], ["--snapshot-opponent-share=0.5"]),
        (["--live", "--live-port=80"], ["--dashboard", "--dashboard-port=80"]),
        (["--no-live"], ["--no-dashboard"]),
        (["--train.no-live"], ["--train.no-dashboard"]),
        (["--curriculum.step-up", "1"], ["--curriculum.advance-at-win-rate", "1"]),
        (["--train.curriculum.levels", "plr"], ["--train.curriculum.map-sampling", "plr"]),
        (["--train.init", "x"], ["--train.init-from", "x"]),
    ],
)
def test_old_flag_is_replaced_with_a_warning(given, expected, caplog):
    with caplog.at_level(logging.WARNING):
        assert current_flags(given) == expected
    flag = given[0].partition("=")[0]
    name = expected[0].partition("=")[0]
    assert caplog.messages[0] == f"{flag} is {name} now; the old flag works until 2.0"


def test_other_words_stay(caplog):
    words = ["init", "--league", "live", "--evaluation.init", "x", "--levels", "plr", "--run-dir=--live", "-"]
    assert current_flags(words) == words and not caplog.messages


def test_settings_of_a_file_get_current_names():
    stored = {"seed": 1, "past_share": 0.5, "curriculum": {"step_up": 0.7, "init": 3}, "other": {"live": 1}}
    assert renamed_settings(stored) == {
        "seed": 1,
        "snapshot_opponent_share": 0.5,
        "curriculum": {"advance_at_win_rate": 0.7, "init": 3},
        "other": {"live": 1},
    }


def test_checkpoint_with_old_names_is_the_same_run(tmp_path):
    curriculum = CurriculumConfig(opponents=("easy",), advance_at_win_rate=0.7)
    config = tiny_run(curriculum=curriculum)
    Trainer(config, tmp_path).train(1)
    path = newest_checkpoint(tmp_path / "checkpoints")
    ours = open_checkpoint(path)
    metadata = json.loads((path / METADATA).read_text())
    settings = metadata["settings"]
    settings["past_share"] = settings.pop("snapshot_opponent_share")
    stages = settings["curriculum"]
    stages["step_up"], stages["levels"] = stages.pop("advance_at_win_rate"), stages.pop("map_sampling")
    metadata["changes"] = [{"since": 1, "setting": "curriculum.step_up", "before": 0.5}]
    (path / METADATA).write_text(json.dumps(metadata))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = open_checkpoint(path)
        assert stored_config(theirs) == stored_config(ours) and theirs.metadata["settings"] == ours.metadata["settings"]
        assert changed_settings(stored_config(ours), theirs) == {}
    assert theirs.changes == [{"since": 1, "setting": "curriculum.advance_at_win_rate", "before": 0.5}]
    with pytest.warns(FutureWarning, match=r"Checkpoint\.claims is Checkpoint\.metadata now"):
        assert theirs.claims is theirs.metadata

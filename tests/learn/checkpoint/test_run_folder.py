"""Choice of the latest run, and of the folder of a resumed run."""

import contextlib
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_runs import TINY, tiny_run

from echelon.learn.callbacks.base import Callback
from echelon.learn.checkpoint.files import checkpoint_path, newest_checkpoint, save_checkpoint
from echelon.learn.checkpoint.format import METADATA, SAVED_AT, Counters, open_checkpoint
from echelon.learn.checkpoint.run_folder import LOCK, choose_folder, lock_run_folder, opened_run, resolve_resume
from echelon.learn.metrics import read_table
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.trainer import Trainer
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError, file_lock


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of two iterations with a checkpoint each."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    Trainer(tiny_run(checkpoint_every=1), folder).train(2)
    return folder


def test_latest_run_has_newest_stored_time(run, tmp_path):
    """Not the folder with a newer file, and not a copy of an old run."""
    config = replace(tiny_run(), run_dir=str(tmp_path / "{time}"), resume="latest")
    names = ("20260101-120000", "20260102-120000", "20260103-120000")
    for name, saved_at in zip(names, (200.0, 300.0, 100.0), strict=True):
        copy = tmp_path / name
        shutil.copytree(run, copy)
        for path in (copy / "checkpoints").iterdir():
            metadata = json.loads((path / METADATA).read_text())
            assert abs(metadata[SAVED_AT] - (run / "checkpoints" / path.name / METADATA).stat().st_mtime) < 60
            (path / METADATA).write_text(json.dumps({**metadata, SAVED_AT: saved_at}))
    (tmp_path / names[0] / "note.txt").write_text("the best one so far")
    os.utime(tmp_path / names[2])
    (tmp_path / "20260104-120000" / "checkpoints").mkdir(parents=True)
    assert choose_folder(config) == tmp_path / names[1]
    # Files of earlier versions and invalid files contain no time.
    for name in names[1:]:
        for path in (tmp_path / name / "checkpoints").iterdir():
            metadata = json.loads((path / METADATA).read_text())
            metadata.pop(SAVED_AT)
            (path / METADATA).write_text(json.dumps(metadata) if name == names[1] else "{")
            os.utime(path / METADATA, (250.0, 250.0))
    assert choose_folder(config) == tmp_path / names[1]


def test_folder_with_later_checkpoints_raises(run, tmp_path):
    """A run resumed from an earlier checkpoint would find later checkpoints with other weights."""
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    start = open_checkpoint(checkpoint_path(folder, 1))
    before = (folder / "metrics.csv").read_bytes()
    limit = "folder must be a folder without checkpoints after iteration 1, from which the run resumes, got "
    with pytest.raises(ConfigError, match=limit + ".*iteration_000002"):
        Trainer(tiny_run(), folder, start)
    assert (folder / "metrics.csv").read_bytes() == before
    Trainer(tiny_run(), tmp_path / "elsewhere", start).train(1)
    assert newest_checkpoint(tmp_path / "elsewhere" / "checkpoints").name == "iteration_000002"


def test_folder_with_other_run_of_equal_length_raises(run, tmp_path):
    start = open_checkpoint(newest_checkpoint(run / "checkpoints"))
    Trainer(tiny_run(seed=7, checkpoint_every=1), tmp_path).train(2)
    with pytest.raises(ConfigError, match="without checkpoints after iteration"):
        Trainer(tiny_run(), tmp_path, start)
    own = tmp_path / "own"
    shutil.copytree(run, own)
    Trainer(tiny_run(), own, start).train(1)
    assert len(read_table(own / "metrics.csv")) == 3, "the same checkpoint at another path"


class Fails(Callback):
    """Ends a run before its first iteration."""

    def on_run_start(self, trainer):
        raise ConfigError("not today")


@pytest.fixture(scope="module")
def failed(tmp_path_factory) -> Path:
    """Folder of a run that failed before it learnt anything."""
    folder = tmp_path_factory.mktemp("runs") / "failed"
    with pytest.raises(ConfigError, match="not today"):
        Trainer(tiny_run(), folder, callbacks=[Fails()]).train(1)
    return folder


@pytest.fixture
def unlearnt(failed, tmp_path) -> Path:
    """A copy of that folder."""
    return shutil.copytree(failed, tmp_path / "unlearnt")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_unlearnt_folder_accepts_new_run(unlearnt, tmp_path):
    assert names_in(unlearnt) == ["iteration_000000"] and not (unlearnt / LOCK).exists()
    Trainer(tiny_run(seed=7), unlearnt).train(1)
    Trainer(tiny_run(seed=7), tmp_path / "fresh").train(1)
    same = [open_checkpoint(checkpoint_path(folder, 1)).metadata["files"] for folder in (unlearnt, tmp_path / "fresh")]
    assert same[0] == same[1] and names_in(unlearnt) == ["iteration_000000", "iteration_000001"]


def test_program_accepts_unlearnt_folder(unlearnt):
    with lock_run_folder(unlearnt, resumes=True):
        assert names_in(unlearnt) == ["iteration_000000"]
    with lock_run_folder(unlearnt, resumes=False):
        assert names_in(unlearnt) == [] and (unlearnt / LOCK).exists()
        Trainer(tiny_run(), unlearnt).train(1)


@pytest.mark.parametrize("kept", ["a row", "a later one", "a policy's own", "a damaged one"])
def test_other_folders_are_not_replaced(unlearnt, run, kept):
    first = checkpoint_path(unlearnt, 0)
    if kept == "a row":
        shutil.copy(run / "metrics.csv", unlearnt)
    elif kept == "a later one":
        shutil.copytree(checkpoint_path(run, 1), checkpoint_path(unlearnt, 1))
    elif kept == "a damaged one":
        (first / METADATA).write_text("{")
    else:
        shutil.rmtree(first)
        save_checkpoint(first, TINY.build(PolicySpecs(8)), ValueNorm(), tiny_run().env, Counters(), {})
    before = names_in(unlearnt)
    with pytest.raises(ConfigError, match="folder must be a folder without an earlier run"):
        Trainer(tiny_run(), unlearnt)
    with (
        pytest.raises(ConfigError, match="--run-dir must be a folder without a run"),
        lock_run_folder(unlearnt, resumes=False),
    ):
        pass
    assert names_in(unlearnt) == before


def test_running_run_is_not_replaced(tmp_path):
    """The run locks its folder before its first checkpoint."""
    refused = []

    class Second(Callback):
        def on_run_start(self, trainer):
            for begin in (lambda: Trainer(tiny_run(), trainer.folder), lock_run_folder(tmp_path, False).__enter__):
                with pytest.raises(FileError, match="process") as error:
                    begin()
                refused.append(str(error.value))

    Trainer(tiny_run(), tmp_path, callbacks=[Second()]).train(1)
    assert len(refused) == 2 and names_in(tmp_path) == ["iteration_000000", "iteration_000001"]


def test_locked_folder_raises(tmp_path):
    trainer = Trainer(tiny_run(), tmp_path)
    with file_lock(tmp_path / LOCK), pytest.raises(FileError, match="process"):
        trainer.train(1)
    assert not (tmp_path / "checkpoints").exists()


class OfTwo(Ranks):
    """The first of two processes; the other one sends `other`."""

    other = ""

    def broadcast_text(self, text):
        return text

    def barrier(self):
        pass

    def gather_texts(self, text):
        return [text, self.other]


def test_folder_missing_on_another_machine_is_named(tmp_path):
    ranks = OfTwo(0, 2)
    ranks.check_shared("--run-dir", tmp_path)
    ranks.other = "second does not see it"
    told = f"--run-dir must be a folder that all machines share: rank 1 on second does not see it, got '{tmp_path}'"
    with pytest.raises(ConfigError, match=re.escape(told)):
        ranks.check_shared("--run-dir", tmp_path)
    assert not list(tmp_path.iterdir()), "no files are left"


def test_processes_with_different_folders_raise(tmp_path):
    """One process would resume, the other would start a new run."""
    ranks = OfTwo(0, 2)
    ranks.other = "latest"
    told = "--resume must be the same on all processes"
    with pytest.raises(ConfigError, match=told), opened_run(replace(tiny_run(), run_dir=str(tmp_path)), ranks):
        pass


def test_resume_auto_continues_an_existing_run(tmp_path):
    config = replace(tiny_run(), run_dir=str(tmp_path), resume="auto")
    assert resolve_resume(config).resume == ""
    (tmp_path / "checkpoints" / "iteration_000001").mkdir(parents=True)
    assert resolve_resume(config).resume == "latest"
    assert resolve_resume(replace(config, resume="")).resume == ""
    with pytest.raises(ConfigError, match="--resume auto must be given with a --run-dir"):
        resolve_resume(replace(config, run_dir="runs/{time}"))


def test_runs_started_in_same_second_get_unique_folders(tmp_path, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda form: "20260101-120000")
    config = replace(tiny_run(), run_dir=str(tmp_path / "runs" / "{time}"))
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(opened_run(config, ALONE))[0] for _ in range(3)]
        assert [folder.name for folder in folders] == ["20260101-120000", "20260101-120000-2", "20260101-120000-3"]
        (folders[1] / "metrics.csv").touch()
        with pytest.raises(FileError, match="no other process that uses the folder"), file_lock(folders[0] / LOCK):
            pass
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["20260101-120000-2"], (
        "the unused one is gone"
    )


def test_unwritable_run_folder_raises_one_line(tmp_path):
    (tmp_path / "runs").touch()
    config = replace(tiny_run(), run_dir=str(tmp_path / "runs" / "{time}"))
    with pytest.raises(ConfigError, match="--run-dir must be a writable folder, got"), opened_run(config, ALONE):
        pass

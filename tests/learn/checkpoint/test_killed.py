"""A process killed while saving leaves complete checkpoints."""

import json
import os
from pathlib import Path

import programs
import pytest
from tiny_runs import TINY

from echelon.learn.checkpoint.files import checkpoint_path, prune_checkpoints, save_checkpoint
from echelon.learn.checkpoint.format import LEARNER, METADATA, POLICY, Counters, RunState, run_file
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig

HERE = Path(__file__).parent


@pytest.mark.requirement("R6")
@pytest.mark.long
@pytest.mark.parametrize("kills", [16, 100])
def test_kills_while_saving_leave_complete_checkpoints(tmp_path, kills):
    done = programs.run(str(HERE / "save_loop.py"), str(tmp_path), str(kills), PYTHONPATH=str(HERE.parents[1]))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kills"] == kills and told["loaded"] > kills / 2 and told["interrupted"] > 0, told
    assert len(told["kept"]) == 3 and told["kept"][0] == "iteration_000003" and told["iterations"] > 0.3 * kills


@pytest.mark.requirement("R6")
def test_files_are_synced_before_folder_is_renamed(tmp_path, monkeypatch):
    order, fsync, rename = [], os.fsync, Path.rename

    def noted_fsync(handle: int) -> None:
        order.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        fsync(handle)

    def noted_rename(self: Path, target: Path) -> Path:
        order.append(f"{self.name} -> {target.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    save_checkpoint(
        tmp_path / "shelf" / "one",
        TINY.build(PolicySpecs(8)),
        ValueNorm(),
        EnvConfig.small(),
        Counters(),
        {},
        None,
        RunState({}, {}),
    )
    draft = ".one.draft"
    assert order == [run_file(0), POLICY, LEARNER, METADATA, draft, f"{draft} -> one", "shelf"]


def test_prune_keeps_latest_and_best(tmp_path):
    policy = TINY.build(PolicySpecs(8))
    for number in (1, 2, 3, 4, 999_999, 1_000_000):
        save_checkpoint(checkpoint_path(tmp_path, number), policy, ValueNorm(), EnvConfig.small(), Counters(number), {})
    own = tmp_path / "checkpoints" / "my_favourite"
    save_checkpoint(own, policy, ValueNorm(), EnvConfig.small(), Counters(1), {})
    (tmp_path / "checkpoints" / ".iteration_000005.draft").mkdir()
    prune_checkpoints(tmp_path, last=2, best=2)
    left = sorted(path.name for path in own.parent.iterdir())
    assert left == ["iteration_000002", "iteration_1000000", "iteration_999999", "my_favourite"]

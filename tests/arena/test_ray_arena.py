"""Distribution of battles to workers, without a cluster: workers that finish late, and flags."""

import sys
import types

import pytest
import torch
from leagues import BRIEF, policy_of

from echelon.agents.heuristic import scripted
from echelon.arena import ray_arena
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.evaluate import evaluate
from echelon.arena.ray_arena import RayArena
from echelon.env.tasks.task import Task
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError
from echelon.runtime.ray_tasks import SOFTWARE, RayArgs, RayTasks, call

CPU = torch.device("cpu")


class Box:
    """Stands in for Ray's reference of a shared value."""

    def __init__(self, value):
        self.value = value


class LastFirst(RayTasks):
    """Workers in this process; of several calls the last one finishes first."""

    slots = 2

    def __init__(self):
        self.args, self.names, self.shared = RayArgs(ray="here"), [], 0

    def share(self, value):
        self.shared += 1
        return Box(value)

    def results(self, function, calls, names):
        self.names += names
        for number in reversed(range(len(calls))):
            given = [each.value if isinstance(each, Box) else each for each in calls[number]]
            yield number, call(SOFTWARE, 1, function, *given)


@pytest.fixture
def workers(monkeypatch):
    monkeypatch.setattr(ray_arena, "import_ray", lambda: types.SimpleNamespace(get=lambda box: box.value))
    monkeypatch.setattr(ray_arena, "LEAST", 2)
    return LastFirst()


@pytest.fixture(scope="module")
def policies():
    return {"one": policy_of(1), "hard": scripted("heuristic:hard", BRIEF, CPU)}


BATTLES = [Battle(*pair, seed) for seed in range(5) for pair in (("one", "hard"), ("hard", "one"))]


def test_results_keep_their_order_for_any_worker_order(workers, policies, tmp_path):
    alone = BatchArena(BRIEF, policies.__getitem__, ArenaConfig(CPU, batch=10))
    arena = RayArena(BRIEF, policies.__getitem__, workers, ArenaConfig(CPU, batch=10))
    recorders = [Recorder([0, 2]) for _ in range(2)]
    expected = alone.play(BATTLES, recorders[0]).results
    batches = list(arena.play_all(BATTLES, recorders[1]))
    assert [result for batch in batches for result in batch.results] == expected
    assert [len(batch) for batch in batches] == [3, 2, 2, 2, 1], "the recorded ones in one task"
    files = [tmp_path / "alone.echelon", tmp_path / "workers.echelon"]
    for recorder, file in zip(recorders, files, strict=True):
        save(recorder.finish(["x"] * 2, ["y"] * 2), file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert workers.names[1] == "3 battles from number 0"
    shared = workers.shared
    starts = [start for start, _ in arena.play_batches(BATTLES)]
    assert starts == [8, 6, 4, 2, 0] and workers.shared == shared, "policies are shared once"


def test_evaluation_by_workers_equals_one_process(workers):
    task = Task("brief", "for a test", BRIEF, *current_versions(), BRIEF)
    own = policy_of(2)
    ours, theirs = (
        evaluate(own, task, ["heuristic:easy"], battles=4, device="cpu", cluster=cluster) for cluster in (workers, None)
    )
    drop = {"battles_per_s"}
    first, second = (
        {k: v for k, v in found.as_json()["opponents"]["heuristic:easy"].items() if k not in drop}
        for found in (ours, theirs)
    )
    assert first == second and ours.versions == theirs.versions


def test_a_worker_of_another_version_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"Echelon must be 0\.0\.1 on the worker .*, as on the driver, got "):
        call({**SOFTWARE, "Echelon": "0.0.1"}, 1, len, "abc")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ray_cpus": 0.0}, "ray_cpus must be "),
        ({"ray_gpus": 1.5}, "--ray-gpus must be a share of one GPU or an integer, got 1.5"),
        ({"ray_retries": -1}, "ray_retries must be "),
    ],
)
def test_resources_of_a_task_are_limited(settings, message):
    with pytest.raises(ConfigError, match=message):
        RayArgs(**settings)


def test_missing_ray_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with RayArgs().connected() as tasks:
        assert tasks is None
    hint = r"--ray needs Ray, .*pip install 'echelon-marl\[ray\]'"
    with pytest.raises(ConfigError, match=hint), RayArgs("auto").connected():
        pass


def test_unreachable_address_is_rejected_at_once():
    pytest.importorskip("ray")
    told = r"--ray must be the address .*, got '127\.0\.0\.1:1': .*refused"
    with pytest.raises(ConfigError, match=told), RayArgs("127.0.0.1:1").connected():
        pass

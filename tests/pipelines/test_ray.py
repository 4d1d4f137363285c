"""Programs that distribute work to a Ray cluster of three machines, some of which die."""

import importlib
import json
import shutil
import subprocess
import sys

import pytest
from leagues import BRIEF, checkpoint_of, recorded
from page_commands import command, with_flags
from patience import STUCK_S
from runs import ROOT

from echelon.env.tasks.task import latest
from echelon.league.store import Store
from echelon.replay.file import read
from echelon.runtime.ray_tasks import RayArgs

pytest.importorskip("ray")
from ray_clusters import machines

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster():
    with machines(3) as found:
        yield found


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *words], stdout=-1, stderr=-1, text=True, cwd=ROOT)


def arena(*words: str) -> subprocess.Popen[str]:
    return start("pipelines/arena.py", *words, "--json")


def output_of(process: subprocess.Popen[str]) -> str:
    said, errors = process.communicate(timeout=STUCK_S)
    assert process.returncode == 0, errors
    return said


def tournament(league, *words: str) -> subprocess.Popen[str]:
    return arena("tournament", "--league", str(league), "--seeds", "4", "--batch", "4", *words)


@pytest.fixture(scope="module")
def leagues(tmp_path_factory):
    """A league already played by one process, and one still to be played."""
    folder = tmp_path_factory.mktemp("leagues")
    store = Store.create(folder / "one", BRIEF)
    names = [store.add(checkpoint_of(folder, seed)).name for seed in (1, 2)]
    store.close()
    shutil.copytree(folder / "one", folder / "many")
    replay = folder / "one.echelon"
    said = output_of(tournament(folder / "one", "--device", "cpu", "--replay", str(replay)))
    return folder, names, said


def test_cluster_evaluation_equals_single_process(cluster, leagues):
    folder, names, _ = leagues
    checkpoint = str(folder / "policy_1")
    for where in (
        ["--league", str(folder / "one"), "--opponents", names[1], "heuristic:hard", "--seeds", "2"],
        ["--scenario", "outpost-3v7", "--opponents", "heuristic:easy", "--seeds", "2"],
    ):
        policy = "heuristic:hard" if "--scenario" in where else checkpoint
        found = [
            json.loads(output_of(arena("evaluate", policy, *where, *how)))
            for how in (["--device", "cpu"], ["--ray", cluster.address])
        ]
        for each in found:
            for result in each["opponents"].values():
                del result["battles_per_s"]
        assert found[0] == found[1]


def test_cluster_baselines_equal_single_process(cluster, tmp_path):
    """Each run is a task; only this process writes."""
    found = command("MANY_MACHINES.md", "benchmarks/baselines/run.py")
    changed = {"--ray": cluster.address}
    tiny = ["--num-envs", "4", "--agent-steps", "700", "--battles", "2"]
    many, one = tmp_path / "many.jsonl", tmp_path / "one.jsonl"
    words = with_flags(found, changed)[1:]
    assert len(output_of(start(*words, *tiny, "--out", str(many))).splitlines()) == 2 * 3
    rows = {(row["baseline"], row["seed"]): row for row in map(json.loads, many.read_text().splitlines())}
    assert set(rows) == {(name, seed) for name in ("mappo-lstm", "ippo-gru") for seed in range(3)}
    alone = [words[0], "--task", words[words.index("--task") + 1], "--baseline", "ippo-gru", "--seed", "2"]
    output_of(start(*alone, *tiny, "--out", str(one)))
    (row,) = map(json.loads, one.read_text().splitlines())
    for name in ("opponents", "agent_steps", "curve", "command"):
        assert rows["ippo-gru", 2][name] == row[name], name


def test_a_sweep_by_a_cluster(cluster, tmp_path, monkeypatch):
    """A table of two rows; each run is a task."""
    for place in (ROOT / "benchmarks" / "baselines", ROOT / "benchmarks"):
        monkeypatch.syspath_prepend(place)
    sweep = importlib.import_module("sweep")
    flags = ("--preset", "quick", "--num-envs", "4", "--ppo.minibatches", "2", "--device", "cpu")
    rows = {"as it is": (), "gamma 0.9": ("--env.reward.gamma", "0.9")}
    table = sweep.Table("mine", "which is better", latest("small-5v5"), 700, (0,), 2, flags, rows)
    monkeypatch.setattr(sweep, "TABLES", {"mine": table})
    page, results = tmp_path / "page.md", tmp_path / "rows.jsonl"
    page.write_text(f"{sweep.BEGIN}\n{sweep.END}\n")
    where = RayArgs(ray=cluster.address)
    assert sweep.main(sweep.Args(table="mine", results=results, page=page, cluster=where)) == 0
    found = [json.loads(line) for line in results.read_text().splitlines()]
    assert sorted(row["row"] for row in found) == sorted(rows) and "## mine: which" in page.read_text()


def test_killed_worker_and_machine_do_not_change_tournament(cluster, leagues, tmp_path):
    """No battle is lost or recorded twice. This test is last, because it kills a machine."""
    folder, _, expected = leagues
    replay = tmp_path / "many.echelon"
    process = tournament(folder / "many", "--ray", cluster.address, "--replay", str(replay))
    killed = {cluster.kill_worker(): "WORKER_DIED", cluster.kill_machine(): "NODE_DIED"}
    said, errors = process.communicate(timeout=STUCK_S)
    assert process.returncode == 0, errors
    assert said == expected and "will be retried" in errors
    assert recorded(folder / "many") == recorded(folder / "one") and len(recorded(folder / "one")) > 80
    assert replay.read_bytes() == (folder / "one.echelon").read_bytes() and len(read(replay).battles) == 4
    attempts = cluster.tasks()
    failed = {task.name: task.error_type for task in attempts if task.state == "FAILED"}
    assert failed == killed, "the dashboard lists them"
    again = {task.name for task in attempts if task.attempt_number == 1 and task.state == "FINISHED"}
    assert again == set(killed)

"""Tables about one policy, the match log, and the list of shipped policies."""

import json

import pytest
from leagues import BRIEF, checkpoint_of, fought, fresh

from echelon.env.tasks import task as tasks
from echelon.env.tasks.task import Protocol, Task
from echelon.league import log
from echelon.league.commands import opponent_rows
from echelon.league.import_export import read_league, write_league
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.evaluate import Evaluate
from echelon.pipelines.league_records import Opponents
from echelon.pipelines.play import Play
from echelon.pipelines.skills import StyleCommand
from echelon.rules.config import EnvConfig
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def brief_task(monkeypatch):
    task = Task("tests/brief-v1", "2 s", BRIEF, *current_versions(), protocol=Protocol(("easy",), 2, 5))
    monkeypatch.setattr(tasks, "_REGISTERED", {task.name: task})
    return task.name


def test_printed_opponent_shares_match_training(tmp_path, capsys):
    store = fresh(tmp_path)
    me, weak, strong = (store.add(checkpoint_of(tmp_path, seed)) for seed in (1, 2, 3))
    store.record([fought(me.id, weak.id, n, 1) for n in range(9)] + [fought(me.id, strong.id, n, 2) for n in range(9)])
    rows = {row["name"]: row for row in opponent_rows(store, me.name)}
    # hard, (1 - x)^2 with x = (points + 0.5) / (games + 1): 0.05, 0.95, and 0.5 against itself.
    total = 0.95**2 + 0.05**2 + 0.5**2
    assert rows[strong.name]["share"] == pytest.approx(0.95**2 / total, abs=5e-4)
    assert rows[weak.name]["share"] == pytest.approx(0.05**2 / total, abs=5e-4)
    assert (rows[weak.name]["games"], rows[weak.name]["points"], rows[me.name]["points"]) == (9, 1.0, None)
    Opponents(me.name, store.folder, json=True).run()
    assert json.loads(capsys.readouterr().out) == [rows[name] for name in (strong.name, me.name, weak.name)]
    with pytest.raises(ConfigError, match="an entry must be an entry with a network"):
        opponent_rows(store, "heuristic:hard")


def test_style_of_one_policy_is_printed(brief_task, capsys):
    arena = ArenaArgs(device="cpu")
    StyleCommand("hard", ("easy",), brief_task, 2, json=True, arena=arena).run()
    told = json.loads(capsys.readouterr().out)
    assert told["policy"] == "hard" and told["response"].keys() == {"easy"} and "range" in told["numbers"]
    StyleCommand("hard", ("easy",), brief_task, 2, arena=arena).run()
    shown = " ".join(capsys.readouterr().out.split())
    assert "fighting style" in shown and "points per battle, 2 battles each" in shown and "fp32" in shown


def test_play_and_evaluate_log_each_match(brief_task, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(EnvConfig, "small", lambda: BRIEF)
    arena, path = ArenaArgs(device="cpu"), tmp_path / "log.jsonl"
    Play(blue="hard", red="easy", battles=4, json=True, log=path, arena=arena).run()
    told, rows = json.loads(capsys.readouterr().out), lines_of(path)
    assert [row["state_hash"] for row in rows] == [battle["state_hash"] for battle in told["outcomes"]]
    assert [(row["blue_name"], row["red_name"]) for row in rows] == [("hard", "easy"), ("easy", "hard")] * 2
    assert rows[0]["seed"] == rows[1]["seed"] != rows[2]["seed"] and rows[0]["precision"] == "fp32"
    Evaluate("hard", brief_task, opponents=("easy", "trivial"), seeds=1, json=True, log=path, arena=arena).run()
    opponents = json.loads(capsys.readouterr().out)["opponents"]
    assert [(row["blue_name"], row["red_name"], row["state_hash"]) for row in lines_of(path)] == [
        (*pair, outcome["state_hash"])
        for name in ("easy", "trivial")
        for pair, outcome in zip((("hard", name), (name, "hard")), opponents[name]["outcomes"], strict=True)
    ]


def test_log_of_a_league_names_entries_and_imported_matches(tmp_path):
    store = fresh(tmp_path)
    easy, hard = store.find("easy"), store.find("hard")
    matches = [fought(hard.id, easy.id, seed) for seed in (1, 2)]
    store.record(matches)
    log.write_batch(store, matches, 1.0, {"device": "cpu"})
    row = lines_of(store.folder / log.FILE)[0]
    assert (row["blue_name"], row["red_name"], row["blue"]) == (hard.name, easy.name, hard.id)
    write_league(store, tmp_path / "sent.json")
    copy = read_league(tmp_path / "sent.json", tmp_path / "copy")
    rows = lines_of(copy.folder / log.FILE)
    assert [(row["event"], row["imported"], row["seed"], row["blue_name"]) for row in rows] == [
        ("match", True, 1, hard.name),
        ("match", True, 2, hard.name),
    ]
    assert {"winner": "blue", "reason": "zone", "decisions": 20}.items() <= rows[0].items()

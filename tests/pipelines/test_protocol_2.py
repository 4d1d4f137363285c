"""Protocol 2 at the command line: evaluate, write, verify, add to the leaderboard, show."""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from brief_strangers import BATTLES, TASK, fighter, play_one_piece

from echelon.arena.strangers.leaderboard import markdown, read_table, without_places
from echelon.arena.strangers.verify import verify
from echelon.learn.checkpoint.provenance import Provenance
from echelon.pipelines import arena, commands
from echelon.reports.strangers import strangers_figure, write_leaderboard_page
from echelon.runtime.terminal import run
from echelon.viewer.paper import save

JUDGE = ("--task", TASK.name, "--protocol", "2", "--device", "cpu")
TABLE = ("--table", "board.json", "--device", "cpu")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Folder of a policy with its result and report."""
    home = tmp_path_factory.mktemp("judged")
    fighter(home, 1)
    with pytest.MonkeyPatch.context() as patch:
        play_one_piece(patch)
        patch.chdir(home)
        files = ("--out", "result.json", "--report", "report.html")
        patch.setattr(sys, "argv", ["arena.py", "evaluate", "policy_1", *JUDGE, *files])
        arena.main()
    return home


@pytest.fixture
def home(judged, monkeypatch, tmp_path):
    """Working folder that contains the policy and its result."""
    play_one_piece(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(judged, tmp_path, dirs_exist_ok=True)


def refused(monkeypatch, main, *words):
    monkeypatch.setattr(sys, "argv", ["program", *words])
    with pytest.raises(SystemExit) as ended:
        run(main)
    assert isinstance(ended.value.code, str) and "\n" not in ended.value.code
    return ended.value.code


def test_a_result_is_written_and_shown(home):
    told = json.loads((home / "result.json").read_text())
    assert told["command"].endswith("--report report.html") and told["by_protocol"]
    page = (home / "report.html").read_text()
    for part in ("<h1>policy_1</h1>", TASK.name, "self_play_gap", "worst_case", "<svg", told["runs"][0]["id"]):
        assert part in page
    assert "<script" not in page


def test_leaderboard_row_contains_no_machine_paths(home, ask):
    told = json.loads((home / "result.json").read_text())
    told["runs"][0]["policy"] = "/home/me/runs/policy_1"
    told["command"] = "echelon-arena evaluate /home/me/runs/policy_1 --out=/tmp/result.json"
    (home / "result.json").write_text(json.dumps(told))
    ask("leaderboard", "add", "result.json", "--policy", "policy_1", "--sample", "2", *TABLE)
    (row,) = read_table(Path("board.json"))
    assert (row["name"], row["runs"][0]["policy"]) == ("policy_1", "policy_1")
    assert row["command"] == "echelon-arena evaluate policy_1 --out=result.json"
    assert row["result"] == hashlib.sha256((home / "result.json").read_bytes()).hexdigest()
    found = verify("result.json", "policy_1", sample=2, device="cpu")
    assert [row["runs"][0][name] for name in ("id", "met")] == [found.record["runs"][0][name] for name in ("id", "met")]


def test_paths_are_relative_to_common_folder():
    runs = [{"policy": f"/w/{name}/checkpoints/best", "id": name} for name in ("a", "b")]
    told = without_places({"runs": runs, "command": "x /w/a/checkpoints/best '/v/q.html' https://c/d runs/mine"})
    assert [run["policy"] for run in told["runs"]] == ["a/checkpoints/best", "b/checkpoints/best"]
    assert told["command"] == "x a/checkpoints/best 'q.html' https://c/d runs/mine"
    kept = {"runs": [{"policy": "trained:quick"}], "command": "x league:leagues/mine/calm-raven"}
    assert without_places(kept) == kept


def test_published_leaderboard_contains_no_paths():
    for row in read_table(Path(__file__).parents[2] / "benchmarks" / "results" / "leaderboard.json"):
        assert {**row, **without_places(row)} == row


def test_verified_result_is_added_and_shown(home, ask, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["echelon", "verify", "result.json", "--policy", "policy_1", "--device", "cpu"])
    commands.main("")
    assert f"valid: {BATTLES} of {BATTLES} battles replayed, which are bit-identical" in capsys.readouterr().out
    add = ("leaderboard", "add", "result.json", "--policy", "policy_1", "--sample", "4", *TABLE)
    assert "board.json: <first> at tests/strangers-v1; result.json is valid: 4 of" in ask(*add, "--name", "<first>")
    (row,) = read_table(Path("board.json"))
    assert row["runs"][0]["provenance"]["unknown"] == [] and row["verified"]["bit_for_bit"]
    assert "the best" not in ask("leaderboard", "show", *TABLE) == markdown([row]) + "\n"
    assert "not yet in board.json" in refused(monkeypatch, arena.main, *add, "--name", "again")
    assert "page.html" in ask("leaderboard", "page", "--out", "page.html", *TABLE)
    page = Path("page.html").read_text()
    assert "&lt;first&gt;" in page and "<first>" not in page and "4 of 34 battles replayed" in page


def test_result_outside_task_protocol_is_refused(home, ask, monkeypatch):
    fighter(home, 2, Provenance(opponents=("style:turtle",)))
    told = ask("evaluate", "policy_2", *JUDGE, "--out", "two.json")
    assert "training contained style:turtle: the result does not count for the task" in told
    words = ("leaderboard", "add", "two.json", "--policy", "policy_2", "--sample", "2", *TABLE)
    assert "training contained style:turtle" in refused(monkeypatch, arena.main, *words)
    assert not Path("board.json").exists()


def test_wrong_result_prints_one_line(home, monkeypatch):
    told = json.loads(Path("result.json").read_text())
    told["scores"]["focal"]["value"] = 1.0
    Path("lie.json").write_text(json.dumps(told))
    words = ("verify", "lie.json", "--policy", "policy_1", "--device", "cpu")
    assert "lie.json: scores.focal.value is" in refused(monkeypatch, lambda: commands.main(""), *words)


BAD = {
    "no task": (("evaluate", "hard", "--protocol", "2", "--scenario", "hold-5v5"), "2 must be used with --task"),
    "opponents": (("evaluate", "hard", *JUDGE, "--opponents", "easy"), "--protocol 2 must be used with --task"),
    "a report of protocol 1": (("evaluate", "hard", "--task", TASK.name, "--out", "x"), "--protocol must be 2 if"),
    "a task without it": (("evaluate", "hard", *JUDGE[2:], "--task", "small-5v5-v1"), "must be a task with protocol 2"),
    "training's split": (("evaluate", "hard", *JUDGE, "--split", "train"), "split must be validation or test"),
    "nothing to add": (("leaderboard", "add", *TABLE), "a result must be given with add"),
    "no result": (("leaderboard", "add", "none.json", *TABLE), "none.json: cannot be read"),
    "no table": (("leaderboard", "show", "--table", "result.json"), "result.json.rows is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_one_line(home, monkeypatch, case):
    words, says = BAD[case]
    assert says in refused(monkeypatch, arena.main, *words)


def test_strip_has_paper_size_and_fonts(home):
    save(strangers_figure(json.loads(Path("result.json").read_text())["scores"]), Path("picture.pdf"))
    assert Path("picture.pdf").read_bytes().startswith(b"%PDF")
    write_leaderboard_page([], Path("empty.html"))
    assert "Leaderboard" in Path("empty.html").read_text()

"""League commands as a user runs them, and after a power cut."""

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

import programs
import pytest
import torch
from leagues import BRIEF, checkpoint_of
from patience import STUCK_S
from programs import ROOT, Program

from echelon.arena.config import ArenaConfig
from echelon.arena.style import BATTLES, MEASURES, Style
from echelon.league.config import LeagueConfig
from echelon.league.league_arena import LeagueArena, claimed
from echelon.league.store import Store
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError


def run(*arguments: str, program: str = "arena.py") -> str:
    done = programs.run(f"pipelines/{program}", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("R20")
def test_league_commands_work_end_to_end(tmp_path, ask):
    path = str(tmp_path / "league")
    assert "5 entries, battles of small" in run("init", "--league", path)
    with pytest.raises(FileError, match=f"{path}/league.sqlite: cannot be created: File exists"):
        ask("init", "--league", path)

    place = tmp_path / "brief"
    store = Store.create(place, BRIEF, LeagueConfig(min_games=1, commanders=1, commander_points=0.0))
    path = str(place)
    first = checkpoint_of(tmp_path, 1)
    second = checkpoint_of(tmp_path, 2, ancestors=open_checkpoint(first).lineage)
    ask("add", "--league", path, str(first), str(second))
    entries = {entry["name"]: entry for entry in json.loads(ask("list", "--league", path, "--json"))}
    one, two = (name for name in entries if ":" not in name)
    assert entries[two]["parent"] == one and len(entries) == 7

    replay = tmp_path / "first.echelon"
    recorded = ("--replay", str(replay), "--replay-battles", "2")
    rows = json.loads(ask("tournament", "--league", path, "--seeds", "1", "--json", *recorded))
    assert len(rows) == 7 and {row["games"] for row in rows} == {12} and replay.stat().st_size > 1000
    assert [row["rating"] for row in rows] == sorted((row["rating"] for row in rows), reverse=True)
    assert [row["kind"] for row in rows].count("commander") == 1
    table = ask("standings", "--league", path)
    assert "after period 1" in table and "conservative" in table

    with pytest.raises(
        ConfigError, match=r"--out must be the name of a picture that ends with \.pdf or \.svg or \.png, got '.*\.txt'"
    ):
        ask("payoff", "--league", path, "--out", str(tmp_path / "payoff.txt"))
    said = json.loads(ask("payoff", "--league", path, "--json"))
    assert Path(said["picture"]).read_bytes().startswith(b"\x89PNG")
    assert ask("ratings", "--league", path, "--out", str(tmp_path / "ratings.pdf")).strip().endswith("ratings.pdf")
    assert (tmp_path / "ratings.pdf").read_bytes().startswith(b"%PDF")
    assert sum(said["nash"].values()) == pytest.approx(1, abs=0.05) and said["exploitability"] < 0.01
    assert 0 <= said["cyclic"] <= 1 and said["cyclic_by_chance"] >= 0
    assert "of the payoff is cyclic, so ratings cannot explain it" in ask("payoff", "--league", path)

    match = ("play", "--blue", one, "--red", two, "--league", path, "--battles", "2")
    said = json.loads(ask(*match, "--json"))
    assert (said["precision"], said["compiled"], said["captured"]) == ("fp32", False, False)
    assert f"on {said['device']}: fp32, not compiled, not captured" in ask(*match)
    assert (said["x"], said["y"], said["battles"]) == (one, two, 2)

    rows = json.loads(ask("evaluate", str(first), "--league", path, "--seeds", "1", "--json"))["opponents"]
    assert len(rows) == 6 and all(row["battles"] == 2 for row in rows.values())
    assert len(store.matches()) == 42, "an evaluation is not recorded"

    ask("retire", "--league", path, one, "--reason", "too old")
    past = json.loads(ask("history", one, "--league", path, "--json"))
    assert len(past["ratings"]) == 1 and past["changes"][-1]["reason"] == "too old"
    with pytest.raises(ConfigError, match="an entry must be a name"):
        ask("history", "unknown", "--league", path)

    sent, copy = str(tmp_path / "sent" / "league.json"), str(tmp_path / "copy")
    ask("export", "--league", path, "--out", sent)
    assert "7 entries, 42 matches" in ask("import", sent, "--league", copy)
    assert json.loads(ask("standings", "--league", copy, "--json")) == json.loads(
        ask("standings", "--league", path, "--json")
    )
    lines = [json.loads(line) for line in (place / "log.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == [*["match"] * 42, "fought", "period closed", "fought"]
    assert lines[42]["matches"] == 42 and lines[42]["matches_per_s"] > 0
    assert lines[42]["kept"] and not lines[44]["kept"]
    names = ("blue", "red", "seed", "reason", "decisions", "duration_s", "state_hash")
    for line, match in zip(lines[:42], store.matches(), strict=True):
        assert line["period"] == 1 and {name: line[name] for name in names} == {n: getattr(match, n) for n in names}
        assert line["winner"] == ("draw", "blue", "red")[match.winner]
    with pytest.raises(FileError, match=r"found none: create one with `arena\.py init`"):
        ask("list", "--league", str(tmp_path / "none"))


def test_standings_print_style_distances(tmp_path, ask):
    """Uses stored styles, so no battle is played."""
    store = Store.create(tmp_path, BRIEF)
    entries, names = store.entries(), MEASURES.keys() - {"share"}
    fingerprint, seeds = (
        LeagueArena(store, ArenaConfig(torch.device("cpu"))).task.fingerprint,
        tuple(range(BATTLES // 2)),
    )
    response = {entry.name: 0.5 for entry in entries[1:]}
    for place, entry in enumerate(entries):
        numbers = {"share_laser": 0.0} | {name: float(place**2) for name in names}
        kept = Style(entry.name, "league", fingerprint, numbers, response, seeds, {})
        store.set_setting(f"style {entry.id}", kept.as_json())
    rows = {row["name"]: row for row in json.loads(ask("standings", "--league", str(tmp_path), "--style", "--json"))}
    trivial, easy, *_, expert = (rows[entry.name] for entry in entries)
    assert (trivial["like"], easy["like"], expert["like"]) == tuple(entries[place].name for place in (1, 0, 3))
    assert trivial["apart"] == easy["apart"] < expert["apart"] and expert["style"]["heat"] == 16
    assert (tmp_path / "styles.png").read_bytes().startswith(b"\x89PNG") and len(expert["plane"]) == 2
    table = ask("standings", "--league", str(tmp_path), "--style", "--out", str(tmp_path / "plane.pdf"))
    assert "apart" in table and table.strip().endswith("plane.pdf") and not store.matches()
    assert "apart" not in ask("standings", "--league", str(tmp_path))


def told(log: Path) -> int:
    """Return the number of batches in a log that may not exist yet."""
    return log.read_text().count('"fought"') if log.exists() else 0


@pytest.mark.requirement("R23")
@pytest.mark.long
def test_killed_tournament_keeps_results_and_continues(tmp_path):
    store = Store.create(tmp_path, BRIEF)
    for seed in (1, 2):
        store.add(checkpoint_of(tmp_path, seed))
    arguments = ("tournament", "--league", str(tmp_path), "--seeds", "1", "--batch", "6", "--json")
    log = tmp_path / "log.jsonl"
    for life in range(2):
        process = Program("pipelines/arena.py", *arguments)
        while process.poll() is None and told(log) <= life:
            time.sleep(0.02)
        process.kill()
        process.wait()
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        reported = sum(line["matches"] for line in lines if line["event"] == "fought")
        assert len(Store(tmp_path).matches()) >= reported >= 6 * (life + 1)
        assert Store(tmp_path).period == 1
    rows = json.loads(run(*arguments))
    assert {row["games"] for row in rows} == {6 * 2}
    matches = Store(tmp_path).matches()
    assert len(matches) == 21 * 2 and len({match.key for match in matches}) == len(matches)
    assert sum(json.loads(line).get("matches", 0) for line in log.read_text().splitlines()) >= len(matches) - 6 * 2


def test_two_tournaments_share_the_battles(tmp_path):
    """Each battle is played once, both tournaments end, and the period closes once."""
    Store.create(tmp_path, BRIEF)
    arguments = ("tournament", "--league", str(tmp_path), "--seeds", "1", "--batch", "3", "--json")
    both = [Program("pipelines/arena.py", *arguments) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0] and json.loads(said[0]) == json.loads(said[1])
    store = Store(tmp_path)
    assert len(store.matches(1)) == 20 and store.period == 2 and not claimed(store)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert sum(line["matches"] for line in lines if line["event"] == "fought") == 20
    assert not list((tmp_path / "fighting").iterdir())


@pytest.mark.requirement("R23")
@pytest.mark.long
def test_every_command_may_be_killed_at_any_moment(tmp_path):
    program = [sys.executable, str(Path(__file__).with_name("kill_a_league.py")), str(tmp_path), "2"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=STUCK_S, cwd=ROOT)
    log = tmp_path / "log.txt"
    assert done.returncode == 0, done.stderr + (log.read_text()[-2000:] if log.exists() else "")
    killed = json.loads(done.stdout)
    assert len(killed) == 13 and set(killed.values()) == {2}


def test_tournament_without_remaining_matches_closes_period(tmp_path, ask, monkeypatch):
    store, replay = Store.create(tmp_path / "league", BRIEF), tmp_path / "kept.echelon"
    arguments = ("tournament", "--league", str(store.folder), "--seeds", "1", "--json", "--replay", str(replay))
    with pytest.raises(ConfigError, match="--replay-battles must be >= 1, got 0"):
        ask(*arguments, "--replay-battles", "0")
    monkeypatch.setattr(LeagueArena, "unplayed", lambda arena, battles: [])
    ask(*arguments)
    assert store.period == 2 and not replay.exists()


@pytest.mark.long
def test_training_enters_a_league(tmp_path):
    league, folder = tmp_path / "league", tmp_path / "run"
    env = dataclasses.replace(BRIEF, map_seed=0)
    store = Store.create(league, env)
    tiny = (
        *(
            "--preset",
            "quick",
            *("--backend", "eager"),
            "--device",
            "cpu",
            "--num-envs",
            "8",
            "--past-blocks",
            "2",
            "--evaluation.battles",
            "2",
        ),
        *("--evaluation.final-battles", "2", "--env.map-pool", "2", "--env.rules.max-episode-s", "2"),
        *("--ppo.rollout-decisions", "8", "--ppo.chunk-decisions", "4", "--run-dir", str(folder)),
    )
    own = ("--opponent", f"league:{league}", "--league-every", "1", "--league-seeds", "1")
    said = run(*tiny, *own, "--total-agent-steps", "640", program="train.py")
    assert said.count("in the league ") == 2
    # The league had no usable opponent yet.
    assert said.count(f"{league}: no policy in it has this architecture (--model): until then 8 of 8 battles") == 1
    entered = store.entries("candidate", "commander")
    assert len(entered) == 2 and entered[1].parent == entered[0].id and store.period == 3
    assert sorted(path.name for path in (folder / "checkpoints").iterdir())[-1] == "iteration_000002"
    said = run(*tiny, *own, "--total-agent-steps", "960", "--resume", "latest", program="train.py")
    assert "no policy in it" not in said
    third = store.entries("candidate", "commander")[2:]
    assert [entry.parent for entry in third] == [entered[1].id], "the parent is its last entry"
    assert store.period == 4, "earlier matches are not rated again"
    other = [*tiny, "--env.sight-range-vox", "30", *own]
    done = programs.run("pipelines/train.py", *other)
    assert done.returncode == 1 and "as this training (env.sight_range_vox" in done.stderr


def test_evolve_refuses_settings_fixed_by_the_league(tmp_path, ask):
    path = str(Store.create(tmp_path / "league", BRIEF).folder)
    with pytest.raises(
        ConfigError,
        match=r"--train\.max-minutes must be left at its default, because the league.*, got 5\.0",
    ):
        ask("evolve", "--league", path, "--train.max-minutes", "5")
    with pytest.raises(ConfigError, match=r"seeds must be 1\.\.524288, got 0"):
        ask("evolve", "--league", path, "--seeds", "0")


@pytest.mark.long
def test_a_league_evolves(tmp_path):
    store = Store.create(tmp_path, BRIEF, LeagueConfig(exploiter_wins=0.0))
    said = run(
        *("evolve", "--league", str(tmp_path), "--turns", "1", "--iterations", "1", "--seeds", "1"),
        *(
            "--train.num-envs",
            "8",
            "--train.past-blocks",
            "2",
            "--train.ppo.rollout-decisions",
            "8",
            "--train.ppo.chunk-decisions",
            "4",
        ),
        *("--train.backend", "eager", "--device", "cpu"),
    )
    assert "turn 1, main exploiter: " in said and "joins and resets" in said
    assert len(store.entries("main")) == 1 and len(store.entries("exploiter")) == 2
    assert {change.change for change in store.changes()} >= {"added", "judged", "reset"}

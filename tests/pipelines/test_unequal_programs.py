"""Six light mechs against three heavies on the command line: train, evaluate, play and rate."""

import json

import pytest
from runs import TINY, run

from echelon.league.config import LeagueConfig
from echelon.league.store import Store
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.metrics import read_table
from echelon.runtime.errors import ConfigError

ROSTERS = (*["light"] * 6,), (*["heavy"] * 3,)
FLAGS = ("--blue-roster", *ROSTERS[0], "--red-roster", *ROSTERS[1])


@pytest.mark.long
def test_unequal_teams_train_play_and_are_rated(tmp_path, ask):
    folder, league = tmp_path / "run", str(tmp_path / "league")
    rosters = ("--env.blue", *ROSTERS[0], "--env.red", *ROSTERS[1])
    # Learner teams of six and of three mechs, 8 decisions: one iteration has 144 agent steps.
    done = run("train.py", *TINY, *rosters, "--run-dir", str(folder), "--total-agent-steps", "200")
    assert done.returncode == 0, done.stderr
    assert [float(row["agent_steps"]) for row in read_table(folder / "metrics.csv")] == [144, 288]
    rows = read_table(folder / "evaluations.csv")
    assert all(float(row["win_rate_blue"]) + float(row["win_rate_red"]) == 2 * float(row["win_rate"]) for row in rows)
    assert "as blue" in done.stdout
    checkpoint = str(max((folder / "checkpoints").iterdir()))

    said = json.loads(ask("play", "--blue", checkpoint, "--red", "heuristic:easy", "--battles", "2", "--json"))
    assert [outcome["x_side"] for outcome in said["outcomes"]] == ["blue", "red"]
    assert said["x_win_rate_by_side"].keys() == {"blue", "red"}

    assert "5 entries, battles of 6v3 on 40x40x16" in ask("init", "--league", league, *FLAGS)
    place = tmp_path / "brief"
    store = Store.create(place, open_checkpoint(checkpoint).env, LeagueConfig(min_games=1, commanders=1))
    for tier in ("trivial", "normal", "hard", "expert"):
        store.set_kind(store.find(f"heuristic:{tier}"), "retired", "retired", "a small league", store.period)
    ask("add", "--league", str(place), checkpoint)
    ask("tournament", "--league", str(place), "--seeds", "1", "--json")
    table = json.loads(ask("standings", "--league", str(place), "--json"))
    own, easy = (row for row in table if row["games"] == 2)
    assert own["as blue"] + easy["as red"] == own["as red"] + easy["as blue"] == 1
    assert own["as blue"] + own["as red"] == 2 * own["points"]


def test_unknown_hull_prints_one_line(ask, tmp_path):
    with pytest.raises(ConfigError, match=r"EnvConfig.red must be chosen from .*, got 'tank'"):
        ask("play", "--blue", "heuristic:easy", "--red", "heuristic:hard", "--red-roster", "tank")
    with pytest.raises(ConfigError, match=r"EnvConfig.blue must be 1..20 hull names"):
        ask("init", "--league", str(tmp_path / "league"), "--blue-roster", *["light"] * 21)

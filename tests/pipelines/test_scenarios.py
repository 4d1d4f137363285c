"""`--scenario` of the programs: battles from custom and shipped positions."""

import json

import pytest
from runs import TINY, run

import echelon
from echelon import EnvConfig
from echelon.datasets.dataset import open_dataset
from echelon.env.observation import layout
from echelon.learn.train_flags import read_config
from echelon.pipelines.describe import Describe
from echelon.pipelines.maps import DrawMaps
from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.reports.pictures import scenario_tiles
from echelon.runtime.errors import ConfigError

DUEL = {
    "boxes": [{"low": [19, 10, 0], "high": [21, 30, 4]}],
    "units": [
        {"team": "blue", "hull": "light", "x": 12, "y": 20},
        {"team": "red", "hull": "scout", "x": 30, "y": 20, "hp": 0.25},
    ],
    "rules": {"max_episode_s": 5.0},
}
SCRIPTED = ("--blue", "heuristic:hard", "--red", "heuristic:easy")


@pytest.fixture
def duel(tmp_path):
    path = tmp_path / "duel.json"
    path.write_text(json.dumps(DUEL))
    return path


def test_commanders_play_from_a_scenario(duel):
    words = ("arena.py", "play", *SCRIPTED, "--scenario", str(duel))
    played = run(*words, "--battles", "4", "--json")
    assert played.returncode == 0, played.stderr
    assert [one["decisions"] <= 20 for one in json.loads(played.stdout)["outcomes"]] == [True] * 4
    shown = run(*words, "--battles", "2")
    assert "as blue" in shown.stdout, "results are per side"
    for more, said in (
        (("--env", "small"), "--scenario must be given without --env"),
        (("--red-roster", "light"), "--scenario must be used without --catalog and without roster flags"),
        (("--scenario", "siege-10v10"), "scenarios of one batch must have one shape: settings."),
    ):
        refused = run(*words, *more)
        assert refused.returncode != 0 and refused.stderr.startswith("error: " + said), refused.stderr
        assert refused.stderr.count("\n") == 1
    duel.write_text(json.dumps({**DUEL, "units": []}))
    refused = run(*words)
    assert (
        refused.returncode != 0 and refused.stderr == "error: duel.json: Scenario.units of blue must be 1..20, got 0\n"
    )


@pytest.mark.long
def test_policy_trains_and_plays_in_a_scenario(duel, tmp_path):
    """Train, resume, evaluate, play, record and watch; mismatches are refused by name."""
    folder, replay, tiny = tmp_path / "run", tmp_path / "duel.echelon", TINY[: TINY.index("--env.map-pool")]
    words = ("train.py", *tiny, *TINY[TINY.index("--ppo.rollout-decisions") :], "--run-dir", str(folder))
    words = (*words, "--opponent", "heuristic:easy")
    learnt = run(*words, "--scenario", str(duel), "--total-agent-steps", "64")
    assert learnt.returncode == 0, learnt.stderr
    metadata = json.loads(next(folder.glob("checkpoints/*2/checkpoint.json")).read_text())
    assert metadata["env"]["positions"][0]["units"][0]["hull"] == "light" and metadata["counters"]["iterations"] == 2
    resumed = run(*words, "--scenario", str(duel), "--total-agent-steps", "96", "--resume", "latest")
    assert resumed.returncode == 0, resumed.stderr
    moved = {**DUEL, "units": [{**DUEL["units"][0], "x": 13}, DUEL["units"][1]]}
    (tmp_path / "moved.json").write_text(json.dumps(moved))
    other = run(*words, "--scenario", str(tmp_path / "moved.json"), "--total-agent-steps", "128", "--resume", "latest")
    assert other.returncode != 0 and "env.positions[0].units[0].x is 13.0 here and 12.0 there" in other.stderr
    match = ("arena.py", "play", "--blue", str(folder), "--red", "heuristic:easy", "--battles", "2")
    played = run(*match, "--json", "--replay", str(replay))
    assert played.returncode == 0, played.stderr
    again = run(*match, "--json", "--scenario", str(duel))
    assert json.loads(again.stdout)["outcomes"] == json.loads(played.stdout)["outcomes"], "the checkpoint's battle"
    kept = read(replay)
    assert rebuild(kept, kept.battles[0])[3, 15, 19:22].tolist() == [4, 4, 0]
    watched = run("arena.py", "watch", str(replay))
    assert watched.returncode == 0 and (tmp_path / "duel.html").exists(), watched.stderr


@pytest.fixture
def brief(tmp_path):
    """The shipped 5v5 positions have equal shapes; these are two short ones."""
    paths = []
    for name in ("gate-5v5", "last-stand-5v5"):
        values = echelon.find_scenario(name).as_json()
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps({**values, "rules": {"max_episode_s": 2.0}}))
    return [word for path in paths for word in ("--scenario", str(path))]


def test_scenarios_work_in_evaluations_datasets_and_leagues(ask, brief, tmp_path):
    found = json.loads(
        ask("evaluate", "heuristic:easy", *brief, "--opponents", "heuristic:easy", "--seeds", "1", "--json")
    )
    assert found["task"] == "scenario" and found["opponents"]["heuristic:easy"]["battles"] == 2
    out = tmp_path / "battles.safetensors"
    ask("dataset", "--commanders", "heuristic:easy", *brief, "--battles", "2", "--out", str(out), "--quiet")
    assert len(open_dataset(out).config.positions) == 2
    league = str(tmp_path / "league")
    ask("init", "--league", league, *brief)
    ask("retire", "heuristic:expert", "heuristic:hard", "--league", league)
    assert "as blue" in ask("tournament", "--league", league, "--seeds", "1")


def test_scenario_name_works_instead_of_file(ask, brief):
    played = json.loads(ask("play", *SCRIPTED, *brief, "--battles", "2", "--json"))
    assert len(played["outcomes"]) == 2
    for words in (("play", *SCRIPTED), ("evaluate", "heuristic"), ("init", "--league", "x")):
        with pytest.raises(ConfigError, match=r"^a scenario must be one of breakthrough-5v5, .*, got 'gate-6v6'"):
            ask(*words, "--scenario", "gate-6v6")
    with pytest.raises(ConfigError, match=r"^--scenario must be given without --env, got 'gate-5v5'$"):
        ask("init", "--league", "x", "--env", "small", "--scenario", "gate-5v5")
    with pytest.raises(ConfigError, match=r"^--scenario must be given without --catalog, got 'gate-5v5'$"):
        read_config(["--preset", "quick", "--catalog", "x.json", "--scenario", "gate-5v5"])
    config = read_config(["--preset", "quick", "--scenario", "gate-5v5", "--env.reward.kill", "2"])
    assert config.env.positions == echelon.find_scenario("gate-5v5").config.positions and config.env.reward.kill == 2
    with pytest.raises(ConfigError, match=r"CurriculumConfig.team_size must be empty, because the scenario defines it"):
        read_config(["--preset", "quick", "--scenario", "gate-5v5", "--curriculum.team-size", "3"])


def test_scenario_flag_accepts_weights(ask):
    config = read_config(["--preset", "quick", "--scenario", "gate-5v5:2", "--scenario=last-stand-5v5"]).env
    assert [position.weight for position in config.positions] == [2, 1]
    assert config == echelon.scene_config(["gate-5v5", "last-stand-5v5"], [2, 1])
    for word, said in (
        ("gate-5v5:0", "Position.weight must be 1..100 times as often as one of weight 1, got 0"),
        ("gate-5v5:x", "a scenario must be one of"),
    ):
        with pytest.raises(ConfigError, match=f"^{said}"):
            ask("play", *SCRIPTED, "--scenario", word)


def test_a_scenario_is_described_and_drawn(duel, tmp_path, capsys):
    scenario = echelon.Scene(EnvConfig(comm_dim=3)).place("blue", "light", (12, 20)).place("red", "light", (30, 20))
    path = tmp_path / "three.json"
    scenario.scenario.save(path)
    Describe(scenario=(str(path),), json=True).run()
    told = json.loads(capsys.readouterr().out)
    assert told["sha256"] == layout.layout_hash(3)
    Describe(scenario=(str(path),)).run()
    with pytest.raises(ConfigError, match=r"^--scenario must be used without --env, --comm-dim and --markdown"):
        Describe(scenario=(str(path),), comm_dim=4)
    (tile,) = scenario_tiles((str(duel),))
    assert tile.caption == "duel" and tile.spawns == [(12.0, 20.0, 0), (30.0, 20.0, 1)] and tile.ground[3, 15, 20] == 4
    DrawMaps(out=tmp_path / "duel.png", scenario=(str(duel),)).run()
    assert (tmp_path / "duel.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"^--scenario must be used without --env, --maps and --map-seed, got '"):
        DrawMaps(scenario=(str(duel),), maps=3).run()


def test_pieces_command_prints_skills():
    words = ("arena.py", "pieces", "line", "--only", "jump_wall", "--seeds", "2")
    told = json.loads(run(*words, "--json").stdout)
    assert told["set"] == "pieces-v1" and told["pieces"]["jump_wall"]["wins"] == 2
    shown = run(*words)
    assert "jump_wall  ####################  100%" in shown.stdout, shown.stderr
    refused = run("arena.py", "pieces", "hard", "--only", "juggle", "--plot", "bars.txt")
    assert "--plot must be the name of a picture that ends with .pdf or .svg or .png, got 'bars.txt'" in refused.stderr
    refused = run("arena.py", "pieces", "hard", "--only", "juggle")
    assert refused.returncode == 1 and refused.stderr.startswith("error: a piece must be one of break_wall, ")

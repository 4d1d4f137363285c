"""`arena.py play --scenario`: a match from a position of one's own."""

import json

from runs import run

DUEL = {
    "boxes": [{"low": [19, 10, 0], "high": [21, 30, 4]}],
    "units": [
        {"team": "blue", "hull": "light", "x": 12, "y": 20},
        {"team": "red", "hull": "scout", "x": 30, "y": 20, "hp": 0.25},
    ],
    "rules": {"max_episode_s": 5.0},
}


def test_commanders_fight_from_a_position(tmp_path):
    path = tmp_path / "duel.json"
    path.write_text(json.dumps(DUEL))
    words = ("arena.py", "play", "--blue", "heuristic:hard", "--red", "heuristic:easy", "--scenario", str(path))
    played = run(*words, "--battles", "4", "--json")
    assert played.returncode == 0, played.stderr
    assert [one["decisions"] <= 20 for one in json.loads(played.stdout)["outcomes"]] == [True] * 4
    shown = run(*words, "--battles", "2")
    assert "as blue" in shown.stdout, "told by side"
    for more, said in (
        (("--env", "small"), "--scenario must be given without --env, --catalog and rosters"),
        (("--replay", str(tmp_path / "duel.echelon")), "--replay must be absent with --scenario"),
    ):
        refused = run(*words, *more)
        assert refused.returncode != 0 and refused.stderr.startswith("error: " + said), refused.stderr
        assert refused.stderr.count("\n") == 1
    path.write_text(json.dumps({**DUEL, "units": []}))
    refused = run(*words)
    assert refused.returncode != 0 and refused.stderr == "error: Scenario.units of blue must be 1..20, got 0\n"


def test_what_a_commander_can_do_is_told_skill_by_skill():
    words = ("arena.py", "pieces", "line", "--only", "jump_wall", "--seeds", "2")
    told = json.loads(run(*words, "--json").stdout)
    assert told["set"] == "pieces-v1" and told["pieces"]["jump_wall"]["wins"] == 2
    shown = run(*words)
    assert "jump_wall  ####################  100%" in shown.stdout, shown.stderr
    refused = run("arena.py", "pieces", "hard", "--only", "juggle")
    assert refused.returncode == 1 and refused.stderr.startswith("error: a piece must be one of break_wall, ")

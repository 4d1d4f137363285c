"""Set pieces: their lines win, a scripted commander does not, and an invalid file raises one line."""

import copy
import json
import re
from pathlib import Path

import pytest
import torch

import echelon
from echelon.agents.line import LineCommander
from echelon.arena.config import ArenaConfig
from echelon.arena.match import battle_seeds
from echelon.arena.resolve import resolve
from echelon.arena.skills import SEED, PieceResult, SkillProfile, play_piece, skill_profile
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError
from echelon.scenarios.piece import FOLDER, LONGEST_S, PIECES, find_piece, piece_from_json, pieces

CPU = torch.device("cpu")
SEEDS, FEW = 64, 8
USUAL = ("jump_wall", "outrange", "through_leaves")
"""Pieces that the usual test run plays, on a few seeds."""
FURTHER = 3_000_017
"""Base of held-out seeds, which were not used while a piece was designed."""


def rate(name: str, policy: str, seed: int = SEED, seeds: int = SEEDS) -> float:
    return play_piece(find_piece(name), policy, battle_seeds(seed, 2 * seeds), ArenaConfig(CPU)).win_rate


@pytest.mark.parametrize(
    ("name", "seeds"),
    [*((name, FEW) for name in USUAL), *(pytest.param(name, SEEDS, marks=pytest.mark.long) for name in pieces())],
)
def test_line_wins_and_hard_does_not(name, seeds):
    assert rate(name, "line", seeds=seeds) >= 0.9
    assert rate(name, "heuristic:hard", seeds=seeds) <= 0.4


@pytest.mark.long
@pytest.mark.parametrize("name", pieces())
def test_line_wins_and_hard_does_not_on_held_out_seeds(name):
    assert rate(name, "line", FURTHER) >= 0.9
    assert rate(name, "heuristic:hard", FURTHER) <= 0.4


@pytest.mark.parametrize("name", pieces())
def test_piece_is_short_and_has_the_layout_of_preset_small(name):
    piece, small = find_piece(name), EnvConfig.small()
    config = piece.scenario.config
    assert config.rules.max_episode_s <= LONGEST_S and piece.skill.endswith(".")
    assert (config.features, config.comm_dim, config.world) == (small.features, small.comm_dim, small.world)
    assert config.catalog == small.catalog


def test_page_lists_every_piece():
    page = (Path(__file__).parents[2] / "docs" / "SET_PIECES.md").read_text()
    told = re.findall(r"^\| `(\w+)` \| (.*?) \| `(\w+)` \|", page, re.M)
    sentences = {name: skill[0].upper() + skill[1:] + "." for name, skill, _ in told}
    assert sentences == {name: find_piece(name).skill for name in pieces()}
    assert {name: f"heuristic:{tier}" for name, _, tier in told} == {n: find_piece(n).opponent for n in pieces()}


def test_one_policy_plays_all_pieces():
    config = EnvConfig.small()
    policy = LSTMConfig(hidden=16).build(PolicySpecs(config.comm_dim)).eval()
    found = skill_profile(policy, pieces()[:2], seeds=2, device="cpu")
    assert found.policy == "policy" and [len(one.won) for one in found.results.values()] == [2, 2]


def test_profile_is_printed_as_json_and_as_a_table():
    result = PieceResult("Jump.", "heuristic:hard", (True, True, False, True), 1)
    found = SkillProfile("mine", {"jump": result}, (1, 2, 3, 4), {"rules": 3})
    low, high = result.interval
    assert found.rows() == [
        {"piece": "jump", "battles": 4, "wins": 3, "draws": 1, "win_rate": 0.75, "low": low, "high": high}
    ]
    told = json.loads(json.dumps(found.as_json()))
    assert told["set"] == "pieces-v1" and told["pieces"]["jump"]["won"] == [True, True, False, True]
    assert str(found) == f"jump  ###############.....   75% ({low:4.0%} to {high:4.0%})  Jump."
    assert echelon.pieces() == pieces() and echelon.skill_profile is skill_profile


def test_fewer_seeds_are_a_prefix():
    name = "outrange"
    two, three = (skill_profile("hard", [name], seeds=count, device="cpu") for count in (2, 3))
    assert three.seeds[:2] == two.seeds and three.results[name].won[:2] == two.results[name].won


def test_unknown_names_raise():
    for call, said in (
        (lambda: skill_profile("hard", ["juggle"]), r"^a piece must be one of .*, got 'juggle'$"),
        (lambda: skill_profile("hard", "juggle"), r"^names must be a list of at least one piece"),
        (lambda: skill_profile("hard", seeds=0), r"^seeds must be 1..1000000 seeds, got 0$"),
        (
            lambda: echelon.evaluate("hard", PIECES),
            r"^task must be a battle \(for set pieces use echelon.skill_profile\)",
        ),
        (lambda: resolve("line:juggle"), r"^a piece must be one of "),
        (
            lambda: resolve(f"line:{pieces()[0]}").policy(EnvConfig.small(), CPU),
            r"^line:.* a commander of a team of .*",
        ),
    ):
        with pytest.raises(ConfigError, match=said) as raised:
            call()
        assert "\n" not in str(raised.value)


def test_line_commander_has_a_name():
    name = pieces()[0]
    config = find_piece(name).scenario.config
    policy = resolve(f"line:{name}").policy(config, CPU)
    assert isinstance(policy, LineCommander) and not policy.training


GOOD = {
    "skill": "Walk.",
    "side": "blue",
    "opponent": "heuristic:hard",
    "rules": {"max_episode_s": 10.0},
    "units": [{"team": "blue", "hull": "scout", "x": 9, "y": 9}, {"team": "red", "hull": "light", "x": 30, "y": 30}],
    "line": {"blue_0": [{"until_s": 3.0, "to": [20, 20]}, {"fire": ["painter"], "face": [30, 30], "jets": 0.5}]},
}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("skill",), 3, r"skill must be a non-empty text, got 3"),
        (("side",), "green", r"side must be blue or red, got 'green'"),
        (("rules", "max_episode_s"), 60.0, r"rules.max_episode_s must be at most 20 s, got 60.0"),
        (("gravity",), 1, r"gravity must be one of "),
        (("line",), [], r"line must be an object of steps for blue_0, got \[\]"),
        (("line",), {}, r"line must be with steps of blue_0, got \[\]"),
        (("line", "red_0"), [{}], r"line.red_0 must be one of blue_0, got 'red_0'"),
        (("line", "blue_0"), {}, r"line.blue_0 must be a list, got {}"),
        (("line", "blue_0"), [{}] * 17, r"line.blue_0 must be 1..16 steps, got 17"),
        (("line", "blue_0", 0), 3, r"line.blue_0\[0\] must be an object, got 3"),
        (
            ("line", "blue_0", 0, "too"),
            [1, 2],
            r"line.blue_0\[0\].too must be one of from_s, .*, got 'too'",
        ),
        (("line", "blue_0", 0, "to"), [1], r"line.blue_0\[0\]: Step.to must be x, y, got \(1.0,\)"),
        (("line", "blue_0", 0, "to"), [1, 1e9], r"line.blue_0\[0\]: Step.to must be 0..500 vox, got "),
        (
            ("line", "blue_0", 0, "keep"),
            3.0,
            r"line.blue_0\[0\]: Step.keep must be absent beside to, got 3.0",
        ),
        (("line", "blue_0", 0, "rear"), True, r"line.blue_0\[0\]: Step.rear must be beside keep, got True"),
        (("line", "blue_0", 1, "jets"), "up", r"line.blue_0\[1\].jets must be a float, got 'up'"),
        (("line", "blue_0", 1, "jets"), 2.0, r"line.blue_0\[1\]: Step.jets must be 0..1, got 2.0"),
        (
            ("line", "blue_0", 1, "emit"),
            "noise",
            r"line.blue_0\[1\]: Step.emit must be one of '', 'ecm', 'eccm'",
        ),
        (
            ("line", "blue_0", 1, "target"),
            "red_0",
            r"line.blue_0\[1\]: Step.target must be one of any, scout, ",
        ),
        (
            ("line", "blue_0", 1, "fire"),
            ["gauss"],
            r"line.blue_0\[1\].fire must be one of painter, smoke, weapons of a scout, got 'gauss'",
        ),
    ],
)
def test_invalid_piece_raises_one_line(path, value, said):
    values = copy.deepcopy(GOOD)
    place = values
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ConfigError, match=r"^walk\.json\." + said) as raised:
        piece_from_json(values, "walk")
    assert "\n" not in str(raised.value)


def test_piece_file_is_read_completely():
    piece = piece_from_json(GOOD, "walk")
    assert piece.hulls == ("scout",) and piece.line[0][0].to == (20.0, 20.0) and piece.line[0][1].fire == ("painter",)
    assert sorted(path.stem for path in FOLDER.iterdir()) == pieces(), "no other files"

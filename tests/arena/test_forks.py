"""Forks of a recorded battle without changes are identical, and counting resumes after a kill."""

import dataclasses

import numpy as np
import pytest
import torch
from leagues import BRIEF, checkpoint_of

import echelon
from echelon.arena.config import ArenaConfig
from echelon.arena.fork import fork
from echelon.arena.match import named_match, replay_of
from echelon.arena.whatif import whatif
from echelon.command.port import CommandPort, named_over
from echelon.replay.battle import Battle, Replay
from echelon.replay.file import read, save
from echelon.replay.ground import rebuild
from echelon.replay.recorder import Recorder
from echelon.rules.orders import CommandConfig, OrderField
from echelon.rules.versions import MAP_MAKER_VERSION, RULES_VERSION
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.scenarios.scene import config_of_words, scenario_names
from echelon.viewer.page import write_page

CPU = torch.device("cpu")
UNEQUAL = dataclasses.replace(BRIEF, red=BRIEF.red[:3])


def recorded(blue, red, config, battles, seed):
    """Return the replay of some battles of a match, read from its file."""
    match, recorder = named_match(blue, red, config, battles, ArenaConfig(CPU)), Recorder(range(battles))
    match.play(seed, recorder)
    return replay_of(recorder, blue, red)


def assert_same(was: Battle, became: Battle):
    """Compare all arrays and metadata of two battles, except value estimates, which a replay cannot reproduce."""
    assert was.about == became.about
    for field in dataclasses.fields(Battle):
        one, other = getattr(was, field.name), getattr(became, field.name)
        if isinstance(one, np.ndarray) and field.name != "values":
            assert np.array_equal(one, other), field.name


@pytest.mark.long
@pytest.mark.parametrize(
    ("config", "battles", "names"),
    [
        (BRIEF, 18, ("expert", "hard")),
        (UNEQUAL, 16, ("hard", "easy")),
        *((config_of_words((name,)), 4, ("hard", "normal")) for name in scenario_names()[:4]),
    ],
    ids=["5v5", "5v3", *scenario_names()[:4]],
)
def test_unchanged_forks_of_scripted_battles_are_identical(config, battles, names):
    """There are 50 battles, each forked before its first decision, and every fourth at a later one too."""
    replay = recorded(*names, config, battles, seed=7)
    for index, battle in enumerate(replay.battles):
        for at_s in (0.0, 1.0)[: 1 + (index % 4 == 0 and battle.decisions > 4)]:
            assert_same(*fork(replay, index, at_s=at_s, device="cpu").battles)


@pytest.mark.long
@pytest.mark.parametrize("config", [BRIEF, UNEQUAL], ids=["5v5", "5v3"])
def test_unchanged_forks_of_network_battles_are_identical(config, tmp_path):
    """There are 20 battles of networks with memory, forked at the start or a second later."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    names = [str(checkpoint_of(tmp_path / folder, seed)) for folder, seed in (("one", 1), ("two", 2))]
    replay = recorded(*names, config, 10, seed=3)
    for index in range(10):
        assert_same(*fork(replay, index, at_s=float(index % 2), device="cpu").battles)


def test_replay_with_unknown_commanders_opens_but_cannot_fork(tmp_path):
    replay = recorded("hard", "easy", BRIEF, 2, seed=1)
    replay.battles[0].about["blue"] = "missing"
    save(replay, tmp_path / "missing.echelon")
    opened = read(tmp_path / "missing.echelon")
    words = r"^battle 1 cannot be forked without its commanders: missing: expected a tier"
    with pytest.raises(FileError, match=words):
        fork(opened, at_s=0.0, device="cpu")
    with pytest.raises(FileError, match=words):
        whatif(opened, device="cpu")
    opened.battles[1].about["red"] = "human over heuristic:easy"
    with pytest.raises(FileError, match=r"^battle 2 must be a battle recorded with the orders of its commander, got "):
        fork(opened, 1, at_s=0.0, device="cpu")


@pytest.fixture(scope="module")
def commanded(tmp_path_factory):
    """Return a battle whose blue packs received orders every half second, read from its file."""
    rules = dataclasses.replace(BRIEF.rules, max_episode_s=4.0)
    orders = CommandConfig(enabled=True, period=2, delay_s=0.75, drill_s=1.0)
    config, recorder = dataclasses.replace(BRIEF, command=orders, rules=rules), Recorder([1])
    view = echelon.commanders(config, "heuristic:hard", "heuristic:easy", 2, CPU, 5, side="blue", observer=recorder)
    port = CommandPort(view)
    for step in range(8):
        place, fire = [11.3 + 2 * step, 17.7], ("free", "return", "hold")[step % 3]
        kind = ("move", "hold", "defend", "free")[step % 4]
        told = {"battle": 1, "kind": kind, "urgency": step / 9, "fire": fire}
        assert not port.order([told | ({"place": place} if kind in ("move", "defend") else {})])
        port.step()
    path = tmp_path_factory.mktemp("commanded") / "commanded.echelon"
    save(recorder.finish([named_over("stdio", "heuristic:hard")], ["heuristic:easy"]), path)
    return path


def test_recorded_orders_are_replayed(commanded, tmp_path):
    replay = read(commanded)
    (battle,) = replay.battles
    assert battle.commands.shape == (8, 2, 18) and battle.commands[:, 0].any() and not battle.commands[:, 1].any()
    for at_s in (0.0, 1.5):
        assert_same(*fork(replay, at_s=at_s, device="cpu").battles)
    was, became = fork(replay, at_s=1.5, red="hard", device="cpu").battles
    assert became.about["blue"] == was.about["blue"] and became.about["red"] == "heuristic:easy, then hard"
    # The fork repeats the recorded orders to blue's packs at their times.
    issued = [each.orders[:, 0, OrderField.ISSUED] for each in (was, became)]
    assert np.array_equal(*issued) and len(set(issued[0].tolist())) > 4
    write_page(replay, [rebuild(replay, battle)], tmp_path / "page.html")
    silent = dataclasses.replace(battle, commands=np.zeros_like(battle.commands))
    with pytest.raises(FileError, match="the replayed battle must be"):
        fork(Replay(replay.about, [silent]), at_s=3.5, device="cpu")


def test_a_mech_may_follow_its_order(commanded):
    """The mech walks along the path that its commander observes; without an order the column is absent."""
    was, became = fork(commanded, at_s=1.5, mech=1, intervention="follow_order", device="cpu").battles
    assert same_until(was, became, 7) and not same_until(was, became)
    moves = became.moves[7:, 1]
    assert np.abs(moves[:, :2]).max() > 100 and not moves[:, 2].any()
    asked = {"every": 16, "branches": 2, "interventions": ("follow_order", "removed"), "device": "cpu"}
    found = whatif(commanded, at_s=1.5, **asked)
    assert set(found.mechs.keys()) == {"follow_order", "removed"}
    assert set(whatif(commanded, at_s=0.0, **asked).mechs.keys()) == {"removed"}
    with pytest.raises(
        ConfigError,
        match=r"^intervention must be an intervention other than following an order",
    ):
        fork(recorded("hard", "easy", BRIEF, 2, seed=1), at_s=0.0, intervention="follow_order", device="cpu")


def same_until(one: Battle, other: Battle, moments: int | None = None) -> bool:
    return all(np.array_equal(getattr(one, name)[:moments], getattr(other, name)[:moments]) for name in ("pos", "hp"))


def test_battle_that_differs_before_its_fork_is_rejected():
    replay = recorded("hard", "easy", BRIEF, 2, seed=1)
    replay.battles[0].pos[3, 2, 0] += 1
    with pytest.raises(FileError, match=r"^pos of the replayed battle must be as recorded in the first 4 decisions"):
        fork(replay, at_s=1.0, device="cpu")


@pytest.mark.long
def test_count_resumes_after_a_kill(tmp_path):
    log, seen = tmp_path / "whatif.log", []
    asked = {"blue": "hard", "red": "easy", "every": 4, "branches": 3, "at_s": 1.0, "interventions": ("removed",)}
    asked |= {"device": "cpu", "batch": 6}

    class Killed(BaseException):
        pass

    def kill(done, of):
        if done >= 18:
            raise Killed

    with pytest.raises(Killed):
        whatif(BRIEF, **asked, log=log, on_progress=kill)
    log.write_bytes(log.read_bytes() + b"bbr")  # an unfinished line
    again = whatif(BRIEF, **asked, log=log, on_progress=lambda done, of: seen.append((done, of)))
    assert seen[0] == (12, 36) and seen[-1] == (36, 36)
    whole = whatif(BRIEF, **asked)
    assert again.as_json() == whole.as_json()
    seen.clear()
    whatif(BRIEF, **{**asked, "branches": 2}, log=log, on_progress=lambda done, of: seen.append((done, of)))
    assert seen[0] == (0, 24), "another call begins anew"


def test_cost_of_each_death():
    """A repaired mech changes blue's win rate, and the table has each death once."""
    config = dataclasses.replace(BRIEF, rules=dataclasses.replace(BRIEF.rules, max_episode_s=16.0), map_pool=1)
    replay = recorded("hard", "easy", config, 2, seed=3)
    dead = replay.battles[0].deaths[:, 1].tolist()
    found = whatif(replay, every=32, branches=2, deaths=True, device="cpu")
    assert dead and found.deaths["mech"].tolist() == dead and found.as_json()["deaths"][0]["mech"] == dead[0]
    times = replay.battles[0].deaths[:, 0] // 5 * 0.25
    assert found.deaths["s"].tolist() == pytest.approx(times.tolist())
    assert set(times.round(2)) <= {round(float(s), 2) for s in found.moments["decision"] * 0.25}


@pytest.mark.parametrize("split", [None, "test"])
def test_battle_of_an_evaluation_is_forked_on_its_own_maps(split):
    """Evaluations use other maps than training: another `map_seed`, and seeds of a split."""
    recorder, config = Recorder([0, 1]), dataclasses.replace(BRIEF, map_pool=2)
    task = echelon.Task("brief-v1", "brief battles", config, RULES_VERSION, MAP_MAKER_VERSION)
    options = {"opponents": ["heuristic:easy"], "battles": 2, "split": split}
    echelon.evaluate("heuristic:hard", task, **options, device="cpu", recorder=recorder)
    replay = replay_of(recorder, "heuristic:hard", "heuristic:easy")
    for index in (0, 1):
        assert_same(*fork(replay, index, at_s=0.4, device="cpu").battles)

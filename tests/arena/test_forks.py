"""Forks of a recorded battle that change nothing are the battle, and counting goes on after a kill."""

import dataclasses

import numpy as np
import pytest
import torch
from leagues import BRIEF, checkpoint_of

from echelon.arena.fork import fork
from echelon.arena.match import named_match, replay_of
from echelon.arena.whatif import whatif
from echelon.replay.battle import Battle
from echelon.replay.file import read, save
from echelon.replay.recorder import Recorder
from echelon.rules.orders import OrderField
from echelon.runtime.files import FileError
from echelon.scenarios.scene import config_of_words
from echelon.scenarios.shipped import scenario_names

CPU = torch.device("cpu")
UNEQUAL = dataclasses.replace(BRIEF, red=BRIEF.red[:3])


def recorded(blue, red, config, battles, seed):
    """A replay of some battles of a match, as its file gives it back."""
    match, recorder = named_match(blue, red, config, battles, CPU), Recorder(range(battles))
    match.play(seed, recorder)
    return replay_of(recorder, blue, red)


def assert_same(was: Battle, became: Battle):
    """Every array of a battle but what critics said, which is no part of it, and all that is told of it."""
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
def test_forks_of_commanders_are_the_battle(config, battles, names):
    """50 battles in all, each forked before its first decision, and every fourth later as well."""
    replay = recorded(*names, config, battles, seed=7)
    for index, battle in enumerate(replay.battles):
        for at_s in (0.0, 1.0)[: 1 + (index % 4 == 0 and battle.decisions > 4)]:
            assert_same(*fork(replay, index, at_s=at_s, device="cpu").battles)


@pytest.mark.long
@pytest.mark.parametrize("config", [BRIEF, UNEQUAL], ids=["5v5", "5v3"])
def test_forks_of_networks_are_the_battle(config, tmp_path):
    """20 battles in all, of networks that remember, each forked at its beginning or a second later."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    names = [str(checkpoint_of(tmp_path / folder, seed)) for folder, seed in (("one", 1), ("two", 2))]
    replay = recorded(*names, config, 10, seed=3)
    for index in range(10):
        assert_same(*fork(replay, index, at_s=float(index % 2), device="cpu").battles)


def test_a_replay_whose_commanders_nobody_knows_opens_and_says_so(tmp_path):
    replay = recorded("hard", "easy", BRIEF, 2, seed=1)
    replay.battles[0].about["blue"] = "human over heuristic:hard"
    save(replay, tmp_path / "human.echelon")
    opened = read(tmp_path / "human.echelon")
    words = r"^battle 1 cannot be forked, as its commanders play it again: human over heuristic:hard: expected a tier"
    with pytest.raises(FileError, match=words):
        fork(opened, at_s=0.0, device="cpu")
    with pytest.raises(FileError, match=words):
        whatif(opened, device="cpu")
    told = np.zeros((*opened.battles[1].yaw.shape, len(OrderField)), np.int32)
    opened.battles[1] = dataclasses.replace(opened.battles[1], orders=told)
    save(opened, tmp_path / "ordered.echelon")
    assert np.array_equal(read(tmp_path / "ordered.echelon").battles[1].orders, told)
    with pytest.raises(FileError, match=r"^battle 2 must be without orders, which a replay does not give again"):
        fork(opened, 1, at_s=0.0, device="cpu")


def test_a_battle_that_differs_before_its_fork_is_refused():
    replay = recorded("hard", "easy", BRIEF, 2, seed=1)
    replay.battles[0].pos[3, 2, 0] += 1
    with pytest.raises(
        FileError, match=r"^pos of the battle played again must be as recorded in its first 4 decisions"
    ):
        fork(replay, at_s=1.0, device="cpu")


def test_counting_goes_on_after_a_kill(tmp_path):
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
    log.write_bytes(log.read_bytes() + b"bbr")  # a line that was not finished
    again = whatif(BRIEF, **asked, log=log, on_progress=lambda done, of: seen.append((done, of)))
    assert seen[0] == (12, 36) and seen[-1] == (36, 36)
    whole = whatif(BRIEF, **asked)
    assert again.as_json() == whole.as_json()
    seen.clear()
    whatif(BRIEF, **{**asked, "branches": 2}, log=log, on_progress=lambda done, of: seen.append((done, of)))
    assert seen[0] == (0, 24), "another call begins anew"


def test_what_each_death_cost():
    """Whoever is whole again before its death changes what blue wins, and the table names each death once."""
    config = dataclasses.replace(BRIEF, rules=dataclasses.replace(BRIEF.rules, max_episode_s=16.0), map_pool=1)
    replay = recorded("hard", "easy", config, 2, seed=3)
    dead = replay.battles[0].deaths[:, 1].tolist()
    found = whatif(replay, every=32, branches=2, deaths=True, device="cpu")
    assert dead and found.deaths["mech"].tolist() == dead and found.as_json()["deaths"][0]["mech"] == dead[0]
    times = replay.battles[0].deaths[:, 0] // 5 * 0.25
    assert found.deaths["s"].tolist() == pytest.approx(times.tolist())
    assert set(times.round(2)) <= {round(float(s), 2) for s in found.moments["decision"] * 0.25}

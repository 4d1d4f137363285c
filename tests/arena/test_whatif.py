"""What-if analysis: branches from the moments of a battle, and the value of mechs."""

import dataclasses
import json
import threading

import numpy as np
import pytest
import torch
from leagues import BRIEF, checkpoint_of, policy_of
from pytest import approx
from tiers import marked_long

import echelon
from echelon.agents import seating
from echelon.agents.heuristic import Heuristic
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.branches import Branch, moments_of, play_branches, state_of
from echelon.arena.config import ArenaConfig
from echelon.arena.fork import fork
from echelon.arena.match import named_match, replay_of
from echelon.arena.resolve import policy_of as commander
from echelon.arena.whatif import SHARE, whatif
from echelon.env.outcome import Winner
from echelon.pipelines.fork import ForkCommand
from echelon.pipelines.whatif import WhatIfCommand
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.reports.whatif import change_of
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

CPU = torch.device("cpu")
UNEQUAL = dataclasses.replace(BRIEF, red=BRIEF.red[:3])
LONGER, SHORT = (
    dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=seconds), map_pool=1) for seconds in (12.0, 5.0)
)


def battles_in(folder, config):
    """Return a file with two battles of `hard` against `easy`."""
    path = folder / "battles.echelon"
    match, recorder = named_match("hard", "easy", config, 2, ArenaConfig(CPU)), Recorder([0, 1])
    match.play(3, recorder)
    save(replay_of(recorder, "hard", "easy"), path)
    return path


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    return battles_in(tmp_path_factory.mktemp("whatif"), LONGER)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return battles_in(tmp_path_factory.mktemp("short"), SHORT)


@pytest.mark.parametrize("config", [BRIEF, UNEQUAL], ids=["5v5", "5v3"])
@pytest.mark.parametrize("names", [("network", "other"), ("network", "heuristic:hard"), ("heuristic:easy", "network")])
def test_original_seed_reproduces_the_battle(config, names):
    known = {"network": policy_of(1), "other": policy_of(2)}
    arena = BatchArena(
        config, lambda name: known[name] if name in known else commander(name, config, CPU), ArenaConfig(CPU, 3)
    )
    battle = Battle(*names, seed=5)
    result, moments = moments_of(arena, battle, lambda decision: decision in (0, 3, 6))
    assert [moment.decision for moment in moments] == [0, 3, 6] and result.decisions == 8
    again = play_branches(arena, battle, [Branch(moment, 5) for moment in moments])
    other = play_branches(arena, battle, [Branch(moments[1], chance) for chance in (6, 5, 7, 5)])
    assert [one.state_hash for one in again] == [result.state_hash] * 3
    assert [one.state_hash == result.state_hash for one in other] == [False, True, False, True]
    assert {one.decisions for one in (*again, *other)} == {8}, "the clock goes on"


@pytest.mark.parametrize("red", ["heuristic:hard", "heuristic:easy"])
def test_threads_that_share_the_scripted_commanders_change_nothing(red, monkeypatch):
    monkeypatch.setattr(seating, "LEAST_TEAMS", 2)
    forward, threads, before, found = Heuristic.forward, [], torch.get_num_threads(), []

    def told(self, team):
        threads.append((threading.current_thread().name.split("_")[0], len(team)))
        return forward(self, team)

    monkeypatch.setattr(Heuristic, "forward", told)
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            threads.clear()
            arena = BatchArena(BRIEF, lambda name: commander(name, BRIEF, CPU), ArenaConfig(CPU))
            battle = Battle("heuristic:hard", red, 5)
            _, moments = moments_of(arena, battle, lambda decision: decision % 2 == 0)
            branches = [Branch(moment, 5, mech, "hold_still") for moment in moments for mech in (1, 6)]
            found.append((play_branches(arena, battle, branches), set(threads)))
    finally:
        torch.set_num_threads(before)
    (alone, one), (shared, two) = found
    assert alone == shared and len({result.state_hash for result in alone}) == 8
    assert {name for name, _ in one} == {"MainThread"} and ("echelon-block", 4 if red == "heuristic:easy" else 8) in two


def test_intervention_changes_the_action():
    arena = BatchArena(BRIEF, lambda name: commander(name, BRIEF, CPU), ArenaConfig(CPU))
    battle = Battle("heuristic:hard", "heuristic:hard", 5)
    _, (moment,) = moments_of(arena, battle, lambda decision: decision == 2)
    hurt = dataclasses.replace(moment, state=moment.state.clone())
    hurt.state["state", "mechs", "hp"][0, 1] = 3.0
    whole, gone = (
        state_of(hurt.state, 1, otherwise, arena.env_of(1, None).sim_model)["state", "mechs"]
        for otherwise in ("repaired", "removed")
    )
    assert whole["hp"][0, 1] == approx(arena.env_of(1, None).sim_model.roster.hp[1]) and gone["hp"][0, 1] == 0
    assert hurt.state["state", "mechs", "hp"][0, 1] == 3.0, "the moment stays as it was"
    outcomes = [
        play_branches(arena, battle, [Branch(moment, 5, 0, otherwise)])[0].state_hash
        for otherwise in (None, "hold_still", "hold_fire", "removed")
    ]
    assert len(set(outcomes)) == 4


def test_lane_ends_with_the_battle_and_dead_mechs_change_nothing(replay):
    found = whatif(replay, every=16, branches=4, at_s=9.0, interventions=("removed", "hold_fire"), device="cpu")
    lane = found.moments
    assert lane["decision"].tolist() == sorted({*range(0, found.result.decisions, 16), 36, found.result.decisions})
    assert lane["blue"][-1] == SHARE[found.result.winner] == lane["low"][-1] == lane["high"][-1]
    assert bool(((lane["low"] <= lane["blue"]) & (lane["blue"] <= lane["high"])).all())
    told = found.as_json()
    assert json.loads(json.dumps(told)) == told and told["at_s"] == 9.0
    dead = [n for n, hp in enumerate(echelon.replay.file.read(replay).battles[0].hp[36]) if hp == 0]
    for part in found.mechs.values():
        assert part.shape == (10,) and all(leaf[n] == 0 for n in dead for leaf in part.values())
    spans = found.swings(len(lane) - 1)
    assert sum(change for _, _, change in spans) == approx(float(lane["blue"][-1] - lane["blue"][0]), abs=1e-6)


def test_battle_without_orders_counts_default_interventions(short):
    found = whatif(short, every=100, branches=2, at_s=1.0, device="cpu")
    assert [*found.mechs.keys()] == ["hold_still", "hold_fire", "removed", "repaired"], "none follows an order"
    assert found.at_s == 1.0 and all(part.shape == (10,) for part in found.mechs.values())


@pytest.mark.parametrize("at_s", [float("nan"), float("inf")])
def test_time_that_is_not_finite_is_refused(short, at_s):
    with pytest.raises(ConfigError, match=r"^at_s must be a finite number, got (nan|inf)"):
        whatif(short, at_s=at_s, device="cpu")


def test_more_branches_begin_with_the_same_ones():
    few, many = (whatif(BRIEF, blue="hard", red="easy", every=8, branches=count, device="cpu") for count in (2, 4))
    (first, _), (second, _) = few.moments["blue"].tolist(), many.moments["blue"].tolist()
    assert 2 * first <= 4 * second <= 2 * first + 2


@pytest.mark.long
def test_shares_agree_with_the_win_rate_and_do_not_drift():
    """A win rate from a moment is the mean of later win rates: within four errors over 100 battles."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=32)
    lanes = [
        whatif(config, blue="hard", red="normal", seed=seed, every=16, branches=8, device="cpu") for seed in range(100)
    ]
    first = torch.tensor([float(one.moments["blue"][0]) for one in lanes])
    last = torch.tensor([float(one.moments["blue"][-1]) for one in lanes])
    assert set(last.tolist()) <= {0.0, 0.5, 1.0}
    for k in range(1, 4):
        steps = torch.tensor([float(one.moments["blue"][min(k, len(one.moments) - 1)]) for one in lanes]) - first
        assert abs(float(steps.mean())) <= 4 * float(steps.std()) / 10 + 1e-9
    drift = last - first
    assert abs(float(drift.mean())) <= 4 * float(drift.std()) / 10


def test_differing_replay_is_rejected(replay):
    recorded = echelon.replay.file.read(replay)
    recorded.battles[0].about["blue"] = "heuristic:trivial"
    with pytest.raises(FileError, match=r"^the replayed battle must be heuristic:trivial against easy, seed \d+"):
        whatif(recorded, device="cpu")
    with pytest.raises(ConfigError, match=r"^index must be 0..1, got 2$"):
        whatif(recorded, 2, device="cpu")
    with pytest.raises(ConfigError, match=r"^at_s must be 0..[0-9.]+ s, within the battle, got 60"):
        whatif(recorded, 1, at_s=60.0, every=100, branches=2, device="cpu")
    with pytest.raises(ConfigError, match=r"^interventions must be names among hold_.*, got .flee.$"):
        whatif(recorded, interventions=("flee",), device="cpu")


def same(one, other, moments=None):
    """Return whether two battles are equal, array by array, up to a number of moments."""
    return all(
        np.array_equal(getattr(one, name)[:moments], getattr(other, name)[:moments]) for name in ("pos", "hp", "ego")
    )


@pytest.mark.parametrize(
    ("config", "at_s"),
    [(BRIEF, 0.75), (UNEQUAL, 0.0), marked_long((BRIEF, 0.0)), marked_long((UNEQUAL, 0.75))],
    ids=["5v5-0.75", "5v3-0.0", "5v5-0.0", "5v3-0.75"],
)
def test_unchanged_fork_is_identical(tmp_path, config, at_s):
    path = str(checkpoint_of(tmp_path, 1))
    match, recorder = named_match(path, "hard", config, 2, ArenaConfig(CPU)), Recorder([0, 1])
    match.play(0, recorder)
    recorded = replay_of(recorder, path, "hard")
    was, became = fork(recorded, 1, at_s=at_s, device="cpu").battles
    assert same(was, became) and was.about == became.about
    _, fresh = fork(recorded, 1, at_s=at_s, seed=9, device="cpu").battles
    begin = round(at_s / 0.25) + 1
    assert same(was, fresh, begin) and not same(was, fresh)


def test_fork_differs_only_after_its_time(short):
    mech = int(np.flatnonzero(echelon.replay.file.read(short).battles[0].hp[8])[0])
    for change in (
        {"red": "expert"},
        {"intervention": "removed", "mech": mech},
        {"intervention": "hold_still", "mech": mech},
    ):
        was, became = fork(short, at_s=2.0, device="cpu", **change).battles
        assert same(was, became, 9) and not same(was, became)
    assert fork(short, at_s=2.0, red="expert", device="cpu").battles[1].about["red"] == "easy, then expert"
    _, gone = fork(short, at_s=2.0, intervention="removed", mech=mech, device="cpu").battles
    assert gone.hp[8, mech] > 0 and not gone.hp[9:, mech].any()


def test_mech_values_can_be_edited(short):
    mech = int(np.flatnonzero(echelon.replay.file.read(short).battles[0].hp[8])[0])
    was, became = fork(
        short, at_s=2.0, changes=[(np.int64(mech), "hp", np.float32(20)), (mech, "heat", np.int64(1))], device="cpu"
    ).battles
    assert same(was, became, 9) and became.hp[9, mech] <= 20 * 128 < was.hp[9, mech]
    _, calm = fork(short, at_s=2.0, mech=mech, intervention="hold_primary", device="cpu").battles
    assert same(was, calm, 9)
    for changes, words in (
        ([(mech, "hp", 9e6)], rf"state.mechs.hp of \w+_{mech % 5} in battle 0 must be 0..\d+, got 9000000"),
        ([(mech, "luck", 1.0)], r"changes must be of hp, leg_hp, heat, stability, x, y, z, yaw, got 'luck'"),
        ([(99, "hp", 1.0)], r"changes: mech must be 0\.\.9, got 99"),
        ([(mech, "hp", "much")], "changes: hp must be a number, got 'much'"),
        ([7], "changes must be triples \\(mech, field, value\\), got 7"),
    ):
        with pytest.raises(ConfigError, match=words):
            fork(short, at_s=2.0, changes=changes, device="cpu")


def test_the_command_writes_both_battles(replay, tmp_path, capsys):
    ForkCommand(replay, 4.0, mech=("red", 1), intervention="removed", out=tmp_path / "fork.echelon", device="cpu").run()
    shown = capsys.readouterr().out
    assert shown.startswith("was ") and "\nis  " in shown
    _, became = echelon.replay.file.read(tmp_path / "fork.echelon").battles
    assert not became.hp[17:, 5].any()
    with pytest.raises(ConfigError, match=r"^--mech must be 1..5, a mech of red, got 6$"):
        ForkCommand(replay, 4.0, mech=("red", 6), device="cpu").run()
    kept = echelon.replay.file.read(replay)
    assert change_of("red 2 hp=1.5e2", kept) == (6, "hp", 150.0)
    for words in ("red 9 hp=1", "M2 hp=1", "red 2 hp=1.2.3", "red 2 hp="):
        with pytest.raises(ConfigError, match=r"^--set must (have the form|be of) "):
            change_of(words, kept)


def test_command_prints_moments_and_mechs(replay, tmp_path, capsys):
    out = tmp_path / "whatif.json"
    WhatIfCommand(replay, every=24, branches=2, at=6.0, interventions=("removed",), out=out, device="cpu").run()
    shown = capsys.readouterr().out
    assert "hard (blue) against easy" in shown and "   0.0 s  " in shown and "is the same at all moments" in shown
    assert "blue 1 (" in shown and "red 2 (" in shown and "red 5 (" not in shown, "it is dead by then"
    assert json.loads(out.read_text())["branches"] == 2


def test_shares_count_a_draw_half():
    assert SHARE == {Winner.BLUE: 1.0, Winner.RED: 0.0, Winner.DRAW: 0.5}


def test_a_checkpoint_in_a_replay_is_found_again(tmp_path):
    path = checkpoint_of(tmp_path, 1)
    match, recorder = named_match(path, "easy", BRIEF, 2, ArenaConfig(CPU)), Recorder([0, 1])
    match.play(0, recorder)
    found = whatif(replay_of(recorder, str(path), "easy"), 1, every=4, branches=2, device="cpu")
    assert found.red == str(path) and found.result.decisions == 8

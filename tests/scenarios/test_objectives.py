"""Objectives of scenarios: scores, ends, both forms of a decision, and invalid objectives."""

import dataclasses
import json
from collections import Counter

import pytest
import torch
from builders import brawl
from hypothesis import given, settings
from hypothesis import strategies as st

import echelon
from echelon import EchelonEnv, EnvConfig, Objective, RulesConfig, Scene
from echelon.env.objectives import goals, zone
from echelon.env.outcome import STATS, Reason, Winner, update_last_event
from echelon.rules.scenario import read_scenario, scenario_from_json
from echelon.runtime import jit
from echelon.runtime.errors import ConfigError
from echelon.world.authored_maps import BY_CLOCK, BY_DEED

RULES = dataclasses.replace(RulesConfig(), max_episode_s=8.0)
BRIEF = dataclasses.replace(RULES, max_episode_s=2.0)
KINDS = {
    "zone": Objective(control_s=2),
    "hold": Objective("hold", attackers="red", seconds=5, control_s=1.5),
    "escort": Objective("escort", mech="red_0", seconds=5),
    "breakthrough": Objective("breakthrough", mechs=2, seconds=7),
    "elimination": Objective("elimination"),
    "king_of_two": Objective("king_of_two", second_zone=(30, 21, 4), control_s=1.5),
}


def skirmish(objective: Objective, rules: RulesConfig = RULES) -> echelon.Scenario:
    """Three against three, with a wall between the teams."""
    base = dataclasses.replace(EnvConfig.small(), rules=rules)
    objective = dataclasses.replace(objective, seconds=min(objective.seconds, rules.max_episode_s))
    scene = Scene(base, (20, 22, 4), objective).wall((17, 14), (23, 16), 5)
    for number, hull in enumerate(("medium", "scout", "light")):
        scene.place("blue", hull, (8 + 10 * number, 8), 90).place("red", hull, (8 + 10 * number, 35), -90)
    return scene.scenario


def battles_of(*kinds: str, rules: RulesConfig = RULES) -> EnvConfig:
    return echelon.scene_config([skirmish(KINDS[kind], rules) for kind in kinds])


def same(one, other):
    keys = set(one.keys(True, True))
    return keys == set(other.keys(True, True)) and all(
        one[key].numpy().tobytes() == other[key].numpy().tobytes() for key in keys
    )


def play_in_both_forms(config: EnvConfig, battles: int) -> Counter:
    """Return counts of ends by (map, reason, winner); compare every decision bit by bit, with restarts."""
    dense, loops = (EchelonEnv(config, battles, "cpu", 3, backend=form) for form in ("eager", "loops"))
    dense.restarts_by_row = False
    generator, ends = torch.Generator().manual_seed(5), Counter()
    one, other = dense.reset(), loops.reset()
    assert same(one, other)
    for _ in range(config.rules.max_decisions + 3):
        map_id = dense.state.map_id.tolist()
        brawl(one, generator)
        for group in ("blue", "red"):
            other[group, "action"] = one[group, "action"].clone()
        (step_one, one), (step_other, other) = dense.step_and_maybe_reset(one), loops.step_and_maybe_reset(other)
        assert same(step_one, step_other) and same(one, other)
        assert same(dense.state.to_tensordict(), loops.state.to_tensordict())
        outcome, done = step_one["next", "outcome"], step_one["next", "done"][:, 0].tolist()
        verdicts = zip(map_id, outcome["reason"][:, 0].tolist(), outcome["winner"][:, 0].tolist(), strict=True)
        ends.update(verdict for verdict, is_over in zip(verdicts, done, strict=True) if is_over)
    return ends


def by_kind(ends: Counter) -> dict[str, Counter]:
    """Return counts of ends by (reason, winner), for each kind in `KINDS`."""
    found = {kind: Counter() for kind in KINDS}
    for (map_id, reason, winner), count in ends.items():
        found[list(KINDS)[map_id]][Reason(reason), Winner(winner)] += count
    return found


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
def test_all_objectives_in_one_batch_are_equal_in_both_forms():
    ends = by_kind(play_in_both_forms(battles_of(*KINDS, rules=BRIEF), 18))
    assert all(ends.values()), "at least one battle of each kind ended"


def of_any_size():
    return dataclasses.replace(skirmish(KINDS["breakthrough"]), blue_sizes=(2, 3), red_sizes=(1, 3))


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
def test_battles_of_any_size_are_equal_in_both_forms():
    assert play_in_both_forms(of_any_size().config, 12).total() >= 12


def test_each_battle_draws_its_number_of_mechs(tmp_path):
    """The first mechs of each team exist. Absent mechs did not die, do not run, and are in no mask."""
    scenario = of_any_size()
    env = echelon.scene(scenario, 300, "cpu", seed=0)
    alive = env.state.mechs.alive
    sizes = [tuple(int(team.sum()) for team in row.split(3)) for row in alive]
    counts = Counter(sizes)
    assert set(counts) == {(blue, red) for blue in (2, 3) for red in (1, 2, 3)} and min(counts.values()) > 25
    assert alive[:, :2].all() and alive[:, 3].all() and env.state.mechs.wrecked.equal(~alive)
    shown = env.reset()
    assert torch.equal(torch.cat([shown[group, "mask"] for group in ("blue", "red")], 1), env.state.mechs.alive)
    assert not (env.sim_model.maps.runner & (env.sim_model.maps.spawn_hp == 0)).any()
    env.state.tick[:] = RULES.max_decisions * RULES.decision_repeat - RULES.decision_repeat
    told = env.step(env.rand_action(shown))["next"]
    assert told["done"].all() and told["outcome", "stats"][..., STATS.index("deaths")].sum() == 0
    scenario.save(tmp_path / "it.json")
    assert read_scenario(tmp_path / "it.json") == scenario
    assert json.loads((tmp_path / "it.json").read_text())["red_sizes"] == [1, 3]
    both = echelon.scene_config([scenario, skirmish(KINDS["breakthrough"])], weights=[1, 2])
    assert [position.weight for position in both.positions] == [1] * 6 + [12]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"blue_sizes": [2]},
            r"^Scenario.blue_sizes must be minimum and maximum number of mechs, at most 3, got \(2,\)$",
        ),
        (
            {"blue_sizes": [3, 2]},
            r"^Scenario.blue_sizes must be minimum and maximum number of mechs, at most 3, got \(3, 2\)$",
        ),
        (
            {"red_sizes": [1, 4]},
            r"^Scenario.red_sizes must be minimum and maximum number of mechs, at most 3, got \(1, 4\)$",
        ),
        ({"red_sizes": [0, 2]}, r"^Scenario.red_sizes must be 1..20, got 0$"),
        ({"blue_sizes": [1, 3]}, r"^Objective.mechs must be 1..1 mechs of blue, got 2$"),
        ({"red_sizes": "x"}, r"^it.red_sizes must be a list, got 'x'$"),
    ],
)
def test_invalid_sizes_raise_one_line(change, said):
    with pytest.raises(ConfigError, match=said):
        scenario_from_json({**skirmish(KINDS["breakthrough"]).as_json(), **change}, "it")


@pytest.mark.long
@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
def test_many_battles_of_each_objective_are_equal_in_both_forms():
    ends = by_kind(play_in_both_forms(battles_of(*KINDS), 1350))
    assert min(found.total() for found in ends.values()) >= 200
    for kind, attackers in (("hold", Winner.RED), ("escort", Winner.RED), ("breakthrough", Winner.BLUE)):
        assert {Winner.RED, Winner.BLUE} <= {winner for _, winner in ends[kind]}, kind
        by_zone = {winner for reason, winner in ends[kind] if reason == Reason.ZONE}
        assert by_zone == ({attackers} if kind == "hold" else set())
    for kind in ("zone", "elimination", "king_of_two"):
        assert Reason.OBJECTIVE not in {reason for reason, _ in ends[kind]}


def scores(objective: Objective, tick: int = 0, dead: tuple[str, ...] = (), inside: tuple[str, ...] = ()):
    """Return the scores of blue and red for dead mechs `dead` and mechs `inside` the zone, after one decision."""
    scenario = skirmish(objective)
    env, names = echelon.scene(scenario, 1, "cpu"), [name for name, _ in scenario.position.named]
    state = env.state
    for name in dead:
        state.mechs.hp[:, names.index(name)] = 0
    for name in inside:
        state.tally.zone_s[:, names.index(name)] = 0.25
    scored = goals.score_goals(zone.score(state.replace(tick=state.tick + tick), env.sim_model), env.sim_model)
    assert scored.control.tolist() == [[0, 0]]
    return scored.score[0].tolist()


def test_clock_scores_for_the_defenders():
    """The full score of 20 s is reached after 5 s, which are 100 substeps."""
    assert scores(KINDS["hold"], tick=50) == pytest.approx([10, 0], rel=1e-5)
    late = scores(KINDS["hold"], tick=95), scores(KINDS["hold"], tick=100)
    assert late[0][0] < 20 <= late[1][0]
    whole = scores(Objective("breakthrough", attackers="red"), tick=RULES.max_decisions * RULES.decision_repeat)
    assert whole[0] >= 20 and whole[1] == 0


@pytest.mark.quick
@pytest.mark.parametrize(
    ("dead", "inside", "wanted"),
    [
        ((), (), [0, 0]),
        (("red_1",), ("red_2", "blue_0"), [0, 0]),
        (("red_0",), (), [20, 0]),
        ((), ("red_0",), [0, 20]),
        (("red_0",), ("red_0",), [0, 20]),
    ],
)
def test_escort_depends_only_on_its_mech(dead, inside, wanted):
    assert scores(KINDS["escort"], 0, dead, inside) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("dead", "inside", "wanted"),
    [
        ((), ("blue_1", "red_0"), [10, 0]),
        (("blue_1",), ("blue_1",), [10, 0]),
        ((), ("blue_1", "blue_2"), [20, 0]),
        (("blue_0",), ("blue_1",), [10, 10]),
        (("blue_0", "blue_1"), (), [0, 20]),
    ],
)
def test_breakthrough_counts_arrivals_and_losses(dead, inside, wanted):
    """Two of three: the second arrival wins, and so does the second loss."""
    assert scores(KINDS["breakthrough"], 0, dead, inside) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("mechs", range(1, 21))
def test_last_arrival_completes_the_score(mechs):
    """For any number, and it precedes the clock in the same decision."""
    share = torch.tensor(20 / mechs * BY_DEED, dtype=torch.float32)
    assert share * (mechs - 1) < 20 < 20 * BY_CLOCK < share * mechs


@pytest.mark.parametrize("form", ["eager", *["loops"] * jit.HAS_LOOPS])
def test_escort_outcome_is_reported(form):
    """In one battle the mech arrives in its first decision, in the other it is already dead."""
    scenario = skirmish(KINDS["escort"])
    here = dataclasses.replace(scenario.units[1], x=20.0, y=24.0)
    assert here.team == "red"
    scenario = dataclasses.replace(scenario, units=(scenario.units[0], here, *scenario.units[2:]))
    env = echelon.scene(scenario, 2, "cpu", backend=form)
    td = env.rand_action(env.reset())
    env.state.mechs.hp[1, 3] = 0
    told = env.step(td)["next"]
    assert told["outcome", "winner"].tolist() == [[Winner.RED], [Winner.BLUE]]
    assert told["outcome", "reason"].tolist() == [[Reason.OBJECTIVE]] * 2 and told["terminated"].all()
    assert told["outcome", "score"].flatten().tolist() == pytest.approx([1, 20, 20, 0], rel=1e-5)


def two_zones(*places: tuple[float, float]):
    """Return state and constants of `king_of_two`, with blue mechs at `places` and all others far away."""
    env = echelon.scene(skirmish(KINDS["king_of_two"]), 1, "cpu")
    for number, place in enumerate(places):
        env.state.mechs.pos[0, number, :2] = torch.tensor(place)
    return env.state, env.sim_model


def test_each_of_two_zones_counts_half():
    for places, tick in ((((20.5, 22.5),), 0.5), (((30.5, 21.5),), 0.5), (((20.5, 22.5), (30.5, 21.5)), 1.0)):
        scored = zone.score(*two_zones(*places))
        assert scored.control.tolist() == [[tick, 0]]
        assert scored.score[0].tolist() == pytest.approx([tick * 0.25 * 20 / 1.5, 0], rel=1e-4)
        assert scored.tally.zone_s[0, : len(places)].tolist() == [0.25] * len(places)


def test_mech_observes_the_nearer_zone_or_the_first_on_ties():
    state, sim_model = two_zones((24.0, 22.5), (27.0, 21.5), (25.5, 22.0))
    vector, radius = zone.nearer(state, sim_model)
    assert vector[0, :3].tolist() == [[-3.5, 0.0], [3.5, 0.0], [-5.0, 0.5]] and radius[0, :3].tolist() == [4] * 3
    assert (sim_model.maps.path_length[0, 21, 28:33] == 0).all() and (
        sim_model.maps.path_length[0, 22, 18:23] == 0
    ).all()


def test_worthless_zone_has_no_control():
    """In `elimination`, a mech in the zone neither scores nor has control."""
    env = echelon.scene(skirmish(KINDS["elimination"]), 1, "cpu")
    env.state.mechs.pos[0, 0, :2] = torch.tensor([20.5, 22.5])
    scored = goals.score_goals(zone.score(env.state, env.sim_model), env.sim_model)
    assert scored.score.tolist() == [[0, 0]] and scored.control.tolist() == [[0, 0]]


def test_clock_score_does_not_reset_idle_time():
    """A team that only waits is idle, although its score grows."""
    env = echelon.scene(skirmish(KINDS["hold"]), 1, "cpu")
    before = env.state
    after = goals.score_goals(before.replace(tick=before.tick + 5), env.sim_model)
    assert after.score[0, 0] > 0 and update_last_event(before, after, env.sim_model).last_event.tolist() == [0]


def test_scenario_file_stores_the_objective(tmp_path):
    for objective in KINDS.values():
        scenario = skirmish(objective)
        scenario.save(tmp_path / "it.json")
        assert read_scenario(tmp_path / "it.json") == scenario
    assert skirmish(KINDS["escort"]).as_json()["objective"] == {"kind": "escort", "seconds": 5, "mech": "red_0"}
    assert "objective" not in skirmish(Objective()).as_json()


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ({"kind": "cheese"}, r"Objective.kind must be one of 'zone', 'hold', 'escort', .*, got 'cheese'$"),
        (3, r"^it.json.objective must be an object, got 3$"),
        ({"colour": 1}, r"^it.json.objective.colour must be one of kind, attackers, "),
        ({"kind": "escort"}, r"Objective.mech of an escort must be the name of a mech, such as blue_1, got ''$"),
        ({"kind": "escort", "mech": "blue_3"}, r"Objective.mech must be one of blue_0, .*, red_2, got 'blue_3'$"),
        ({"kind": "escort", "mech": 1}, r"^it.json.objective.mech must be a str, got 1$"),
        (
            {"kind": "escort", "mech": "red_0", "attackers": "red"},
            r"Objective.attackers must be absent, because the kind",
        ),
        ({"mech": "blue_1"}, r"Objective.mech must be absent, because the kind zone does not use it, got 'blue_1'$"),
        ({"kind": "hold", "attackers": "green"}, r"Objective.attackers must be one of 'blue', 'red', got 'green'$"),
        ({"kind": "hold", "seconds": 9}, r"Objective.seconds must be at most 8 s, the longest battle, got 9.0$"),
        ({"kind": "hold", "seconds": -1}, r"Objective.seconds must be 0..1e\+06 s, got -1.0$"),
        (
            {"kind": "elimination", "control_s": 4.0},
            r"Objective.control_s must be absent, because the kind elimination does not use it, got 4.0$",
        ),
        ({"kind": "breakthrough", "mechs": 4}, r"Objective.mechs must be 1..3 mechs of blue, got 4$"),
        ({"kind": "breakthrough", "mechs": 0}, r"Objective.mechs must be 1..20 mechs, got 0$"),
        ({"kind": "breakthrough", "mechs": 1.5}, r"^it.json.objective.mechs must be a int, got 1.5$"),
        ({"kind": "king_of_two"}, r"Objective.second_zone must be x, y, radius, got \(\)$"),
        (
            {"kind": "king_of_two", "second_zone": [38, 20, 5.0]},
            r"radius of Objective.second_zone must be 1..2 vox, within the map, got 5.0$",
        ),
        (
            {"kind": "king_of_two", "second_zone": [999, 20, 5]},
            r"Objective.second_zone must be 0..500 vox, got 999.0$",
        ),
        (
            {"second_zone": [10, 10, 2]},
            r"Objective.second_zone must be absent, because the kind zone does not use it, got",
        ),
    ],
)
def test_invalid_objective_raises_one_line(tmp_path, objective, said):
    path = tmp_path / "it.json"
    path.write_text(json.dumps({**skirmish(Objective()).as_json(), "objective": objective}))
    with pytest.raises(ConfigError, match=said) as raised:
        read_scenario(path)
    assert "\n" not in str(raised.value) and str(raised.value).startswith("it.json")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["seconds", "control_s", "second_zone"])
def test_nan_and_infinity_raise(field, number):
    value = (20.0, 20.0, number) if field == "second_zone" else number
    with pytest.raises(ConfigError, match=rf"^Objective.{field} must be a finite number, got"):
        Objective(**{field: value})


SECONDS, TEAMS = st.just(0) | st.floats(0.25, 8, width=32), st.sampled_from(["blue", "red"])
CIRCLES = st.tuples(st.integers(6, 33), st.integers(6, 33), st.integers(1, 6))
OBJECTIVES = st.one_of(
    st.builds(Objective, st.just("zone"), control_s=SECONDS),
    st.builds(Objective, st.just("hold"), TEAMS, SECONDS, SECONDS),
    st.builds(Objective, st.just("escort"), seconds=SECONDS, mech=st.sampled_from(["blue_0", "blue_2", "red_1"])),
    st.builds(Objective, st.just("breakthrough"), TEAMS, SECONDS, mechs=st.integers(1, 3)),
    st.builds(Objective, st.just("elimination")),
    st.builds(Objective, st.just("king_of_two"), control_s=SECONDS, second_zone=CIRCLES),
)


@settings(max_examples=10, deadline=None)
@given(OBJECTIVES)
def test_valid_values_round_trip_and_play(objective):
    scenario = skirmish(objective)
    assert scenario_from_json(json.loads(json.dumps(scenario.as_json()))) == scenario
    env = echelon.scene(scenario, 2, "cpu", seed=0)
    env.rollout(2)
    assert env.state.score.isfinite().all() and (env.state.score >= 0).all()

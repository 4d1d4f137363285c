"""Scenarios of the package: each can be played by name, and its mechs can walk to the zone."""

import pytest

import echelon
from echelon.rules.position import USES
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.scenarios.piece import pieces

NAMES = echelon.scenario_names()


@pytest.mark.parametrize("name", NAMES)
def test_scenario_name_gives_its_battle(name):
    scenario = echelon.find_scenario(name)
    env = echelon.scene(name, 2, "cpu", seed=0)
    maps = env.sim_model.maps
    sizes = [int(size) for size in name.rpartition("-")[2].split("v")]
    assert [len(scenario.config.blue), len(scenario.config.red)] == sizes and scenario.config.is_unequal
    x, y = maps.spawn_pos[0, :, :2].long().unbind(-1)
    assert maps.path_length[0, y, x].isfinite().all() and (maps.path_length[0, y, x] < 100).all(), "reachable"
    assert env.config == scenario.config


def test_make_and_evaluate_accept_a_scenario():
    scenario = echelon.find_scenario("gate-5v5")
    env = echelon.make(scenario, "teams", num_envs=2, seed=0, device="cpu")
    assert env.reset()["blue", "observation"].shape[:2] == (2, 5)
    judged = echelon.evaluate("heuristic:easy", scenario, ["heuristic:easy"], battles=2, device="cpu")
    assert judged.task == "scenario" and judged.by_side and not judged.by_protocol


def test_unknown_scenario_raises_with_the_known_names(tmp_path):
    assert len(NAMES) >= 12 and {scenario.objective.kind for scenario in map(echelon.find_scenario, NAMES)} == set(USES)
    known = ", ".join([*NAMES, *pieces()])
    with pytest.raises(ConfigError, match=rf"^a scenario must be one of {known}, plain, or the path of a JSON file"):
        echelon.find_scenario("gate")
    with pytest.raises(FileError, match=r"gate.json"):
        echelon.find_scenario(tmp_path / "gate.json")
    with pytest.raises(ConfigError, match=r"^a scenario must be a name, a file or a Scenario, got 3$"):
        echelon.find_scenario(3)

"""What decides battles of scenarios: scores, ends, both forms of a decision, and what is refused."""

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
from echelon.env.outcome import Reason, Winner
from echelon.rules.scenario import read_scenario, scenario_from_json
from echelon.runtime import jit
from echelon.runtime.errors import ConfigError
from echelon.scenarios.objectives import BY_DEED

RULES = dataclasses.replace(RulesConfig(), max_episode_s=20.0)
KINDS = {
    "zone": Objective(control_s=8),
    "hold": Objective("hold", attackers="red", seconds=15, control_s=2),
    "escort": Objective("escort", mech="red_1", seconds=16),
    "breakthrough": Objective("breakthrough", mechs=2, seconds=18),
    "elimination": Objective("elimination"),
    "king_of_two": Objective("king_of_two", second_zone=(30, 10, 4), control_s=6),
}


def skirmish(objective: Objective) -> echelon.Scenario:
    """Three against three, a wall between them."""
    base = dataclasses.replace(EnvConfig.small(), rules=RULES)
    scene = Scene(base, (20, 26, 5), objective).wall((16, 16), (24, 18), 5)
    for number, hull in enumerate(("medium", "scout", "heavy")):
        scene.place("blue", hull, (8 + 10 * number, 5), 90).place("red", hull, (8 + 10 * number, 36), -90)
    return scene.scenario


def maps_of(*kinds: str):
    return torch.cat([echelon.scene_maps(skirmish(KINDS[kind])) for kind in kinds])


def same(one, other):
    keys = set(one.keys(True, True))
    return keys == set(other.keys(True, True)) and all(
        one[key].numpy().tobytes() == other[key].numpy().tobytes() for key in keys
    )


def play_in_both_forms(maps, battles: int) -> Counter:
    """How battles ended, by (map, reason, winner); every decision is compared bit by bit, restarts included."""
    config = skirmish(Objective()).config
    dense, loops = (EchelonEnv(config, battles, "cpu", 3, maps=maps, backend=form) for form in ("eager", "loops"))
    dense.restarts_by_row = False
    generator, ends = torch.Generator().manual_seed(5), Counter()
    one, other = dense.reset(), loops.reset()
    assert same(one, other)
    for _ in range(RULES.max_decisions + 8):
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


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
def test_battles_of_every_kind_side_by_side_are_the_same_in_both_forms():
    ends = play_in_both_forms(maps_of(*KINDS), 24)
    by_map = {number: {Reason(reason) for at, reason, _ in ends if at == number} for number in range(len(KINDS))}
    assert all(by_map.values()), "some battle of each kind has ended"
    assert Reason.OBJECTIVE not in by_map[0] | by_map[4] | by_map[5]


@pytest.mark.long
@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_battles_of_a_kind_are_the_same_in_both_forms(kind):
    assert play_in_both_forms(maps_of(kind), 200).total() >= 200


if __name__ == "__main__":
    import sys, time
    for kind in KINDS:
        t = time.time()
        ends = play_in_both_forms(maps_of(kind), int(sys.argv[1]))
        print(kind, {(Reason(r).name, Winner(w).name): n for (_, r, w), n in sorted(ends.items())}, round(time.time() - t), flush=True)
    print(play_in_both_forms(maps_of(*KINDS), 24))

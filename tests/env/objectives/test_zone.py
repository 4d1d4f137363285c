"""Control of the zone and its score. On the builders' map, the zone's centre is (20, 20) and its radius 7.5."""

import dataclasses

import pytest
import torch
from builders import scene

from echelon.env.objectives import zone
from echelon.rules.config import EnvConfig

pytestmark = pytest.mark.quick


def field(blue, red):
    """Return a scene with all mechs far from the zone."""
    s = scene(dataclasses.replace(EnvConfig.small(), blue=blue, red=red))
    for n in range(s.sim_model.roster.num_mechs):
        s.place(n, 2.0 + 4 * n, 2.0)
    return s


def ticks(s):
    return zone.control(zone.is_inside(s.state, s.sim_model), s.sim_model)[0].tolist()


def test_empty_zone_has_no_control():
    assert ticks(field(("heavy",), ("medium",))) == [0, 0]


def test_lone_team_has_full_control():
    assert ticks(field(("heavy",), ("scout",)).place(1, 20, 20)) == [0, 1]


@pytest.mark.parametrize(
    ("inside", "wanted"),
    [
        ((0, 2), [0.25 + 0.75 * (85 - 55) / 140, 0.25]),  # heavy against medium
        ((0, 1, 2), [0.25 + 0.75 * (105 - 55) / 160, 0.25]),  # heavy and scout against medium
        ((1, 2), [0.25, 0.25 + 0.75 * (55 - 20) / 75]),  # scout against medium
        ((0, 3), [0.25, 0.25]),  # heavy against heavy
    ],
)
def test_contested_zone_is_shared_by_tonnage(inside, wanted):
    s = field(("heavy", "scout"), ("medium", "heavy"))
    for k, n in enumerate(inside):
        s.place(n, 15.0 + 4 * k, 20)
    assert ticks(s) == pytest.approx(wanted)


def test_dead_mechs_do_not_control_the_zone():
    assert ticks(field(("heavy",), ("scout",)).place(0, 20, 20).set(0, hp=0).place(1, 22, 20)) == [0, 1]


@pytest.mark.parametrize(("x", "inside"), [(27.49, True), (27.5, False)])
def test_zone_excludes_its_edge(x, inside):
    s = field(("heavy",), ("scout",)).place(0, x, 20)
    assert zone.is_inside(s.state, s.sim_model)[0].tolist() == [inside, False]


@pytest.mark.parametrize(("bottom", "inside"), [(3.99, True), (4.01, False)])
def test_airborne_mechs_do_not_control_the_zone(bottom, inside):
    s = field(("scout",), ("scout",)).place(0, 20, 20, bottom=bottom)
    assert zone.is_inside(s.state, s.sim_model)[0].tolist() == [inside, False]


def test_decision_scores_its_duration_times_the_tick():
    s = field(("heavy",), ("medium",)).place(0, 18, 20).place(1, 23, 20)
    state = zone.score(zone.score(s.state, s.sim_model), s.sim_model)
    torch.testing.assert_close(state.score, 0.5 * torch.tensor([[0.25 + 0.75 * 30 / 140, 0.25]]))
    torch.testing.assert_close(state.control, torch.tensor([[0.25 + 0.75 * 30 / 140, 0.25]]))
    assert state.tally.zone_s.tolist() == [[0.5, 0.5]]

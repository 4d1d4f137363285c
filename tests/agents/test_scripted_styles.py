"""Scripted commanders with a fighting style of their own."""

import dataclasses
import itertools
import math
import statistics

import pytest
import torch
from builders import short_battles
from tiers import usually

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.agents.tiers import HARD, STYLES, TIERS
from echelon.arena.resolve import policy_of
from echelon.arena.style import MEASURES, measure_of
from echelon.env.tasks.task import Task
from echelon.learn.config import CurriculumConfig, EvalConfig, TrainConfig
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError

BRIEF = short_battles(12)
TASK = Task("tests/brief-v1", "a few decisions", BRIEF, *current_versions())
CPU = torch.device("cpu")


@pytest.mark.parametrize("name", usually(STYLES, "rusher", "sniper"))
def test_each_scripted_style_plays(name):
    policy = policy_of(f"style:{name}", BRIEF, CPU)
    assert policy.tier is STYLES[name] and policy.tier not in TIERS.values()
    found = echelon.evaluate(f"style:{name}", TASK, ["heuristic:hard"], 2, device="cpu")
    again = echelon.evaluate(f"style:{name}", TASK, ["heuristic:hard"], 2, device="cpu", batch=1)
    assert found.results["heuristic:hard"].outcomes == again.results["heuristic:hard"].outcomes


def test_unknown_style_is_rejected():
    with pytest.raises(ConfigError, match=r"^a style must be one of rusher, sniper, .*, got 'dancer'$"):
        policy_of("style:dancer", BRIEF, CPU)
    assert Heuristic(BRIEF, dataclasses.replace(HARD, pull=2.0)).tier.pull == 2.0


@pytest.mark.parametrize("change", [
    {"opponent": "style:rusher"},
    {"curriculum": CurriculumConfig(opponents=("heuristic:easy", "style:turtle"))},
    {"evaluation": EvalConfig(tiers=("style:jammer",))},
])  # fmt: skip
def test_training_against_a_test_style_requires_allow_test(change):
    with pytest.raises(ConfigError, match=r"none from the test population .*or --allow-test, got 'style:"):
        dataclasses.replace(TrainConfig.quick(), **change)
    assert dataclasses.replace(TrainConfig.quick(), allow_test=True, **change).allow_test


@pytest.mark.long
def test_styles_differ_more_from_tiers_than_neighbouring_tiers_differ():
    """The scale of each measure is its standard deviation over all scripted commanders."""
    tiers = {name: echelon.style(name, device="cpu") for name in TIERS}
    styles = {name: echelon.style(f"style:{name}", device="cpu") for name in STYLES}
    neighbours = statistics.mean(one.distance(other) for one, other in itertools.pairwise(tiers.values()))
    for name, found in styles.items():
        assert min(found.distance(tier) for tier in tiers.values()) > neighbours, name
    rows = [found.numbers for found in (*tiers.values(), *styles.values())]
    variance = {name: statistics.pvariance([row[name] for row in rows]) for name in rows[0]}
    for name, measure in MEASURES.items():
        own = [variance[one] for one in variance if measure_of(one) is measure]
        assert math.sqrt(sum(own)) == pytest.approx(measure.scale, rel=0.05), name

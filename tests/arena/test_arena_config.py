"""Settings of arenas, and contenders."""

import dataclasses

import pytest
import torch
from leagues import BRIEF, policy_of

from echelon.agents.heuristic import Heuristic
from echelon.arena import config as arena_config
from echelon.arena.batch_arena import BatchArena
from echelon.arena.config import ArenaConfig
from echelon.arena.match import Match, named_match
from echelon.arena.resolve import POLICY, contender, policies_of
from echelon.learn.checkpoint.provenance import NOTHING, UNKNOWN
from echelon.learn.config import EvalConfig, TrainConfig
from echelon.runtime.errors import ConfigError

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("device", "tpu", "device must be auto, cpu, cuda or cuda:N, got 'tpu'"),
        ("batch", 0, "batch must be 1..16777216, battles, got 0"),
        ("precision", "int8", "precision must be one of auto, fp32, bf16, fp16, got 'int8'"),
        ("compiled", "on", "compiled must be True, False or None, got 'on'"),
        ("cuda_graph", 1, "cuda_graph must be True, False or None, got 1"),
    ],
)
def test_invalid_field_is_refused_by_name(field, value, message):
    with pytest.raises(ConfigError) as error:
        ArenaConfig(**{"device": CPU, field: value})
    assert str(error.value).startswith(message.split(",")[0])


def test_match_of_fewer_battles_than_a_batch_makes_the_batch_smaller():
    settings = ArenaConfig(CPU, 8)
    assert (settings.of_match(6).batch, settings.of_match(6).battles) == (6, 6)
    assert (settings.of_match(20).batch, settings.of_match(20).battles) == (8, 20)


def test_arena_resolves_default_settings(monkeypatch):
    monkeypatch.setattr(
        arena_config, "is_worth_compiling", lambda *work: work == (CPU, 4, 9, BRIEF.rules.max_decisions)
    )
    settings = ArenaConfig("cpu", 4, battles=9)
    decided = BatchArena(BRIEF, {}.__getitem__, settings).settings
    assert (decided.precision, decided.compiled, decided.cuda_graph) == ("fp32", True, False)
    own = dataclasses.replace(settings, precision="bf16", compiled=False, cuda_graph=True)
    assert own.definite(1) == own


def test_device_in_place_of_settings_is_refused():
    match = {"blue": Heuristic(BRIEF), "red": Heuristic(BRIEF)}
    for make in (
        lambda: BatchArena(BRIEF, match.__getitem__, CPU),
        lambda: Match(("blue", match["blue"]), {"red": match["red"]}, BRIEF, 2, CPU),
        lambda: named_match("easy", "hard", BRIEF, 2, CPU),
    ):
        with pytest.raises(ConfigError, match=r"settings must be an ArenaConfig, such as ArenaConfig\(device\), got"):
            make()


def test_evaluation_settings_come_from_the_training_config():
    run = dataclasses.replace(TrainConfig.quick(), cuda_graphs="off", evaluation=EvalConfig(compiled="on"))
    settings = ArenaConfig.of_run(run, CPU)
    assert (settings.compiled, settings.cuda_graph, settings.precision) == (True, False, "auto")
    assert ArenaConfig.of_run(TrainConfig.quick(), CPU).cuda_graph is None


def test_named_and_given_policies_become_contenders():
    named, network = contender("hard"), policy_of(1)
    assert (named.name, named.id, named.provenance) == ("hard", "heuristic:hard", NOTHING)
    given = contender(network)
    assert (given.name, given.id, given.provenance) == (POLICY, POLICY, UNKNOWN)
    policies, ids = policies_of([given, named], BRIEF, CPU)
    assert ids == {POLICY: POLICY, "hard": "heuristic:hard"}
    assert policies[POLICY] is network and isinstance(policies["heuristic:hard"], Heuristic)
    with pytest.raises(ConfigError, match="policy must be a name, a path, a module or a callable"):
        contender(Heuristic)

"""Decisions of a match as CUDA graphs, tested on a CPU: `tests/graphs.py` replaces torch's graphs."""

import dataclasses

import pytest
import torch
from graphs import dense_forms, simulate
from leagues import BRIEF, policy_of
from test_batch_arena import WIDER, seen_by
from tiny_runs import tiny_run

from echelon.agents import seating
from echelon.agents.heuristic import Heuristic
from echelon.agents.runner import SeatedPolicy, TeamSeat
from echelon.arena import batch_arena, evaluator
from echelon.arena import config as arena_config
from echelon.arena.batch_arena import BatchArena, Battle, MatchBatch
from echelon.arena.config import COMPILED_FROM, ArenaConfig, definite_precision, is_worth_compiling, saved_s
from echelon.arena.evaluator import Evaluator
from echelon.arena.match import Match
from echelon.learn.config import EvalConfig
from echelon.replay.recorder import Recorder
from echelon.rules.physics import RulesConfig

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
SHORT = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=0.25, decision_repeat=1))
"""Battles of five decisions."""
POLICIES = {"one": policy_of(1), "two": policy_of(2), "wide": policy_of(3, WIDER), "script": Heuristic(SHORT, "expert")}
BATTLES = [Battle(*pair, 7) for pair in (("one", "two"), ("wide", "script"), ("script", "one"), ("two", "script"))]


@pytest.fixture
def decided(monkeypatch):
    """Count the decisions that run on the host. Everything runs in the form of a GPU."""
    dense_forms(monkeypatch)
    monkeypatch.setattr(batch_arena, "loops_on", lambda device: False)
    decide, calls = MatchBatch._decide, []

    def counted(self, now, decision):
        calls.append(decision)
        decide(self, now, decision)

    monkeypatch.setattr(MatchBatch, "_decide", counted)
    return calls


@pytest.mark.parametrize("matches", [1, pytest.param(2, marks=pytest.mark.long)])
def test_captured_match_equals_eager_match(decided, monkeypatch, matches):
    called = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, batch=4)).play(BATTLES).results
    assert len(decided) == 5
    counted, arena = (
        simulate(monkeypatch),
        BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, batch=4, cuda_graph=True)),
    )
    for battles in (BATTLES, BATTLES[2:] + BATTLES[:2])[:matches]:
        decided.clear()
        results = {battle: result for battle, result in zip(battles, arena.play(battles).results, strict=True)}
        assert [results[battle] for battle in BATTLES] == called
        assert len(decided) == 3, "two calls and a capture, which a GPU repeats without the host"
    assert (counted.captures, counted.replays) == (matches, matches * 3)


def test_memory_is_updated_in_place_without_graphs(decided):
    called, in_place = (
        BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, cuda_graph=graph)).play(BATTLES).results
        for graph in (False, True)
    )
    assert called == in_place


def test_recorded_batches_and_policies_without_graph_key_are_not_captured(decided, monkeypatch):
    counted = simulate(monkeypatch)
    heuristic = POLICIES["script"]
    known = {**POLICIES, "script": lambda team: heuristic(team)}
    known["script"].memory_spec = heuristic.memory_spec
    arena = BatchArena(SHORT, known.__getitem__, ArenaConfig(CPU, cuda_graph=True))
    own = arena.play(BATTLES).results
    assert len(decided) == 5
    arena = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, cuda_graph=True))
    assert arena.play(BATTLES, Recorder([0])).results == own
    assert len(decided) == 10 and counted.captures == 0


def test_cpu_does_not_capture_by_default():
    arena = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, batch=COMPILED_FROM))
    settings = arena.settings
    assert (arena.compute, settings.compiled, settings.cuda_graph) == (torch.float32, False, False)


def test_gpu_uses_bf16_and_compiles_long_matches(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    assert definite_precision("auto", GPU) == "bf16" and definite_precision("fp32", GPU) == "fp32"
    assert definite_precision("auto", CPU) == "fp32"
    monkeypatch.setattr(arena_config, "can_compile", lambda device: True)
    assert is_worth_compiling(GPU, COMPILED_FROM) and not is_worth_compiling(GPU, COMPILED_FROM - 1)
    monkeypatch.setattr(arena_config, "can_compile", lambda device: False)
    assert not is_worth_compiling(GPU, COMPILED_FROM)


@pytest.mark.parametrize(
    ("battles", "batch", "decisions", "compiles"),
    [
        # Saved: a batch 240 * (0.027 + 21e-6 * its battles) s, to be at least 164 / 8 = 20.5 s.
        (64, 256, 240, False),  # 6.8 s
        (512, 256, 240, False),  # 15.5 s
        (768, 256, 240, True),  # 23.3 s
        (1000, 1000, 240, False),  # 11.5 s
        (256, 256, 2400, True),  # 77.7 s
        (None, 256, 240, False),
        (None, COMPILED_FROM, 240, True),
        (COMPILED_FROM, COMPILED_FROM, 240, True),
    ],
)
def test_gpu_compiles_for_a_long_match(monkeypatch, battles, batch, decisions, compiles):
    monkeypatch.setattr(arena_config, "can_compile", lambda device: True)
    assert is_worth_compiling(GPU, batch, battles, decisions) is compiles
    assert not is_worth_compiling(CPU, batch, battles, decisions)


def test_compiled_graphs_save_time_in_each_batch_and_battle():
    assert saved_s(768, 256, 240) == pytest.approx(240 * (3 * 0.027 + 768 * 21e-6))
    assert saved_s(257, 256, 100) == pytest.approx(100 * (2 * 0.027 + 257 * 21e-6))


def test_match_passes_its_length_to_the_arena(monkeypatch):
    asked = []
    monkeypatch.setattr(arena_config, "is_worth_compiling", lambda *work: bool(asked.append(work)))
    Match(("x", POLICIES["script"]), {"y": POLICIES["script"]}, SHORT, 6, ArenaConfig(CPU, batch=4))
    assert asked == [(CPU, 4, 6, SHORT.rules.max_decisions)]


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, (None, None)),
        ({"compile_policy": "off"}, (False, None)),
        ({"backend": "eager"}, (False, None)),
        ({"cuda_graphs": "off"}, (None, False)),
        ({"evaluation": EvalConfig(compiled="on"), "compile_policy": "off"}, (True, None)),
        ({"evaluation": EvalConfig(compiled="off")}, (False, None)),
    ],
)
def test_evaluations_use_the_settings_of_the_run(tmp_path, monkeypatch, changes, own):
    made = []
    monkeypatch.setattr(evaluator, "BatchArena", lambda env, policies, settings: made.append(settings))
    config = tiny_run(**{"compile_policy": "all", "cuda_graphs": "on", "precision": "bf16", **changes})
    made_by = Evaluator(policy_of(1), config, tmp_path)
    assert (made[0].precision, made[0].compiled, made[0].cuda_graph) == ("bf16", *own)
    made_by._arena(2, is_recorded=True)
    assert made[1].compiled is False


def test_commander_graph_is_padded_to_a_fixed_number_of_teams():
    policy, slots = POLICIES["script"], [TeamSeat(row, row) for row in (4, 1, 2)]
    plain, padded = SeatedPolicy(policy, slots, 5, CPU), SeatedPolicy(policy, slots, 5, CPU, policy, teams=6)
    for seed in range(3):
        seen = seen_by(6, seed)
        with torch.inference_mode():
            assert torch.equal(plain.decide(seen), padded.decide(seen))
    assert len(padded.decided) == 6 and len(padded.rows) == 3 == len(plain.decided)


def test_compiled_commander_is_cached_by_name(monkeypatch):
    made = []

    def compiled_heuristic(commander, device):
        made.append(commander)
        return lambda team: (commander.weapon_use, team)

    monkeypatch.setattr(seating, "compiled_heuristic", compiled_heuristic)
    arena = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, compiled=True))
    assert arena.deciders.call_of("script", POLICIES["script"]) is POLICIES["script"], "a CPU plays loops"
    arena.deciders.device = GPU
    monkeypatch.setattr(torch, "full", lambda shape, value, device: torch.tensor(value))
    call = arena.deciders.call_of("script", Heuristic(SHORT, "expert", weapon_use=0.5))
    assert arena.deciders.call_of("script", Heuristic(SHORT, "expert", weapon_use=0.5)) is call and len(made) == 1
    made[0].weapon_use = torch.ones(3, 5, 1)  # as tracing leaves it
    assert call(None) == (torch.tensor(0.5), None)
    assert arena.deciders.call_of("one", POLICIES["one"]) is POLICIES["one"]

"""Another process compiles the loops while battles run in the dense form."""

import dataclasses
import os
import sys

import pytest
import torch
from builders import weak_catalog
from tiny_runs import run_to_the_end, tiny_run

from echelon.agents.heuristic import Heuristic
from echelon.arena.batch_arena import BatchArena
from echelon.arena.config import ArenaConfig
from echelon.env import blocks, engine, first_compile
from echelon.env.compile_loops import compile_loops
from echelon.env.env import EchelonEnv
from echelon.env.first_compile import CompileProcess, compile_process, loops_ready
from echelon.league.matchmaking import round_robin
from echelon.learn.trainer import Trainer
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime import compile
from echelon.runtime.errors import ConfigError
from echelon.runtime.loop_cache import PACKAGE, cache_folder

CPU = torch.device("cpu")
ENDING_EARLY = dataclasses.replace(
    EnvConfig.small(),
    world=WorldConfig(40, 40, 12),
    rules=RulesConfig(max_episode_s=10.0),
    catalog=weak_catalog(),
    map_pool=2,
)
"""Battles between weak mechs, most of which end before the time limit."""


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    """A machine with two cores and no compiled loops, where a dummy command replaces the compilation."""
    monkeypatch.delenv("ECHELON_COMPILE", raising=False)
    monkeypatch.setattr(first_compile, "is_cached", lambda loop: False)
    monkeypatch.setattr(first_compile, "cache_folder", lambda: tmp_path / "loops")
    monkeypatch.setattr(first_compile, "cores", lambda: 2)
    monkeypatch.setattr(first_compile, "COMMAND", "")
    caches = compile_process, first_compile.announce_compile
    for function in caches:
        function.cache_clear()
    yield tmp_path
    for function in caches:
        function.cache_clear()


def test_switch_from_dense_form_to_loops_keeps_the_bits(monkeypatch):
    answers = [False, False, False, False, True, True, True, True, True]
    forms = []

    def ready():
        forms.append(answers[min(len(forms), len(answers) - 1)])
        return forms[-1]

    monkeypatch.setattr(engine, "compile_process", lambda: None)
    monkeypatch.setattr(engine, "loops_ready", ready)
    waiting = EchelonEnv(EnvConfig.small(), num_envs=3, seed=5)
    compiled = EchelonEnv(EnvConfig.small(), num_envs=3, seed=5, backend="loops")
    assert waiting.form == "loops" and not forms[0]
    ours, theirs = waiting.reset(), compiled.reset()
    torch.manual_seed(0)
    for _ in range(6):
        action = compiled.rand_action(theirs.clone())
        for group in compiled.group_map:
            ours[group, "action"] = action[group, "action"].clone()
        ours, theirs = waiting.step(ours)["next"], compiled.step(action)["next"]
        for key in theirs.keys(True, True):
            assert torch.equal(ours[key], theirs[key]), key
    assert forms[-1] and not all(forms)
    ours, theirs = waiting.get_state(), compiled.get_state()
    for key in theirs.keys(True, True):
        assert torch.equal(ours[key], theirs[key]), key


@pytest.mark.parametrize("dense_calls", [3, 10**9])
def test_match_that_starts_in_the_dense_form_has_the_same_results(monkeypatch, dense_calls):
    """Battles end and restart after dense decisions too, whose tensors may be shared and must not change in place."""
    monkeypatch.setattr(blocks, "BLOCK", 2)
    battles = round_robin(["expert", "hard"], [1, 2])
    policies = {name: Heuristic(ENDING_EARLY, name) for name in ("expert", "hard")}
    expected = BatchArena(ENDING_EARLY, policies.__getitem__, ArenaConfig(CPU)).play(battles).results
    assert len({result.decisions for result in expected}) > 2
    calls = []
    monkeypatch.setattr(engine, "compile_process", lambda: None)
    monkeypatch.setattr(engine, "loops_ready", lambda: calls.append(None) or len(calls) > dense_calls)
    assert BatchArena(ENDING_EARLY, policies.__getitem__, ArenaConfig(CPU)).play(battles).results == expected
    assert len(calls) > 3


@pytest.mark.parametrize("dense_calls", [5, 10**9])
def test_training_that_starts_in_the_dense_form_has_the_same_bits(monkeypatch, tmp_path, dense_calls):
    calls, weights = [], []
    monkeypatch.setattr(engine, "compile_process", lambda: None)
    for ready in (lambda: True, lambda: calls.append(None) or len(calls) > dense_calls):
        monkeypatch.setattr(engine, "loops_ready", ready)
        trainer = run_to_the_end(Trainer(tiny_run(), tmp_path / str(len(weights))))
        weights.append([leaf.clone() for leaf in trainer.policy.parameters()])
    assert len(calls) > 5
    assert all(map(torch.equal, *weights))


def test_explicit_loops_do_not_wait_for_another_process(monkeypatch):
    monkeypatch.setattr(engine, "loops_ready", lambda: pytest.fail("asked"))
    EchelonEnv(EnvConfig.small(), num_envs=1, backend="loops").rollout(1)


def test_the_process_compiles_into_the_callers_cache_from_the_folder_of_the_package(empty_cache, monkeypatch):
    code = "import os; print(os.getcwd(), file=open(os.environ['NUMBA_CACHE_DIR'] + '/seen', 'w'))"
    monkeypatch.setattr(first_compile, "COMMAND", code)
    process = CompileProcess(empty_cache / "loops")
    assert process.process.wait(60) == 0
    assert (empty_cache / "seen").read_text().strip() == str(PACKAGE.parent)


def test_one_process_is_started_and_logged_once(empty_cache, monkeypatch, caplog):
    with caplog.at_level("INFO", compile.__name__):
        process = compile_process()
        assert compile_process() is process
        process.process.wait(60)
        monkeypatch.setattr(first_compile, "is_cached", lambda loop: True)
        assert loops_ready() and loops_ready()
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("compiling the simulation for this processor, once, in a second process")
    assert last.startswith("compiled the simulation in ") and "loops" in last


def test_battles_stay_dense_until_the_process_ends(empty_cache, monkeypatch):
    monkeypatch.setattr(first_compile, "COMMAND", "import sys; sys.stdin.read(); input()")
    monkeypatch.setattr(first_compile.subprocess, "DEVNULL", first_compile.subprocess.PIPE)
    process = compile_process()
    assert not loops_ready()
    process.process.communicate(b"")
    assert loops_ready()


def test_failed_process_is_logged_and_this_one_compiles(empty_cache, monkeypatch, caplog):
    monkeypatch.setattr(first_compile, "COMMAND", "raise SystemExit(3)")
    compile_process().process.wait(60)
    assert loops_ready()
    assert "so this process compiles it" in caplog.text


@pytest.mark.parametrize("reason", ["one core", "no folder", "wait", "no process"])
def test_this_process_compiles_and_logs_it(empty_cache, monkeypatch, caplog, reason):
    if reason == "one core":
        monkeypatch.setattr(first_compile, "cores", lambda: 1)
    elif reason == "no folder":
        monkeypatch.setattr(first_compile, "cache_folder", lambda: None)
    elif reason == "wait":
        monkeypatch.setenv("ECHELON_COMPILE", "wait")
    else:
        monkeypatch.setattr(sys, "executable", str(empty_cache / "no-python"))
    with caplog.at_level("INFO", compile.__name__):
        assert compile_process() is None and loops_ready()
        first_compile.announce_compile()
    assert [record.getMessage() for record in caplog.records] == [
        "compiling the simulation for this processor, once, which takes about a minute"
    ]


def test_compiled_loops_start_no_process(empty_cache, monkeypatch, caplog):
    monkeypatch.setattr(first_compile, "is_cached", lambda loop: True)
    with caplog.at_level("INFO", compile.__name__):
        assert compile_process() is None
        first_compile.announce_compile()
    assert not caplog.records


def test_invalid_value_of_the_variable_raises(empty_cache, monkeypatch):
    monkeypatch.setenv("ECHELON_COMPILE", "later")
    with pytest.raises(ConfigError, match="ECHELON_COMPILE must be one of background, wait"):
        compile_process()


def test_second_compiler_finds_the_cached_loops(monkeypatch):
    """The tests' loops are already compiled, so the second process ends without playing."""
    EchelonEnv(EnvConfig.small(), num_envs=1, backend="loops").rollout(1)
    monkeypatch.setattr(EchelonEnv, "rollout", lambda *_: pytest.fail("compiled again"))
    compile_loops()
    assert (cache_folder() / "compiling.lock").exists() and os.environ["ECHELON_COMPILE"] == "wait"

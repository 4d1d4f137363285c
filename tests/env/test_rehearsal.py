"""The rehearsal before battles on a GPU, on a CPU: compiled functions are the dense forms themselves, or contain a
deliberate fault."""

import dataclasses
import logging
from types import SimpleNamespace

import pytest
import torch
from graphs import CARD, dense_forms, simulate
from tiny_runs import tiny_run

from echelon.agents.heuristic import Heuristic
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.env import engine, rehearsal
from echelon.env.env import EchelonEnv
from echelon.env.rehearsal import rehearse
from echelon.env.restart import reset_by_mask
from echelon.learn.trainer import Trainer
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime import fallback
from echelon.runtime.errors import ConfigError
from echelon.runtime.fallback import PREFIX
from echelon.sim import step

CONFIG = dataclasses.replace(
    EnvConfig.small(),
    map_pool=2,
    blue=("medium", "light"),
    red=("medium", "scout"),
    rules=RulesConfig(decision_repeat=1),
)
WRONG = {
    "a step": (step.play, lambda state: state.replace(mechs=state.mechs.replace(heat=state.mechs.heat + 0.01))),
    "a restart": (reset_by_mask, lambda begun: begun._replace(next_seed=begun.next_seed + 1)),
    "not a number": (step.play, lambda state: state.replace(mechs=state.mechs.replace(yaw=state.mechs.yaw / 0.0))),
}


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Without loops and compilation, and with fewer decisions."""
    dense_forms(monkeypatch)
    monkeypatch.setattr(rehearsal, "DECISIONS", 4)
    monkeypatch.setattr(fallback, "REASONS", [])
    monkeypatch.setattr(engine, "fused", lambda function, device, **_: function)


def plant(monkeypatch, function, fault):
    """Replace the compiled form of a function by a faulty one."""
    monkeypatch.setattr(engine, "fused", lambda own, device, **_: fault if own is function else own)


def no_kernel(*arguments):
    raise RuntimeError("no kernel image")


def lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(PREFIX)]


def env_of() -> EchelonEnv:
    return EchelonEnv(CONFIG, 6, "cpu", seed=1, backend="graph")


def test_correct_functions_stay_and_the_environment_is_as_new(caplog):
    env, other = env_of(), env_of()
    rehearsed = rehearse(env)
    assert env.form == "graph" and not rehearsed.captures and not lines(caplog)
    assert rehearsed.line.startswith("rehearsed 4 decisions in ") and rehearsed.line.endswith(" s: graph")
    assert env.engine.play is step.play
    for _ in range(2):
        one, same = env.reset(), other.reset()
        assert (one == same).all() and (env.state == other.state).all() and torch.equal(env.next_seed, other.next_seed)


@pytest.mark.long
def test_rehearsal_contains_fights_and_endings(monkeypatch):
    """Otherwise errors in hits or restarts would not be detected."""
    monkeypatch.setattr(rehearsal, "DECISIONS", 8)
    config = dataclasses.replace(EnvConfig.small(), map_pool=2)
    fought, env = [], EchelonEnv(config, 6, "cpu", seed=1, backend="graph")
    play_compared = rehearsal._play_compared
    monkeypatch.setattr(
        rehearsal, "_play_compared", lambda *arguments: fought.append(play_compared(*arguments)) or fought[-1]
    )
    before = env.state.seed.clone()
    rehearse(env)
    (state,) = fought
    assert (state.seed != before).any() and state.tally.damage.sum() > 0 and not state.mechs.alive.all()


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_graph_is_replaced_and_logged(monkeypatch, caplog, wrong):
    function, fault = WRONG[wrong]
    plant(monkeypatch, function, lambda *arguments: fault(function(*arguments)))
    env = env_of()
    assert rehearse(env).line.endswith(" s: eager")
    assert env.form == env.backend == "eager" and env.engine.play is step.play
    (line,) = lines(caplog)
    assert line.startswith(f"{PREFIX}the simulation runs eager instead of graph: ")
    where = {"a step": "play differs in ", "a restart": "in next_seed of 6", "not a number": "in mechs.yaw of 6"}[wrong]
    assert where in line


def test_rounding_differences_are_tolerated(monkeypatch, caplog):
    def nearly(state, orders, sim_model):
        state = step.play(state, orders, sim_model)
        return state.replace(mechs=state.mechs.replace(heat=state.mechs.heat * (1 + 1e-7)))

    plant(monkeypatch, step.play, nearly)
    env = env_of()
    rehearse(env)
    assert env.form == "graph" and not lines(caplog)


def test_compile_failure_falls_back_and_logs_the_cause(monkeypatch, caplog):
    def no_compiler(*arguments):
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.\nmore")

    plant(monkeypatch, step.play, no_compiler)
    env = env_of()
    rehearse(env)
    assert env.form == "eager" and lines(caplog) == [
        f"{PREFIX}the simulation runs eager instead of graph: Failed to find C compiler. Please specify via CC "
        "environment variable."
    ]
    env.rand_step(env.reset())


def test_lost_device_raises(monkeypatch):
    def gone(*arguments):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", gone)
    with pytest.raises(ConfigError, match=r"illegal memory access.*; restart with ECHELON_BACKEND=eager"):
        rehearsal._require_alive(torch.device("cuda", 0), RuntimeError("CUDA error: an illegal memory access"))
    plant(monkeypatch, step.play, lambda *arguments: (_ for _ in ()).throw(torch.OutOfMemoryError("no memory")))
    with pytest.raises(torch.OutOfMemoryError):
        rehearse(env_of())


@pytest.mark.long
def test_capture_is_rehearsed_and_discarded(monkeypatch, caplog):
    counted = simulate(monkeypatch)
    env, other = env_of(), env_of()
    rehearsed = rehearse(env, captures=True)
    assert rehearsed.captures and rehearsed.line.endswith("graph, captured decisions") and not lines(caplog)
    assert counted.captures == 1 and counted.replays == rehearsal.DECISIONS - 2
    assert (env.reset() == other.reset()).all() and (env.state == other.state).all()


@pytest.mark.parametrize("backend", ["graph", pytest.param("eager", marks=pytest.mark.long)])
def test_failing_capture_falls_back_to_calls(monkeypatch, caplog, backend):
    simulate(monkeypatch)

    def reads(which, *arguments):
        which.any().item()
        return reset_into_buffers(which, *arguments)

    reset_into_buffers = engine.reset_into_buffers
    monkeypatch.setattr(engine, "reset_into_buffers", reads)
    env = EchelonEnv(CONFIG, 6, "cpu", seed=1, backend=backend)
    env.restarts_by_row = False
    rehearsed = rehearse(env, captures=True)
    assert not rehearsed.captures and env.form == backend and CARD.is_clean
    (line,) = lines(caplog)
    assert line.startswith(f"{PREFIX}a rehearsed decision runs without a CUDA graph: it cannot be captured (operation")


def test_failure_in_capture_only_functions_falls_back(monkeypatch, caplog):
    simulate(monkeypatch)
    plant(monkeypatch, engine.reset_into_buffers, no_kernel)
    env = env_of()
    assert not rehearse(env, captures=True).captures and env.form == "graph"
    assert lines(caplog) == [f"{PREFIX}decisions run without CUDA graphs: no kernel image"]


def test_wrong_replay_falls_back_to_calls(monkeypatch, caplog):
    counted = simulate(monkeypatch)
    env = env_of()
    replay = counted.replay

    def wrong(self) -> None:
        replay(self)
        env.state.mechs.heat.add_(1.0)

    monkeypatch.setattr(counted, "replay", wrong)
    assert not rehearse(env, captures=True).captures
    (line,) = lines(caplog)
    assert line.startswith(f"{PREFIX}decisions run without CUDA graphs: a replay differs in 6 of 6 battles")


@pytest.mark.long
def test_training_continues_after_a_fault(monkeypatch, caplog, tmp_path):
    """On a GPU, a trainer rehearses and then trains with the remaining forms."""
    simulate(monkeypatch)
    monkeypatch.setattr(rehearsal, "should_rehearse", lambda env: True)
    plant(monkeypatch, step.play, no_kernel)
    brief = dataclasses.replace(CONFIG, rules=RulesConfig(max_episode_s=0.25, decision_repeat=1))
    config = tiny_run(env=brief, cuda_graphs="on", backend="graph", opponent="self")
    with caplog.at_level(logging.INFO):
        trainer = Trainer(config, tmp_path / "run")
        trainer.iterate()
    assert trainer.env.form == "eager" and trainer.collector.cuda_graph
    assert lines(caplog) == [f"{PREFIX}the simulation runs eager instead of graph: no kernel image"]
    assert trainer.rehearsal_note.endswith(": eager, captured decisions")


def test_should_rehearse_conditions():
    env = env_of()
    assert not rehearsal.should_rehearse(env)
    gpu = SimpleNamespace(device=torch.device("cuda", 0), observer=None)
    assert rehearsal.should_rehearse(gpu) and not rehearsal.should_rehearse(
        SimpleNamespace(device=gpu.device, observer=object())
    )


def test_arena_continues_after_a_fault(monkeypatch, caplog):
    monkeypatch.setattr(rehearsal, "should_rehearse", lambda env: True)
    plant(monkeypatch, step.play, no_kernel)
    brief = dataclasses.replace(CONFIG, rules=RulesConfig(max_episode_s=0.25, decision_repeat=1))
    arena = BatchArena(brief, lambda name: Heuristic(brief, name), ArenaConfig(torch.device("cpu"), compiled=True))
    monkeypatch.setenv("ECHELON_BACKEND", "graph")
    assert len(arena.play([Battle("easy", "normal", 1)]).results) == 1
    assert lines(caplog) == [f"{PREFIX}the simulation runs eager instead of graph: no kernel image"]

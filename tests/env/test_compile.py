"""Compiled and eager mode play the same battles."""

import dataclasses

import pytest
import torch
from builders import brawl

from echelon.env import blocks, decision
from echelon.env.env import EchelonEnv
from echelon.rules import actions
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.sim import step

CONFIG = dataclasses.replace(
    EnvConfig.small(),
    map_pool=2,
    blue=("medium", "light"),
    red=("medium", "scout"),
    rules=RulesConfig(max_episode_s=10.0),
)


@pytest.mark.long
def test_compiled_equals_eager(monkeypatch):
    """Compare 240 decisions with restarts, each from the state of eager mode, with tolerance 1e-3, because fused
    kernels round differently. Two blocks on two threads, in and out of inference mode, are compiled once."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    eager = EchelonEnv(CONFIG, 4, "cpu", seed=1, backend="eager")
    compiled = EchelonEnv(CONFIG, 4, "cpu", seed=1, maps=eager.sim_model.maps, backend="graph")
    assert compiled.engine.blocks.threads == 2 and len(compiled.engine.blocks.spans) == 2
    generator = torch.Generator().manual_seed(0)
    one, other = eager.reset(), compiled.reset()
    restarts = 0
    for t in range(240):
        brawl(one, generator)
        for group in ("blue", "red"):
            other[group, "action"] = one[group, "action"]
        step_one, one = eager.step_and_maybe_reset(one)
        with torch.inference_mode(t % 2 == 1), torch._dynamo.config.patch(error_on_recompile=t > 0):
            step_other, other = compiled.step_and_maybe_reset(other)
        for key in step_one.keys(True, True):
            torch.testing.assert_close(
                step_other[key], step_one[key], atol=1e-3, rtol=1e-4, msg=lambda m, k=(t, key): f"{k}: {m}"
            )
        restarts += int(one["is_init"].sum())
        compiled.state = eager.state.clone()
        other = one.clone()
    assert restarts >= 20


@pytest.mark.long
def test_decision_is_one_graph():
    """Orders, substeps, score, outcome, reward and observation are traced without a graph break, with two substeps."""
    env = EchelonEnv(dataclasses.replace(CONFIG, rules=RulesConfig(decision_repeat=2)), 2, "cpu", seed=1)

    def whole(state, action):
        orders = actions.decode(action, state.focus_slots, env.sim_model.roster, env.config.features)
        return decision.score_observe_reward(state, step.decide(state, orders, env.sim_model), orders, env.sim_model)

    env.reset()
    action = torch.rand(2, 4, 26) * 2 - 1
    with torch.no_grad():
        expected = whole(env.state.clone(), action)
        traced = torch.compile(whole, fullgraph=True, dynamic=False, backend="eager")(env.state.clone(), action)
    # Sums have other last bits in a graph (`exact.sum`).
    torch.testing.assert_close(traced.streams["ego"], expected.streams["ego"], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(traced.reward_terms, expected.reward_terms, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("battles", "threads", "size"), [(1024, 2, 128), (30, 4, 30), (256, 2, 128), (100, 2, 50), (7, 2, 7), (1, 2, 1)]
)
def test_blocks_are_equal_and_keep_threads_busy_if_possible(battles, threads, size):
    assert blocks.block_size(battles, threads, 128) == size


@pytest.mark.parametrize("backend", ["eager", "loops"])
def test_battles_do_not_depend_on_the_division_into_blocks(monkeypatch, backend):
    """Bit for bit: blocks change only where a battle is played. An error in a block reaches the caller."""
    finals = []
    many = 4 if backend == "eager" else 2
    for threads in (1, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        monkeypatch.setattr(blocks, "BLOCK", 2 if threads == 2 else 128)
        env, generator = (
            EchelonEnv(CONFIG, 8, "cpu", 3, backend=backend),
            torch.Generator().manual_seed(1),
        )
        assert len(env.engine.blocks.spans) == (many if threads == 2 else 1)
        td = env.reset()
        for _ in range(2):
            played, td = env.step_and_maybe_reset(brawl(td, generator))
        finals.append(torch.cat([value.flatten().double() for _, value in sorted(flat(played))]))
        finals.append(torch.cat([value.flatten().double() for _, value in sorted(flat(env.state.to_tensordict()))]))
    assert torch.equal(finals[0], finals[2]) and torch.equal(finals[1], finals[3])

    def fails(_battles):
        raise ValueError("no such block")

    with pytest.raises(ValueError, match="no such block"):
        env.engine.blocks.play(fails)


def flat(td):
    return [(str(key), value) for key, value in td.items(True, True)]

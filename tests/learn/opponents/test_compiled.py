"""Compiled commanders decide as in eager mode."""

import dataclasses

import pytest
import torch
from tiny_runs import TINY, short_battles

from echelon.agents import compiled
from echelon.agents.compiled import compiled_commander
from echelon.agents.heuristic import Heuristic, scripted
from echelon.env.env import EchelonEnv
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.opponents.frozen import FrozenOpponents
from echelon.learn.opponents.named import NamedOpponents
from echelon.learn.opponents.snapshot_pool import SnapshotPool

CPU = torch.device("cpu")
CONFIG = dataclasses.replace(short_battles(), map_pool=2)


@pytest.fixture
def traced(monkeypatch):
    """Trace graphs completely, as on a GPU, then run them operation by operation."""

    def fused(function, device, **_):
        return torch.compile(function, fullgraph=True, dynamic=False, backend="aot_eager")

    monkeypatch.setattr(compiled, "fused", fused)
    monkeypatch.setattr("echelon.agents.stacked.fused", fused)
    torch._dynamo.reset()


def decisions(opponents, policy, count):
    """Return the actions of both teams over some decisions of the same battles."""
    torch.manual_seed(0)
    seats = PolicyAssignment(policy, [OpponentGroup("them", opponents, 8)])
    env, found = EchelonEnv(CONFIG, 8, device="cpu", seed=3, memory=seats.memory), []
    now = env.reset()
    with torch.inference_mode():
        for _ in range(count):
            seats.decide(now)
            found.append(torch.stack([now[group, "action"] for group in ("blue", "red")]))
            now = env.step_and_maybe_reset(now)[1]
    return torch.stack(found)


@pytest.mark.long
@pytest.mark.parametrize("tier", ["trivial", "expert"])
def test_scripted_commander_compiles_to_one_graph(traced, tier):
    policy = TINY.build(PolicySpecs(CONFIG.comm_dim))
    plain, graph = (
        decisions(
            NamedOpponents(CONFIG, [f"heuristic:{tier}"], f"heuristic:{tier}", 0.5, CPU, scripted, own), policy, 6
        )
        for own in (False, True)
    )
    # Graphs use other roots and sums, so choices between nearly equal options may differ.
    assert ((plain - graph).abs() < 1e-3).float().mean() > 0.99


@pytest.mark.long
def test_new_weapon_use_does_not_recompile(traced):
    from torch._dynamo.utils import counters

    counters.clear()
    commander = Heuristic(CONFIG, "easy")
    call, env = compiled_commander(commander, CPU), EchelonEnv(CONFIG, 4, device="cpu", seed=0)
    seen = env.reset()["blue"].select("observation")
    memory = commander.memory_spec().zero().expand(4, 5)
    for weapon_use in (1.0, 0.25, torch.zeros(4, 5, 1)):
        commander.weapon_use = weapon_use
        decided = call(seen.copy().set("memory", memory.clone()))
        due = decided["next", "memory", "shots_due"]
        assert torch.equal(due, torch.as_tensor(weapon_use).expand(4, 5, 1) % 1.0)
    assert counters["stats"]["unique_graphs"] == 1


def test_frozen_opponents_compile_to_one_graph(traced):
    policy = TINY.build(PolicySpecs(CONFIG.comm_dim))
    pool = SnapshotPool(1)
    pool.add("iteration 0", policy)
    plain, graph = (decisions(FrozenOpponents(policy, 2, 2, pool, compiled=own), policy, 2) for own in (False, True))
    assert torch.allclose(plain, graph, atol=1e-4)


def test_custom_commander_is_not_compiled():
    class Own:
        def __call__(self, team):
            return team

    own = Own()
    assert compiled_commander(own, CPU) is own

    class Cautious(Heuristic):
        """A tier with overridden methods, which a graph might not respect."""

    cautious = Cautious(CONFIG, "hard")
    assert compiled_commander(cautious, CPU) is cautious
    policy = TINY.build(PolicySpecs(CONFIG.comm_dim)).eval()
    assert compiled_commander(policy, CPU) is policy and policy.act != policy.network.forward

"""Restarts by row and by mask are equal, and leave other battles unchanged."""

import dataclasses

import pytest
import torch
from ground_cases import BATTLES, standard_maps
from torchrl.data import Composite, Unbounded

from echelon.env.env import EchelonEnv
from echelon.env.restart import Selection, restore_ground
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.state import initial_terrain

pytestmark = pytest.mark.quick


def test_replaced_changes_only_selected_battles():
    which = torch.tensor([True, False, True])
    old, fresh = torch.rand(3, 2, 5), torch.rand(3, 2, 5)
    before, mask, rows = old.clone(), Selection(which), Selection.by_row(which)
    found = rows.replaced(old, rows.of(fresh))
    assert torch.equal(found, mask.replaced(old, mask.of(fresh)))
    assert torch.equal(found[which], fresh[which]) and torch.equal(found[1], before[1])
    assert torch.equal(old, before)


@pytest.mark.usual
def test_restore_changes_only_selected_terrain():
    maps, generator = standard_maps(), torch.Generator().manual_seed(1)
    map_id = torch.arange(BATTLES).flip(0)
    which = torch.rand(BATTLES, generator=generator) < 0.5
    whole = initial_terrain(map_id, maps)
    fought = whole.clone()
    for name in ("solid", "opaque", "rubble"):
        getattr(fought, name).bitwise_xor_(torch.randint(0, 1 << 30, whole.solid.shape, generator=generator).int())
    fought.damage.fill_(3)
    rows = Selection.by_row(which)
    for restore in (
        lambda ground: rows.restore(ground, initial_terrain(rows.of(map_id), maps)),
        lambda ground: restore_ground(ground, which, map_id, maps),
    ):
        ground = fought.clone()
        restore(ground)
        for name in ("solid", "opaque", "rubble", "damage"):
            found = getattr(ground, name)
            assert torch.equal(found[which], getattr(whole, name)[which])
            assert torch.equal(found[~which], getattr(fought, name)[~which])


def test_gradients_flow_through_memories_of_running_battles():
    env = EchelonEnv(EnvConfig.small(), 2, "cpu", 2, memory=Composite(h=Unbounded((3,))), maps=None)
    for by_row in (True, False):
        env.restarts_by_row = by_row
        td = env.reset()
        remembered = torch.ones(2, 5, 3, requires_grad=True)
        td["blue", "memory", "h"] = remembered * 2
        td["done"] = torch.tensor([[True], [False]])
        after = env.maybe_reset(td)["blue", "memory", "h"]
        (gradient,) = torch.autograd.grad(after.sum(), remembered)
        assert (after[0] == 0).all() and (gradient[0] == 0).all() and (gradient[1] == 2).all()


@pytest.mark.usual
def test_restart_by_row_equals_restart_by_mask():
    short = dataclasses.replace(EnvConfig.small(), map_pool=4, rules=RulesConfig(max_episode_s=0.2, decision_repeat=1))
    by_row = EchelonEnv(short, 3, "cpu", 2, backend="eager")
    by_mask = EchelonEnv(short, 3, "cpu", 2, maps=by_row.sim_model.maps, backend="eager")
    by_mask.restarts_by_row = False
    one, other, restarts = by_row.reset(), by_mask.reset(), 0
    for _ in range(6):
        action = by_row.action_spec.rand()
        (_, one), (_, other) = (
            env.step_and_maybe_reset(now.update(action)) for env, now in ((by_row, one), (by_mask, other))
        )
        assert (one == other).all()
        assert (by_row.state == by_mask.state).all() and torch.equal(by_row.next_seed, by_mask.next_seed)
        restarts += int(one["is_init"].sum())
    assert restarts >= 3


@pytest.mark.long
def test_restart_is_one_graph():
    """The form for a GPU, compiled for a CPU: two runs equal eager mode."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=3)
    settings = {"seed": 1, "memory": Composite(h=Unbounded((3,)))}
    graph = EchelonEnv(config, 4, "cpu", backend="graph", **settings)
    eager = EchelonEnv(config, 4, "cpu", backend="eager", maps=graph.sim_model.maps, **settings)
    assert (graph.form, eager.form) == ("graph", "eager")
    one, other = graph.reset(), eager.reset()
    assert (one == other).all()
    done = torch.tensor([[True], [False], [True], [False]])
    with torch.inference_mode():
        one, other = (env.maybe_reset(td.clone().set("done", done)) for env, td in ((graph, one), (eager, other)))
    assert (one == other).all() and (graph.state == eager.state).all()
    assert torch.equal(graph.next_seed, eager.next_seed)

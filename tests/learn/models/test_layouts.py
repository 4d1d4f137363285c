"""Equal results in every TensorDict layout: a mech axis after the batch, or every mech as a row."""

import math
from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from tiny_runs import TINY
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import set_recurrent_mode

from echelon.env.observation import layout
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import PolicySpecs, model_with

pytestmark = pytest.mark.quick

KINDS = ("lstm", "gru", "mlp")
COMM_DIM = 8
MECHS = 3


def random_teams(policy: ActorCritic, *batch: int) -> TensorDict:
    """Random observations and memories with batch `batch`, followed by a mech axis."""
    count, side, cells = math.prod(batch), layout.LOCAL_MAP_CELLS, layout.TELEMETRY_CELLS
    seen = {
        "contacts": torch.randn(count, MECHS, 4, layout.width(layout.CONTACT)),
        "contacts_mask": torch.rand(count, MECHS, 4) < 0.6,
        "squad": torch.randn(count, MECHS, 4, layout.width(layout.SQUAD)),
        "squad_mask": torch.rand(count, MECHS, 4) < 0.6,
        "ego": torch.randn(count, MECHS, layout.width(layout.EGO)),
        "comms": torch.randn(count, MECHS, layout.PACK_SIZE, COMM_DIM),
        "local_map": torch.rand(count, MECHS, side, side),
    }
    memory = {name: torch.randn(count, MECHS, *leaf.shape) for name, leaf in policy.memory_spec().items()}
    telemetry, is_init = torch.rand(count, cells, cells), torch.rand(count, 1) < 0.3
    flat = TensorDict({"observation": seen, "memory": memory, "telemetry": telemetry, "is_init": is_init}, [count])
    return flat.unflatten(0, batch)


def as_rows(teams: TensorDictBase, axis: int, is_shared: bool = False) -> TensorDict:
    """Move the mech axis to dimension `axis` of the batch; share or copy the entries of a battle."""
    rows = teams.apply(lambda leaf: leaf.movedim(teams.batch_dims, axis), batch_size=[])
    for name in ("telemetry", "is_init"):
        leaf = teams[name].unsqueeze(axis)
        leaf = leaf.expand(*leaf.shape[:axis], MECHS, *leaf.shape[axis + 1 :])
        rows[name] = leaf if is_shared else leaf.clone()
    shape = list(teams.batch_size)
    return TensorDict(rows.to_dict(), [*shape[:axis], MECHS, *shape[axis:]])


def outputs(policy: ActorCritic, data: TensorDictBase) -> TensorDictBase:
    """Return the outputs of actor and critic, from the operators and from the heads."""
    actor, data, other = policy.get_policy_operator(), data.copy(), data.copy()
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        actor(data)
        by_head = policy.get_value_head()(data.copy())["state_value"]
        distribution = policy.get_policy_head().get_dist(data)
        policy.get_value_operator()(other)
    data["loc"], data["scale"] = distribution.base_dist.loc, distribution.base_dist.scale
    data["value"], data["value_by_head"] = other["state_value"], by_head
    names = ("action", "pre_tanh_log_prob", "embed", "loc", "scale", "value", "value_by_head")
    return data.select(*names, ("next", "memory"), strict=False)


def assert_same(teams: TensorDictBase, mechs: TensorDictBase, place: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Assert equal outputs of two layouts; `place` converts a leaf of the first layout to the second."""
    assert set(teams.keys(True, True)) == set(mechs.keys(True, True)) > {"loc", "value"}
    for key, leaf in teams.items(True, True):
        torch.testing.assert_close(mechs[key], place(leaf), atol=1e-5, rtol=1e-5, msg=str(key))


def lively(kind: str) -> ActorCritic:
    """Return a policy whose actions depend on the observation, as after training."""
    torch.manual_seed(0)
    policy = model_with(kind, TINY).build(PolicySpecs(COMM_DIM))
    for linear in (policy.network.head.loc, policy.network.head.log_std):
        linear.weight.data.mul_(100)
    return policy


@pytest.mark.parametrize("kind", KINDS)
def test_decision_is_equal_in_every_layout(kind):
    policy = lively(kind)
    teams = random_teams(policy, 4)
    expected = outputs(policy, teams)
    assert expected["action"].shape[:2] == (4, MECHS) and expected["action"].std(1).min() > 1e-3
    for is_shared in (True, False):
        assert_same(expected, outputs(policy, as_rows(teams, 1, is_shared)), lambda leaf: leaf)
    flat = as_rows(teams, 1).flatten(0, 1)
    assert_same(expected, outputs(policy, flat), lambda leaf: leaf.flatten(0, 1))
    assert_same(expected, outputs(policy, flat[5]), lambda leaf: leaf.flatten(0, 1)[5])
    assert_same(expected, outputs(policy, teams[2]), lambda leaf: leaf[2])
    assert_same(expected, outputs(policy, teams.unflatten(0, (2, 2))), lambda leaf: leaf.unflatten(0, (2, 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_sequence_is_equal_in_every_layout(kind):
    policy = lively(kind)
    teams = random_teams(policy, 2, 5)
    with set_recurrent_mode(True):
        expected = outputs(policy, teams)
        assert expected["loc"].shape[:3] == (2, 5, MECHS)
        rows = as_rows(teams, 1)  # [S, n, L]
        assert_same(expected, outputs(policy, rows), lambda leaf: leaf.transpose(1, 2))
        flat = lambda leaf: leaf.transpose(1, 2).flatten(0, 1)  # noqa: E731
        assert_same(expected, outputs(policy, rows.flatten(0, 1)), flat)
        assert_same(expected, outputs(policy, rows[1, 2]), lambda leaf: leaf[1, :, 2])
        assert_same(expected, outputs(policy, teams[1]), lambda leaf: leaf[1])
        deep = teams.unsqueeze(1)  # [S, 1, L] with a mech axis
        assert_same(expected, outputs(policy, deep), lambda leaf: leaf.unsqueeze(1))

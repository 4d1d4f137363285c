"""The policy network: options, sizes, and use in the environment."""

import dataclasses

import pytest
import torch
from tensordict import TensorDict
from tiny_runs import TINY, make_rollout
from torchrl.envs.utils import ExplorationType, set_exploration_type

from echelon.env.observation import layout
from echelon.learn.models.actor_critic import LOG_STD_RANGE, ActorCritic, ActorHead, Critic
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.precision import autocast, has_native_bf16, resolve_precision, training_process
from echelon.learn.models.registry import PolicySpecs, model_with
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")


def team(policy: ActorCritic, battles: int = 3, mechs: int = 5) -> TensorDict:
    """Random view of a team."""
    from test_encoder import streams

    seen = streams(battles, mechs=mechs)
    above = seen.pop("telemetry")[:, None].expand(-1, mechs, -1, -1)
    memory = {name: torch.randn(battles, mechs, leaf.shape[-1]) for name, leaf in policy.memory_spec().items()}
    return TensorDict({"observation": seen, "telemetry": above, "memory": memory}, [battles, mechs])


def test_parameter_count_follows_config():
    policy = TINY.build(PolicySpecs(EnvConfig.small().comm_dim))
    assert {k: v.shape for k, v in policy.memory_spec().items()} == {"h": (16,), "c": (16,)}
    assert policy.num_parameters() == sum(p.numel() for p in policy.parameters())


def test_policy_samples_unless_deterministic():
    torch.manual_seed(0)
    policy = TINY.build(PolicySpecs(8))
    seen = team(policy)
    with torch.no_grad():
        one, two = policy(seen.clone())["action"], policy(seen.clone())["action"]
        with set_exploration_type(ExplorationType.DETERMINISTIC):
            sure, again = policy(seen.clone()), policy(seen.clone())
    assert not torch.equal(one, two) and torch.equal(sure["action"], again["action"])
    assert one.shape == (3, 5, layout.action_width(8)) and one.abs().max() <= 1


@pytest.mark.requirement("R38")
def test_std_depends_on_observation_only_in_state_mode():
    for std, varies in (("state", True), ("fixed", False)):
        torch.manual_seed(0)
        policy = dataclasses.replace(TINY, std=std).build(PolicySpecs(8))
        _, scale = policy.network.head(torch.randn(4, 16))
        assert (scale.std(0).max() > 1e-6) == varies
        torch.testing.assert_close(scale.mean(), torch.tensor(TINY.initial_std), atol=0.05, rtol=0)


def test_evaluation_mode_scales_std():
    policy = dataclasses.replace(TINY, eval_std_scale=0.25).build(PolicySpecs(8))
    embed = torch.randn(4, 16)
    loc, scale = policy.network.head(embed)
    played_loc, played_scale = policy.eval().network.head(embed)
    assert torch.equal(played_loc, loc) and torch.equal(played_scale, 0.25 * scale)
    with pytest.raises(ConfigError, match="eval_std_scale must be"):
        dataclasses.replace(TINY, eval_std_scale=0.0)


@pytest.mark.usual
def test_mlp_has_no_memory():
    rollout = make_rollout(model_with("mlp", TINY))
    batch = rollout.collect()
    assert len(rollout.policy.memory_spec().keys()) == len(rollout.memory.keys()) == 0
    assert batch["pre_tanh_log_prob"].isfinite().all()
    assert "learner" not in rollout.env.memory.keys()


def test_invalid_model_settings_raise():
    for wrong, message in ((dict(critic="oracle"), "critic must be one of"), (dict(std="none"), "std must be one of")):
        with pytest.raises(ConfigError, match=f"LSTMConfig.{message}"):
            LSTMConfig(**wrong)


def test_bf16_stays_close_and_keeps_distributions_in_float32():
    torch.manual_seed(0)
    policy = LSTMConfig().build(PolicySpecs(8))
    for head in (policy.network.head.loc, policy.network.head.log_std):
        head.weight.data.mul_(100)  # as after training
    seen = team(policy)
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        exact = policy(seen.clone())
        policy.network.compute = torch.bfloat16
        rough = policy(seen.clone())
    assert (
        rough["action"].dtype == rough["next", "memory", "c"].dtype == rough["pre_tanh_log_prob"].dtype == torch.float32
    )
    # The std is about 0.6, so the error of bf16 is a KL divergence below 0.002 per action.
    difference = (rough["pre_tanh"] - exact["pre_tanh"]).square().mean() / (2 * 0.6**2)
    assert 0 < difference < 0.002


def test_auto_precision_follows_native_bf16_support():
    assert resolve_precision("fp32", CPU) == torch.float32 and resolve_precision("bf16", CPU) == torch.bfloat16
    assert resolve_precision("auto", CPU) == (torch.bfloat16 if has_native_bf16(CPU) else torch.float32)


@pytest.mark.long
def test_compiled_forward_matches_eager():
    torch.manual_seed(0)
    policy = TINY.build(PolicySpecs(8))
    seen = team(policy)
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        eager = policy(seen.clone())
        policy.act = torch.compile(policy.network.forward, fullgraph=True, dynamic=False)
        compiled = policy(seen.clone())
    for key in ("action", "pre_tanh_log_prob", ("next", "memory", "c")):
        torch.testing.assert_close(compiled[key], eager[key], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("std", ["state", "fixed"])
def test_std_is_bounded(std):
    """Wide enough that densities do not overflow, and narrow enough that actions do not all saturate."""
    head = ActorHead(dataclasses.replace(TINY, std=std), 3)
    for bias, bound in ((50.0, LOG_STD_RANGE[1]), (-50.0, LOG_STD_RANGE[0])):
        head.log_std.bias.data.fill_(bias)
        _, scale = head(torch.zeros(2, TINY.hidden))
        torch.testing.assert_close(scale, torch.full((2, 3), bound).exp())


@pytest.mark.parametrize("is_on", [False, True])
def test_training_process_never_uses_stale_autocast_weights(is_on):
    """Autocast caches casted weights until its outermost context ends."""
    layer, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
    with torch.autocast("cpu", torch.bfloat16, enabled=is_on), training_process(False, CPU):
        outputs = []
        for _ in range(2):
            with autocast(torch.bfloat16, CPU):
                outputs.append(layer(x).detach())
            with torch.no_grad():
                layer.weight.add_(1.0)
    torch.testing.assert_close(outputs[1], outputs[0] + 4, atol=0.1, rtol=0)


def test_central_critic_equals_product_with_concatenation() -> None:
    """The critic's two products equal the product of layer `mix` with the concatenated inputs per mech. The battle's
    part has the network's precision."""
    torch.manual_seed(0)
    critic = Critic(LSTMConfig(hidden=8, body_width=4, critic="central"))
    width = layout.width(layout.EGO)
    embed, mechs, enemy = torch.randn(3, 2, 5, 8), torch.rand(3, 2, 5, width), torch.rand(3, 2, 4, width)
    assert critic.gathering is not None
    battle = critic.gathering(mechs, enemy)[..., None, :].expand(3, 2, 5, -1)
    mixed = critic.mix(torch.cat((embed, battle), -1)).relu()
    torch.testing.assert_close(critic(embed, mechs, enemy), critic.value(mixed)[..., 0], rtol=0, atol=1e-6)
    exact = critic(embed, mechs, enemy)
    assert exact.std() > 0.01
    rough = critic(embed, mechs.bfloat16(), enemy, torch.bfloat16)
    assert rough.dtype == torch.float32 and 0 < (rough - exact).abs().max() < 0.05 * exact.std()

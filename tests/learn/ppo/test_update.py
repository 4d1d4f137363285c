"""The PPO update: losses, masks, clipping and early stopping."""

import copy
import dataclasses
import gc
import math
from itertools import product

import pytest
import torch
from host_reads import HostReads
from tensordict import TensorDictBase
from tiers import usually
from tiny_runs import TINY, make_rollout
from torchrl.envs.utils import exploration_type
from torchrl.modules import recurrent_mode, set_recurrent_mode
from torchrl.objectives import ClipPPOLoss

from echelon.learn.config import PPOConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import model_with
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.ppo import update
from echelon.learn.ppo.advantage import NormalizedGAE
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.update import DIAGNOSTICS, LOSSES, PPO, REPORTED, Sequences, total
from echelon.learn.schedules import Schedule
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.quick

SETTINGS = {"rollout_decisions": 16, "chunk_decisions": 8, "minibatches": 2, "target_kl": 0.0}


def prepared(rollout: TeamCollector, **changes: object) -> tuple[PPO, TensorDictBase, TensorDictBase]:
    """Return a learner and its batch with advantages."""
    batch, memory = rollout.collect(), rollout.memory
    NormalizedGAE(gamma=0.99, lmbda=0.95, normalizer=ValueNorm())(batch)
    return PPO(rollout.policy, PPOConfig(**{**SETTINGS, **changes})), batch, memory


def everything(batch: TensorDictBase, memory: TensorDictBase) -> TensorDictBase:
    """Return all sequences as one minibatch, with random maps: the flat map of the tests leaves an encoder inactive."""
    batch["telemetry"].uniform_()
    sequences = Sequences(batch, memory, 8)
    return sequences.take(torch.arange(sequences.count))


def found(ppo: PPO, data: TensorDictBase) -> dict[str, torch.Tensor]:
    return dict(ppo.loss(data).items())


def gradients(ppo: PPO) -> list[torch.Tensor]:
    return [p.grad.clone() for p in ppo.policy.parameters()]


@pytest.mark.requirement("R38")
def test_first_ratio_is_one(rollout):
    ppo, batch, memory = prepared(rollout)
    first = found(ppo, Sequences(batch, memory, 8).take(torch.arange(12)))
    assert abs(first["kl"].item()) < 1e-6 and first["clip_fraction"].item() == 0
    # With ratio 1 the objective is minus the mean advantage of living mechs, which is zero.
    assert abs(first["loss_objective"].item()) < 1e-5


@pytest.mark.requirement("R38")
def test_first_ratio_is_one_for_saturated_actions():
    rollout = make_rollout()
    rollout.policy.network.head.loc.bias.data.fill_(9.0)
    _, batch, memory = prepared(rollout)
    assert batch["pre_tanh"].tanh().mean() > 0.9999
    data = Sequences(batch, memory, 8).take(torch.arange(12))
    with torch.no_grad(), set_recurrent_mode(True):
        distribution = rollout.policy.get_policy_operator().get_dist(data)
        ratio = (distribution.log_prob(data["pre_tanh"]) - data["pre_tanh_log_prob"]).exp()
    assert (ratio - 1).abs().max() < 1e-5


def torchrls_loss(policy: ActorCritic, config: PPOConfig, functional: bool) -> ClipPPOLoss:
    """TorchRL's own loss for the whole policy, without value normalisation."""
    theirs = ClipPPOLoss(
        policy.get_policy_operator(),
        policy.get_value_operator(),
        clip_epsilon=config.clip,
        entropy_coeff=config.entropy_coef.first,
        critic_coeff=config.value_coef,
        loss_critic_type="l2",
        normalize_advantage=False,
        functional=functional,
    )
    theirs.set_keys(action="pre_tanh", sample_log_prob="pre_tanh_log_prob", value_target="value_target_normalized")
    return theirs


@pytest.mark.parametrize(
    ("kind", "functional"),
    usually(product(("lstm", "gru", "mlp"), (True, False)), ("lstm", True), ("mlp", False)),
)
def test_loss_equals_torchrl_without_dead_mechs(kind, functional):
    ppo, batch, memory = prepared(make_rollout(model_with(kind, TINY)))
    data = everything(batch, memory)
    data["mask"] = torch.ones_like(data["mask"])
    data["pre_tanh_log_prob"] += 0.3 * torch.randn_like(data["pre_tanh_log_prob"])  # some ratios are clipped
    ours, theirs = found(ppo, data), torchrls_loss(ppo.policy, ppo.config, functional)
    assert 0 < ours["clip_fraction"] < 1
    other = theirs(data)
    for name in (*LOSSES, "entropy", "clip_fraction"):
        torch.testing.assert_close(ours[name], other[name], atol=1e-5, rtol=1e-5)
    total(ours).backward()
    expected = gradients(ppo)
    ppo.policy.zero_grad()
    sum(other[name] for name in LOSSES).backward()
    names = [name for name, _ in ppo.policy.named_parameters()]
    own = dict(theirs.named_parameters())
    assert len(own) == len(names)
    for name, ours_of, theirs_of in zip(names, expected, theirs.parameters(), strict=True):
        torch.testing.assert_close(theirs_of.grad, ours_of, atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.usual
def test_update_with_torchrl_loss_equals_ours_without_dead_mechs():
    weights = []
    for use_torchrls in (False, True):
        ppo, batch, memory = prepared(make_rollout())
        batch["mask"].fill_(True)
        if use_torchrls:
            ppo = PPO(ppo.policy, ppo.config, loss=torchrls_loss(ppo.policy, ppo.config, functional=False))
        torch.manual_seed(0)
        report = ppo.update(batch, memory)
        weights.append([p.detach().clone() for p in ppo.policy.parameters()])
    assert {"kl_approx", "ESS", "gradient_norm"} <= set(report)
    for ours, theirs in zip(*weights, strict=True):
        torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=1e-3)


def test_loss_without_global_counts_raises_with_several_parts():
    policy, config = make_rollout().policy, PPOConfig(**SETTINGS, accumulate=2)
    with pytest.raises(ConfigError, match=r"loss must be one that reads living and decisions, .*, got 'ClipPPOLoss'"):
        PPO(policy, config, loss=torchrls_loss(policy, config, functional=False))


@pytest.mark.requirement("R37")
def test_dead_mechs_enter_only_the_value_loss(rollout):
    ppo, batch, memory = prepared(rollout)
    data = everything(batch, memory)
    data["mask"] = torch.rand(data["mask"].shape) < 0.5
    dead = ~data["mask"]
    clean = found(ppo, data)
    data["advantage"][dead] = 1e3
    data["pre_tanh_log_prob"][dead] += 5.0
    poisoned = found(ppo, data)
    for name in ("loss_objective", "loss_entropy", *DIAGNOSTICS):
        assert torch.equal(clean[name], poisoned[name]), name
    data["value_target_normalized"][dead] += 10.0
    assert found(ppo, data)["loss_critic"] > clean["loss_critic"] + 1


def test_value_clipping_uses_larger_error(rollout):
    ppo, batch, memory = prepared(rollout)
    data = everything(batch, memory)
    # The old values are far from the targets; the new ones are unchanged.
    data["state_value_normalized"] = data["value_target_normalized"] + 3.0
    free = found(ppo, data)["loss_critic"]
    held = found(PPO(ppo.policy, dataclasses.replace(ppo.config, value_clip=0.1)), data)["loss_critic"]
    assert held > free and held >= 0.5 * 2.9**2 - 1e-3


KINDS, CHANGES = ("lstm", "gru", "mlp"), ({}, {"std": "fixed"}, {"critic": "central"})


@pytest.mark.requirement("R46")
@pytest.mark.usual
@pytest.mark.parametrize(
    ("kind", "changes"), usually(product(KINDS, CHANGES), *zip(KINDS, CHANGES, strict=True)), ids=str
)
def test_gradients_reach_every_parameter(kind, changes):
    ppo, batch, memory = prepared(make_rollout(dataclasses.replace(model_with(kind, TINY), **changes)))
    first = found(ppo, everything(batch, memory))
    total(first).backward()
    silent = [n for n, p in ppo.policy.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


@pytest.mark.requirement("R11", "R33")
@pytest.mark.usual
def test_update_after_an_inference_mode_rollout_learns_and_shares_weights(rollout):
    ppo, batch, memory = prepared(rollout, learning_rate=Schedule(1e-2, 1e-2))
    assert not batch["pre_tanh_log_prob"].requires_grad and not batch.is_locked
    before = [p.clone() for p in ppo.policy.parameters()]
    report = ppo.update(batch, memory)
    assert set(report) == {*REPORTED, "epochs", "skipped"}
    assert all(value.isfinite() for value in report.values())
    assert any(not torch.equal(a, b) for a, b in zip(before, ppo.policy.parameters(), strict=True))
    assert rollout.collect()["pre_tanh_log_prob"].isfinite().all()


@pytest.mark.requirement("R44")
def test_schedules_set_learning_rate_and_entropy_coef(rollout):
    ppo, _, _ = prepared(rollout, learning_rate=Schedule(1e-3, 1e-4), entropy_coef=Schedule(0.05, 0.01, "cosine"))
    told = ppo.anneal(0.5)
    assert abs(told["learning_rate"] - 5.5e-4) < 1e-12 and abs(told["entropy_coef"] - 0.03) < 1e-12
    assert ppo.optimizer.param_groups[0]["lr"] == told["learning_rate"]
    assert abs(ppo.objective.entropy_coeff.item() - 0.03) < 1e-7


@pytest.mark.requirement("R41")
@pytest.mark.usual
def test_same_seed_gives_same_update(rollout):
    results = []
    ppo, batch, memory = prepared(rollout)
    start = {k: v.clone() for k, v in ppo.policy.state_dict().items()}
    for _ in range(2):
        ppo.policy.load_state_dict(start)
        torch.manual_seed(3)
        PPO(ppo.policy, ppo.config).update(batch, memory)
        results.append([p.clone() for p in ppo.policy.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.requirement("R41")
def test_minibatches_are_whole_sequences_each_drawn_once(rollout):
    _, batch, memory = prepared(rollout)
    shape = batch["state_value"].shape
    batch["state_value"] = torch.arange(shape.numel(), dtype=torch.float32).view(shape)
    sequences = Sequences(batch, memory, 8)
    assert sequences.count == 12 and sequences.teams == 6
    parts = [sequences.take(index) for index in sequences.shuffled(5)]
    assert [len(part) for part in parts] == [3, 3, 2, 2, 2]
    seen = torch.cat([part["state_value"].flatten() for part in parts])
    assert torch.equal(seen.sort().values, batch["state_value"].flatten())
    one = sequences.take(torch.tensor([8]))  # the second chunk of the third team
    assert torch.equal(one["state_value"][0], batch["state_value"][2, 8:])
    assert torch.equal(one["memory", "h"][0, 0], memory["h"][2, 1])


@pytest.mark.requirement("R45")
@pytest.mark.usual
def test_accumulated_gradients_equal_full_batch(rollout):
    ppo, batch, memory = prepared(rollout, learning_rate=Schedule(1e-9, 1e-9))
    data = everything(batch, memory)
    start = {name: value.clone() for name, value in ppo.policy.state_dict().items()}
    whole = ppo.learn(data)
    expected = gradients(ppo)
    ppo.policy.load_state_dict(start)
    ppo.config = dataclasses.replace(ppo.config, accumulate=5)
    parts = ppo.learn(data)
    for ours, theirs in zip(gradients(ppo), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)
    for name in REPORTED:
        torch.testing.assert_close(parts[name], whole[name], atol=1e-5, rtol=1e-4)


@pytest.mark.usual
def test_cpu_runs_operations_on_one_thread(rollout, monkeypatch):
    """Multi-threaded operations would busy-wait for each other next to other programs."""
    ppo, batch, memory = prepared(rollout)
    used, loss = [], ppo.loss
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        ppo.loss = lambda part: (used.append(torch.get_num_threads()), loss(part))[1]
        ppo.update(batch, memory)
        monkeypatch.setattr(rollout, "_decide", lambda: used.append(torch.get_num_threads()))
        rollout.collect()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert len(used) > rollout.decisions and set(used) == {1}


def test_cpu_splits_minibatch_by_size(rollout, monkeypatch):
    ppo, batch, memory = prepared(rollout)
    data = everything(batch, memory)
    steps, counts = data["mask"].numel(), []
    for limit in (steps, steps - 1, steps // 3, 1):
        monkeypatch.setattr(update, "CPU_PART", limit)
        counts.append(ppo._count_parts(steps, len(data)))
    monkeypatch.setattr(update, "CPU_PART", steps)
    monkeypatch.setattr(update, "CPU_WHOLE", steps - 1)
    assert ppo._count_parts(steps, len(data)) == 2
    assert counts[:2] == [1, 2] and counts[2] in (3, 4) and counts[3] == len(data)
    ppo.config = dataclasses.replace(ppo.config, accumulate=1)
    assert ppo._count_parts(steps, len(data)) == 1


@pytest.mark.requirement("R45")
def test_checkpointed_gradients_are_equal_with_less_memory(rollout):
    ppo, batch, memory = prepared(rollout, learning_rate=Schedule(1e-9, 1e-9))
    data, kept, results = everything(batch, memory), [], []
    for saves in (False, True):
        ppo.policy.network.recomputes_encoder = saves
        held = [0]

        def count(leaf: torch.Tensor, held: list[int] = held) -> torch.Tensor:
            held[0] += leaf.numel()
            return leaf

        with torch.autograd.graph.saved_tensors_hooks(count, lambda leaf: leaf):
            ppo.optimizer.zero_grad()
            first = found(ppo, data)
        total(first).backward()
        results.append(gradients(ppo))
        kept.append(held[0])
    for plain, checkpointed in zip(*results, strict=True):
        torch.testing.assert_close(plain, checkpointed)
    assert kept[1] < 0.7 * kept[0]


def test_kl_and_clip_fraction_match_hand_computation(rollout):
    """By hand: the old policy's densities are smaller by e^0.1, and those of two sequences by e^0.5."""
    ppo, batch, memory = prepared(rollout)
    data = everything(batch, memory)
    with torch.no_grad(), set_recurrent_mode(True):
        log_prob = rollout.policy.get_policy_operator().get_dist(data.copy()).log_prob(data["pre_tanh"])
    shift = torch.full_like(log_prob, 0.1)
    shift[:2] = 0.5
    data["pre_tanh_log_prob"], mask = log_prob - shift, data["mask"]
    report = found(ppo, data)
    far = mask[:2].sum() / mask.sum()
    kl = [math.exp(x) - 1 - x for x in (0.1, 0.5)]
    assert abs(report["kl"] - (kl[0] * (1 - far) + kl[1] * far)) < 1e-5
    assert 0 < far < 1 and abs(report["clip_fraction"] - far) < 1e-6


def test_gradient_norm_is_reported_before_clipping(rollout):
    ppo, batch, memory = prepared(rollout, max_grad_norm=1e-3)
    report = ppo.learn(everything(batch, memory))
    norm = torch.stack([gradient.norm() for gradient in gradients(ppo)]).norm()
    assert report["gradient_norm"] > 1e-2 and abs(norm - 1e-3) < 1e-5


def test_minibatches_are_shuffled(rollout):
    _, batch, memory = prepared(rollout)
    sequences = Sequences(batch, memory, 8)
    drawn = [torch.cat(list(sequences.shuffled(3))).tolist() for _ in range(3)]
    assert len({tuple(order) for order in drawn}) == 3 and sorted(drawn[0]) == list(range(12))


@pytest.mark.usual
def test_kl_above_target_stops_epochs(rollout):
    ppo, batch, memory = prepared(rollout, learning_rate=Schedule(3e-2, 3e-2), epochs=6)
    assert ppo.update(batch, memory)["epochs"] == 6
    ppo, batch, memory = prepared(make_rollout(), learning_rate=Schedule(3e-2, 3e-2), epochs=6, target_kl=0.01)
    assert 1 <= ppo.update(batch, memory)["epochs"] < 6


@pytest.mark.usual
def test_skipped_epochs_on_gpu_leave_no_trace():
    """A GPU computes the later epochs and skips their steps: weights, moments, report and counts equal the CPU's."""
    learnt = []
    for host_may_read in (True, False):
        ppo, batch, memory = prepared(make_rollout(), learning_rate=Schedule(3e-2, 3e-2), epochs=6, target_kl=0.01)
        ppo.host_may_read = host_may_read
        torch.manual_seed(0)
        report = ppo.update(batch, memory)
        assert 1 <= report["epochs"] < 6 and not ppo.is_running
        moments = [value for parameter in ppo.policy.parameters() for value in ppo.optimizer.state[parameter].values()]
        learnt.append(copy.deepcopy([list(ppo.policy.parameters()), moments, report, vars_of(ppo)]))
        again = ppo.update(batch, memory)
        assert again["epochs"] >= 1, "the next update takes steps again"
    torch.testing.assert_close(*learnt, atol=0, rtol=0)


def vars_of(ppo: PPO) -> dict[str, torch.Tensor]:
    return {name: getattr(ppo, name).clone() for name in ("skipped", "in_a_row", "longest")}


@pytest.mark.requirement("R43")
def test_nonfinite_step_is_skipped_and_counted(rollout):
    ppo, batch, memory = prepared(rollout)
    ppo.update(batch, memory)  # the optimiser has moments now
    data = everything(batch, memory)
    spoilt = data.clone()
    spoilt["advantage"][0, 0, 0] = float("nan")
    spoilt["mask"][0, 0, 0] = True
    before = [p.clone() for p in ppo.policy.parameters()]
    moments = [ppo.optimizer.state[p]["exp_avg"].clone() for p in ppo.policy.parameters()]
    steps = [ppo.optimizer.state[p]["step"].item() for p in ppo.policy.parameters()]
    for count in (1, 2):
        ppo.learn(spoilt)
        assert ppo.skipped == ppo.in_a_row == count
    for p, old, moment, step in zip(ppo.policy.parameters(), before, moments, steps, strict=True):
        assert torch.equal(p, old) and torch.equal(ppo.optimizer.state[p]["exp_avg"], moment)
        assert ppo.optimizer.state[p]["step"].item() == step
    ppo.learn(data)
    assert ppo.skipped == 2 and ppo.in_a_row == 0 and ppo.longest == 2
    assert any(not torch.equal(a, b) for a, b in zip(before, ppo.policy.parameters(), strict=True))


@pytest.mark.requirement("R33")
@pytest.mark.usual
@pytest.mark.parametrize("updates", [10, pytest.param(1000, marks=pytest.mark.long)])
def test_repeated_updates_do_not_leak_memory(rollout, updates):
    ppo, batch, memory = prepared(rollout, epochs=1)

    def tensors() -> int:
        gc.collect()
        # `isinstance` would dereference weak proxies, whose referents may be gone.
        return sum(issubclass(type(found), torch.Tensor) for found in gc.get_objects())

    ppo.update(batch, memory)
    before = tensors()
    for _ in range(updates):
        report = ppo.update(batch, memory)
    assert not any(value.requires_grad for value in report.values())
    assert abs(tensors() - before) <= 2 * len(report)


@pytest.mark.requirement("R41")
@pytest.mark.long
def test_an_update_has_no_graph_breaks(rollout):
    ppo, batch, memory = prepared(rollout)
    data = everything(batch, memory)
    explained = torch._dynamo.explain(ppo.loss)(data)
    assert explained.graph_break_count == 0, explained.break_reasons


@pytest.mark.requirement("R14")
@pytest.mark.usual
def test_update_copies_nothing_to_host(rollout):
    ppo, batch, memory = prepared(rollout, accumulate=1)
    ppo.update(batch, memory)
    with HostReads() as mode:
        ppo.update(batch, memory)
    assert not mode.reads
    checked = PPO(rollout.policy, dataclasses.replace(ppo.config, target_kl=1e9))
    checked.host_may_read = False
    with HostReads() as mode:
        checked.update(batch, memory)
    assert not mode.reads, "no host reads with a KL limit either"


@pytest.mark.requirement("R41")
@pytest.mark.long
def test_compiled_loss_learns_the_same_and_restores_modes():
    weights, reports = [], []
    for compiled in (False, True):
        ppo, batch, memory = prepared(make_rollout(), epochs=1)
        ppo = PPO(ppo.policy, ppo.config, compiled=compiled)
        torch.manual_seed(0)
        reports.append(ppo.update(batch, memory))
        weights.append(list(ppo.policy.parameters()))
        assert exploration_type() is None and not recurrent_mode()
    for ours, theirs in zip(*weights, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(*reports, atol=1e-5, rtol=1e-3)

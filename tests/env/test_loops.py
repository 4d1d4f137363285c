"""Loops and the dense form give the same battles, observations and rewards, bit for bit."""

import copy
import dataclasses
import pickle
from pathlib import Path

import pytest
import torch
from builders import brawl
from tensordict import TensorDict
from tiers import usually

from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.fingerprint import leaves
from echelon.arena.resolve import resolve
from echelon.env import engine
from echelon.env.env import EchelonEnv
from echelon.env.form import form_of
from echelon.rules.catalog import read_catalog
from echelon.rules.config import EnvConfig, FeaturesConfig, RewardConfig, WorldConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime import jit, noise
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
CPU = torch.device("cpu")
SMALL = dataclasses.replace(EnvConfig.small(), map_pool=4, world=WorldConfig(32, 32, 10))
"""Battles in which the teams meet after two seconds."""
FEATURES = [field.name for field in dataclasses.fields(FeaturesConfig)]
ODD_RULES = RulesConfig(
    legged_unsteadiness=0.3,
    walking_unsteadiness=0.1,
    suppressed_unsteadiness=0.37,
    least_regeneration=0.23,
    steady_vox_per_s=2.3,
    legged_stability=0.7,
    risen_stability=0.9,
    leg_hit_share=0.3,
    jam_loss=0.6,
    eccm_gain=0.4,
    blind_quality=0.1,
    best_quality=1.3,
    bloom_heat=0.3,
    muffled_noise=0.7,
    contested_share=0.3,
)
"""Values other than the defaults, for numbers that both forms read."""
ODD_REWARD = RewardConfig(
    approach=5.3,
    zone=0.07,
    damage=0.011,
    kill=1.3,
    assist=0.7,
    death=-0.37,
    terminal=4.1,
    contested_offence=1.7,
    contested_death=0.3,
    team_mix_alpha=0.43,
    gamma=0.987,
)
RAILGUN = Path(__file__).parents[1] / "examples" / "railgun.json"


def same(one, other):
    """Return whether two nested dicts of tensors have the same keys, types and bits."""
    keys = set(one.keys(True, True))
    return keys == set(other.keys(True, True)) and all(
        one[key].dtype == other[key].dtype and one[key].numpy().tobytes() == other[key].numpy().tobytes()
        for key in keys
    )


def play_both(config, battles, decisions, seed=3):
    """Play in both forms and compare after every decision. Return the number of restarts."""
    dense = EchelonEnv(config, battles, "cpu", seed, backend="eager")
    dense.restarts_by_row = False
    loops = EchelonEnv(config, battles, "cpu", seed, maps=dense.sim_model.maps, backend="loops")
    generator, restarts = torch.Generator().manual_seed(3), 0
    one, other = dense.reset(), loops.reset()
    assert same(one, other)
    for _ in range(decisions):
        brawl(one, generator)
        for group in ("blue", "red"):
            other[group, "action"] = one[group, "action"].clone()
        (step_one, one), (step_other, other) = dense.step_and_maybe_reset(one), loops.step_and_maybe_reset(other)
        assert same(step_one, step_other) and same(one, other)
        assert same(dense.state.to_tensordict(), loops.state.to_tensordict())
        assert torch.equal(dense.next_seed, loops.next_seed)
        restarts += int(one["is_init"].sum())
    return restarts


def test_loops_and_dense_form_agree_through_restarts():
    short = dataclasses.replace(SMALL, rules=RulesConfig(max_episode_s=3.0))
    assert play_both(short, 4, 14) >= 4


@pytest.mark.parametrize("feature", usually(FEATURES, "destruction", "ewar"))
def test_loops_and_dense_form_agree_with_a_feature_off(feature):
    play_both(dataclasses.replace(SMALL, features=FeaturesConfig(**{feature: False})), 4, 9)


@pytest.mark.parametrize(
    "changes",
    [
        {"red": ("heavy",) * 3 + ("scout",)},
        {"catalog": read_catalog(RAILGUN)},
        {"rules": ODD_RULES},
        *usually(
            [
                {"observation_mode": "full"},
                {"blue": EnvConfig().blue + ("light",) * 3, "red": EnvConfig().red, "world": EnvConfig().world},
                {"comm_dim": 0},
                {"command_suites": False},
            ]
        ),
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_loops_and_dense_form_agree_in_other_configs(changes):
    play_both(dataclasses.replace(SMALL, **changes), 4, 9)


def test_default_form_of_a_device(monkeypatch):
    """By default loops on a CPU with numba, and graphs elsewhere; an explicit choice is used."""
    monkeypatch.setattr("echelon.runtime.device.compiling_lacks", lambda device: [])
    gpu, names = torch.device("cuda"), ("auto", "graph", "eager")
    assert [form_of(CPU, name) for name in (*names, "loops")] == ["loops", "graph", "eager", "loops"]
    assert [form_of(gpu, name) for name in names] == ["graph", "graph", "eager"]
    with pytest.raises(ConfigError, match=r"^backend must be auto, graph or eager on cuda .*, got 'loops'$"):
        form_of(gpu, "loops")
    monkeypatch.setattr(jit, "HAS_LOOPS", False)
    assert [form_of(CPU, name) for name in names] == ["eager", "graph", "eager"]
    with pytest.raises(ConfigError, match=r"\(loops need numba\)"):
        form_of(CPU, "loops")


def test_environment_variable_replaces_auto(monkeypatch):
    monkeypatch.setattr("echelon.runtime.device.compiling_lacks", lambda device: [])
    gpu = torch.device("cuda")
    for value, cpu_form, gpu_form in (("eager", "eager", "eager"), ("graph", "graph", "graph"), ("", "loops", "graph")):
        monkeypatch.setenv("ECHELON_BACKEND", value)
        assert (form_of(CPU), form_of(gpu)) == (cpu_form, gpu_form)
        assert form_of(gpu, "eager") == "eager" and form_of(gpu, "graph") == "graph"
    monkeypatch.setenv("ECHELON_BACKEND", "loops")
    with pytest.raises(ConfigError, match=r"^ECHELON_BACKEND must be auto, graph or eager on cuda"):
        form_of(gpu)
    monkeypatch.setenv("ECHELON_BACKEND", "fast")
    with pytest.raises(ConfigError, match=r"^ECHELON_BACKEND must be one of auto, loops, graph, eager, got 'fast'$"):
        EchelonEnv(SMALL, 1, "cpu")


def test_observer_receives_the_same_substeps_in_loops():
    """Compare with the substeps of the dense form."""
    from echelon.replay.recorder import Recorder

    plain = EchelonEnv(SMALL, 2, "cpu", 5)
    watched = EchelonEnv(SMALL, 2, "cpu", 5, maps=plain.sim_model.maps, observer=Recorder([0, 1]))
    one, other = plain.reset(), watched.reset()
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        brawl(one, generator)
        for group in ("blue", "red"):
            other[group, "action"] = one[group, "action"].clone()
        (_, one), (_, other) = plain.step_and_maybe_reset(one), watched.step_and_maybe_reset(other)
    assert same(plain.state.to_tensordict(), watched.state.to_tensordict())


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda loops: pickle.loads(pickle.dumps(loops))])  # noqa: S301
def test_copied_loops_allocate_their_own_memory(copy_of):
    """Memory from another process may be read-only, and shared memory would be overwritten."""
    env = EchelonEnv(SMALL, 2, "cpu", 1, backend="loops")
    env.rollout(2, break_when_any_done=False)
    loops, state = env.engine.loops, env.state.clone()
    copied = copy_of(loops)
    assert loops.scratches and not copied.scratches and copied.no_log is None and not copied.recycled._kept
    action = torch.zeros(2, SMALL.num_mechs, env.action_spec["blue", "action"].shape[-1])
    (after, shown), (expected, also_shown) = copied.play(state.clone(), action), loops.play(state, action)
    assert same(after.to_tensordict(), expected.to_tensordict())
    assert all(torch.equal(shown[name], also_shown[name]) for name in shown)


@pytest.mark.parametrize("time_up_terminates", [False, True])
def test_loops_and_dense_form_agree_on_endings_and_rewards(time_up_terminates):
    """Battles that are decided by elimination, score, hit points or not at all, in contested and empty zones."""
    battles, draws = 64, torch.Generator().manual_seed(1)
    rules = RulesConfig(max_episode_s=60.0, time_up_terminates=time_up_terminates)
    config = dataclasses.replace(SMALL, rules=rules, red=("heavy",) * 3 + ("scout",))
    env = EchelonEnv(dataclasses.replace(config, reward=ODD_REWARD), battles, "cpu", 2, backend="loops")
    env.reset()

    def uniform(*shape):
        return torch.rand(battles, *shape, generator=draws)

    state, count, seen, paid = env.state.clone(), config.num_mechs, set(), []
    center = env.sim_model.maps.zone_center[state.map_id][:, None]
    state.mechs.pos[..., :2] = center + (state.mechs.pos[..., :2] - center) * uniform(count, 1)
    state.mechs.hp *= 0.02 * (uniform(count) > uniform(1))
    state.control[:], state.score[:] = uniform(2) * (uniform(2) > 0.4), rules.zone_score_to_win_s * uniform(1)
    state.score[::3] *= 1 + 0.3 * uniform(2)[::3]
    state.tick[::2] = (rules.max_decisions - 1) * rules.decision_repeat
    state.tally.damage[:] = 100 * uniform(count)
    for action in 2 * torch.rand(6, battles, count, env.action_spec["blue", "action"].shape[-1], generator=draws) - 0.6:
        dense, loops = env.engine.decide_dense(state.clone(), action), env.engine.loops.decide(state.clone(), action)
        assert same(TensorDict(leaves(dense.state)), TensorDict(leaves(loops.state)))
        for kind in ("flags", "outcome"):
            assert same(TensorDict(getattr(dense, kind)), TensorDict(getattr(loops, kind))), kind
        assert dense.reward_terms.numpy().tobytes() == loops.reward_terms.numpy().tobytes()
        seen |= set(zip(loops.outcome["reason"][:, 0].tolist(), loops.outcome["winner"][:, 0].tolist(), strict=True))
        paid.append(loops.reward_terms.flatten(0, 1))
        state = loops.state.replace(tick=state.tick)
    assert {reason for reason, _ in seen} == {0, 1, 2, 3} and {winner for _, winner in seen} == {-1, 0, 1, 2}
    assert (torch.cat(paid) != 0).any(0).all()


@pytest.mark.requirement("R55")
def test_both_forms_use_the_high_word_of_a_seed():
    play_both(SMALL, 4, 2, torch.tensor([7, 7 + 2**32, 7 - 2**32, 2**63 - 1]))


@pytest.mark.long
def test_loops_and_dense_form_agree_in_full_standard_battles(monkeypatch):
    """`expert` against `hard`: check every decision of every battle while it is played in loops."""
    config = dataclasses.replace(EnvConfig.standard(), map_pool=32)
    checked = [0]
    in_loops = engine.Engine.decide_in_loops

    def both(own, loops, before, action, observer, buffers):
        kept = before.clone()
        played = in_loops(own, loops, before, action, observer, buffers)
        dense = own.decide_dense(kept, action)
        one, other = leaves(dense.state), leaves(played.state)
        for name, values in one.items():
            assert values.numpy().tobytes() == other[name].numpy().tobytes(), name
        for name, values in dense.streams.items():
            assert values.numpy().tobytes() == played.streams[name].numpy().tobytes(), name
        assert torch.equal(dense.reward_terms, played.reward_terms)
        checked[0] += len(action)
        return played

    monkeypatch.setattr(engine.Engine, "decide_in_loops", both)
    arena = BatchArena(config, lambda name: resolve(name).policy(config, CPU), ArenaConfig(CPU, 200))
    sides = [("heuristic:expert", "heuristic:hard"), ("heuristic:hard", "heuristic:expert")]
    seeds = noise.battle_seeds(1, 200, CPU).tolist()
    results = arena.play([Battle(*sides[number % 2], seed) for number, seed in enumerate(seeds)]).results
    assert len(results) == 200 and all(result.reason for result in results)
    assert checked[0] >= sum(result.decisions for result in results)

"""Echelon as a TorchRL environment."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
from builders import arena, brawl, flat_maps, told
from first_catalog import Weapon
from host_reads import HostReads
from tensordict import TensorDict
from torchrl.collectors import Collector
from torchrl.data import Composite, Unbounded
from torchrl.envs import RewardSum, StepCounter, TransformedEnv, check_env_specs

from echelon.env import decision
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.env.observation.build import observe
from echelon.env.outcome import STATS
from echelon.env.reward import TERMS
from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig, FeaturesConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.sim import step
from echelon.world import pool

SMALL = dataclasses.replace(EnvConfig.small(), map_pool=4)
TINY = dataclasses.replace(SMALL, blue=("medium", "light"), red=("medium", "scout"))
SHORT = dataclasses.replace(TINY, rules=RulesConfig(max_episode_s=1.0))
"""Battles of 4 decisions."""
GROUPS = ("blue", "red")


def env_of(config=TINY, num_envs=3, seed=1, **kwargs):
    return EchelonEnv(config, num_envs, "cpu", seed, **kwargs)


def equal(one, other):
    """Return whether two TensorDicts have the same keys and values."""
    keys = set(one.keys(True, True))
    return keys == set(other.keys(True, True)) and all(torch.equal(one[k], other[k]) for k in keys)


# TorchRL's contract


VARIANTS = {
    "tiny": TINY,
    "short": SHORT,
    "mute": dataclasses.replace(TINY, comm_dim=0),
    "full": dataclasses.replace(TINY, observation_mode="full"),
    "command": dataclasses.replace(TINY, command_suites=True),
    "ablated": dataclasses.replace(TINY, features=FeaturesConfig(*[False] * len(dataclasses.fields(FeaturesConfig)))),
}


@pytest.mark.requirement("R50")
@pytest.mark.parametrize("num_envs", [1, 5])
@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
def test_specs_match_torchrls_check(config, num_envs):
    check_env_specs(env_of(config, num_envs), break_when_any_done="both")


@pytest.mark.requirement("R50")
@pytest.mark.parametrize("settings", [{}, {"observation_mode": "full"}, {"command_suites": True}])
def test_streams_of_a_fight_are_within_range(settings):
    env = arena(dataclasses.replace(SMALL, **settings), num_envs=2)
    td, generator = env.reset(), torch.Generator().manual_seed(4)
    env.state.mechs.pos[..., :2] = 20 + 0.5 * (env.state.mechs.pos[..., :2] - 20)  # the teams start close
    for _ in range(16):
        td, following = env.step_and_maybe_reset(brawl(td, generator))
        for group in GROUPS:
            for name, spec in env.observation_spec[group, "observation"].items():
                assert spec.is_in(td["next", group, "observation", name]), name
                assert td["next", group, "observation", name].isfinite().all()
        td = following
    assert env.state.tally.damage.any()


def test_specs_match_for_teams_of_different_sizes():
    config = dataclasses.replace(SMALL, blue=("heavy", "medium", "medium", "light", "scout"), red=("light",) * 3)
    env = env_of(config, 2)
    check_env_specs(env, break_when_any_done="both")
    td = env.rollout(3)
    assert td["blue", "observation", "ego"].shape == (2, 3, 5, layout.width(layout.EGO))
    assert td["red", "observation", "contacts"].shape == (2, 3, 3, 7, layout.width(layout.CONTACT))
    assert {g: len(names) for g, names in env.group_map.items()} == {"blue": 5, "red": 3}


def test_keys_and_shapes():
    env = env_of(SMALL, 2)
    td = env.rollout(3)
    shapes = {
        "contacts": (2, 3, 5, 9, layout.width(layout.CONTACT)),
        "contacts_mask": (2, 3, 5, 9),
        "squad": (2, 3, 5, 5, layout.width(layout.SQUAD)),
        "squad_mask": (2, 3, 5, 5),
        "ego": (2, 3, 5, layout.width(layout.EGO)),
        "comms": (2, 3, 5, 5, 8),
        "local_map": (2, 3, 5, 11, 11),
    }
    for group in GROUPS:
        assert {k: tuple(v.shape) for k, v in td[group, "observation"].items()} == shapes
        assert td[group, "action"].shape == (2, 3, 5, 26)
        assert td["next", group, "reward"].shape == (2, 3, 5, 1)
        assert td["next", group, "reward_terms"].shape == (2, 3, 5, len(TERMS))
        assert td[group, "mask"].shape == (2, 3, 5) and td[group, "mask"].dtype == torch.bool
    assert td["telemetry"].shape == (2, 3, 16, 16)
    for key in ("is_init", "done", "terminated", "truncated"):
        assert td[key].shape == (2, 3, 1) and td[key].dtype == torch.bool
    outcome = td["next", "outcome"]
    assert outcome["winner"].shape == (2, 3, 1) and outcome["winner"].dtype == torch.int8
    assert outcome["score"].shape == (2, 3, 2) and outcome["stats"].shape == (2, 3, 2, len(STATS))
    assert env.reward_keys == [("blue", "reward"), ("red", "reward")]


def test_command_suites_add_squad_slots():
    td = env_of(dataclasses.replace(SMALL, command_suites=True), 1).rollout(1)
    assert td["blue", "observation", "squad_mask"].shape == (1, 1, 5, 12)


@pytest.mark.requirement("R58")
def test_telemetry_is_the_map_from_above():
    """It is computed with the map and does not change with the terrain of a battle."""
    env = env_of(SMALL, 3)
    td = env.reset()
    assert torch.equal(td["telemetry"], env.sim_model.maps.telemetry[env.state.map_id])
    env.state.terrain.solid[:] = 0
    following = env.step(told(env, td))["next", "telemetry"]
    assert torch.equal(following, td["telemetry"]) and following.any()


@pytest.mark.requirement("R58")
@pytest.mark.parametrize("backend", ["eager", "loops"])
def test_static_map_data_is_computed_once(backend, monkeypatch):
    """Materials, zone distances and telemetry: battles end and restart without generating a map."""
    config = dataclasses.replace(TINY, rules=RulesConfig(max_episode_s=1.0))
    env = env_of(config, 3, backend=backend)
    made = {name: leaf.data_ptr() for name, leaf in env.sim_model.maps.items(True, True)}
    monkeypatch.setattr(pool, "make_block", lambda *_: pytest.fail("a map is made"))
    td, began = env.reset(), set()
    for _ in range(25):
        _, td = env.step_and_maybe_reset(told(env, td))
        began |= {*env.state.seed.tolist()}
    assert len(began) > 3, "battles restarted"
    assert {name: leaf.data_ptr() for name, leaf in env.sim_model.maps.items(True, True)} == made


@pytest.mark.requirement("R32")
def test_one_observation_is_computed_per_decision(monkeypatch):
    """Resets compute none: the initial observation of each map is computed once, with the environment."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # one block
    env, built = env_of(num_envs=2, backend="eager"), []
    monkeypatch.setattr(decision, "observe", lambda *scene: built.append(1) or observe(*scene))
    td = env.reset()
    for _ in range(3):
        _, td = env.step_and_maybe_reset(told(env, td))
    assert len(built) == 3


def test_collector_runs():
    env = env_of(SHORT, 3)
    collector = Collector(env, env.rand_action, frames_per_batch=36, total_frames=72)
    batches = [batch.clone() for batch in collector]
    collector.shutdown()
    assert [b.shape for b in batches] == [(3, 12), (3, 12)]
    assert batches[0]["next", "done"].sum() == 9  # 12 decisions are 3 battles of 4
    assert batches[1]["is_init"][:, 0].all()  # the second batch continues after the first, at a battle's start


def test_transforms_work():
    transforms = (
        RewardSum(),
        StepCounter(),
    )
    env = TransformedEnv(env_of(SHORT, 3))
    for transform in transforms:
        env.append_transform(transform)
    td = env.rollout(10, break_when_any_done=False)
    assert td["next", "step_count"][0, :, 0].tolist() == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    rewards = td["next", "blue", "reward"]
    torch.testing.assert_close(td["next", "blue", "episode_reward"][:, 3], rewards[:, :4].sum(1))
    torch.testing.assert_close(td["next", "blue", "episode_reward"][:, 5], rewards[:, 4:6].sum(1))


@pytest.mark.parametrize("passed", ["all", "mask alone"])
def test_partial_reset_leaves_other_battles_unchanged(passed):
    env = env_of()
    td = env.rollout(3, auto_reset=True)[:, -1]["next"]
    before = env.state.clone()
    mask = torch.tensor([[False], [True], [False]])
    given = {"all": td.exclude("outcome").to_dict(), "mask alone": {}}[passed]
    fresh = env.reset(TensorDict({**given, "_reset": mask}, [3]))
    assert env.state.tick.tolist() == [15, 0, 15]
    assert torch.equal(env.state.mechs.pos[[0, 2]], before.mechs.pos[[0, 2]])
    ego = ("blue", "observation", "ego")
    assert torch.equal(fresh[ego][[0, 2]], td[ego][[0, 2]]) and not torch.equal(fresh[ego][1], td[ego][1])


# Ends of battles


def played(env, decisions):
    """Step by hand; return `[T]` results of `step_and_maybe_reset` and the following roots."""
    generator = torch.Generator().manual_seed(0)
    td, steps, roots = env.reset(), [], []
    for _ in range(decisions):
        step, td = env.step_and_maybe_reset(brawl(td, generator))
        steps.append(step.clone())
        roots.append(td.clone())
    return torch.stack(steps), torch.stack(roots)


def test_finished_battle_keeps_its_last_observation_under_next():
    env = env_of(SHORT)
    first = env.reset()
    steps, roots = played(env, 4)
    last, root = steps["next"][3], roots[3]
    assert last["done"].all() and last["truncated"].all() and not last["terminated"].any()
    time = layout.columns(layout.EGO, "time")
    assert (last["blue", "observation", "ego"][..., time] == 1).all()
    assert (root["blue", "observation", "ego"][..., time] == 0).all()
    assert root["is_init"].all() and not root["done"].any() and not root["truncated"].any()
    assert not torch.equal(root["telemetry"], first["telemetry"])  # other battles, other maps


@pytest.mark.requirement("R17")
def test_restart_restores_the_terrain_of_its_battle_only():
    """Both battles destroy glass and foliage, leave a wreck, smoke and paint; then the first battle ends."""
    glass, leaves = (13, 14, 10, 30, 0, 4, Material.GLASS), (11, 12, 20, 21, 0, 4, Material.FOLIAGE)
    env = arena(dataclasses.replace(TINY, blue=("scout", "medium")), glass, leaves, num_envs=2)
    td, fresh = env.reset(), env.state.clone()
    ground = env.sim_model.maps.clone()
    state = env.state
    shell = env.sim_model.roster.shots.span[int(Weapon.AUTOCANNON)]
    state.shots.pos[:, shell], state.shots.vel[:, shell] = torch.tensor([10.5, 20.5, 1.5]), torch.tensor([25.0, 0, 0])
    state.shots.ttl[:, shell] = 9
    state.clouds.ttl[:], state.mechs.paint[:], state.mechs.hp[:, 3] = 50, 40, 0
    step, td = env.step_and_maybe_reset(told(env, td))
    worn = env.state.clone()
    assert not step["next", "done"].any()
    for battle in (0, 1):
        assert not torch.equal(worn.terrain.solid[battle], ground.solid[0])
        assert not torch.equal(worn.terrain.opaque[battle], ground.opaque[0])
        assert worn.terrain.rubble[battle].any()

    env.state.mechs.hp[0, 2] = 0
    step, td = env.step_and_maybe_reset(told(env, td))
    assert step["next", "done"].flatten().tolist() == [True, False]
    for name in ("solid", "opaque", "rubble", "damage"):
        now = getattr(env.state.terrain, name)
        assert torch.equal(now[0], getattr(fresh.terrain, name)[0]), name
        assert torch.equal(now[1], getattr(worn.terrain, name)[1]), name
    assert not env.state.clouds.ttl[0].any() and not env.state.shots.ttl[0].any()
    assert not env.state.mechs.paint[0].any() and not env.state.mechs.wrecked[0].any()
    assert env.state.clouds.ttl[1].all() and env.state.mechs.paint[1].all() and env.state.mechs.wrecked[1].any()
    assert (env.sim_model.maps == ground).all()  # the map itself never changes

    env.reset()
    for name in ("solid", "opaque", "rubble", "damage"):
        assert torch.equal(getattr(env.state.terrain, name), getattr(fresh.terrain, name)), name


def test_is_init_marks_the_first_observation_only():
    env = env_of(SHORT)
    assert env.reset()["is_init"].all()
    steps, _ = played(env, 6)
    assert steps["is_init"][:, 0, 0].tolist() == [True, False, False, False, True, False]
    assert not steps["next", "is_init"].any()


def test_restart_clears_outcome_and_reward_terms():
    """The entries that TorchRL carries to the root belong to the running battle, not to the ended one."""
    env = env_of(SHORT, 2)
    td = env.reset()
    assert (td["outcome", "winner"] == -1).all()
    for number in range(1, 9):
        step, td = env.step_and_maybe_reset(told(env, td))
        done = step["next", "done"]
        assert done.all() == (number % 4 == 0)
        assert (td["outcome", "winner"] == -1).all() and not td["outcome", "stats"].any()
        for group in GROUPS:
            left = torch.where(done[..., None], 0.0, step["next", group, "reward_terms"])
            assert torch.equal(td[group, "reward_terms"], left)


def test_without_info_there_are_no_outcomes_and_no_reward_terms():
    env = EchelonEnv(SHORT, 2, device="cpu", seed=0, info=False)
    check_env_specs(env)
    steps = env.rollout(5, break_when_any_done=False)
    keys = {key if isinstance(key, str) else key[-1] for key in steps.keys(include_nested=True)}
    assert {"reward", "done"} <= keys and not {"outcome", "winner", "reward_terms"} & keys


def test_outcome_is_zero_for_running_battles():
    env = env_of(SHORT)
    steps, _ = played(env, 8)
    done, outcome = steps["next", "done"], steps["next", "outcome"]
    assert done[:, 0, 0].tolist() == [False, False, False, True] * 2
    going = ~done[..., 0]
    assert (outcome["winner"][going] == -1).all()
    for name in ("reason", "score", "decisions", "stats"):
        assert not outcome[name][going].any(), name
    assert (outcome["winner"][~going] >= 0).all() and (outcome["reason"][~going] == 3).all()
    assert (outcome["decisions"][~going] == 4).all()


def test_battles_end_independently():
    env = env_of(num_envs=3)
    td = env.reset()
    env.state.mechs.hp[1, 2:] = 0  # red of battle 1
    step, root = env.step_and_maybe_reset(told(env, td))
    assert step["next", "terminated"].flatten().tolist() == [False, True, False]
    assert step["next", "outcome", "winner"].flatten().tolist() == [-1, 1, -1]
    assert step["next", "outcome", "stats"][1, :, STATS.index("deaths")].tolist() == [0, 2]
    assert root["is_init"].flatten().tolist() == [False, True, False]
    assert env.state.tick.tolist() == [5, 0, 5]
    assert not step["next", "red", "mask"][1].any() and root["red", "mask"].all()


@pytest.mark.requirement("R35")
def test_terminated_and_truncated_exclude_each_other():
    config = dataclasses.replace(SMALL, map_pool=8, rules=RulesConfig(max_episode_s=7.5, zone_score_to_win_s=2))
    steps, _ = played(env_of(config, 16), 40)
    terminated, truncated = steps["next", "terminated"], steps["next", "truncated"]
    assert terminated.any() and truncated.any()
    assert not (terminated & truncated).any()
    assert torch.equal(steps["next", "done"], terminated | truncated)


def test_zone_control_for_the_required_time_wins():
    env = arena(dataclasses.replace(EnvConfig.small(), blue=("medium",), red=("medium",)))
    td = env.reset()
    env.state.mechs.pos[:, 0, :2] = 20.0
    env.state.score[:, 0] = 15.0
    for played in range(20):  # 5 s / 0.25 s
        step, td = env.step_and_maybe_reset(told(env, td))
        assert step["next", "done"].item() == (played == 19)
    outcome = step["next", "outcome"]
    assert (outcome["winner"].item(), outcome["reason"].item(), outcome["decisions"].item()) == (1, 2, 20)
    assert outcome["score"].tolist() == [[20, 0]]
    assert outcome["stats"][0, 0, STATS.index("zone_s")] == 5


# Seeds


@pytest.mark.requirement("R55")
def test_equal_seeds_give_equal_battles():
    one, other = env_of(seed=5), env_of(seed=5)
    assert equal(one.reset(), other.reset())
    assert equal(played(one, 6)[0], played(other, 6)[0])


def test_set_seed_repeats_the_battles():
    env = env_of(seed=5)
    first = played(env, 3)[0]
    env.set_seed(5)
    assert equal(first, played(env, 3)[0])


@pytest.mark.parametrize("kind", [np.int64, np.uint32, torch.tensor])
def test_seed_may_be_a_numpy_or_torch_integer(kind):
    expected, env = env_of(seed=5), env_of(seed=kind(5))
    assert torch.equal(env.state.seed, expected.state.seed)
    assert env.set_seed(kind(7)) == expected.set_seed(7) and torch.equal(env.next_seed, expected.next_seed)
    assert equal(env.reset(seed=kind(9)), expected.reset(seed=9))


def test_different_seeds_give_different_battles():
    config = dataclasses.replace(TINY, map_pool=32)
    assert not torch.equal(env_of(config, 8, seed=1).state.map_id, env_of(config, 8, seed=2).state.map_id)
    env = env_of(dataclasses.replace(SHORT, map_pool=32), 1)
    seeds = set()
    for _ in range(6):
        seeds.add(env.state.seed.item())
        played(env, 4)
    assert len(seeds) == 6  # every battle of an environment has its own seed


def test_seed_may_be_a_tensor_with_one_seed_per_battle():
    env = env_of(seed=torch.tensor([7, 8, 7]))
    state = env.state
    assert state.seed.tolist() == [7, 8, 7] and state.map_id[0] == state.map_id[2]


@pytest.mark.parametrize("seed", [torch.tensor([1, 2]), torch.tensor([1.0, 2.0, 3.0])])
def test_seeds_of_wrong_form_raise(seed):
    with pytest.raises(ConfigError, match=r"seed must be int64 of shape \(3,\), got") as error:
        env_of(seed=seed)
    assert "\n" not in str(error.value)


def test_zero_battles_raise():
    with pytest.raises(ConfigError, match=r"num_envs must be 1\.\.16777216 battles, got 0"):
        env_of(num_envs=0)


def test_environments_may_share_maps():
    one = env_of()
    other = env_of(maps=one.sim_model.maps)
    assert other.sim_model.maps is one.sim_model.maps
    assert equal(one.reset(), other.reset())


# Actions


@pytest.mark.requirement("R57")
def test_wrong_action_width_raises_one_line():
    env = env_of()
    td = told(env, env.reset())
    td["red", "action"] = torch.zeros(3, 2, 25)
    with pytest.raises(ConfigError) as error:
        env.step(td)
    message = str(error.value)
    assert "\n" not in message
    assert "('red', 'action') must have shape (3, 2, 26), got (3, 2, 25)" in message
    assert "5 vent" in message and "8 message numbers" in message


def test_missing_action_raises_one_line():
    env = env_of()
    with pytest.raises(ConfigError, match=r"\('blue', 'action'\) is missing.*echelon.versus") as error:
        env.step(env.reset())
    assert "\n" not in str(error.value)


@pytest.mark.requirement("R57")
def test_nan_in_actions_counts_as_zero():
    env = env_of()
    td = told(env, env.reset(), (0, Act.YAW_RATE, 1.0), (1, Act.FORWARD, float("nan")), (1, Act.PRIMARY, float("inf")))
    kept = td["blue", "action"].clone()
    clean = env_of()
    expected = clean.step(told(clean, clean.reset(), (0, Act.YAW_RATE, 1.0)))
    given = td["blue", "action"]
    step = env.step(td)
    torch.testing.assert_close(given, kept, equal_nan=True, atol=0, rtol=0)
    assert given.data_ptr() == step["blue", "action"].data_ptr()
    assert equal(step["next"], expected["next"])
    assert env.state.tally.bad_actions[0].tolist() == [0, 2, 0, 0]


def test_preferences_select_the_last_observed_contacts():
    """Red mechs are at 5 and 6 vox; a preference for the second contact slot selects the farther one."""
    config = dataclasses.replace(EnvConfig.small(), blue=("medium",), red=("medium", "medium"))
    maps_env = arena(config)
    maps = maps_env.sim_model.maps
    maps.spawn_pos[0, :, :2] = torch.tensor([[10.5, 20.5], [14.5, 17.5], [14.5, 25.0]])
    env = EchelonEnv(config, 1, "cpu", 0, maps=maps)
    for prefer, hit in ((Act.PREFER_0, 1), (Act.PREFER_1, 2)):
        td = env.reset()
        env.state.mechs.yaw[:, 0] = 0
        env.step(told(env, td, (0, Act.PRIMARY, 1.0), (0, prefer, 1.0)))
        assert [n for n in (1, 2) if env.state.mechs.hp[0, n] < 150] == [hit]


# Memory


def with_memory(**kwargs):
    return arena(SHORT, num_envs=2, memory=Composite(h=Unbounded((3,))), **kwargs)


@pytest.mark.requirement("R17")
def test_memory_is_echoed_and_reset_to_zero():
    env = with_memory()
    td = env.reset()
    seen = []
    for t in range(6):
        assert td["blue", "memory", "h"].shape == (2, 2, 3)
        seen.append(td["blue", "memory", "h"][0, 0, 0].item())
        td = told(env, td)
        td["next", "blue", "memory", "h"] = torch.full((2, 2, 3), t + 1.0)  # as a recurrent policy writes it
        step, td = env.step_and_maybe_reset(td)
        assert (step["next", "blue", "memory", "h"] == t + 1).all()
        assert not step["next", "red", "memory", "h"].any()
    assert seen == [0, 1, 2, 3, 0, 5]


def test_memory_is_in_the_specs():
    check_env_specs(with_memory(), break_when_any_done="both")


@pytest.mark.requirement("R17")
def test_memory_is_zeroed_for_finished_battles_only():
    env = arena(TINY, num_envs=2, memory=Composite(h=Unbounded((3,))))
    td = told(env, env.reset())
    td["next", "blue", "memory", "h"] = torch.ones(2, 2, 3)
    env.state.mechs.hp[0, 2:] = 0
    _, root = env.step_and_maybe_reset(td)
    assert root["blue", "memory", "h"][:, 0, 0].tolist() == [0, 1]


# Copies


def test_copied_environment_compiles_again():
    """Compiled functions cannot be pickled; battles, maps and settings can."""
    env = env_of(backend="graph")
    pickled = pickle.loads(pickle.dumps(env))  # noqa: S301
    for copied in (copy.deepcopy(env), pickled):
        assert (
            copied.form == "graph"
            and copied.engine.play is not step.play
            and callable(copied.engine.score_observe_reward)
        )
        assert torch.equal(copied.state.mechs.pos, env.state.mechs.pos)


def test_moving_to_a_device_keeps_the_battles():
    """`cpu:0` is another name of the CPU, so everything is built again; renewed maps are kept."""
    config = dataclasses.replace(SHORT, map_pool=4, map_spares=2)
    env, stays = env_of(config), env_of(config)
    assert env.renew_maps() == stays.renew_maps() == 2
    for _ in range(3):
        td, other = env.reset(), stays.reset()
    assert env.to("cpu:0") is env and env.observation_spec.device == torch.device("cpu:0")
    td, other = td.to("cpu:0"), other
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        brawl(td, generator)
        for group in GROUPS:
            other[group, "action"] = td[group, "action"]
        (_, td), (_, other) = env.step_and_maybe_reset(td), stays.step_and_maybe_reset(other)
    assert equal(td, other) and env.renew_maps() == stays.renew_maps()


def test_repr_shows_config_number_device_and_seed():
    assert repr(env_of()) == "EchelonEnv(2v2 on 40x40x16, num_envs=3, device=cpu, seed=1)"
    small = EchelonEnv(EnvConfig.small(), 1, "cpu", torch.tensor([3]), maps=flat_maps(EnvConfig.small()))
    assert repr(small) == "EchelonEnv(small, num_envs=1, device=cpu, seed=one a battle)"


def test_properties_with_names_and_numbers():
    env = env_of(SHORT)
    assert env.agent_names == ["blue_0", "blue_1", "red_0", "red_1"]
    assert env.n_agents == 4 and env.max_steps == 4


# The host


@pytest.mark.requirement("R14")
@pytest.mark.parametrize("config", [SHORT, SMALL, dataclasses.replace(TINY, observation_mode="full")])
def test_step_reads_nothing_on_the_host(config):
    """Test the form that runs on a GPU."""
    env = env_of(config, 3, backend="eager")
    env.restarts_by_row = False
    td = env.reset()
    _, td = env.step_and_maybe_reset(told(env, td))
    tds = [told(env, td.clone(), (0, Act.TERTIARY, 1.0)) for _ in range(2)]
    with HostReads() as counter:
        for td in tds:
            env.step_and_maybe_reset(td)
    assert not counter.reads

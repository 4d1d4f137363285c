"""Arguments of wrong types, out of range, or for missing devices raise one ConfigError each."""

import dataclasses

import numpy as np
import pytest
import torch
from builders import flat_maps
from tiny_runs import make_rollout, tiny_run

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.match import Match
from echelon.arena.resolve import resolve
from echelon.env.env import EchelonEnv
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.trainer import Trainer
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.runtime.device import resolve_device

from .refusals import refusal

pytestmark = pytest.mark.long

CPU = torch.device("cpu")
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=1)
EASY = "heuristic:easy"
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")


@pytest.fixture(scope="module")
def maps():
    return flat_maps(CONFIG)


BATTLES = [
    2.5,
    "4",
    True,
    False,
    0,
    -1,
    10**12,
    2**63,
    10**400,
    None,
    [2],
    1j,
    float("nan"),
    np.float64(2.0),
    np.bool_(1),
]
BATTLES += [
    torch.tensor(2.0),
    torch.tensor([1, 2]),
    torch.tensor(True),
    torch.empty((), dtype=torch.int64, device="meta"),
]
SEEDS = [-1, 1.5, 2**63, 2**64, 10**400, [1, 2], (1,), "1", True, 1j, float("nan"), float("inf"), np.array([1, 2])]
SEEDS += [torch.tensor(1.0), torch.tensor(-1), torch.tensor([1.0, 2.0]), torch.tensor([1, 2], dtype=torch.int32)]
SEEDS += [torch.tensor([[1], [2]]), torch.tensor([1, 2, 3]), torch.empty(2, dtype=torch.int64, device="meta"), b"1"]
DEVICES = [
    "meta",
    "gpu",
    "mps",
    "xla",
    "CPU",
    "cpu:3",
    "cuda:-1",
    "cuda:",
    "cuda:x",
    "cuda:٣",
    "cpu\0",
    "x" * 5000,
    True,
]
DEVICES += [1.5, ["cpu"], torch.device("meta"), "cuda:999", "cuda:99999999999999999999", 999, torch.device("cuda:99")]
VIEWS = {
    "versus": lambda **own: echelon.versus(CONFIG, EASY, **{"num_envs": 2, "device": "cpu", "seed": 0, **own}),
    "teams": lambda **own: echelon.teams(CONFIG, **{"num_envs": 2, "device": "cpu", "seed": 0, **own}),
    "mechs": lambda **own: echelon.mechs(CONFIG, EASY, **{"num_envs": 2, "device": "cpu", "seed": 0, **own}),
}


@pytest.mark.parametrize("num_envs", BATTLES, ids=lambda value: repr(value)[:30])
def test_num_envs_must_be_integer(num_envs, maps):
    refusal(lambda: EchelonEnv(CONFIG, num_envs, "cpu", 0, maps=maps), "num_envs must be ")


@pytest.mark.parametrize("seed", SEEDS, ids=lambda value: repr(value)[:30])
def test_seed_must_be_63_bit_integer_or_one_per_battle(seed, maps):
    refusal(lambda: EchelonEnv(CONFIG, 2, "cpu", seed, maps=maps), "seed must be ")


@pytest.mark.parametrize("device", DEVICES, ids=lambda value: repr(value)[:30])
def test_device_must_exist(device, maps):
    refusal(lambda: EchelonEnv(CONFIG, 2, device, 0, maps=maps), "device must be ")
    refusal(lambda: resolve_device(device), "device must be ")


@NO_GPU
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7", 0, torch.device("cuda")], ids=repr)
def test_missing_gpu_is_refused(device, maps):
    act = (lambda: EchelonEnv(CONFIG, 2, device, 0, maps=maps)) if device != 0 else (lambda: resolve_device(0))
    refusal(act, "device must be one of this machine's 0 CUDA GPUs")


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize(
    "own",
    [
        {"num_envs": 2.5},
        {"num_envs": "4"},
        {"seed": -1},
        {"seed": [1, 2]},
        {"device": "meta"},
        {"action": "buttons"},
        {"observation": 1},
        {"state": "yes"},
        {"memory": 5},
        {"backend": "fast"},
        {"backend": True},
        {"maps": 5},
        {"info": 2},
        {"extra_rewards": 5},
    ],
    ids=repr,
)
def test_views_refuse_invalid_environment_arguments(make, own, maps):
    refusal(lambda: make(**{"maps": maps, **own}), f"{next(iter(own))} must be ")


OPPONENTS = {
    "nothing": "",
    "no tier": "heuristic:",
    "a tier of no rules": "heuristic:@",
    "NUL": "a\0b",
    "5,000 letters": "x" * 5000,
    "300 letters": "y" * 300,
    "a league of 5,000 letters": "league:" + "x" * 5000 + "/y",
    "a newline": "a\nb",
    "a folder without a checkpoint": "/",
}


@pytest.mark.parametrize("name", OPPONENTS.values(), ids=OPPONENTS)
def test_unknown_commander_name_is_refused(name):
    refusal(lambda: resolve(name).policy(CONFIG, CPU))


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "y" * 300, "/dev/null"], ids=lambda path: repr(path[:9]))
def test_invalid_checkpoint_path_is_refused(path):
    refusal(lambda: open_checkpoint(path))


@pytest.mark.parametrize(
    "own",
    [
        {"side": "left"},
        {"side": 1},
        {"group_map": {"a": []}},
        {"group_map": 5},
        {"group_map": {"a": 5}},
        {"group_map": {"a": ["agent_0", 5]}},
        {"opponent": 5},
    ],
    ids=repr,
)
def test_versus_refuses_invalid_arguments(own, maps):
    said = {"opponent": EASY, "num_envs": 2, "device": "cpu", "seed": 0, "maps": maps, **own}
    refusal(lambda: echelon.versus(CONFIG, **said), f"{next(iter(own))} must be ")


@pytest.mark.parametrize("groups", [("a", "a"), ("a",), "ab", None, (1, 2)], ids=repr)
def test_team_groups_need_different_names(groups, maps):
    refusal(lambda: VIEWS["teams"](groups=groups, maps=maps), "groups must be two different names")


def test_config_must_be_env_config(maps):
    refusal(lambda: EchelonEnv("small", 2, "cpu", 0), "config must be an EnvConfig")
    refusal(lambda: EnvConfig(world=WorldConfig(size_x=40.5)), "WorldConfig.size_x must be an integer, got 40.5")


# Conversions that torch users expect


def test_numpy_and_torch_scalars_are_accepted(maps):
    for count in (2, np.int64(2), np.uint8(2), torch.tensor(2)):
        env = EchelonEnv(CONFIG, count, "cpu", 5, maps=maps)
        assert env.num_envs == 2 and type(env.num_envs) is int
    for seed in (5, np.int32(5), torch.tensor(5), torch.tensor(5, dtype=torch.int32), np.array(5)):
        assert torch.equal(EchelonEnv(CONFIG, 2, torch.device("cpu"), seed, maps=maps).next_seed, env.next_seed)
    own = torch.tensor([-1, 2**63 - 1])
    assert torch.equal(EchelonEnv(CONFIG, 2, "", own, maps=maps).next_seed, own)
    assert not torch.equal(*(EchelonEnv(CONFIG, 2, "cpu", k, maps=maps).next_seed for k in (0, 2**32)))
    assert env.set_seed(2**63 - 1, static_seed=True) == 2**63 - 1
    assert resolve_device(CPU) == CPU and resolve_device("cpu:0") == torch.device("cpu:0")


@pytest.mark.parametrize("seed", [-1, 1.5, 2**63, None, [1], True], ids=repr)
@pytest.mark.parametrize(
    "make", [lambda maps: EchelonEnv(CONFIG, 2, "cpu", 0, maps=maps), lambda maps: VIEWS["versus"]()]
)
def test_set_seed_refuses_invalid_seeds(make, seed, maps):
    refusal(lambda: make(maps).set_seed(seed), "seed must be ")


# Actions


@pytest.fixture(scope="module")
def envs(maps):
    settings = {"num_envs": 2, "device": "cpu", "seed": 0, "maps": maps}
    made = {name: EchelonEnv(CONFIG, **settings, backend=name) for name in ("loops", "eager")}
    made["versus"] = echelon.versus(CONFIG, EASY, **settings)
    made["discrete"] = echelon.versus(CONFIG, EASY, **settings, action="discrete")
    return made


def step(env, action):
    seen = env.reset()
    for group in env.group_map:
        seen[group, "action"] = action
    return env.step(seen)["next", next(iter(env.group_map)), "reward"]


REAL = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8)


def test_actions_of_any_real_dtype_match_float32(envs):
    for name in ("loops", "eager", "versus"):
        env, paid = envs[name], []
        for dtype in (
            torch.float32,
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int64,
            torch.bool,
            torch.uint8,
        ):
            env.set_seed(3)
            paid.append(step(env, torch.ones(2, 5, 26, dtype=dtype)))
        assert all(torch.equal(one, paid[0]) for one in paid[1:])
    assert step(envs["discrete"], torch.ones(2, 5, dtype=torch.uint8)).shape == (2, 5, 1)


CONTINUOUS = {
    "complex": torch.ones(2, 5, 26, dtype=torch.complex64),
    "complex128": torch.ones(2, 5, 26, dtype=torch.complex128),
    "text": "forward",
    "too narrow": torch.ones(2, 5, 25),
}
DISCRETE = {
    "complex": torch.ones(2, 5, dtype=torch.complex64),
    "float": torch.ones(2, 5),
    "bool": torch.ones(2, 5, dtype=torch.bool),
    "-1": torch.full((2, 5), -1),
    "64": torch.full((2, 5), 64),
    "10^12": torch.full((2, 5), 10**12),
    "text": "forward",
}


@pytest.mark.parametrize("action", CONTINUOUS.values(), ids=CONTINUOUS)
@pytest.mark.parametrize("name", ["loops", "eager", "versus"])
def test_action_must_be_real(name, action, envs):
    refusal(lambda: step(envs[name], action), "'action') must ")


@pytest.mark.parametrize("action", DISCRETE.values(), ids=DISCRETE)
def test_discrete_action_must_be_index(action, envs):
    refusal(lambda: step(envs["discrete"], action), "'action') must ")


# Matches, collector, trainer


def x_and_y():
    return ("x", Heuristic(CONFIG, "easy")), {"y": Heuristic(CONFIG, "easy")}


@pytest.mark.parametrize("battles", [0, 1, 3, 2.0, "2", True, None, 10**12, -2], ids=repr)
def test_match_needs_even_battle_count(battles):
    refusal(lambda: Match(*x_and_y(), CONFIG, battles, ArenaConfig(CPU)), "battles must be ")


@pytest.mark.parametrize("batch", [0, -1, 2.5, "4", True, 10**12], ids=repr)
def test_batch_must_be_battle_count(batch):
    refusal(lambda: Match(*x_and_y(), CONFIG, 2, ArenaConfig(CPU, batch)), "batch must be ")
    refusal(lambda: BatchArena(CONFIG, {}.__getitem__, ArenaConfig(CPU, batch)), "batch must be ")


def test_arena_refuses_invalid_device_precision_and_seed():
    refusal(lambda: BatchArena(CONFIG, {}.__getitem__, ArenaConfig(torch.device("meta"))), "device must be ")
    refusal(lambda: BatchArena(CONFIG, {}.__getitem__, ArenaConfig(CPU, precision="int8")), "precision must be one of")
    match = Match(*x_and_y(), CONFIG, 2, ArenaConfig(CPU))
    for seed in (-1, 1.5, 2**63, "1", None, [1], True):
        refusal(lambda seed=seed: match.play(seed), "seed must be ")
        refusal(lambda seed=seed: match.arena.play([Battle("x", "y", seed)]), "seed must be ")


def test_collector_arguments_must_be_integers():
    made = make_rollout()
    wrong = [(0, 8), (16.0, 8), ("16", 8), (16, 5), (16, 0), (16, 2.5), (True, 1), (10**9, 1)]
    for decisions, chunk in wrong:
        refusal(lambda d=decisions, c=chunk: TeamCollector(made.env, made.assignment, d, c), " must be ")
    for frames in (1.5, "4", -2, 2**63):
        refusal(
            lambda f=frames: TeamCollector(made.env, made.assignment, 16, 8, total_frames=f), "total_frames must be "
        )


def test_trainer_refuses_config_that_exceeds_machine(tmp_path):
    refusal(lambda: Trainer("quick", tmp_path), "config must be a TrainConfig")
    refusal(lambda: Trainer(tiny_run(device="cuda:99"), tmp_path), "device must be ")
    refusal(lambda: Trainer(tiny_run(num_envs=1 << 24), tmp_path), "rollouts of 8 decisions need about ")

"""Settings with excessive time or memory: each number has limits, and memory is estimated before its allocation."""

import dataclasses
from typing import get_type_hints

import pytest
import torch
from builders import flat_maps

from echelon.arena.batch_arena import BatchArena
from echelon.arena.config import ArenaConfig
from echelon.env import footprint
from echelon.env.env import EchelonEnv
from echelon.env.footprint import amount, require_memory
from echelon.league.config import LeagueConfig
from echelon.learn.config import TRAIN_PRESETS, CurriculumConfig, EvalConfig, PPOConfig, TrainConfig
from echelon.learn.models.gru import GRUConfig
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.mlp import MLPConfig
from echelon.learn.schedules import Schedule
from echelon.rules.config import ENV_PRESETS, EnvConfig, FeaturesConfig, RewardConfig, WorldConfig, env_from_json
from echelon.rules.physics import RulesConfig
from echelon.runtime.limits import limits_of

from .refusals import refusal

pytestmark = pytest.mark.long

CPU = torch.device("cpu")
KINDS = (
    WorldConfig,
    RulesConfig,
    RewardConfig,
    FeaturesConfig,
    EnvConfig,
    PPOConfig,
    CurriculumConfig,
    EvalConfig,
    TrainConfig,
    Schedule,
    LSTMConfig,
    GRUConfig,
    MLPConfig,
    LeagueConfig,
)
TABLES = {kind: limits_of(kind) for kind in KINDS}
NUMBER_HINTS = (int, float, tuple[int, ...], tuple[float, ...])
FIELDS = [(kind, name) for kind, table in TABLES.items() for name in table if kind not in (GRUConfig, MLPConfig)]


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_every_number_has_limits(kind):
    hints = get_type_hints(kind)
    numbers = {field.name for field in dataclasses.fields(kind) if hints[field.name] in NUMBER_HINTS}
    assert numbers == set(TABLES[kind])
    for low, high, _ in TABLES[kind].values():
        assert -(2**63) <= low < high < 2**63


def value_of(kind, name, number):
    """A number as the field declares it, in a tuple where it is one."""
    hint = get_type_hints(kind)[name]
    value = number if hint in (int, tuple[int, ...]) else float(number)
    return value if hint in (int, float) else (value,)


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_number_beyond_limits_is_refused(kind, name):
    low, high, _ = TABLES[kind][name]
    where = f"{kind.__name__}.{name} must be "
    step = 1 if get_type_hints(kind)[name] in (int, tuple[int, ...]) else max(abs(high), 1) * 0.01
    for number in (low - step, high + step, -(10**18) * 5, 10**19):
        refusal(lambda number=number: kind(**{name: value_of(kind, name, number)}), where)
    for value in ("4", None, 1j, [[1]], float("nan"), float("inf"), True, b"1", object()):
        message = refusal(lambda value=value: kind(**{name: value}), where)
        assert ", got " in message


WRONG_KINDS = [
    (EnvConfig, "world", "small"),
    (EnvConfig, "rules", None),
    (EnvConfig, "blue", "heavy"),
    (EnvConfig, "blue", ("heavy", 1)),
    (EnvConfig, "red", None),
    (EnvConfig, "observation_mode", 1),
    (EnvConfig, "command_suites", "yes"),
    (WorldConfig, "biomes", "barrens"),
    (WorldConfig, "biomes", (1,)),
    (WorldConfig, "size_x", 40.5),
    (RulesConfig, "time_up_terminates", 1),
    (FeaturesConfig, "smoke", "off"),
    (TrainConfig, "side", "left"),
    (TrainConfig, "precision", "fp8"),
    (TrainConfig, "logger", None),
    (TrainConfig, "run_dir", ""),
    (TrainConfig, "run_dir", "a\0b"),
    (TrainConfig, "run_dir", "x" * 5000),
    (TrainConfig, "run_dir", "y" * 300),
    (TrainConfig, "opponent", ""),
    (TrainConfig, "opponent", "league:"),
    (TrainConfig, "opponent", "z" * 10**6),
    (TrainConfig, "callbacks", "a:B"),
    (TrainConfig, "device", 5),
    (TrainConfig, "ppo", {}),
    (PPOConfig, "learning_rate", 1e-3),
    (PPOConfig, "learning_rate", Schedule(1e-3, 1e3)),
    (PPOConfig, "advantages_by_class", 0),
    (CurriculumConfig, "opponents", "easy"),
    (CurriculumConfig, "team_size", (2.5,)),
    (EvalConfig, "tiers", (None,)),
    (LSTMConfig, "critic", "oracle"),
    (LSTMConfig, "path_observed", "no"),
    (Schedule, "shape", "square"),
    (LeagueConfig, "weighting", "soft"),
]


@pytest.mark.parametrize(("kind", "name", "value"), WRONG_KINDS, ids=lambda value: repr(value)[:40])
def test_setting_of_wrong_type_is_refused(kind, name, value):
    refusal(lambda: kind(**{name: value}), f"{kind.__name__}.{name} must be ")


def test_numpy_numbers_are_accepted():
    import numpy as np

    config = EnvConfig(comm_dim=np.int64(4), sight_range_vox=np.float32(30), blue=["heavy"])
    assert config == EnvConfig(comm_dim=4, sight_range_vox=30.0, blue=("heavy",))
    assert type(config.comm_dim) is int and type(config.sight_range_vox) is float and type(config.blue) is tuple


FOR_EVER = {
    "a map pool of 10^12": {"map_pool": 10**12},
    "spares of 10^12": {"map_pool": 10**5, "map_spares": 10**12},
    "messages of 10^9": {"comm_dim": 10**9},
    "10^9 substeps a decision": {"rules": {"decision_repeat": 10**9}},
    "30 years": {"rules": {"max_episode_s": 1e9}},
    "86 million substeps": {"rules": {"max_episode_s": 86400.0, "dt_s": 0.001}},
    "shots that cross 10^5 voxels a substep": {
        "rules": {"gravity_vox_per_s2": 1000.0, "dt_s": 1.0, "max_episode_s": 60.0, "decision_repeat": 1}
    },
    "maps of 10^6": {"world": {"size_x": 10**6}},
    "10^6 mechs": {"blue": ["heavy"] * 10**6},
    "10^5 biomes": {"world": {"biomes": ["moon"] * 10**5}},
}


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("changes", FOR_EVER.values(), ids=FOR_EVER)
def test_battle_with_extreme_settings_ends(changes):
    told = EnvConfig.small().signature()
    for name, value in changes.items():
        told[name] = {**told[name], **value} if isinstance(value, dict) else value
    refusal(lambda: env_from_json(told))


def test_presets_and_defaults_are_within_limits():
    for preset in (*ENV_PRESETS.values(), *TRAIN_PRESETS.values(), *TABLES):
        assert preset() == preset()


AT_A_LIMIT = [
    (part, name, edge)
    for part, table in (("rules", TABLES[RulesConfig]), ("reward", TABLES[RewardConfig]))
    for name in table
    for edge in (0, 1)
]


@pytest.mark.requirement("R10")
@pytest.mark.parametrize(("part", "name", "edge"), AT_A_LIMIT, ids=str)
def test_battle_at_limit_is_playable(part, name, edge):
    """What the limits let through neither hangs nor breaks."""
    plain = dataclasses.replace(EnvConfig.small(), map_pool=1)
    value = value_of(type(getattr(plain, part)), name, limits_of(type(getattr(plain, part)))[name][edge])
    change = {name: value}
    if name == "max_episode_s":
        change = {name: 0.25} if edge == 0 else {name: value, "dt_s": 0.1}
    if name == "dt_s":
        change |= {"max_episode_s": 60.0}
    if name == "decision_repeat" and edge:
        change |= {"dt_s": 0.001, "max_episode_s": 60.0}
    config = dataclasses.replace(plain, **{part: dataclasses.replace(getattr(plain, part), **change)})
    env = EchelonEnv(config, 2, "cpu", 0, maps=flat_maps(config))
    seen = env.reset()
    for group in env.group_map:
        seen[group, "action"] = torch.ones(2, 5, 26)
    played = env.step(seen)["next"]
    assert played["blue", "observation", "ego"].isfinite().all()
    assert played["blue", "reward"].isfinite().all()


# Memory


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "0 bytes"), (999, "999 bytes"), (25.3e9, "25.3 GB"), (4.1e12, "4.1 TB"), (1e19, "10 EB"), (5e22, "5e+04 EB")],
)
def test_bytes_are_formatted_readably(size, said):
    assert amount(size) == said


@pytest.mark.requirement("R10")
def test_memory_estimate_is_checked_before_allocation(monkeypatch):
    monkeypatch.setattr(footprint, "total_memory", lambda device: 24 * 10**9)
    large = EnvConfig.large()
    message = refusal(lambda: EchelonEnv(large, 1_000_000, "cpu", 0), "1,000,000 battles of large", "24 GB", "num_envs")
    assert message == (
        "1,000,000 battles of large need about 870 GB, this machine has 24 GB: fewer num_envs, or a smaller map"
    )
    many = dataclasses.replace(large, map_pool=100_000)
    for build in (lambda: EchelonEnv(many, 1, "cpu", 0), lambda: BatchArena(many, {}.__getitem__, ArenaConfig(CPU))):
        refusal(build, "100,000 maps of 10v10 on 100x100x20 need about 9", "EnvConfig.map_pool")
    refusal(lambda: require_memory(large, 4096, CPU, rows=10_000), "rollouts of 10,000 decisions", "num_envs")
    require_memory(large, 4096, CPU, rows=32)
    require_memory(many, 4096, CPU, makes_maps=False)

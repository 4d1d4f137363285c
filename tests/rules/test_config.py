"""Configs check their values, and errors contain the field, the limits and the value."""

import dataclasses
import json

import pytest

from echelon.rules.config import ENV_PRESETS, PACK, EnvConfig, FeaturesConfig, RewardConfig, WorldConfig, env_from_json
from echelon.rules.config_json import as_json, battle_difference, first_difference
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: WorldConfig(size_x=4), ("WorldConfig.size_x", "32..500 vox", "got 4")),
        (lambda: WorldConfig(size_y=501), ("WorldConfig.size_y", "32..500", "got 501")),
        (lambda: WorldConfig(size_y=31), ("WorldConfig.size_y", "32..500", "got 31")),
        (lambda: WorldConfig(size_z=32), ("WorldConfig.size_z", "6..31", "got 32")),
        (lambda: WorldConfig(biomes=()), ("WorldConfig.biomes", "non-empty", "got ()")),
        (lambda: WorldConfig(biomes=("moon",)), ("WorldConfig.biomes", "chosen from", "got 'moon'")),
        (lambda: WorldConfig(difficulty=1.1), ("WorldConfig.difficulty", "0..1", "got 1.1")),
        (lambda: WorldConfig(difficulty=float("nan")), ("WorldConfig.difficulty", "a finite number", "got nan")),
        (lambda: RulesConfig(dt_s=0.0), ("RulesConfig.dt_s", "0.001..1 s", "got 0.0")),
        (lambda: RulesConfig(decision_repeat=0), ("RulesConfig.decision_repeat", "1..1000", "got 0")),
        (
            lambda: RulesConfig(max_episode_s=-1.0),
            ("RulesConfig.max_episode_s", "0.001..86400 s", "got -1.0"),
        ),
        (lambda: RulesConfig(max_episode_s=0.1), ("RulesConfig.max_episode_s", ">= 0.25 s (one decision)", "got 0.1")),
        (lambda: RulesConfig(dt_s=float("inf")), ("RulesConfig.dt_s", "a finite number", "got inf")),
        (
            lambda: RulesConfig(zone_score_to_win_s=0.0),
            ("RulesConfig.zone_score_to_win_s", "0.001..1e+09 s", "got 0.0"),
        ),
        (lambda: RewardConfig(team_mix_alpha=2.0), ("RewardConfig.team_mix_alpha", "0..1", "got 2.0")),
        (lambda: RewardConfig(gamma=0.0), ("RewardConfig.gamma", "1e-06..1", "got 0.0")),
        (lambda: EnvConfig(blue=()), ("EnvConfig.blue", "1..20", "got ()")),
        (lambda: EnvConfig(red=("scout",) * 21), ("EnvConfig.red", "1..20")),
        (lambda: EnvConfig(red=("tank",)), ("EnvConfig.red", "chosen from", "got 'tank'")),
        (lambda: EnvConfig(observation_mode="fog"), ("EnvConfig.observation_mode", "partial", "got 'fog'")),
        (lambda: EnvConfig(sight_range_vox=0.0), ("EnvConfig.sight_range_vox", "0.1..1e+06 vox", "got 0.0")),
        (lambda: EnvConfig(comm_dim=-1), ("EnvConfig.comm_dim", "0..1024", "got -1")),
        (lambda: EnvConfig(map_pool=0), ("EnvConfig.map_pool", "1..100000 maps", "got 0")),
    ],
)
def test_invalid_setting_is_rejected_in_one_line(build, says):
    with pytest.raises(ConfigError) as error:
        build()
    message = str(error.value)
    assert "\n" not in message
    for part in says:
        assert part in message


def test_default_times_match_the_rules_page():
    rules = RulesConfig()
    assert rules.decision_s == 0.25
    assert rules.max_decisions == 240
    assert EnvConfig.large().rules.max_decisions == 360


@pytest.mark.parametrize(("seconds", "count"), [(0.2, 4), (0.6, 12), (1.2, 24), (3.0, 60), (12 / 25, 10), (0.15, 3)])
def test_timers_are_integer_substeps(seconds, count):
    assert RulesConfig().substeps(seconds) == count


def test_presets_match_the_rules_page():
    sizes = {
        name: (make().world.size_x, make().world.size_y, make().world.size_z) for name, make in ENV_PRESETS.items()
    }
    assert sizes == {"small": (40, 40, 16), "standard": (64, 64, 20), "large": (100, 100, 20)}
    assert EnvConfig.standard().blue == EnvConfig.standard().red == PACK * 2
    assert EnvConfig.standard().num_mechs == 20
    assert PACK == ("heavy", "medium", "medium", "light", "scout")


def test_a_config_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EnvConfig().comm_dim = 3


def test_as_json_survives_json():
    plain = as_json(EnvConfig.small())
    assert json.loads(json.dumps(plain)) == plain
    assert plain["world"]["size_x"] == 40
    assert plain["blue"] == list(PACK)


def test_the_signature_leaves_out_the_map_seed_only():
    one, other = EnvConfig(map_seed=1), EnvConfig(map_seed=2)
    assert one.signature() == other.signature()
    assert one.signature() != dataclasses.replace(one, comm_dim=4).signature()
    assert one.signature() != dataclasses.replace(one, features=FeaturesConfig(smoke=False)).signature()
    assert set(as_json(one)) - set(one.signature()) == {"map_seed"}


def test_env_from_json_inverts_signature():
    config = dataclasses.replace(EnvConfig.large(), blue=("scout",), reward=RewardConfig(kill=2.0), comm_dim=3)
    assert env_from_json(json.loads(json.dumps(config.signature()))) == config


def test_custom_reward_terms_are_in_the_signature_and_ignored_by_battles():
    config = EnvConfig.small()
    plain, paid = config.signature(), config.signature({"cool": 0.1})
    assert config.signature({}) == plain and "extra" not in plain["reward"]
    assert env_from_json(json.loads(json.dumps(paid))) == config
    assert battle_difference(plain, paid) is None
    assert first_difference(paid, plain, "env") == "env.reward.extra is {'cool': 0.1} here and None there"
    assert paid["reward"].pop("extra") == {"cool": 0.1} and paid == plain


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda v: v.update(gravity=1),
            "env.gravity must be absent: this version of Echelon has no such setting, got 1",
        ),
        (lambda v: v.update(comm_dim="8"), "env.comm_dim must be a int, got '8'"),
        (lambda v: v.update(comm_dim=True), "env.comm_dim must be a int, got True"),
        (lambda v: v.update(world=[1]), "env.world must be an object, got [1]"),
        (lambda v: v["rules"].update(dt_s=None), "env.rules.dt_s must be a float, got None"),
        (lambda v: v["world"].update(size_x=4), "WorldConfig.size_x must be 32..500 vox"),
        (lambda v: v["features"].update(smoke=1), "env.features.smoke must be a bool, got 1"),
        (lambda v: v.update(reward=["extra"]), "env.reward must be an object, got ['extra']"),
        (lambda v: v.update(blue=[1]), "env.blue must be a str, got 1"),
    ],
)
def test_invalid_signature_is_rejected_with_its_field(change, says):
    values = EnvConfig.small().signature()
    change(values)
    with pytest.raises(ConfigError) as error:
        env_from_json(values)
    assert says in str(error.value) and "\n" not in str(error.value)

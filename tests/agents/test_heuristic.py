"""The scripted commanders: their decisions from observations."""

import dataclasses

import pytest
import torch
from builders import duel, flat_maps
from deciding import decide, streams
from tiers import usually

from echelon.agents.heuristic import STUCK_AFTER_S, Heuristic, scripted
from echelon.agents.tiers import TIERS
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.match import Result
from echelon.env.env import EchelonEnv
from echelon.rules.actions import Act
from echelon.rules.config import EnvConfig, FeaturesConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime import noise
from echelon.runtime.errors import ConfigError
from echelon.views.group_policy import GroupPolicy, memory_spec

CPU = torch.device("cpu")
NOTHING_ON = FeaturesConfig(**{field.name: False for field in dataclasses.fields(FeaturesConfig)})
SMALL = dataclasses.replace(EnvConfig.small(), map_pool=1)
BATTLES = {
    "small": SMALL,
    "standard": dataclasses.replace(EnvConfig.standard(), map_pool=1),
    "large": dataclasses.replace(EnvConfig.large(), map_pool=1),
    "features off": dataclasses.replace(SMALL, features=NOTHING_ON),
    "command suites": dataclasses.replace(EnvConfig.standard(), map_pool=1, command_suites=True),
    "full": dataclasses.replace(SMALL, observation_mode="full"),
    "silent": dataclasses.replace(SMALL, comm_dim=0),
    "few words": dataclasses.replace(SMALL, comm_dim=2),
    "uneven": dataclasses.replace(SMALL, blue=("scout",), red=("heavy", "light", "light")),
    "duel": dataclasses.replace(SMALL, blue=("medium",), red=("medium",)),
}


def fight(config: EnvConfig, tier: str, seeds: torch.Tensor, decisions: int) -> tuple[EchelonEnv, list[torch.Tensor]]:
    """Play one tier against itself on open ground; return the battles after some decisions, and blue's actions."""
    policy = Heuristic(config, tier)
    env = EchelonEnv(config, len(seeds), device="cpu", seed=seeds, memory=memory_spec(a=policy), maps=flat_maps(config))
    td, told = env.reset(), []
    for _ in range(decisions):
        for group in ("blue", "red"):
            GroupPolicy(policy, group, "a")(td)
        told.append(td["blue", "action"].clone())
        _, td = env.step_and_maybe_reset(td)
    return env, told


def test_walks_the_path_to_the_zone():
    # The zone lies ahead of (5.5, 20.5); the enemy is far away behind it.
    away = duel().place(0, 5.5, 20.0, yaw=0.0).place(1, 38.0, 20.0)
    for tier in TIERS:
        act, _ = decide(away, tier=tier)
        assert act[Act.FORWARD] > 0.99 and abs(act[Act.STRAFE]) < 0.05, tier


def test_turns_towards_its_target():
    left = duel().place(0, 10.5, 20.5, yaw=0.0).place(1, 13.0, 26.0)
    assert decide(left)[0][Act.YAW_RATE] > 0.9
    right = duel().place(0, 10.5, 20.5, yaw=0.0).place(1, 13.0, 15.0)
    assert decide(right)[0][Act.YAW_RATE] < -0.9
    behind = duel().place(0, 20.5, 20.5, yaw=0.0).place(1, 12.0, 20.0)
    assert abs(decide(behind)[0][Act.YAW_RATE]) == 1
    aside = duel().place(0, 5.5, 20.0, yaw=0.0).place(1, 8.0, 26.0)
    assert decide(aside)[0][Act.YAW_RATE] > 0.9
    assert abs(decide(aside, tier="trivial")[0][Act.YAW_RATE]) < 0.2


def test_stuck_mech_sidesteps_then_resets_its_timer():
    scene = duel().place(0, 5.5, 20.0, yaw=0.0)
    act, after = decide(scene)
    assert after["stuck_s"] == 0.25 and act[Act.STRAFE].abs() < 0.05
    act, after = decide(scene, stuck_s=STUCK_AFTER_S)
    assert act[Act.STRAFE] > 0.9 and act[Act.VERTICAL] > 0
    _, after = decide(scene, stuck_s=1.75)
    assert after["stuck_s"] == 0.0
    assert decide(scene, tier="trivial", stuck_s=STUCK_AFTER_S)[0][Act.STRAFE].abs() < 0.05


@pytest.mark.requirement("R53")
@pytest.mark.parametrize("tier", TIERS)
def test_clocks_count_seconds_at_any_decision_rate(tier):
    for repeat in (1, 2, 5, 10):
        scene = duel().place(0, 5.5, 20.0, yaw=0.0)
        rules = RulesConfig(decision_repeat=repeat)
        policy = Heuristic(dataclasses.replace(scene.sim_model.config, rules=rules), tier)
        after = policy(streams(scene, jammed_s=2.0))["next", "memory"]
        waited = 0.0 if tier == "trivial" else 0.05 * repeat
        assert after["stuck_s"][0, 0].item() == pytest.approx(waited)
        assert after["jammed_s"][0, 0].item() == pytest.approx(2.0 - 0.05 * repeat)


@pytest.mark.requirement("R53")
@pytest.mark.parametrize("battle", BATTLES)
def test_commands_any_battle_within_the_limits_of_an_action(battle):
    config = BATTLES[battle]
    env, _ = fight(config, "normal", torch.tensor([3, 4]), 2)
    seen = env.reset().get("blue").select("observation", "mask")
    for tier in TIERS:
        policy = Heuristic(config, tier)
        team = seen.copy().set("memory", policy.memory_spec().zero((*seen.batch_size,)))
        for _ in range(2):
            team = policy(team)
            assert team["action"].isfinite().all() and team["action"].abs().max() <= 1
            team["memory"] = team["next", "memory"].clone()


@pytest.mark.requirement("R53")
@pytest.mark.parametrize("tier", usually(TIERS, "expert"))
def test_decisions_are_independent_of_other_battles_in_the_batch(tier):
    seeds = torch.tensor([11, 22, 33])
    crowd, told = fight(SMALL, tier, seeds, 16)
    alone, lonely = fight(SMALL, tier, seeds[1:2], 16)
    assert torch.equal(crowd.state.mechs.pos[1:2], alone.state.mechs.pos)
    assert all(torch.equal(a[1:2], b) for a, b in zip(told, lonely, strict=True))


@pytest.mark.parametrize("tier", TIERS)
def test_decisions_copy_nothing_to_the_host(tier):
    """Tensors on the meta device have no values: reading one, or mixing it with a CPU tensor, raises."""
    scene = duel()
    team = Heuristic(scene.sim_model.config, tier).to("meta")(streams(scene).to("meta"))
    assert team["action"].shape == (1, 2, 26) and team["action"].is_meta


def test_decisions_use_only_the_observation():
    """A commander decides from the streams alone; the decisions of dead mechs do not matter."""
    scene = duel().set(1, hp=0.0)
    for tier in TIERS:
        team = Heuristic(scene.sim_model.config, tier)(streams(scene))
        assert set(team.keys()) == {"observation", "memory", "action", "next"}
        assert team["action"].isfinite().all()


@pytest.mark.requirement("R53")
def test_weapon_use_is_the_share_of_decisions_in_which_it_fires():
    policy = Heuristic(duel().sim_model.config, weapon_use=0.25)
    team, fired = streams(duel(range_vox=6.0)), []
    for _ in range(8):
        team = policy(team)
        fired.append(bool(team["action"][0, 0, Act.PRIMARY] > 0))
        team["memory"] = team["next", "memory"].clone()
    assert fired == [False, False, False, True] * 2
    assert decide(duel(range_vox=6.0), weapon_use=0.0)[0][Act.PRIMARY] < 0


@pytest.mark.requirement("R53")
def test_beats_an_idle_team():
    policy = Heuristic(SMALL)
    env = EchelonEnv(SMALL, 2, device="cpu", seed=5, memory=memory_spec(a=policy), maps=flat_maps(SMALL))
    td, seat, won = env.reset(), GroupPolicy(policy, "blue", "a"), torch.zeros(2)
    for _ in range(160):
        td["red", "action"] = torch.zeros(2, 5, 26)
        played, td = env.step_and_maybe_reset(seat(td))
        won += (played["next", "outcome", "winner"][:, 0] == 1).float()
    assert (won >= 1).all()


def test_full_names_of_scripted_commanders():
    assert scripted("heuristic", SMALL, CPU).tier is TIERS["normal"]
    for tier in TIERS:
        assert scripted(f"heuristic:{tier}", SMALL, CPU).tier is TIERS[tier]
    one_line = r"^a scripted commander must be heuristic:trivial\|easy\|normal\|hard\|expert, got 'heuristic:godlike'$"
    with pytest.raises(ConfigError, match=one_line):
        scripted("heuristic:godlike", SMALL, CPU)
    with pytest.raises(ConfigError, match=r"weapon_use must be 0..1, got 1.5"):
        Heuristic(SMALL, weapon_use=1.5)


@pytest.mark.requirement("R53")
@pytest.mark.long
def test_each_tier_beats_the_one_below():
    """All pairs play in one environment."""
    config, seeds = EnvConfig.small(), noise.battle_seeds(7, 16, CPU).tolist()
    pairs = list(zip(list(TIERS)[1:], TIERS, strict=False))
    battles = [Battle(*sides, seed) for pair in pairs for seed in seeds for sides in (pair, pair[::-1])]
    arena = BatchArena(config, lambda tier: Heuristic(config, tier), ArenaConfig(CPU, batch=len(battles)))
    results = arena.play(battles).results
    for number, (better, worse) in enumerate(pairs):
        own = Result(results[32 * number : 32 * (number + 1)], 1.0)
        assert own.x_wins > own.y_wins, (better, worse, own.x_wins, own.y_wins)

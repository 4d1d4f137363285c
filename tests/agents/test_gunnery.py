"""Triggers are pulled only for hits, and heat is spent on the most damage."""

import dataclasses
import math

import torch
from builders import battle, duel
from deciding import decide

from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig
from echelon.views.group_policy import GroupPolicy, memory_spec

WALL = (14, 15, 10, 31, 0, 10, Material.SOLID)
AIMED = ("hard", "expert")


def fires(scene, trigger: Act, mech: int = 0, tier: str = "hard") -> bool:
    return bool(decide(scene, mech, tier)[0][trigger] > 0)


def test_laser_fires_only_within_range():
    for tier in ("trivial", "easy", "normal", "hard", "expert"):
        assert fires(duel(6.0, "medium"), Act.PRIMARY, tier=tier), tier
        assert not fires(duel(9.0, "medium"), Act.PRIMARY, tier=tier), tier


def test_trivial_uses_only_primary_and_easy_no_tertiary():
    near = duel(range_vox=6.0)
    assert not fires(near, Act.SECONDARY, tier="trivial") and not fires(near, Act.TERTIARY, tier="trivial")
    assert fires(near, Act.SECONDARY, tier="easy") and not fires(near, Act.TERTIARY, tier="easy")
    assert fires(near, Act.TERTIARY, tier="normal")


def test_hot_mechs_hold_fire_except_trivial():
    hot = duel(range_vox=6.0).set(0, heat=120.0)  # 120 of 130
    assert fires(hot, Act.PRIMARY, tier="trivial")
    for tier in ("easy", "normal", "hard", "expert"):
        assert not fires(hot, Act.PRIMARY, tier=tier), tier


def test_hot_mech_without_target_vents():
    hot = duel(range_vox=25.0).set(0, heat=110.0)  # 110 of 130
    act, _ = decide(hot)
    assert act[Act.VENT] > 0 and act[Act.PRIMARY] < 0


def test_heat_is_reserved_for_the_better_gun():
    warm = duel(9.0, "medium", "heavy").place(1, 18.0, 20.5, yaw=math.pi).set(0, heat=50.0)  # 50 of 100
    assert fires(duel(7.0, "medium", "heavy"), Act.PRIMARY)
    assert not fires(duel(7.0, "medium", "heavy").set(0, heat=50.0), Act.PRIMARY)  # 22 more are above 60 %
    assert fires(warm, Act.TERTIARY)


def test_warm_mech_vents_while_its_gun_reloads():
    reloading = duel(9.0, "medium", "heavy").set(0, heat=50.0)
    reloading.state.mechs.cooldown[:, 0, 2] = 3
    act, _ = decide(reloading, tier="hard")
    assert act[Act.TERTIARY] < 0 and act[Act.VENT] > 0
    cool = reloading.set(0, heat=20.0)
    assert fires(cool, Act.TERTIARY)  # held: the next shot comes within the decision


def test_own_fire_never_causes_a_shutdown():
    """One tier against another."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=4)
    policies = {tier: Heuristic(config, tier) for tier in AIMED}
    env = EchelonEnv(config, 4, device="cpu", seed=5, memory=memory_spec(**policies))
    td = env.reset()
    seats = [GroupPolicy(policies[tier], group, tier) for tier, group in zip(AIMED, env.teams, strict=True)]
    cap, worst = env.sim_model.roster.heat_cap, torch.zeros(())
    for _ in range(60):
        for seat in seats:
            seat(td)
        action = torch.cat((td["blue", "action"], td["red", "action"]), 1)
        fired = (action[..., [Act.PRIMARY, Act.SECONDARY, Act.TERTIARY]] > 0).any(-1)
        before = env.state.mechs.heat / cap
        worst = torch.maximum(worst, (before * fired).max())
        _, td = env.step_and_maybe_reset(td)
    assert 0.3 < worst < 0.92


def test_unguided_guns_fire_only_at_targets_nearly_ahead():
    ahead = duel(10.0, "medium", "heavy")
    aside = duel(10.0, "medium", "heavy").place(0, 10.5, 20.5, yaw=0.3)  # above 0.2 rad
    for tier in AIMED:
        assert fires(ahead, Act.TERTIARY, tier=tier) and not fires(aside, Act.TERTIARY, tier=tier)


def test_guns_hold_fire_at_targets_that_will_dodge():
    crossing = duel(11.0, "medium", "medium")
    crossing.state.mechs.vel[:, 1] = torch.tensor([0.0, 5.5, 0.0])  # 2.4 vox within 11 / 25 s
    assert fires(duel(11.0, "medium", "medium"), Act.TERTIARY) and not fires(crossing, Act.TERTIARY)


def test_guns_do_not_fire_into_walls():
    walled = duel(7.0, "heavy", "heavy", WALL)
    for trigger in (Act.PRIMARY, Act.SECONDARY, Act.TERTIARY):
        assert not fires(walled, trigger)


def test_missiles_fire_over_walls_at_painted_targets():
    scene = battle(("heavy", "scout"), ("heavy",), WALL)
    scene.place(0, 6.5, 20.5).place(1, 30.0, 34.0).place(2, 30.5, 20.5, yaw=math.pi)
    for tier in ("normal", *AIMED):
        assert not fires(scene, Act.SECONDARY, tier=tier)
    scene.paint(2, painter=1)
    for tier in ("normal", *AIMED):
        assert fires(scene, Act.SECONDARY, tier=tier)


def test_warm_light_mech_saves_heat_for_the_flamer():
    close = duel(4.0, "light", "heavy").set(0, heat=35.0)  # 35 of 80
    act, _ = decide(close, tier="expert")
    assert act[Act.PRIMARY] > 0 and act[Act.SECONDARY] < 0
    assert fires(duel(6.0, "light", "heavy").set(0, heat=35.0), Act.SECONDARY, tier="expert")

"""Invariants of random battles on generated maps, checked on one long rollout."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from builders import brawl
from first_catalog import MATERIALS, SHELLS, SMALL, WEAPONS, Weapon
from torchrl.envs.utils import step_mdp

from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.rules.catalog import Material
from echelon.sim.terrain import material_at

BATTLES, DECISIONS = 20, 160
TOUCH = 1e-4
"""Maximum overlap of two boxes by rounding, vox."""
ROUNDING = 1e-6
PARTS = ("mechs", "shots", "clouds", "tally", "map_id", "score", "focus_slots")
"""Recorded parts of every state. The terrain changes in place, so it is checked separately."""
GROUND_EVERY = 40
"""Number of decisions between two checks of the whole terrain."""


def stacked(states):
    """Stack parts of states to `[T, B, ...]`."""
    return SimpleNamespace(**{part: torch.stack([getattr(state, part) for state in states]) for part in PARTS})


@pytest.fixture(scope="module")
def battles():
    """Record parts of the states `[T, B, ...]` before and after every decision, observations and the terrain."""
    env = EchelonEnv(dataclasses.replace(SMALL, map_pool=32), BATTLES, "cpu", seed=11)
    generator = torch.Generator().manual_seed(5)
    td, before, after, steps, solid, ground = env.reset(), [], [], [], [], []
    for decision in range(DECISIONS):
        before.append(env.state)
        td = env.step(brawl(td, generator))
        after.append(env.state)
        steps.append(td["next"].clone())
        solid.append(env.state.terrain.solid.clone())
        if decision % GROUND_EVERY == GROUND_EVERY - 1:
            ground.append(env.state.clone())
        following = step_mdp(td, reward_keys=env.reward_keys, done_keys=env.done_keys, action_keys=env.action_keys)
        td = env.maybe_reset(following)
    return SimpleNamespace(
        env=env,
        roster=env.sim_model.roster,
        before=stacked(before),
        after=stacked(after),
        next=torch.stack(steps),
        solid=torch.stack(solid),  # [T, B, Y, X]
        ground=ground,  # copies of states
    )


def quiet(battles):
    """`[T, B]` bool: no missile and no slug was in flight in the decision, so there was no splash."""
    span = slice(0, battles.roster.bursts.count)
    fired = battles.after.tally.shots - battles.before.tally.shots
    fires = fired[..., [int(Weapon.MISSILE), int(Weapon.GAUSS)]].flatten(2).any(-1)
    return ~fires & ~(battles.before.shots.ttl[..., span] > 0).any(-1)


def test_rollout_contains_all_kinds_of_events(battles):
    """Mechs fight, fall, overheat, lose legs and die, and battles end, so the invariants are not trivial."""
    mechs, tally = battles.after.mechs, battles.after.tally
    assert (tally.kills - battles.before.tally.kills).sum() > 50
    assert (mechs.fallen > 0).any() and mechs.legged.any() and (mechs.suppressed > 0).any()
    assert (mechs.heat > battles.roster.heat_cap).any()
    assert (battles.after.shots.ttl > 0).any()
    assert battles.next["done"].sum() > 10
    assert (mechs.pos[..., 2] > 5).any()  # some fly
    gained = {name: (tally.get(name) - battles.before.tally.get(name)).sum() for name in tally.keys()}
    assert all(gained[name] > 0 for name in ("assists", "intercepts", "falls", "legs_lost", "shutdowns")), gained
    assert ((tally.shots - battles.before.tally.shots).sum((0, 1, 2)) > 0).all()  # every weapon fires
    assert ((tally.hits - battles.before.tally.hits).sum((0, 1, 2)) > 0).all()  # and hits
    assert (battles.after.clouds.ttl > 0).any() and (mechs.paint > 0).any() and mechs.wrecked.any()
    assert any(state.terrain.rubble.any() and state.terrain.damage.any() for state in battles.ground)
    assert 0.05 < quiet(battles).float().mean() < 0.95


@pytest.mark.requirement("R50")
def test_all_values_are_finite(battles):
    parts = [battles.after.mechs, battles.after.shots, battles.after.clouds, battles.after.tally, battles.next]
    for name, value in (item for part in parts for item in part.items(True, True)):
        assert value.isfinite().all(), name


@pytest.mark.parametrize(("stream", "features"), [("contacts", layout.CONTACT), ("ego", layout.EGO)])
def test_every_feature_is_within_its_bounds(battles, stream, features):
    low, high = layout.bounds(features)
    names = [f.name for f in features for _ in range(f.width)]
    for group in ("blue", "red"):
        seen = battles.next[group, "observation", stream].flatten(0, -2)
        lowest, highest = seen.amin(0), seen.amax(0)
        out = [
            f"{name}: {a:.4f}..{b:.4f}, expected {x}..{y}"
            for name, a, b, x, y in zip(
                names, lowest.tolist(), highest.tolist(), low.tolist(), high.tolist(), strict=True
            )
            if a < x - ROUNDING or b > y + ROUNDING
        ]
        assert not out, out


def test_every_observation_is_in_its_spec(battles):
    spec = battles.env.observation_spec
    for t in range(DECISIONS):
        assert spec.is_in(battles.next[t].select(*spec.keys(True, True))), t


def test_hulls_never_overlap(battles):
    mechs = battles.after.mechs
    pos, alive, half = mechs.pos.numpy(), mechs.alive.numpy(), battles.roster.half_size.numpy()
    gap = np.abs(pos[..., :, None, :] - pos[..., None, :, :]) - (half[:, None] + half)
    overlap = (gap < -TOUCH).all(-1) & alive[..., :, None] & alive[..., None, :]
    overlap &= ~np.eye(pos.shape[2], dtype=bool)
    assert not overlap.any(), np.argwhere(overlap)[:5]


def test_hulls_never_enter_terrain(battles):
    """The current terrain counts: mechs can walk through broken walls, but not through solid wrecks."""
    mechs, solid = battles.after.mechs, battles.solid.numpy()
    half = battles.roster.half_size.numpy()
    low, high = mechs.pos.numpy() - half + TOUCH, mechs.pos.numpy() + half - TOUCH
    time, battle = (index[..., None] for index in np.indices(low.shape[:2]))
    first, last = np.floor(low).astype(int), np.floor(high).astype(int)
    inside = np.zeros(low.shape[:-1], dtype=bool)
    for dx in range(5):
        for dy in range(5):
            for dz in range(5):
                x, y, z = np.moveaxis(np.minimum(first + np.array((dx, dy, dz)), last), -1, 0)
                inside |= (solid[time, battle, y, x] >> z & 1) == 1
    assert not (inside & mechs.alive.numpy()).any(), np.argwhere(inside & mechs.alive.numpy())[:5]


def test_terrain_is_the_map_without_broken_voxels_plus_wrecks(battles):
    """Every bit column and the damage of every voxel agree with the voxel's material."""
    maps = battles.env.sim_model.maps
    size_z, size_y, size_x = maps.material.shape[1:]
    solid, opaque, hp = (
        torch.tensor([getattr(MATERIALS[m], fact) for m in Material]) for fact in ("solid", "opaque", "hp")
    )
    height = torch.arange(size_z)[:, None, None]
    grid = torch.meshgrid(torch.arange(size_z), torch.arange(size_y), torch.arange(size_x), indexing="ij")
    z, y, x = (axis.expand(BATTLES, -1, -1, -1) for axis in grid)
    for state in battles.ground:
        now, made = material_at(state, battles.env.sim_model, x, y, z).long(), maps.material[state.map_id].long()
        ground = state.terrain
        assert torch.equal((ground.solid[:, None] >> height & 1) == 1, solid[now])
        assert torch.equal((ground.opaque[:, None] >> height & 1) == 1, opaque[now])
        rubble = (ground.rubble[:, None] >> height & 1) == 1
        is_rubble = (now == int(Material.SOLID_DEBRIS)) | (now == int(Material.DEBRIS_FIELD))
        assert is_rubble[rubble].all()
        changed = (now != made) & ~rubble
        assert (now[changed] == int(Material.AIR)).all() and hp[made[changed]].isfinite().all()
        assert (ground.damage < hp[now]).all()
        assert not ground.damage[~solid[now]].any() and not ground.damage[hp[now].isinf()].any()


def test_wrecks_are_laid_within_a_decision(battles):
    before, after = battles.before.mechs, battles.after.mechs
    waits = ~before.alive & ~before.wrecked
    few = waits.sum(-1, keepdim=True) <= 5  # one per substep
    assert after.wrecked[waits & few].all()
    assert not (after.wrecked & after.alive).any()
    assert (after.wrecked >= before.wrecked).all()


def test_hulls_stay_on_the_map(battles):
    pos, half, size = battles.after.mechs.pos, battles.roster.half_size, battles.env.sim_model.size
    assert (pos - half >= -TOUCH).all() and (pos + half <= size + TOUCH).all()


def test_heat_hp_and_stability_stay_within_their_limits(battles):
    mechs, roster = battles.after.mechs, battles.roster
    assert (mechs.heat >= 0).all() and (mechs.heat <= 2 * roster.heat_cap).all()
    assert (mechs.hp >= 0).all() and (mechs.hp <= roster.hp).all()
    assert (mechs.leg_hp >= 0).all() and (mechs.leg_hp <= roster.leg_hp).all()
    assert (mechs.stability >= 0).all() and (mechs.stability <= 100).all()
    # A mech that lost its legs in this decision is clamped to half the cap in the next footing update.
    legged_before = battles.before.mechs.legged & mechs.alive & (battles.before.mechs.fallen == 0)
    assert (mechs.stability[legged_before] <= 50).all()
    assert (mechs.fallen >= 0).all() and (mechs.fallen <= 60).all()
    assert (mechs.suppressed >= 0).all() and (mechs.suppressed <= 24).all()
    assert (mechs.cooldown >= 0).all() and (mechs.cooldown <= roster.longest_cooldown).all()
    assert (mechs.under_fire >= 0).all() and (mechs.under_fire <= 20).all()
    length = mechs.hit_from.norm(dim=-1)
    assert ((length == 0) | ((length - 1).abs() < 1e-5)).all()


def test_painter_belongs_to_the_pack_of_the_paint(battles):
    mechs, roster = battles.after.mechs, battles.roster
    assert (mechs.paint >= 0).all() and (mechs.paint <= 100).all()
    marked = mechs.paint > 0
    packs = torch.arange(roster.num_packs).expand_as(mechs.painter)
    assert torch.equal(roster.pack[mechs.painter][marked], packs[marked])
    targets = torch.arange(roster.num_mechs)[:, None].expand_as(mechs.painter)
    assert roster.hostile[targets[marked], mechs.painter[marked]].all()


def test_shots_and_clouds_stay_within_their_lifetimes(battles):
    shots, clouds, roster = battles.after.shots, battles.after.clouds, battles.roster
    rules = battles.env.sim_model.rules
    for weapon in SHELLS:
        ttl = shots.ttl[..., roster.shots.span[weapon]]
        assert (ttl >= 0).all() and (ttl <= rules.substeps(WEAPONS[weapon].lifetime_s)).all(), weapon
    speed = shots.vel.norm(dim=-1)
    steady = (shots.ttl > 0) & ~roster.ballistic
    assert ((speed - roster.shot_speed).abs() < 1e-3)[steady].all()
    size = battles.env.sim_model.size
    aloft = shots.pos[shots.ttl > 0]
    assert (aloft >= 0).all() and (aloft < size).all()
    missiles = roster.shots.span[Weapon.MISSILE]
    aimed, shooter = shots.target[..., missiles], roster.shots.shooter[missiles].expand_as(shots.target[..., missiles])
    flies = shots.ttl[..., missiles] > 0
    assert roster.hostile[shooter[flies], aimed[flies]].all()
    assert (clouds.ttl >= 0).all() and (clouds.ttl <= 200).all()


def test_hp_never_rises_and_dead_mechs_stay_dead(battles):
    before, after = battles.before.mechs, battles.after.mechs
    assert (after.hp <= before.hp).all() and (after.leg_hp <= before.leg_hp).all()
    assert not (after.alive & ~before.alive).any()
    dead = ~before.alive
    assert torch.equal(after.pos[dead], before.pos[dead])
    fired = battles.after.tally.shots - battles.before.tally.shots
    assert (fired[dead] == 0).all()


def test_every_death_is_a_kill_or_uncredited(battles):
    """Kills equal the deaths that weapons caused; the rest burned."""
    before, after = battles.before, battles.after
    died = before.mechs.alive & ~after.mechs.alive
    kills = (after.tally.kills - before.tally.kills).sum(-1)
    own = (after.tally.team_kills - before.tally.team_kills).sum(-1)
    burned = died.sum(-1) - kills - own
    assert (burned >= 0).all()
    shot = (died & (after.mechs.under_fire > 0)).sum(-1)
    assert (kills + own <= shot).all()
    assert (own[quiet(battles)] == 0).all()  # only splash damages the own team
    assists = (after.tally.assists - before.tally.assists).sum(-1)
    assert (assists <= kills).all()


def test_damage_dealt_equals_hp_lost_except_burns_and_friendly_splash(battles):
    before, after = battles.before, battles.after
    lost = (before.mechs.hp - after.mechs.hp).sum(-1)
    dealt = (after.tally.damage - before.tally.damage).sum(-1)
    assert (dealt <= lost + 1e-2).all()
    # Ten mechs burn at most 5 hp/s, for 0.25 s.
    assert (lost - dealt <= 10 * 5 * 0.25 + 1e-2)[quiet(battles)].all()


def test_tallies_only_grow(battles):
    for name, after in battles.after.tally.items():
        assert (after >= battles.before.tally.get(name)).all(), name
    tally, roster = battles.after.tally, battles.roster
    assert (tally.hits <= tally.shots).all()
    missiles = tally.shots[..., int(Weapon.MISSILE)]
    for team, other in (("blue", "red"), ("red", "blue")):
        own, foes = roster.teams[team], roster.teams[other]
        assert (tally.intercepts[..., own].sum(-1) <= missiles[..., foes].sum(-1)).all()
    assert (battles.after.score >= battles.before.score).all()


def test_speed_is_at_most_that_of_the_hull(battles):
    """In a decision a mech walks at most 0.25 s at its top speed, damped by 0.98."""
    way = (battles.after.mechs.pos - battles.before.mechs.pos)[..., :2].norm(dim=-1)
    assert (way <= battles.roster.max_speed * 0.98 * 0.25 + 1e-3).all()


def test_focus_slots_contain_enemies(battles):
    slots, roster = battles.after.focus_slots, battles.roster
    named = slots >= 0
    is_red = roster.is_red[slots.clamp_min(0)]
    viewer = roster.is_red[None, None, :, None].expand_as(slots)
    assert (is_red != viewer)[named].all()
    assert battles.after.mechs.alive.gather(-1, slots.clamp_min(0).flatten(2)).view_as(slots)[named].all()

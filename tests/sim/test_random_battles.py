"""What holds at every moment of random battles on generated maps: one long rollout, looked at from many sides."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from builders import brawl
from torchrl.envs.utils import step_mdp

from echelon.catalog import MATERIALS, Material
from echelon.config import EnvConfig
from echelon.env import layout
from echelon.env.env import EchelonEnv

BATTLES, DECISIONS = 64, 240
TOUCH = 1e-4
"""Rounding that may push two boxes into each other, vox."""
ROUNDING = 1e-6


@pytest.fixture(scope="module")
def battles():
    """Before and after every decision: states `[T, B, ...]`, and what was observed."""
    env = EchelonEnv(dataclasses.replace(EnvConfig.small(), map_pool=32), BATTLES, "cpu", seed=11)
    generator = torch.Generator().manual_seed(5)
    td, before, after, steps = env.reset(), [], [], []
    for _ in range(DECISIONS):
        before.append(env.state)
        td = env.step(brawl(td, generator))
        after.append(env.state)
        steps.append(td["next"].clone())
        following = step_mdp(td, reward_keys=env.reward_keys, done_keys=env.done_keys, action_keys=env.action_keys)
        td = env.maybe_reset(following)
    return SimpleNamespace(
        env=env,
        roster=env.game.roster,
        before=torch.stack(before),
        after=torch.stack(after),
        next=torch.stack(steps),
    )


def test_a_lot_happens(battles):
    """The rollout is worth looking at: mechs fight, fall, overheat, lose legs and die, battles end."""
    mechs, tally = battles.after.mechs, battles.after.tally
    assert (tally.kills - battles.before.tally.kills).sum() > 50
    assert (mechs.fallen > 0).any() and mechs.legged.any() and (mechs.suppressed > 0).any()
    assert (mechs.heat > battles.roster.heat_cap).any()
    assert (battles.after.shots.ttl > 0).any()
    assert battles.next["done"].sum() > 20
    assert (mechs.pos[..., 2] > 6).any()  # some fly


def test_nothing_is_ever_not_a_number(battles):
    for name, value in (*battles.after.items(True, True), *battles.next.items(True, True)):
        assert value.isfinite().all(), name


@pytest.mark.parametrize(("stream", "features"), [("contacts", layout.CONTACT), ("ego", layout.EGO)])
def test_every_feature_is_within_its_range(battles, stream, features):
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
    mechs, maps = battles.after.mechs, battles.env.game.maps
    table = np.array([MATERIALS[m].solid for m in Material])
    solid = table[maps.material.numpy()]  # [M, Z, Y, X]
    half = battles.roster.half_size.numpy()
    low, high = mechs.pos.numpy() - half + TOUCH, mechs.pos.numpy() + half - TOUCH
    which = np.broadcast_to(battles.after.map_id.numpy()[..., None], low.shape[:-1])
    first, last = np.floor(low).astype(int), np.floor(high).astype(int)
    inside = np.zeros(low.shape[:-1], dtype=bool)
    for dx in range(5):
        for dy in range(5):
            for dz in range(5):
                x, y, z = np.moveaxis(np.minimum(first + np.array((dx, dy, dz)), last), -1, 0)
                inside |= solid[which, z, y, x]
    assert not (inside & mechs.alive.numpy()).any(), np.argwhere(inside & mechs.alive.numpy())[:5]


def test_hulls_stay_on_the_map(battles):
    pos, half, size = battles.after.mechs.pos, battles.roster.half_size, battles.env.game.size
    assert (pos - half >= -TOUCH).all() and (pos + half <= size + TOUCH).all()


def test_heat_hp_and_stability_stay_within_their_limits(battles):
    mechs, roster = battles.after.mechs, battles.roster
    assert (mechs.heat >= 0).all() and (mechs.heat <= 2 * roster.heat_cap).all()
    assert (mechs.hp >= 0).all() and (mechs.hp <= roster.hp).all()
    assert (mechs.leg_hp >= 0).all() and (mechs.leg_hp <= roster.leg_hp).all()
    assert (mechs.stability >= 0).all() and (mechs.stability <= 100).all()
    # Those who lost their legs in this decision come down to half the cap with their next footing.
    legged_before = battles.before.mechs.legged & mechs.alive & (battles.before.mechs.fallen == 0)
    assert (mechs.stability[legged_before] <= 50).all()
    assert (mechs.fallen >= 0).all() and (mechs.fallen <= 60).all()
    assert (mechs.suppressed >= 0).all() and (mechs.suppressed <= 24).all()
    assert (mechs.cooldown >= 0).all() and (mechs.cooldown <= battles.env.game.longest_cooldown).all()


def test_nobody_heals_and_the_dead_stay_dead(battles):
    before, after = battles.before.mechs, battles.after.mechs
    assert (after.hp <= before.hp).all() and (after.leg_hp <= before.leg_hp).all()
    assert not (after.alive & ~before.alive).any()
    dead = ~before.alive
    assert torch.equal(after.pos[dead], before.pos[dead])
    fired = battles.after.tally.shots - battles.before.tally.shots
    assert (fired[dead] == 0).all()


def test_every_death_is_a_kill_or_nobodys(battles):
    """Kills equal the deaths that shots and beams caused; the rest burned."""
    before, after = battles.before, battles.after
    died = (before.mechs.alive & ~after.mechs.alive).sum(-1)
    kills = (after.tally.kills - before.tally.kills).sum(-1)
    own = (after.tally.team_kills - before.tally.team_kills).sum(-1)
    burned = died - kills - own
    assert (burned >= 0).all()
    assert (own == 0).all()  # no weapon yet harms its own team
    untouched = (after.tally.hits - before.tally.hits).sum(-1) == 0
    assert (kills[untouched] == 0).all()
    on_lava = (battles.env.game.maps.material == int(Material.LAVA)).flatten(1).any(1)
    on_debris = (battles.env.game.maps.material == int(Material.DEBRIS_FIELD)).flatten(1).any(1)
    assert (burned[~(on_lava | on_debris)[after.map_id]] == 0).all()


def test_damage_dealt_is_hp_lost_but_for_burns(battles):
    before, after = battles.before, battles.after
    lost = (before.mechs.hp - after.mechs.hp).sum(-1)
    dealt = (after.tally.damage - before.tally.damage).sum(-1)
    assert (dealt <= lost + 1e-2).all()
    # Ten mechs burn 5 hp/s at most, for 0.25 s.
    assert (lost - dealt <= 10 * 5 * 0.25 + 1e-2).all()


def test_tallies_only_grow(battles):
    for name, after in battles.after.tally.items():
        assert (after >= battles.before.tally.get(name)).all(), name
    assert (battles.after.tally.hits <= battles.after.tally.shots).all()
    assert (battles.after.score >= battles.before.score).all()


def test_nobody_outruns_its_hull(battles):
    """Between decisions a mech walks at most its top speed for 0.25 s, damped by 0.98."""
    way = (battles.after.mechs.pos - battles.before.mechs.pos)[..., :2].norm(dim=-1)
    assert (way <= battles.roster.max_speed * 0.98 * 0.25 + 1e-3).all()


def test_slots_name_hostiles(battles):
    slots, roster = battles.after.focus_slots, battles.roster
    named = slots >= 0
    is_red = roster.is_red[slots.clamp_min(0)]
    viewer = roster.is_red[None, None, :, None].expand_as(slots)
    assert (is_red != viewer)[named].all()
    assert battles.after.mechs.alive.gather(-1, slots.clamp_min(0).flatten(2)).view_as(slots)[named].all()

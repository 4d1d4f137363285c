"""Properties of random battles, for any rosters, switches, maps and states.

The states are those of `reference.scenes`: mechs in all conditions, with all kinds of shots in flight.
"""

import dataclasses
import functools
import math
import random

import pytest
import torch
from builders import CPU, columns_of
from first_catalog import CATALOG, HULLS, MATERIALS, SLOTS, SMALL, WEAPONS, Weapon
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from reference.compare import TOLERANCE, shot_keys, voxels_of
from reference.scenes import random_actions, random_draws, scramble
from tensordict import TensorDict
from tiers import usually

from echelon.env.blocks import Blocks
from echelon.env.env import EchelonEnv
from echelon.env.loops.play import Loops
from echelon.env.objectives import zone
from echelon.env.observation.build import observe
from echelon.rules import actions
from echelon.rules.actions import Act
from echelon.rules.catalog import DEBRIS_DAMAGE, Material
from echelon.rules.config import EnvConfig, FeaturesConfig, RewardConfig, WorldConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.roster import build_roster
from echelon.runtime.geometry import wrap_angle
from echelon.sim import step
from echelon.sim.model import build_model
from echelon.sim.terrain import is_material, standing_on
from echelon.world.pool import make_pool

BATTLES = 3
TOUCH = 1e-4
"""Allowed overlap of two boxes by rounding, vox."""
USUAL, MANY = 3, 8
"""Number of random battles in the usual and in the long tier; the long tier starts with the usual ones."""
FEW = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # shrinking a failing battle takes minutes
    suppress_health_check=list(HealthCheck),
)

HULLS_OF_A_TEAM = st.lists(st.sampled_from([hull.name.lower() for hull in HULLS]), min_size=1, max_size=6).map(tuple)
SWITCHES = st.builds(
    FeaturesConfig, **{field.name: st.sampled_from((True, True, False)) for field in dataclasses.fields(FeaturesConfig)}
)
WORLDS = st.builds(
    WorldConfig,
    size_x=st.integers(32, 43),
    size_y=st.integers(32, 43),
    size_z=st.integers(8, 31),
    difficulty=st.floats(0, 1),
)
CONFIGS = st.builds(
    EnvConfig,
    world=WORLDS,
    rules=st.builds(RulesConfig, time_up_terminates=st.booleans()),
    reward=st.builds(RewardConfig, team_mix_alpha=st.floats(0, 1)),
    features=SWITCHES,
    blue=HULLS_OF_A_TEAM,
    red=HULLS_OF_A_TEAM,
    catalog=st.just(CATALOG),
    observation_mode=st.sampled_from(("partial", "full")),
    command_suites=st.booleans(),
    comm_dim=st.integers(0, 8),
    map_pool=st.just(2),
    map_seed=st.integers(0, 1000),
)
SEEDS = st.integers(0, 10_000)


@functools.cache
def drawn(count):
    """Return the given number of configs with seeds, equal for all tests."""
    found = []

    @settings(FEW, max_examples=count)
    @given(config=CONFIGS, seed=SEEDS)
    def draw(config, seed):
        found.append((config, seed))

    draw()
    return found


def random_battles(check):
    """Turn a function of a config and a seed into a test."""

    @pytest.mark.parametrize("count", usually((USUAL, MANY), USUAL))
    def test(count):
        for config, seed in drawn(count):
            print(config, seed)  # pytest shows the last one after a failure
            check(config, seed)

    test.__doc__ = check.__doc__
    return test


def begin(config, seed):
    """Return an environment on generated maps, in the middle of `BATTLES` battles."""
    env = EchelonEnv(config, BATTLES, "cpu", seed=seed)
    env.reset()
    rng, count = random.Random(seed), config.num_mechs
    state = scramble(env.state, env.sim_model, env.sim_model.maps.material[env.state.map_id].numpy(), seed)
    ticks = config.rules.max_decisions * config.rules.decision_repeat
    env.state = state.replace(
        score=torch.tensor(
            [[rng.uniform(0, config.rules.zone_score_to_win_s) for _ in range(2)] for _ in range(BATTLES)]
        ),
        tick=torch.tensor([rng.choice((0, 5 * rng.randrange(ticks // 5), ticks - 5)) for _ in range(BATTLES)]),
    )
    return env, rng, count


def copied(state):
    """Return the state with a copy of its terrain, because a substep writes to it."""
    return state.replace(terrain=state.terrain.clone())


@functools.lru_cache(MANY)
def moments(config, seed, decisions=2):
    """Return the model, and the states before and after each substep of a few random decisions."""
    env, rng, count = begin(config, seed)
    state, sim_model, found = env.state, env.sim_model, []
    for _ in range(decisions):
        told = random_actions(rng, BATTLES, count, config.comm_dim)
        orders = actions.decode(told, state.focus_slots, sim_model.roster, config.features)
        for _ in range(config.rules.decision_repeat):
            before = copied(state)
            state = step.substep(state, orders, random_draws(rng, BATTLES, count), sim_model)
            found.append((sim_model, before, copied(state)))
    return found


@random_battles
def test_state_fields_stay_within_bounds(config, seed):
    for sim_model, before, after in moments(config, seed):
        mechs, roster, rules = after.mechs, sim_model.roster, sim_model.rules
        for name, value in after.items(True, True):
            assert value.isfinite().all(), name

        def within(name, value, low, high):
            assert (value >= low).all() and (value <= high).all(), (name, value.min(), value.max())

        # After new damage a legged mech may exceed its stability cap until its next footing update.
        within("hp", mechs.hp, 0, before.mechs.hp)
        within("leg_hp", mechs.leg_hp, 0, before.mechs.leg_hp)
        within("heat", mechs.heat, 0, 2 * roster.heat_cap)
        within("stability", mechs.stability, 0, rules.stability_cap)
        within("yaw", mechs.yaw, -math.pi - 1e-6, math.pi + 1e-6)
        within("fallen", mechs.fallen, 0, rules.substeps(rules.fall_s))
        within("suppressed", mechs.suppressed, 0, rules.substeps(WEAPONS[Weapon.AUTOCANNON].suppress_s))
        within("under_fire", mechs.under_fire, 0, rules.substeps(rules.under_fire_s))
        within("cooldown", mechs.cooldown, 0, roster.longest_cooldown)
        within("paint", mechs.paint, 0, rules.substeps(CATALOG.paint_s))
        within("painter", mechs.painter, 0, config.num_mechs - 1)
        within("hit_from", mechs.hit_from.norm(dim=-1), 0, 1 + 1e-5)
        within("clouds", after.clouds.ttl, 0, rules.substeps(CATALOG.cloud_s))
        assert (mechs.vel[..., :2].norm(dim=-1) <= roster.max_speed * rules.velocity_damping + 1e-4).all()
        flies = after.shots.ttl > 0
        inside = ((after.shots.pos >= 0) & (after.shots.pos < sim_model.size)).all(-1)
        assert inside[flies].all()
        for weapon in Weapon:
            longest = rules.substeps(WEAPONS[weapon].lifetime_s) if SLOTS[weapon] else 0
            within(weapon.name, after.shots.ttl[:, roster.shots.span[int(weapon)]], 0, longest)
        for name, value in after.tally.items():
            assert (value >= before.tally.get(name)).all(), name


@random_battles
def test_hulls_overlap_neither_hulls_nor_walls_and_stay_on_the_map(config, seed):
    for sim_model, _, after in moments(config, seed):
        mechs, half = after.mechs, sim_model.roster.half_size
        alive = mechs.alive
        gaps = (mechs.pos[:, :, None] - mechs.pos[:, None]).abs() - half[:, None] - half
        meets = (gaps < -TOUCH).all(-1) & alive[:, :, None] & alive[:, None]
        assert not (meets & ~torch.eye(config.num_mechs, dtype=torch.bool)).any()
        assert ((mechs.pos - half >= -TOUCH) & (mechs.pos + half <= sim_model.size + TOUCH)).all()
        low, high = (mechs.pos - half + TOUCH).floor().long(), (mechs.pos + half - TOUCH).floor().long()
        solid = torch.tensor([MATERIALS[m].solid for m in Material])[
            torch.from_numpy(voxels_of(after, sim_model)).long()
        ]
        for b, n in alive.nonzero().tolist():
            (x, y, z), (to_x, to_y, to_z) = low[b, n].tolist(), high[b, n].tolist()
            assert not solid[b, z : to_z + 1, y : to_y + 1, x : to_x + 1].any(), (b, n)


@random_battles
def test_each_death_is_counted_once(config, seed):
    """Kills, own-team kills and deaths by terrain are all deaths, and dead mechs stay dead."""
    for sim_model, before, after in moments(config, seed):
        ground = standing_on(before, sim_model)
        burn = is_material(ground, Material.LAVA) + DEBRIS_DAMAGE * is_material(ground, Material.DEBRIS_FIELD)
        burn = burn * sim_model.rules.lava_damage_per_s * sim_model.rules.dt_s
        alive, dead = before.mechs.alive, ~before.mechs.alive
        burnt = alive & (before.mechs.hp <= burn)
        died = alive & ~after.mechs.alive
        credited = after.tally.kills - before.tally.kills + after.tally.team_kills - before.tally.team_kills
        assert torch.equal(died.sum(1), burnt.sum(1) + credited.sum(1).long())
        assert not after.mechs.alive[dead].any()
        assert torch.equal(after.mechs.pos[dead], before.mechs.pos[dead]) and (after.mechs.vel[dead] == 0).all()
        assert torch.equal(after.tally.shots[dead], before.tally.shots[dead])
        assert ((after.tally.assists - before.tally.assists).sum(1) <= credited.sum(1)).all()
        lost = (before.mechs.hp - after.mechs.hp).sum(1)
        dealt = (after.tally.damage - before.tally.damage).sum(1)
        assert (dealt <= lost + 1e-3).all()


@random_battles
def test_terrain_changes_only_by_the_rules(config, seed):
    """Walls and leaves become air, air and dirt become rubble. Nothing changes if destruction is off."""
    breakable = torch.tensor([int(m) for m in Material if MATERIALS[m].hp < math.inf])
    empty = torch.tensor([int(Material.AIR), int(Material.DIRT)])
    rubble = torch.tensor([int(Material.SOLID_DEBRIS), int(Material.DEBRIS_FIELD)])
    for sim_model, before, after in moments(config, seed):
        old, new = torch.from_numpy(voxels_of(before, sim_model)), torch.from_numpy(voxels_of(after, sim_model))
        broken = torch.isin(old, breakable)
        becomes_air = broken & (new == int(Material.AIR))
        becomes_rubble = (broken | torch.isin(old, empty)) & torch.isin(new, rubble)
        assert ((old == new) | becomes_air | becomes_rubble).all()
        assert config.features.destruction or torch.equal(old, new)
        assert torch.equal(after.terrain.solid, columns_of(new, "solid"))
        assert torch.equal(after.terrain.opaque, columns_of(new, "opaque"))
        hp = torch.tensor([MATERIALS[m].hp for m in Material])[new.long()]
        assert (after.terrain.damage < hp).all() and not after.terrain.damage[hp.isinf()].any()


@random_battles
def test_reward_terms_sum_to_the_reward(config, seed):
    env, rng, count = begin(config, seed)
    spec = env.observation_spec
    td = env.reset().clone()
    env.state = begin(config, seed)[0].state
    for _ in range(3):
        told = random_actions(rng, BATTLES, count, config.comm_dim)
        for group, span in env.teams.items():
            td[group, "action"] = told[:, span]
        following, td = env.step_and_maybe_reset(td)
        following = following["next"]
        assert spec.is_in(following.select(*spec.keys(True, True)))
        for group in env.teams:
            reward, terms = following[group, "reward"], following[group, "reward_terms"]
            assert reward.isfinite().all()
            torch.testing.assert_close(terms.sum(-1, keepdim=True), reward, atol=1e-5, rtol=0)
        done, winner = following["done"][:, 0], following["outcome", "winner"][:, 0]
        assert torch.equal(done, winner >= 0)


# Symmetries


def renamed(values, names):
    """Return mech indices under a permutation; -1 (no mech) stays."""
    return torch.where(values < 0, values, names[values.clamp_min(0)])


def swap_teams(state, sim_model, other):
    """Return the same battles with teams swapped, for a model `other` of the swapped rosters."""
    blue, count = sim_model.roster.num_blue, sim_model.roster.num_mechs
    who = torch.tensor([*range(blue, count), *range(blue)])  # new place n holds old mech who[n]
    names = who.argsort()
    packs = torch.tensor(
        [sim_model.roster.pack[who[other.roster.pack == p]][0] for p in range(sim_model.roster.num_packs)]
    )
    keys = {key: s for s, key in enumerate(shot_keys(sim_model))}
    slots = torch.tensor([keys[weapon, int(who[n]), k] for weapon, n, k in shot_keys(other)])
    each = sim_model.roster.clouds_each
    clouds = (who[:, None] * each + torch.arange(each)).flatten()
    mechs = state.mechs.apply(lambda x: x[:, who])
    shots = state.shots.apply(lambda x: x[:, slots])
    swapped = state.replace(
        mechs=mechs.replace(paint=mechs.paint[..., packs], painter=renamed(mechs.painter[..., packs], names)),
        shots=shots.replace(target=renamed(shots.target, names)),
        clouds=state.clouds.apply(lambda x: x[:, clouds]),
        tally=state.tally.apply(lambda x: x[:, who]),
        terrain=state.terrain.clone(),
        focus_slots=renamed(state.focus_slots[:, who], names),
        messages=state.messages[:, who],
        score=state.score.flip(1),
        control=state.control.flip(1),
    )
    return swapped, who


def expect_alike(one, other, sim_model):
    """Check that all fields are equal within `TOLERANCE`; shots and clouds only where they are active."""
    for name, value in one.mechs.items():
        theirs = other.mechs.get(name)
        gap = wrap_angle(value - theirs) if name == "yaw" else value.double() - theirs.double()
        painted = one.mechs.paint > 0 if name == "painter" else torch.ones_like(gap, dtype=torch.bool)
        assert (gap[painted].abs() <= TOLERANCE).all(), (name, gap.abs().max())
    for part in ("shots", "clouds"):
        mine, theirs = getattr(one, part), getattr(other, part)
        assert torch.equal(mine.ttl, theirs.ttl), part
        there = mine.ttl > 0
        for name, value in mine.items():
            assert (value[there].double() - theirs.get(name)[there].double()).abs().le(TOLERANCE).all(), (part, name)
    for part in ("terrain", "tally"):
        for name, value in getattr(one, part).items():
            gap = value.double() - getattr(other, part).get(name).double()
            assert (gap.abs() <= 10 * TOLERANCE).all(), (part, name, gap.abs().max())
    assert (one.score - other.score).abs().le(TOLERANCE).all()


@random_battles
def test_team_swap_gives_same_battle_for_any_rosters(config, seed):
    """With teams, orders and samples swapped the battle is the same within 2e-4 (sums have another order)."""
    env, rng, count = begin(config, seed)
    sim_model, state = env.sim_model, env.state
    swapped = dataclasses.replace(config, blue=config.red, red=config.blue)
    other = build_model(swapped, build_roster(swapped, CPU), sim_model.maps)
    mirrored, who = swap_teams(state, sim_model, other)
    for _ in range(3):
        told = random_actions(rng, BATTLES, count, config.comm_dim)
        draws = random_draws(rng, BATTLES, count)
        orders = actions.decode(told, state.focus_slots, sim_model.roster, config.features)
        theirs = actions.decode(told[:, who], mirrored.focus_slots, other.roster, config.features)
        turned = step.Draws(*(getattr(draws, f.name)[:, who] for f in dataclasses.fields(draws)))
        state = zone.score(step.substep(state, orders, draws, sim_model), sim_model)
        mirrored = zone.score(step.substep(mirrored, theirs, turned, other), other)
        expect_alike(swap_teams(state, sim_model, other)[0], mirrored, other)


def mirror_maps(maps, size_x):
    """Return the maps with east and west exchanged, without fields that only observations read."""
    center = maps.zone_center.clone()
    center[:, 0] = size_x - center[:, 0]
    flipped = {name: maps.get(name).flip(-1) for name in ("material", "solid", "opaque", "hazard", "path_length")}
    return maps.replace(zone_center=center, **flipped)


def mirror(state, size_x):
    """Return the same battles with east and west exchanged."""
    turn = torch.tensor([-1.0, 1.0, 1.0])
    shift = torch.tensor([float(size_x), 0.0, 0.0])
    mechs, shots, clouds = state.mechs, state.shots, state.clouds
    flies = (shots.ttl > 0)[..., None]
    return state.replace(
        mechs=mechs.replace(
            pos=shift + turn * mechs.pos,
            vel=turn * mechs.vel,
            yaw=wrap_angle(math.pi - mechs.yaw),
            hit_from=turn[:2] * mechs.hit_from,
        ),
        shots=shots.replace(pos=torch.where(flies, shift + turn * shots.pos, 0.0), vel=turn * shots.vel),
        clouds=clouds.replace(pos=shift + turn * clouds.pos),
        terrain=state.terrain.apply(lambda x: x.flip(-1).clone()),
    )


@random_battles
def test_mirrored_map_gives_mirrored_battle(config, seed):
    """On a mirrored map, with mirrored actions, the battle is mirrored within 2e-4 (positions round differently)."""
    env, rng, count = begin(config, seed)
    sim_model, state, size_x = env.sim_model, env.state, config.world.size_x
    other = build_model(config, sim_model.roster, mirror_maps(sim_model.maps, size_x))
    mirrored = mirror(state, size_x)
    for _ in range(3):
        told = random_actions(rng, BATTLES, count, config.comm_dim)
        turned = told.clone()
        turned[..., [Act.STRAFE, Act.YAW_RATE]] *= -1
        draws = random_draws(rng, BATTLES, count)
        orders = actions.decode(told, state.focus_slots, sim_model.roster, config.features)
        theirs = actions.decode(turned, mirrored.focus_slots, sim_model.roster, config.features)
        state = zone.score(step.substep(state, orders, draws, sim_model), sim_model)
        mirrored = zone.score(step.substep(mirrored, theirs, draws, other), other)
        expect_alike(mirror(state, size_x), mirrored, other)


@pytest.mark.long
@random_battles
def test_battles_are_independent(config, seed):
    """A single battle and its observations equal those in a batch, bit for bit."""
    env, rng, count = begin(config, seed)
    sim_model, start = env.sim_model, env.state
    told = [random_actions(rng, BATTLES, count, config.comm_dim) for _ in range(2)]

    def play(which):
        state = start[which].clone()
        for numbers in told:
            orders = actions.decode(numbers[which], state.focus_slots, sim_model.roster, config.features)
            state = zone.score(step.decide(state, orders, sim_model), sim_model)
            state, streams = observe(state, orders, sim_model)
        return state.to_tensordict(), streams

    together, seen = play(slice(0, BATTLES))
    for b in range(BATTLES):
        alone, seen_alone = play(slice(b, b + 1))
        for name in together.keys(True, True):
            assert torch.equal(together[name][b : b + 1], alone[name]), name
        for name in seen:
            assert torch.equal(seen[name][b : b + 1], seen_alone[name]), name


@random_battles
def test_loops_equal_dense_form(config, seed):
    """From any state, a decision in loops gives the bits of the dense form, and the same observations."""
    env, rng, count = begin(config, seed)
    sim_model, state = env.sim_model, env.state
    loops = Loops(sim_model, Blocks(BATTLES, torch.device("cpu"), most=BATTLES))
    for _ in range(2):
        told = random_actions(rng, BATTLES, count, config.comm_dim)
        orders = actions.decode(told, state.focus_slots, sim_model.roster, config.features)
        other, seen_by_loops = loops.play(copied(state), told)
        state, seen = observe(zone.score(step.decide(copied(state), orders, sim_model), sim_model), orders, sim_model)
        expect_same(state.to_tensordict(), other.to_tensordict())
        expect_same(TensorDict(seen), TensorDict(seen_by_loops))


def expect_same(one, other):
    """Check equal names, types and bits."""
    assert set(one.keys(True, True)) == set(other.keys(True, True))
    for name in one.keys(True, True):
        assert one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]), name


@pytest.mark.long
def test_compiled_equals_eager_within_tolerance():
    """One compilation of a 5v5 substep with all kinds of shots; fused kernels round differently: 1e-3."""
    config = dataclasses.replace(SMALL, map_pool=8)
    roster = build_roster(config, CPU)
    env = EchelonEnv(config, 16, "cpu", seed=5, maps=make_pool(config, roster, CPU))
    sim_model, rng = env.sim_model, random.Random(1)
    compiled = torch.compile(step.substep, fullgraph=True, dynamic=False)
    for seed in range(4):
        state = scramble(env.state, sim_model, sim_model.maps.material[env.state.map_id].numpy(), seed)
        told = random_actions(rng, 16, config.num_mechs, config.comm_dim)
        orders = actions.decode(told, state.focus_slots, roster, config.features)
        draws = random_draws(rng, 16, config.num_mechs)
        one = step.substep(copied(state), orders, draws, sim_model).to_tensordict()
        other = compiled(copied(state), orders, draws, sim_model).to_tensordict()
        for name in one.keys(True, True):
            torch.testing.assert_close(other[name], one[name], atol=1e-3, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")

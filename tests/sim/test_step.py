"""Properties of a whole substep."""

import dataclasses
import itertools
import math

import pytest
import torch
from builders import brawl, scene

from echelon.env import outcome
from echelon.env.env import EchelonEnv
from echelon.env.objectives import zone
from echelon.env.observation import layout
from echelon.rules import actions
from echelon.rules.actions import NO_MECH, Act
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig
from echelon.runtime import noise
from echelon.sim import step

BATTLES, DECISIONS, TEAM = 8, 14, 5


@pytest.fixture(scope="module")
def env():
    """Return battles on generated maps, played until the teams fight."""
    env = EchelonEnv(dataclasses.replace(EnvConfig.small(), map_pool=BATTLES), BATTLES, "cpu", seed=4)
    generator = torch.Generator().manual_seed(6)
    td = env.reset()
    for _ in range(40):
        _, td = env.step_and_maybe_reset(brawl(td, generator))
    return env


@pytest.fixture(scope="module")
def melee():
    """Return battles of two undamaged, unsteady packs that face each other across foliage and a glass wall."""
    boxes = ((14, 24, 19, 20, 1, 4, Material.FOLIAGE), (26, 31, 19, 20, 1, 3, Material.GLASS))
    s = scene(EnvConfig.small(), *boxes, batch=BATTLES)
    for n in range(TEAM):
        s.place(n, 10 + 4 * n, 17.0, yaw=math.pi / 2).place(n + TEAM, 10 + 4 * n, 22.0, yaw=-math.pi / 2)
        s.set(n, stability=30).set(n + TEAM, stability=30)
    return s


def moment(battles):
    """Return a copy of the battles for one test, because a substep modifies the terrain in place."""
    return battles.state.clone()


def swap_mechs(values):
    """Swap blue and red mechs in `[B, N, ...]`."""
    return values.roll(TEAM, 1)


def renamed(index):
    """Return indices of mechs after the swap."""
    return torch.where(index == NO_MECH, index, (index + TEAM) % (2 * TEAM))


def swap_shots(values, roster):
    """Swap blue and red shot slots in `[B, S, ...]`. Each weapon has blue slots first, then as many red ones."""
    return torch.cat([values[:, span].roll((span.stop - span.start) // 2, 1) for span in roster.shots.span], 1)


def swap_teams(state, roster):
    """Return the same battles with the teams swapped."""
    mechs = state.mechs.apply(swap_mechs)
    shots = state.shots.apply(lambda values: swap_shots(values, roster))
    return state.replace(
        mechs=mechs.replace(paint=mechs.paint.flip(-1), painter=renamed(mechs.painter).flip(-1)),  # one pack per team
        shots=shots.replace(target=renamed(shots.target)),
        clouds=state.clouds.apply(lambda values: values.roll(TEAM * roster.clouds_each, 1)),
        terrain=state.terrain.clone(),
        tally=state.tally.apply(swap_mechs),
        score=state.score.flip(1),
        control=state.control.flip(1),
        messages=swap_mechs(state.messages),
        focus_slots=swap_mechs(renamed(state.focus_slots)),
    )


def play(battles):
    """Play some decisions with random orders and draws, on the battles and on their swapped copies."""
    generator = torch.Generator().manual_seed(7)
    sim_model, state = battles.sim_model, moment(battles)
    state = torch.cat((state, swap_teams(state, sim_model.roster)))

    def dealt(*shape):
        values = torch.rand(shape, generator=generator)
        return torch.cat((values, swap_mechs(values)))

    winners = []
    for _ in range(DECISIONS):
        told = dealt(BATTLES, 2 * TEAM, layout.action_width(sim_model.config.comm_dim)) * 2 - 1
        told[..., [Act.PRIMARY, Act.SECONDARY, Act.TERTIARY]] += 0.9
        told[..., Act.VENT] -= 0.8
        told[..., Act.SPECIAL] -= 0.9
        orders = actions.decode(told, state.focus_slots, sim_model.roster, sim_model.config.features)
        for _ in range(sim_model.rules.decision_repeat):
            draws = step.Draws(*(dealt(BATTLES, 2 * TEAM) for _ in dataclasses.fields(step.Draws)))
            state = step.substep(state, orders, draws, sim_model)
        state = zone.score(state, sim_model)
        winners.append(outcome.judge(state, sim_model).winner)
    winners = torch.stack(winners)
    return (state[:BATTLES], winners[:, :BATTLES]), (state[BATTLES:], winners[:, BATTLES:])


@pytest.mark.parametrize("start", ["env", "melee"])
def test_swapping_the_teams_swaps_the_result(start, request):
    """Swapping the teams, their orders and their draws swaps the outcome, to 1e-3, because sums change their order."""
    battles = request.getfixturevalue(start)
    before, roster = battles.state, battles.sim_model.roster
    (plain, winners), (mirrored, mirrored_winners) = play(battles)
    assert (plain.tally.damage - before.tally.damage).sum() > 500
    assert (plain.tally.kills - before.tally.kills).sum() > 0
    assert plain.terrain.rubble.any() and not torch.equal(plain.terrain.solid, before.terrain.solid)
    if start == "melee":
        assert (plain.tally.shots.sum((0, 1)) > 0).all()  # every weapon fires
        for name in ("assists", "intercepts", "shutdowns", "falls"):
            assert plain.tally.get(name).any(), name
    one, other = plain.to_tensordict(), swap_teams(mirrored, roster).to_tensordict()
    for name in one.keys(True, True):
        torch.testing.assert_close(one[name], other[name], atol=1e-3, rtol=0, msg=lambda m, n=name: f"{n}: {m}")
    exchanged = torch.where(mirrored_winners > 0, 3 - mirrored_winners, mirrored_winners)
    assert torch.equal(winners, exchanged)


def test_substep_modifies_only_the_terrain_of_its_input(env):
    state = moment(env)
    kept = state.clone()
    orders = actions.idle(BATTLES, env.sim_model.roster, env.sim_model.config)
    orders = dataclasses.replace(orders, fire=(env.sim_model.roster.trigger >= 0).expand_as(orders.fire))
    later = step.substep(state, orders, step.draw(state, env.sim_model), env.sim_model)
    assert later.terrain.damage.data_ptr() == state.terrain.damage.data_ptr()  # the terrain is modified in place
    for name in state.keys(True, True):
        if name[0] != "terrain":
            assert torch.equal(state.get(name), kept.get(name)), name


def test_draws_follow_from_seed_and_tick(env):
    state = env.state
    first = step.draw(state, env.sim_model)
    again, later = step.draw(state, env.sim_model), step.draw(state.replace(tick=state.tick + 1), env.sim_model)
    names = [field.name for field in dataclasses.fields(step.Draws)]
    assert names == ["beam_height", "priority", "ams", "wreck"]
    for name in names:
        assert torch.equal(getattr(first, name), getattr(again, name)), name
        assert not torch.equal(getattr(first, name), getattr(later, name)), name
    for one, other in itertools.combinations(names, 2):
        assert not torch.equal(getattr(first, one), getattr(first, other)), (one, other)
    assert torch.equal(
        first.priority[3:4], noise.uniform(state.seed[3:4], state.tick[3:4], noise.Stream.PRIORITY, 2 * TEAM)
    )


def test_decision_runs_decision_repeat_substeps(env):
    state, by_hand = moment(env), moment(env)
    orders = actions.idle(BATTLES, env.sim_model.roster, env.sim_model.config)
    for _ in range(5):
        by_hand = step.substep(by_hand, orders, step.draw(by_hand, env.sim_model), env.sim_model)
    decided = step.decide(state, orders, env.sim_model)
    assert (decided.tick - env.state.tick == 5).all()
    assert torch.equal(decided.mechs.pos, by_hand.mechs.pos)


def test_messages_of_living_mechs_are_stored(env):
    state = moment(env)
    state.mechs.hp[:, :3] = 500
    state.mechs.hp[:, 3] = 0
    orders = actions.idle(BATTLES, env.sim_model.roster, env.sim_model.config)
    spoken = dataclasses.replace(orders, message=torch.full_like(orders.message, 0.5), bad=orders.bad + 2)
    state = step.decide(state, spoken, env.sim_model)
    assert (state.messages[:, 3] == 0).all() and (state.messages[:, :3] == 0.5).all()
    assert (state.tally.bad_actions - env.state.tally.bad_actions == 2).all()

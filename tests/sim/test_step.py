"""A whole substep: what it must not depend on."""

import dataclasses

import pytest
import torch
from builders import brawl

from echelon import actions, noise
from echelon.actions import Act
from echelon.config import EnvConfig
from echelon.env import layout, outcome, zone
from echelon.env.env import EchelonEnv
from echelon.sim import step

BATTLES, DECISIONS, TEAM = 8, 20, 5


@pytest.fixture(scope="module")
def env():
    """Battles on generated maps, played until the teams are upon each other."""
    env = EchelonEnv(dataclasses.replace(EnvConfig.small(), map_pool=BATTLES), BATTLES, "cpu", seed=4)
    generator = torch.Generator().manual_seed(6)
    td = env.reset()
    for _ in range(50):
        _, td = env.step_and_maybe_reset(brawl(td, generator))
    return env


def swap_mechs(values):
    """`[B, N, ...]` with the places of blue and red exchanged."""
    return values.roll(TEAM, 1)


def swap_teams(state):
    """The same battles with the colours of the teams exchanged."""
    half = state.shots.ttl.shape[1] // 2
    target = state.focus_slots
    renamed = torch.where(target == actions.NO_MECH, target, (target + TEAM) % (2 * TEAM))
    return state.replace(
        mechs=state.mechs.apply(swap_mechs),
        shots=state.shots.apply(lambda x: x.roll(half, 1)),
        tally=state.tally.apply(swap_mechs),
        score=state.score.flip(1),
        control=state.control.flip(1),
        messages=swap_mechs(state.messages),
        focus_slots=swap_mechs(renamed),
    )


def play(env, swapped):
    """Some decisions of random orders and draws, dealt to each mech whichever colour it wears."""
    generator = torch.Generator().manual_seed(7)
    state = swap_teams(env.state) if swapped else env.state

    def dealt(*shape):
        values = torch.rand(shape, generator=generator)
        return swap_mechs(values) if swapped else values

    winners = []
    for _ in range(DECISIONS):
        told = dealt(BATTLES, 2 * TEAM, layout.action_width(env.game.config.comm_dim)) * 2 - 1
        told[..., [Act.PRIMARY, Act.SECONDARY, Act.TERTIARY]] += 0.9
        told[..., Act.VENT] -= 0.8
        orders = actions.decode(told, state.focus_slots, env.game.roster)
        for _ in range(env.game.rules.decision_repeat):
            draws = step.Draws(dealt(BATTLES, 2 * TEAM), dealt(BATTLES, 2 * TEAM))
            state = step.substep(state, orders, draws, env.game)
        state = zone.score(state, env.game)
        winners.append(outcome.judge(state, env.game).winner)
    return state, torch.stack(winners)


def test_colours_do_not_matter(env):
    """Swapping the teams, their orders and their draws swaps the outcome, to 1e-3: sums over shooters run in another
    order."""
    plain, winners = play(env, swapped=False)
    mirrored, mirrored_winners = play(env, swapped=True)
    assert (plain.tally.damage - env.state.tally.damage).sum() > 500
    assert (plain.tally.kills - env.state.tally.kills).sum() > 0
    one, other = plain.to_tensordict(), swap_teams(mirrored).to_tensordict()
    for name in one.keys(True, True):
        torch.testing.assert_close(one[name], other[name], atol=1e-3, rtol=0, msg=lambda m, n=name: f"{n}: {m}")
    exchanged = torch.where(mirrored_winners > 0, 3 - mirrored_winners, mirrored_winners)
    assert torch.equal(winners, exchanged)


def test_a_substep_leaves_its_input_alone(env):
    state = env.state
    kept = state.clone()
    orders = actions.idle(BATTLES, env.game.roster, env.game.config.comm_dim)
    orders = dataclasses.replace(orders, fire=torch.ones_like(orders.fire))
    step.substep(state, orders, step.draw(state, env.game), env.game)
    assert all(torch.equal(a, b) for a, b in zip(state.values(True, True), kept.values(True, True), strict=True))


def test_draws_follow_from_seed_and_tick(env):
    state = env.state
    first = step.draw(state, env.game)
    again, later = step.draw(state, env.game), step.draw(state.replace(tick=state.tick + 1), env.game)
    assert torch.equal(first.priority, again.priority) and torch.equal(first.beam_height, again.beam_height)
    assert not torch.equal(first.priority, later.priority)
    assert not torch.equal(first.priority, first.beam_height)
    assert torch.equal(
        first.priority[3:4], noise.uniform(state.seed[3:4], state.tick[3:4], noise.Stream.PRIORITY, 2 * TEAM)
    )


def test_a_decision_is_five_substeps(env):
    state = env.state
    orders = actions.idle(BATTLES, env.game.roster, env.game.config.comm_dim)
    by_hand = state
    for _ in range(5):
        by_hand = step.substep(by_hand, orders, step.draw(by_hand, env.game), env.game)
    decided = step.decide(state, orders, env.game)
    assert (decided.tick - state.tick == 5).all()
    assert torch.equal(decided.mechs.pos, by_hand.mechs.pos)


def test_what_is_said_is_noted_and_the_dead_say_nothing(env):
    state = env.state.clone()
    state.mechs.hp[:, :3] = 50
    state.mechs.hp[:, 3] = 0
    orders = actions.idle(BATTLES, env.game.roster, env.game.config.comm_dim)
    spoken = dataclasses.replace(orders, message=torch.full_like(orders.message, 0.5), bad=orders.bad + 2)
    state = step.decide(state, spoken, env.game)
    assert (state.messages[:, 3] == 0).all() and (state.messages[:, :3] == 0.5).all()
    assert (state.tally.bad_actions - env.state.tally.bad_actions == 2).all()

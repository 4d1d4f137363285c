"""Which reward terms telescope over a life, a battle, a truncated battle and a restart, in both forms of a decision."""

import dataclasses
from typing import NamedTuple

import pytest
import torch
from builders import weak_catalog
from torch import Tensor

from echelon.agents.env_teams import EnvTeams, TeamSlice
from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.env.objectives.zone import path_length
from echelon.rules.config import EnvConfig, RewardConfig, WorldConfig
from echelon.rules.physics import RulesConfig

GAMMA = 0.9
ONES = dict.fromkeys(("approach", "zone", "damage", "kill", "assist", "death", "terminal"), 1.0)
CONFIG = dataclasses.replace(
    EnvConfig.small(),
    world=WorldConfig(40, 40, 12),
    rules=RulesConfig(max_episode_s=6.0),
    reward=RewardConfig(**ONES, contested_offence=1.0, contested_death=1.0, team_mix_alpha=1.0, gamma=GAMMA),
    catalog=weak_catalog(),
    map_pool=2,
)


class Decision(NamedTuple):
    """What one decision of all battles left behind; `[B, N]`, or `[B]` of battles."""

    terms: dict[str, Tensor]
    path_before: Tensor
    path_after: Tensor
    alive: Tensor
    tally: dict[str, Tensor]
    terminated: Tensor
    truncated: Tensor
    winner: Tensor


@pytest.fixture(scope="module", params=["eager", "loops"])
def decisions(request) -> list[Decision]:
    """90 decisions of 6 battles, which restart."""
    seats = EnvTeams(
        {name: Heuristic(CONFIG, name) for name in ("expert", "hard")},
        {"expert": [TeamSlice("blue", slice(0, 6))], "hard": [TeamSlice("red", slice(0, 6))]},
    )
    env = EchelonEnv(CONFIG, num_envs=6, seed=4, backend=request.param, memory=seats.memory)
    td, played = env.reset(), []
    for _ in range(90):
        seats.decide(td)
        before = path_length(env.state, env.sim_model).clone()
        after = env.step(td)["next"]
        paid = torch.cat([after[group, "reward_terms"] for group in env.teams], 1)
        tally = {name: getattr(env.state.tally, name).clone() for name in ("damage", "kills", "assists", "zone_s")}
        played.append(
            Decision(
                dict(zip(env.reward_terms, paid.unbind(-1), strict=True)),
                before,
                path_length(env.state, env.sim_model).clone(),
                env.state.mechs.alive.clone(),
                tally,
                after["terminated"][:, 0],
                after["truncated"][:, 0],
                after["outcome", "winner"][:, 0],
            )
        )
        td = env.maybe_reset(env._step_mdp(td))
    return played


def battles(decisions: list[Decision]) -> list[tuple[int, list[Decision]]]:
    """Each battle that ended: its place in the batch, and its decisions."""
    found = []
    for b in range(6):
        ends = [t for t, decision in enumerate(decisions) if decision.terminated[b] or decision.truncated[b]]
        for start, end in zip([0, *[t + 1 for t in ends]], ends, strict=False):
            found.append((b, decisions[start : end + 1]))
    return found


def test_battles_end_in_every_way(decisions):
    ends = [(bool(lived[-1].terminated[b]), bool(lived[-1].truncated[b])) for b, lived in battles(decisions)]
    assert {True, False} == {terminated for terminated, _ in ends} and len(ends) > 12
    deaths = sum(int((~lived[-1].alive[b]).sum()) for b, lived in battles(decisions))
    assert deaths > 20


def test_discounted_approach_telescopes_over_each_life(decisions):
    """gamma^T phi_T - phi_0 from a restart to the last decision before a death or an end. The decision of a death pays
    nothing, and the potential of a terminal state is not set to 0."""
    for b, lived in battles(decisions):
        for n in range(10):
            steps = sum(bool(decision.alive[b, n]) for decision in lived)
            paid = sum(GAMMA**t * float(decision.terms["approach"][b, n]) for t, decision in enumerate(lived))
            phi_0 = -float(lived[0].path_before[b, n])
            phi_end = -float(lived[steps - 1].path_after[b, n]) if steps else phi_0
            assert paid == pytest.approx(GAMMA**steps * phi_end - phi_0, abs=1e-5)


@pytest.mark.parametrize(("term", "counter"), [("damage", "damage"), ("kill", "kills"), ("assist", "assists")])
def test_sum_over_a_battle_is_the_final_tally(decisions, term, counter):
    """Truncated battles included; a restart starts from 0."""
    total = 0.0
    for b, lived in battles(decisions):
        paid = sum(decision.terms[term][b] for decision in lived)
        torch.testing.assert_close(paid, lived[-1].tally[counter][b].float(), atol=1e-3, rtol=1e-5)
        total += float(paid.sum())
    assert total > 0 or term == "assist"


def test_death_is_paid_once_a_life(decisions):
    for b, lived in battles(decisions):
        assert torch.equal(sum(decision.terms["death"][b] for decision in lived), (~lived[-1].alive[b]).float())


def test_terminal_is_paid_by_termination_only(decisions):
    seen = set()
    for b, lived in battles(decisions):
        winner = int(lived[-1].winner[b]) if lived[-1].terminated[b] else 0
        side = {1: 1.0, 2: -1.0}.get(winner, 0.0)
        expected = torch.tensor([side] * 5 + [-side] * 5)
        assert torch.equal(sum(decision.terms["terminal"][b] for decision in lived), expected)
        seen.add((bool(lived[-1].terminated[b]), winner))
    assert any(winner != 0 for _, winner in seen)


def test_zone_is_no_potential(decisions):
    """It pays the control of each decision with seconds in the zone; the sum depends on how long a mech stays."""
    sums = {round(float(sum(d.terms["zone"][b] for d in lived).sum()), 2) for b, lived in battles(decisions)}
    assert len(sums) > 3
    for b, lived in battles(decisions):
        in_zone = lived[-1].tally["zone_s"][b] > 0
        paid = sum(decision.terms["zone"][b] for decision in lived)
        assert not paid[~in_zone].any() and (paid >= 0).all()

"""Reward terms, their weights and their sum."""

import dataclasses

import pytest
import torch
from builders import arena, brawl, scene, told
from first_catalog import SMALL, Weapon
from torchrl.envs import check_env_specs

import echelon
from echelon.env import decision, engine, outcome, reward
from echelon.env.env import EchelonEnv
from echelon.env.objectives import zone
from echelon.env.outcome import Ending, Reason, Winner
from echelon.env.reward import TERMS, RewardTerm
from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.rules.config import RewardConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.specs import Hull
from echelon.runtime.compile import fused
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.quick

DUEL = dataclasses.replace(SMALL, blue=("medium",) * 2, red=("medium",) * 2)
"""On the builders' map, mechs 0 and 1 are blue, 2 and 3 red, and the zone is at (20, 20) with radius 7.5."""


def rewards(td):
    """Return rewards `[B, N]`, blue first."""
    return torch.cat([td["next", g, "reward"] for g in ("blue", "red")], 1).squeeze(-1)


def ending(winner=-1, terminated=False, truncated=False):
    return Ending(
        terminated=torch.tensor([terminated]),
        truncated=torch.tensor([truncated]),
        winner=torch.tensor([winner], dtype=torch.int8),
        reason=torch.tensor([0], dtype=torch.int8),
    )


def field():
    """Return two states, before and after, which are equal until a test changes one."""
    s = scene(DUEL).place(0, 2, 2).place(1, 2, 8).place(2, 38, 38).place(3, 38, 32)
    return s, s.state.clone()


def terms(s, before, verdict=None):
    return {k: v[0].tolist() for k, v in reward.terms(before, s.state, verdict or ending(), s.sim_model).items()}


def test_every_term_has_a_weight():
    s, before = field()
    weights = {f.name for f in dataclasses.fields(RewardConfig)}
    assert set(terms(s, before)) == set(TERMS) <= weights
    assert TERMS == ("approach", "zone", "damage", "kill", "assist", "death", "terminal")


def test_approach_is_the_discounted_distance_gained():
    s, before = field()
    s.place(0, 10.5, 20.5)
    cell_before, cell_after = (2, 2), (10, 20)
    lengths = s.sim_model.maps.path_length[0]
    was, now = (lengths[y, x].item() / 40 for x, y in (cell_before, cell_after))
    assert terms(s, before)["approach"][0] == pytest.approx(was - 0.995 * now, abs=1e-6)


def test_dead_mechs_get_no_approach_reward():
    s, before = field()
    s.place(0, 10.5, 20.5).set(0, hp=0)
    assert terms(s, before)["approach"][0] == 0


def test_zone_term_pays_the_team_tick_inside_the_zone():
    s, before = field()
    s.place(0, 20, 20).place(2, 24, 20)
    s.state = zone.score(s.state, s.sim_model)
    s.state.control[:] = torch.tensor([[0.6, 0.25]])
    assert terms(s, before)["zone"] == pytest.approx([0.6, 0, 0.25, 0])


@pytest.mark.parametrize(
    ("control", "inside", "factor"),
    [([0.0, 0.0], False, 1), ([0.25, 0.25], False, 1), ([1.0, 0.0], True, 1), ([0.25, 0.25], True, 2)],
)
def test_offence_has_a_factor_in_a_contested_zone(control, inside, factor):
    s, before = field()
    if inside:
        before.mechs.pos[0, 0, :2] = 20
    before.control[:] = torch.tensor([control])
    s.state.tally.damage[0, 0] = 14
    s.state.tally.kills[0, 0] = 1
    s.state.tally.assists[0, 0] = 2
    got = terms(s, before)
    assert got["damage"] == [14 * factor, 0, 0, 0] and got["kill"] == [factor, 0, 0, 0]
    assert got["assist"] == [2 * factor, 0, 0, 0]


@pytest.mark.parametrize(
    ("control", "inside", "share"), [([0.25, 0.25], True, 0.5), ([1.0, 0.0], True, 1), ([0.25, 0.25], False, 1)]
)
def test_death_has_a_factor_in_a_contested_zone(control, inside, share):
    s, before = field()
    if inside:
        before.mechs.pos[0, 0, :2] = 20
    s.set(0, hp=0)
    before.control[:] = torch.tensor([control])
    assert terms(s, before)["death"] == [share, 0, 0, 0]


def test_death_is_rewarded_once():
    s, before = field()
    before.mechs.hp[:, 0] = 0
    s.set(0, hp=0)
    assert terms(s, before)["death"] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("verdict", "paid"),
    [
        (ending(1, terminated=True), [1, 1, -1, -1]),
        (ending(2, terminated=True), [-1, -1, 1, 1]),
        (ending(0, terminated=True), [0, 0, 0, 0]),
        (ending(1, truncated=True), [0, 0, 0, 0]),
        (ending(), [0, 0, 0, 0]),
    ],
)
def test_terminal_reward_is_paid_on_termination_only(verdict, paid):
    s, before = field()
    s.set(1, hp=0)  # dead mechs get it too
    assert terms(s, before, verdict)["terminal"] == paid


def test_kill_of_a_painted_target_rewards_killer_and_painter():
    """Blue 0 kills red 2, painted by blue 1: 10 remaining hp are worth 0.05, the kill 1, the assist 0.5."""
    flat = RewardConfig(approach=0, team_mix_alpha=1.0)
    env = arena(dataclasses.replace(DUEL, reward=flat))
    td = env.reset()
    mechs = env.state.mechs
    mechs.pos[0, :, :2] = torch.tensor([[2.0, 10], [2, 16], [8, 10], [38, 38]])
    mechs.yaw[:], mechs.hp[:, 2] = 0, 10
    mechs.paint[:, 2, 0], mechs.painter[:, 2, 0] = 100, 1
    td = env.step(told(env, td, (0, Act.PRIMARY, 1.0)))
    paid = torch.cat([td["next", g, "reward_terms"] for g in ("blue", "red")], 1)[0]
    wanted = torch.zeros(4, len(TERMS))
    wanted[0, TERMS.index("damage")], wanted[0, TERMS.index("kill")] = 0.05, 1.0
    wanted[1, TERMS.index("assist")] = 0.5
    wanted[2, TERMS.index("death")] = flat.death
    torch.testing.assert_close(paid, wanted)


def test_friendly_fire_pays_nothing():
    """Blue's missile explodes beside a comrade and an enemy with 20 hp each; only the enemy's damage counts."""
    weights = RewardConfig(approach=0, zone=0, team_mix_alpha=1.0)
    config = dataclasses.replace(DUEL, blue=("heavy", "medium"), reward=weights)
    env = arena(config, (15, 16, 15, 16, 0, 4, Material.SOLID))
    td = env.reset()
    env.state.mechs.pos[0, :, :2] = torch.tensor([[2.0, 30], [14.5, 13.5], [14.5, 17.5], [38, 38]])
    rack = env.sim_model.roster.shots.span[int(Weapon.MISSILE)].start
    shots = env.state.shots
    shots.pos[0, rack], shots.vel[0, rack] = torch.tensor([14.5, 15.5, 1.5]), torch.tensor([12.0, 0, 0])
    shots.ttl[0, rack] = 10
    td = env.step(told(env, td))
    assert env.state.mechs.hp[0].tolist() == [200, 130, 130, 150]
    assert rewards(td)[0].tolist() == pytest.approx([20 * 0.005, 0, 0, 0])


@pytest.mark.requirement("R51")
@pytest.mark.usual
def test_reward_is_the_weighted_sum_of_the_terms():
    config = dataclasses.replace(SMALL, map_pool=8, reward=RewardConfig(team_mix_alpha=1.0))
    env = EchelonEnv(config, 8, "cpu", seed=2)
    generator = torch.Generator().manual_seed(0)
    td = env.reset()
    seen = torch.zeros(len(TERMS))
    for _ in range(60):
        before = env.state
        td = env.step(brawl(td, generator))
        named = reward.terms(before, env.state, outcome.judge(env.state, env.sim_model), env.sim_model)
        by_hand = torch.stack([getattr(config.reward, name) * named[name] for name in TERMS], -1)
        paid = torch.cat([td["next", g, "reward_terms"] for g in ("blue", "red")], 1)
        torch.testing.assert_close(paid, by_hand)
        torch.testing.assert_close(rewards(td), by_hand.sum(-1))
        seen = seen + by_hand.abs().sum((0, 1))
        td = env.maybe_reset(env._step_mdp(td))
    assert (seen[[TERMS.index(name) for name in ("approach", "zone", "damage", "kill", "death")]] > 0).all()


@pytest.mark.requirement("R51")
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_terms_sum_to_the_reward_for_any_team_mix(alpha):
    config = dataclasses.replace(SMALL, map_pool=2, reward=RewardConfig(team_mix_alpha=alpha))
    env = EchelonEnv(config, 2, "cpu", seed=2)
    td, generator = env.reset(), torch.Generator().manual_seed(0)
    for _ in range(5):
        td, following = env.step_and_maybe_reset(brawl(td, generator))
        for group in ("blue", "red"):
            terms_, paid = td["next", group, "reward_terms"], td["next", group, "reward"]
            assert terms_.shape == (2, 5, len(TERMS)) and paid.any()
            torch.testing.assert_close(terms_.sum(-1, keepdim=True), paid)
        td = following


@pytest.mark.requirement("R51")
@pytest.mark.usual
def test_approach_sum_telescopes_over_a_battle():
    """The discounted sum of the shaping is gamma^T phi_T - phi_0 for any path (Ng et al. 1999)."""
    nothing = dict.fromkeys(TERMS, 0.0)
    only_approach = RewardConfig(**{**nothing, "approach": 1.0}, team_mix_alpha=1.0)
    env = EchelonEnv(dataclasses.replace(SMALL, map_pool=4, reward=only_approach), 4, "cpu", seed=3)
    td, total, gamma = env.reset(), 0.0, only_approach.gamma
    phi_0 = -zone.path_length(env.state, env.sim_model)
    generator, steps = torch.Generator().manual_seed(1), 40
    for t in range(steps):
        td = brawl(td, generator)
        for group in ("blue", "red"):
            td[group, "action"][..., Act.PRIMARY :] = 0  # no shots, no deaths
        td = env.step(td)
        total = total + gamma**t * rewards(td)
        td = env.maybe_reset(env._step_mdp(td))
    assert env.state.mechs.alive.all()
    phi_end = -zone.path_length(env.state, env.sim_model)
    torch.testing.assert_close(total, gamma**steps * phi_end - phi_0, atol=1e-5, rtol=0)
    assert (phi_end > phi_0 + 0.05).any()


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_team_mix(alpha):
    s, before = field()
    sim_model = dataclasses.replace(
        s.sim_model,
        config=dataclasses.replace(DUEL, reward=RewardConfig(approach=1.0, damage=0.005, team_mix_alpha=alpha)),
    )
    s.state.tally.damage[0] = torch.tensor([100.0, 0, 0, 40])
    own = torch.tensor([0.5, 0, 0, 0.2])
    team = torch.tensor([0.25, 0.25, 0.1, 0.1])
    approach = torch.tensor(terms(s, before)["approach"])
    own, team = own + approach, team + approach.view(2, 2).mean(1).repeat_interleave(2)
    mixed = reward.weighted(reward.terms(before, s.state, ending(), sim_model), sim_model.config.reward, sim_model)
    torch.testing.assert_close(mixed[0].sum(-1), alpha * own + (1 - alpha) * team)
    of_damage = alpha * torch.tensor([0.5, 0, 0, 0.2]) + (1 - alpha) * torch.tensor([0.25, 0.25, 0.1, 0.1])
    torch.testing.assert_close(mixed[0, :, TERMS.index("damage")], of_damage)


@pytest.mark.requirement("R51")
def test_alpha_zero_gives_equal_rewards_within_a_team():
    config = dataclasses.replace(SMALL, map_pool=4, reward=RewardConfig(team_mix_alpha=0.0))
    env = EchelonEnv(config, 4, "cpu", seed=3)
    td, generator = env.reset(), torch.Generator().manual_seed(1)
    for _ in range(10):
        td, following = env.step_and_maybe_reset(brawl(td, generator))
        for group in ("blue", "red"):
            paid = td["next", group, "reward"]
            assert torch.equal(paid, paid[:, :1].expand_as(paid)) and paid.any()
        td = following


@pytest.mark.requirement("R52")
def test_dead_mechs_get_the_terminal_reward():
    """A red mech dies early, later all blue mechs die; every red mech gets +5, every blue one -5."""
    only_terminal = RewardConfig(approach=0, zone=0, damage=0, kill=0, death=0, terminal=5.0)
    env = arena(dataclasses.replace(DUEL, reward=only_terminal))
    td = env.reset()
    env.state.mechs.hp[:, 2] = 0
    _, td = env.step_and_maybe_reset(told(env, td))
    assert not td["red", "mask"][0, 0]
    env.state.mechs.hp[:, :2] = 0
    td = env.step(told(env, td))
    assert td["next", "terminated"].all()
    assert rewards(td).tolist() == [[-5, -5, 5, 5]]


@pytest.mark.requirement("R35")
def test_time_up_pays_no_terminal_reward():
    only_terminal = RewardConfig(approach=0, zone=0, damage=0, kill=0, death=0, terminal=5.0)
    config = dataclasses.replace(DUEL, reward=only_terminal, rules=RulesConfig(max_episode_s=0.5))
    env = arena(config)
    td = env.reset()
    env.state.mechs.hp[:, 0] = 0
    _, td = env.step_and_maybe_reset(told(env, td))
    td = env.step(told(env, td))
    assert td["next", "truncated"].all() and td["next", "outcome", "winner"].item() == 2
    assert not rewards(td).any()

    paid = dataclasses.replace(config, rules=dataclasses.replace(config.rules, time_up_terminates=True))
    env = arena(paid)
    td = env.reset()
    env.state.mechs.hp[:, 0] = 0
    _, td = env.step_and_maybe_reset(told(env, td))
    td = env.step(told(env, td))
    assert td["next", "terminated"].all() and rewards(td).tolist() == [[-5, -5, 5, 5]]


# Custom terms


@pytest.mark.usual
def test_custom_term_is_weighted():
    config = dataclasses.replace(SMALL, map_pool=1)
    config = dataclasses.replace(config, reward=dataclasses.replace(config.reward, team_mix_alpha=1.0))
    plain = EchelonEnv(config, 2, "cpu", 1)
    env = EchelonEnv(config, 2, "cpu", 1, maps=plain.sim_model.maps, extra_rewards={"cool": RewardTerm(cool, 0.5)})
    assert env.reward_terms == (*TERMS, "cool")
    check_env_specs(env)
    env.set_seed(1)
    td, other, generator = env.reset(), plain.reset(), torch.Generator().manual_seed(2)
    for _ in range(3):
        brawl(td, generator)
        for group in ("blue", "red"):
            other[group, "action"] = td[group, "action"]
        (step, td), (expected, other) = env.step_and_maybe_reset(td), plain.step_and_maybe_reset(other)
        for group, span in env.teams.items():
            paid = step["next", group, "reward_terms"]
            assert paid.shape == (2, 5, len(TERMS) + 1)
            assert torch.equal(paid[..., :-1], expected["next", group, "reward_terms"])
            assert torch.equal(paid[..., -1], 0.5 * (env.state.mechs.heat[:, span] < 1.0))
            torch.testing.assert_close(step["next", group, "reward"][..., 0], paid.sum(-1))


def test_custom_term_is_mixed_and_in_views():
    config = dataclasses.replace(SMALL, map_pool=1)
    config = dataclasses.replace(config, reward=dataclasses.replace(config.reward, team_mix_alpha=0.0))
    view = echelon.versus(config, "heuristic:trivial", 2, "cpu", 1, extra_rewards={"first": RewardTerm(first_mech)})
    step = view.step(view.rand_action(view.reset()))
    terms = step["next", "agents", "reward_terms"]
    torch.testing.assert_close(terms[..., -1], torch.full((2, 5), 0.2))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"kill": RewardTerm(abs)}, "a name in extra_rewards must be an identifier other than .*kill.* got 'kill'"),
        ({"two words": RewardTerm(abs)}, "a name in extra_rewards must be an identifier"),
        ({"mine": abs}, r"extra_rewards\['mine'\] must be a RewardTerm"),
        ({"mine": RewardTerm(abs, float("inf"))}, r"extra_rewards\['mine'\].weight must be a finite number, got inf"),
    ],
)
def test_invalid_custom_terms_raise(extra, message):
    with pytest.raises(ConfigError, match=message) as error:
        EchelonEnv(SMALL, 1, "cpu", extra_rewards=extra)
    assert "\n" not in str(error.value)


def test_custom_term_of_wrong_shape_raises_one_line():
    config = dataclasses.replace(SMALL, map_pool=1)
    env = EchelonEnv(config, 2, "cpu", 1, extra_rewards={"late": RewardTerm(lambda before, after, *_: after.tick)})
    with pytest.raises(ConfigError, match=r"extra_rewards\['late'\] must be of shape \(2, 10\), got \(2,\)"):
        env.step(env.rand_action(env.reset()))


def cool(before, after, ending, sim_model):
    """Return 1 for mechs without heat."""
    return after.mechs.heat < 1.0


def first_mech(before, after, ending, sim_model):
    """Return 1 for the first mech of each team."""
    return (torch.arange(10) % 5 == 0).expand(2, 10)


def scouts(before, after, ending, sim_model):
    """Return 1 for each living scout, by a comparison that is False in a graph of torch.compile."""
    assert not torch.compiler.is_compiling()
    return after.mechs.alive * (sim_model.roster.hull == Hull.SCOUT)


def winners(before, after, ending, sim_model):
    """Return 1 for mechs of the winning team, 0.5 when time is up, according to `Ending`."""
    won = torch.where(
        sim_model.roster.is_red, ending.winner[:, None] == Winner.RED, ending.winner[:, None] == Winner.BLUE
    )
    return won + 0.5 * ending.truncated[:, None] + 0.25 * (ending.reason[:, None] == Reason.ELIMINATION)


def test_custom_term_with_enum_comparison_works_in_a_graph():
    """Directly, and called by a function that the user compiles."""
    env = EchelonEnv(dataclasses.replace(SMALL, map_pool=1), 2, "cpu", 1, backend="eager")
    env.reset()
    arguments = (
        env.state,
        env.state,
        outcome.judge(env.state, env.sim_model),
        env.sim_model,
        {"scouts": RewardTerm(scouts)},
    )
    per_mech = (env.sim_model.roster.hull == int(Hull.SCOUT)).float().tolist()
    assert sum(per_mech) == 2  # one scout per team
    compiled = fused(reward.extra_terms, torch.device("cpu"), exact=True)
    around = torch.compile(lambda *given: reward.extra_terms(*given), backend="eager")
    for run in (reward.extra_terms, compiled, around):
        assert run(*arguments)["scouts"].tolist() == [per_mech] * 2


@pytest.mark.parametrize("backend", ["eager", "loops"])
def test_custom_terms_receive_endings(backend):
    config = dataclasses.replace(SMALL, map_pool=1, reward=RewardConfig(team_mix_alpha=1.0))
    env = EchelonEnv(config, 3, "cpu", 1, backend=backend, extra_rewards={"won": RewardTerm(winners, 2.0)})
    td = env.rand_action(env.reset())
    env.state.mechs.hp[0, :5] = 0
    env.state.tick[1] = config.rules.max_decisions * config.rules.decision_repeat - config.rules.decision_repeat
    step = env.step(td)["next"]
    paid = torch.cat([step[group, "reward_terms"][..., -1] for group in ("blue", "red")], 1)
    assert paid[0].tolist() == [0.5] * 5 + [2.5] * 5  # red won by elimination
    assert step["truncated"].flatten().tolist() == [False, True, False]
    winner = step["outcome", "winner"][1].item()
    assert paid[1].tolist() == [1.0 + 2.0 * (winner == 1)] * 5 + [1.0 + 2.0 * (winner == 2)] * 5
    assert paid[2].tolist() == [0.0] * 10


@pytest.mark.long
def test_custom_terms_in_a_graph_equal_eager(monkeypatch):
    """Trace the graph of a decision's end without compiling it, which would take minutes."""

    def traced(function, device, **_):
        if function is not decision.score_observe_reward:
            return function
        return torch.compile(function, fullgraph=True, dynamic=False, backend="eager")

    monkeypatch.setattr(engine, "fused", traced)
    terms = {"scouts": RewardTerm(scouts, 0.5), "won": RewardTerm(winners)}
    config = dataclasses.replace(SMALL, map_pool=1, rules=RulesConfig(decision_repeat=1))
    eager = EchelonEnv(config, 2, "cpu", 1, backend="eager", extra_rewards=terms)
    graph = EchelonEnv(config, 2, "cpu", 1, maps=eager.sim_model.maps, backend="graph", extra_rewards=terms)
    one, other, generator = eager.reset(), graph.reset(), torch.Generator().manual_seed(2)
    brawl(one, generator)
    for group in ("blue", "red"):
        other[group, "action"] = one[group, "action"]
    expected, step = eager.step(one)["next"], graph.step(other)["next"]
    for group in ("blue", "red"):
        torch.testing.assert_close(step[group, "reward_terms"], expected[group, "reward_terms"], atol=1e-5, rtol=1e-5)
        assert step[group, "reward_terms"][..., -2].sum() > 0

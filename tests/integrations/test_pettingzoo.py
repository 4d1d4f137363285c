"""One battle with PettingZoo's API: PettingZoo's own tests, and equality with a view."""

import functools

import pytest

pytest.importorskip("pettingzoo")

import matplotlib
import numpy as np
import torch
from battles import EASY, LONG, SHORT, UNEQUAL, with_nan
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test
from torchrl.envs import PettingZooWrapper, check_env_specs

import echelon
from echelon.env.env import EchelonEnv
from echelon.integrations.pettingzoo import env, parallel_env
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError
from echelon.views.view import View

pytestmark = pytest.mark.integrations
matplotlib.use("Agg")
DEATHS = ("stays", "terminates")
FORMS = [
    {},
    {"action": "discrete"},
    {"action": "multi_discrete"},
    {"observation": "structured"},
    {"opponent": EASY, "side": "red"},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("death", DEATHS)
def test_pettingzoo_api_tests_pass(death, form, capsys):
    """Their warnings are errors here."""
    parallel_api_test(parallel_env(LONG, death, **form), num_cycles=50)
    parallel_seed_test(lambda: parallel_env(LONG, death, **form), num_cycles=25)
    render_test(functools.partial(env, SHORT, death, **form))
    if form.keys() <= {"opponent", "side"}:
        api_test(env(LONG, death, **form), num_cycles=50)


def draw(battle, generator):
    """Return an action for each agent, sampled for all mechs at once."""
    width = battle.action_space(battle.possible_agents[0]).shape[0]
    drawn = torch.rand(len(battle.possible_agents), width, generator=generator) * 2 - 1
    own = dict(zip(battle.possible_agents, drawn.numpy(), strict=True))
    return drawn, {name: own[name] for name in battle.agents}


@pytest.mark.parametrize(("config", "opponent"), [(SHORT, None), (UNEQUAL, None), (UNEQUAL, EASY)])
@pytest.mark.parametrize("death", DEATHS)
def test_it_is_the_battle_of_the_view(death, config, opponent):
    battle = parallel_env(config, death, opponent=opponent)
    view = echelon.mechs(config, opponent, 1, "cpu", 5, side="blue", state=True)
    seen, infos = battle.reset(seed=5)
    td, generator = view.reset(), torch.Generator().manual_seed(0)
    assert list(seen) == list(infos) == battle.agents == battle.possible_agents == view.agent_names
    for decision in range(4):
        assert np.array_equal(np.stack(list(seen.values())), td["observation"][0].numpy())
        assert np.array_equal(battle.state(), td["state"][0, 0].numpy()) and battle.state_space.contains(battle.state())
        drawn, actions = draw(battle, generator)
        seen, paid, terminated, truncated, infos = battle.step(actions)
        td = view.step(td.set("action", drawn[None]))["next"]
        assert list(paid.values()) == td["reward"].flatten().tolist()
        ends = [(terminated[name], truncated[name]) for name in seen]
        assert set(ends) == {(bool(td["terminated"].any()), bool(td["truncated"].any()))} == {(False, decision == 3)}
    assert not battle.agents and {info["winner"] for info in infos.values()} == {int(td["outcome", "winner"][0, 0])}
    assert battle.step({}) == ({}, {}, {}, {}, {})
    with pytest.raises(ConfigError, match="the battle is over"):
        battle.step(actions)


def test_step_builds_no_tensordict_and_copies_no_observation(monkeypatch):
    """TensorDicts took a third of a step of one battle. They are built when something reads the last observation."""
    built = []
    for owner, name in ((EchelonEnv, "tensordict_after"), (View, "_to_tensordict")):
        build = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *how, build=build, name=name: built.append(name) or build(*how))
    battle = parallel_env(SHORT)
    battle.reset(seed=1)
    built.clear()
    seen, *_ = battle.step(draw(battle, torch.Generator())[1])
    assert not built
    first, *others = seen.values()
    assert all(own.base is first.base is not None for own in others)
    observed = battle.view.last_observation()["observation"][0].numpy()
    assert sorted(built) == ["_to_tensordict", "tensordict_after"] and np.array_equal(first, observed[0])


@pytest.mark.parametrize("death", DEATHS)
def test_deaths_are_reported(death):
    battle = parallel_env(LONG, death)
    battle.reset(seed=1)
    battle.view.env.state.mechs.hp[0, 1] = 0
    generator = torch.Generator().manual_seed(0)
    _, actions = draw(battle, generator)
    seen, paid, terminated, truncated, infos = battle.step(actions)
    living = ["blue_0", "red_0", "red_1"]
    assert [name for name, info in infos.items() if info["alive"]] == living and len(seen) == len(paid) == 4
    assert [name for name, ended in terminated.items() if ended] == (["blue_1"] if death == "terminates" else [])
    assert not any(truncated.values())
    assert battle.agents == (living if death == "terminates" else battle.possible_agents)
    seen, *_ = battle.step(draw(battle, generator)[1])
    assert list(seen) == battle.agents
    battle.reset()
    assert battle.agents == battle.possible_agents


def test_infos_name_winner():
    """After the last death of a team, the info of each agent states whether its team won."""
    for opponent, winners in ((None, ["blue_0", "blue_1"]), (EASY, ["agent_0", "agent_1"])):
        battle = parallel_env(LONG, opponent=opponent)
        _, infos = battle.reset(seed=1)
        assert all(info["winner"] == -1 and not info["won"] for info in infos.values())
        battle.view.env.state.mechs.hp[0, 2:] = 0
        *_, terminated, _, infos = battle.step(draw(battle, torch.Generator())[1])
        assert all(terminated.values()) and all(info["winner"] == 1 for info in infos.values())
        assert [name for name, info in infos.items() if info["won"]] == winners


def test_supersuit_keeps_winner():
    """Its vectorization merges the infos of the reset into those of the last step."""
    supersuit = pytest.importorskip("supersuit")
    battle = parallel_env(LONG, opponent=EASY)
    envs = supersuit.pettingzoo_env_to_vec_env_v1(battle)
    still = np.zeros((2, *battle.action_space("agent_0").shape), np.float32)
    for seed in (1, 2):
        envs.reset(seed=seed)
        assert [info["winner"] for info in envs.step(still)[-1]] == [-1, -1]
        battle.view.env.state.mechs.hp[0, 2:] = 0
        _, _, terminated, _, infos = envs.step(still)
        assert terminated.all() and [(info["winner"], info["won"]) for info in infos] == [(1, True)] * 2


def test_torchrl_wrapper_keeps_winner_of_each_battle():
    """It takes the info names from the first reset; later infos may lack names but must not add any."""
    battle = parallel_env(LONG, opponent=EASY)
    wrapped = PettingZooWrapper(battle)
    for _ in range(2):
        td = wrapped.reset()
        battle.view.env.state.mechs.hp[0, 2:] = 0
        ended = wrapped.step(td.update(wrapped.full_action_spec.zero()))["next"]
        assert ended["done"].all() and ended["agent", "info", "winner"].tolist() == [1, 1]


def test_mask_excludes_unavailable_actions():
    battle = parallel_env(LONG, action="discrete")
    seen, _ = battle.reset(seed=1)
    masks = np.stack([own["action_mask"] for own in seen.values()])
    view = echelon.mechs(LONG, None, 1, "cpu", 1, action="discrete")
    assert np.array_equal(masks, view.reset()["action_mask"][0].numpy()) and 0 < masks.mean() < 1
    assert masks.dtype == np.int8 and battle.observation_space("red_0").contains(seen["red_0"])


def test_factors_are_sampled_from_the_mask():
    battle = parallel_env(LONG, action="multi_discrete")
    seen, _ = battle.reset(seed=1)
    space, mask = battle.action_space("red_0"), seen["red_0"]["action_mask"]
    assert mask.shape == (space.nvec.sum(),) and not mask.all()
    first = np.cumsum(space.nvec) - space.nvec
    drawn = np.stack([space.sample(mask) for _ in range(50)])
    assert mask[drawn + first].all() and drawn.max(0)[0] == 2


def test_info_masks_equal_observation_masks():
    """In the form that AgileRL reads, also after a reset."""
    battle, shown = (parallel_env(LONG, action="discrete", masks=place) for place in ("infos", "observation"))
    still = {name: 0 for name in battle.possible_agents}
    for fallen in (False, True):
        told, seen = battle.reset(seed=1), shown.reset(seed=1)[0]
        assert all(np.array_equal(info["action_mask"], seen[name]["action_mask"]) for name, info in told[1].items())
        assert all(np.array_equal(own, seen[name]["observation"]) for name, own in told[0].items())
        assert all(battle.observation_space(name).contains(own) for name, own in told[0].items())
        assert set(told[1]["red_0"]) == ({"alive", "action_mask"} if fallen else {*told[1]["red_0"], "winner"})
        for one in (battle, shown):
            one.view.env.state.mechs.hp[0, 2:] = 0
        (*_, infos), (seen, *_) = battle.step(still), shown.step(still)
        assert all(np.array_equal(info["action_mask"], seen[name]["action_mask"]) for name, info in infos.items())
    with pytest.raises(ConfigError, match="masks must be observation or infos"):
        parallel_env(LONG, masks="both")


@pytest.mark.parametrize("form", FORMS[:3], ids=str)
@pytest.mark.parametrize("death", DEATHS)
def test_torchrl_wrapper_accepts_parallel_env(death, form):
    battle = parallel_env(LONG, death, **form)
    wrapped = PettingZooWrapper(
        battle, return_state=True, use_mask=death == "terminates", done_on_any=False, categorical_actions=True
    )
    check_env_specs(wrapped)
    assert wrapped.group_map == {group: [f"{group}_0", f"{group}_1"] for group in ("blue", "red")}
    td = wrapped.rollout(30)
    assert len(td) == LONG.rules.max_decisions and td["next", "done"].flatten().tolist()[-2:] == [False, True]
    assert td["state"].shape == (20, *battle.state_space.shape) and td["next", "blue", "reward"].abs().sum() > 0


def test_torchrl_wrapper_continues_after_deaths():
    """The wrapper of docs/INTEGRATIONS.md. TorchRL continues to send actions for dead mechs."""
    torch.manual_seed(0)
    battle = parallel_env(EnvConfig.small(), death="terminates", opponent="heuristic:expert")
    wrapped = PettingZooWrapper(battle, use_mask=True, done_on_any=False, seed=0)
    played = wrapped.rollout(300)["next"]
    living, done = played["agent", "mask"].sum(-1), played["done"][:, 0]
    assert done.tolist() == [False] * (len(done) - 1) + [True] and not battle.agents
    assert {4, 3} <= set(living[~done].tolist())  # two deaths and more, and the battle went on after each


def test_action_of_dead_agent_has_no_effect():
    battles, generator = [parallel_env(LONG, "terminates") for _ in range(2)], torch.Generator().manual_seed(0)
    for battle in battles:
        battle.reset(seed=1)
        battle.view.env.state.mechs.hp[0, 1] = 0
        battle.step(draw(battle, torch.Generator())[1])
        assert battle.agents == ["blue_0", "red_0", "red_1"]
    drawn, actions = draw(battles[0], generator)
    results = [battles[0].step(actions), battles[1].step({**actions, "blue_1": drawn[1].numpy()})]
    (seen, paid, *ends), (other_seen, other_paid, *other_ends) = results
    assert all(np.array_equal(seen[name], other_seen[name]) for name in seen) and seen.keys() == other_seen.keys()
    assert paid == other_paid and ends == other_ends
    for wrong in ({**actions, "blue_2": drawn[1].numpy()}, {"blue_1": drawn[1].numpy()}):
        with pytest.raises(ConfigError, match="actions must be one for each of blue_0, red_0, red_1, got"):
            battles[0].step(wrong)


@pytest.mark.parametrize("opponent", [None, EASY])
def test_nan_action_becomes_zero_and_is_counted(opponent):
    clean, battle = (parallel_env(SHORT, opponent=opponent, side="red") for _ in range(2))
    clean.reset(seed=1)
    _, infos = battle.reset(seed=1)
    assert [info["bad_actions"] for info in infos.values()] == [0] * len(infos)
    generator = torch.Generator().manual_seed(0)
    for decision in range(1, 5):
        zeroed, bad = with_nan(draw(battle, generator)[0].numpy())
        kept, name = bad.copy(), battle.possible_agents[1]
        expected = clean.step(dict(zip(clean.agents, zeroed, strict=True)))
        seen, paid, *_, infos = battle.step(dict(zip(battle.agents, bad, strict=True)))
        assert np.array_equal(bad, kept, equal_nan=True) and paid == expected[1]
        assert all(np.array_equal(own, expected[0][agent]) for agent, own in seen.items())
        assert {agent: info["bad_actions"] for agent, info in infos.items() if info["bad_actions"]} == {
            name: 2 * decision
        }
    # At the end of the battle, the infos also contain the count of each team.
    column = battle.view.stat_names.index("bad_actions")
    team = 0 if opponent is None else 1
    stats = battle.view.env.last_observation()["outcome", "stats"][0, :, column]
    assert stats.tolist() == [8.0 * (team == side) for side in (0, 1)]


def test_action_of_wrong_dtype_is_refused():
    battle = parallel_env(SHORT, action="discrete")
    battle.reset(seed=1)
    for wrong in (1.7, np.nan):
        with pytest.raises(ConfigError, match="action of red_0 must be int64 of shape \\(\\), got"):
            battle.step({**dict.fromkeys(battle.agents, 1), "red_0": np.float32(wrong)})


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("death must be stays or terminates", {"death": "leaves"}),
        ("render_mode must be rgb_array, human or None", {"render_mode": "ansi"}),
        ("view must be one battle", {"info": False}),
        ("observation must be", {"observation": "pixels"}),
        ("side must be blue or red for teams of 3 and 2 mechs", {"opponent": EASY, "side": "both"}),
    ],
)
def test_invalid_settings_are_refused_in_one_line(what, how):
    with pytest.raises(ConfigError, match=what):
        parallel_env(UNEQUAL, **how)


def test_unknown_setting_error_names_function_and_alternative():
    for name, maker in (("parallel_env", parallel_env), ("env", env)):
        with pytest.raises(
            ConfigError, match=f"^{name} has no setting 'max_cycles'. Use config.rules.max_episode_s in"
        ):
            maker(SHORT, max_cycles=10)
        with pytest.raises(ConfigError, match=f"^{name} has no setting 'memory'"):
            maker(SHORT, memory=None)


def test_numpy_integer_seed_gives_same_battle():
    battle, other = parallel_env(SHORT, seed=np.int64(5)), parallel_env(SHORT, seed=5)
    for seen, expected in ((battle.reset()[0], other.reset()[0]), (battle.reset(np.int64(7))[0], other.reset(7)[0])):
        assert all(np.array_equal(seen[name], expected[name]) for name in other.agents)


def test_invalid_actions_are_refused_in_one_line():
    battle = parallel_env(SHORT)
    with pytest.raises(ConfigError, match="after reset"):
        battle.step({"blue_0": np.zeros(26, np.float32)})
    battle.reset(seed=0)
    _, actions = draw(battle, torch.Generator())
    with pytest.raises(ConfigError, match="actions must be one for each of blue_0, blue_1, red_0, red_1"):
        battle.step({"blue_0": actions["blue_0"]})
    with pytest.raises(ConfigError, match="action of red_1 must be float32 of shape"):
        battle.step({**actions, "red_1": np.zeros(3)})

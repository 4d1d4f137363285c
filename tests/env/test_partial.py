"""TorchRL's masks `_step` and `_reset`: unstepped battles do not change, and invalid masks raise."""

import dataclasses

import pytest
import torch
from builders import brawl, short_battles
from host_reads import HostReads
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded
from torchrl.envs import ConditionalSkip, SerialEnv, StepCounter, TransformedEnv

import echelon
from echelon import EchelonEnv, EnvConfig
from echelon.env.partial import RESET, STEP
from echelon.replay.recorder import Recorder
from echelon.rules.config import CommandConfig, WorldConfig
from echelon.runtime.errors import ConfigError

SHORT = short_battles(4)
MEMORY = Composite(h=Unbounded((3,)))
KINDS = ("plain", "versus", "teams", "mechs", "both_teams", "partition")


@pytest.fixture(params=[pytest.param(True, id="by row"), pytest.param(False, id="by mask", marks=pytest.mark.long)])
def restarts(request, monkeypatch):
    """Restart battles by row, and by mask as on a GPU."""
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", request.param)


def make(kind, **settings):
    """Three battles of four decisions; `both_teams` is `mechs` without an opponent, `partition` one group per mech."""
    settings = {"num_envs": 3, "device": "cpu", "seed": 1, "backend": "eager", "memory": MEMORY, **settings}
    if kind in ("plain", "teams"):
        return {"plain": EchelonEnv, "teams": echelon.teams}[kind](SHORT, **settings)
    if kind == "partition":
        forms = {"action": {"agent_0": "discrete", "agent_1": "continuous"}, "groups": "mech"}
        return echelon.versus(SHORT, "heuristic:hard", **(forms | settings | {"memory": None}))
    if kind == "both_teams":
        return echelon.mechs(SHORT, None, **settings)
    return getattr(echelon, kind)(SHORT, "heuristic:hard", **settings)


def battles_of(env):
    return env if isinstance(env, EchelonEnv) else env.env


def decided(env, count):
    """Return `count` decisions of random policies, which count them in their memories."""
    torch.manual_seed(0)
    return [env.full_action_spec.rand() for _ in range(count)]


def remembering(env, td):
    """Set the policies' next memories: the previous ones plus one."""
    for key in list(td.keys(True, True)):
        if isinstance(key, tuple) and key[-1] == "h" and key[0] != "next":
            td[("next", *key)] = td[key] + 1
    return td


def is_paid(key):
    return "reward" in key or "reward_terms" in key


@pytest.mark.usefixtures("restarts")
@pytest.mark.parametrize("kind", KINDS)
def test_unstepped_battle_continues_unchanged_later(kind):
    """Battle 0 is stepped in each of eight steps, the others sometimes, with the same actions per decision."""
    plain, env = make(kind), make(kind)
    actions, td, expected = decided(env, 8), plain.reset(), []
    for action in actions:
        step, td = plain.step_and_maybe_reset(remembering(plain, td.update(action.clone())))
        expected.append(step)
    td, moved = env.reset(), [0, 0, 0]
    for t in range(8):
        moves = [True, t % 2 == 0, t not in (0, 3, 4)]
        for battle in range(3):
            for key, value in actions[min(moved[battle], 7)].items(True, True):
                td.set(key, td.get(key, value.clone()))
                td.get(key)[battle] = value[battle]
        mask = torch.tensor(moves).view(3, *[1] * len(env.batch_size)).expand(*env.batch_size, 1).clone()
        before = td.clone()
        step, td = env.step_and_maybe_reset(remembering(env, td).set(STEP, mask))
        for battle in range(3):
            new = step["next"][battle]
            if moves[battle]:
                assert (new == expected[moved[battle]]["next"][battle]).all()
                moved[battle] += 1
                continue
            for key, value in new.items(True, True):
                was = torch.zeros_like(value) if is_paid(key) else before[battle][key]
                assert torch.equal(value, was), key
    assert moved == [8, 4, 5]


@pytest.mark.usefixtures("restarts")
def test_unstepped_battle_keeps_terrain_shots_and_wrecks():
    config = dataclasses.replace(EnvConfig.small(), map_pool=2, world=WorldConfig(32, 32, 10))
    fast, generator = EchelonEnv(config, 3, "cpu", 1), torch.Generator().manual_seed(1)
    td = fast.reset()
    for _ in range(24):
        td = fast.step_and_maybe_reset(brawl(td, generator))[1]
    env, twin = (EchelonEnv(config, 3, "cpu", 1, maps=fast.sim_model.maps, backend="eager") for _ in range(2))
    for made in (env, twin):
        made.set_state(fast.get_state())
    kept, mask = env.get_state(), torch.tensor([[True], [False], [True]])
    for _ in range(6):
        td = brawl(td, generator)
        twin.step(td.clone())
        td = env.step(td.set(STEP, mask))["next"]
    now, other = env.get_state(), twin.get_state()
    assert (now[[0, 2]] == other[[0, 2]]).all()
    for key in kept.keys(True, True):
        # The fingerprint also covers rewards.
        assert is_paid(key) or key == "fingerprint" or torch.equal(now[key][1], kept[key][1]), key
    ground = ("state", "terrain", "solid")
    assert not torch.equal(other[ground][1], kept[ground][1]), "a full step would have changed it"
    assert env.state.tick.tolist() == [150, 120, 150]


@pytest.mark.parametrize("kind", KINDS)
def test_step_without_any_battle_returns_the_last_observation(kind):
    """TorchRL would return zeros for entries that the caller left out."""
    env = make(kind)
    td = env.rollout(3)[..., -1]["next"]
    no_battle = torch.zeros(*env.batch_size, dtype=torch.bool)
    step = env.step(TensorDict({STEP: no_battle}, env.batch_size).update(env.full_action_spec.rand()))["next"]
    for key, value in step.items(True, True):
        assert torch.equal(value, torch.zeros_like(value) if is_paid(key) else td[key]), key
    assert battles_of(env).state.tick.tolist() == [3, 3, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_rollout_continues_until_all_battles_are_done(kind):
    env = make(kind)

    def policy(td):
        if battles_of(env).state.tick[0] == 1:
            battles_of(env).state.mechs.hp[1, 2:] = 0
        return env.rand_action(td)

    td = env.rollout(20, policy, break_when_any_done=False, break_when_all_done=True)
    assert td.shape[-1] == 4 and battles_of(env).state.tick.tolist() == [4, 2, 4]
    assert td["next", "done"].flatten(0, -3)[-1].flatten().tolist() == [False] * 3 + [True]
    ended = td["next", "done"].view(3, -1, 4)[1]
    assert (ended == torch.tensor([False, True, True, True])).all()


@pytest.mark.parametrize("kind", KINDS)
def test_conditional_skip_works(kind):
    """Each of two environments in a `SerialEnv` skips the steps after its second one."""

    def skipping():
        env = TransformedEnv(make(kind), StepCounter())
        return env.append_transform(ConditionalSkip(lambda td: td["step_count"] % 3 == 2))

    env = SerialEnv(2, skipping)
    td = env.rollout(5, break_when_any_done=False)
    assert (td["next", "step_count"].movedim(-2, 0).flatten(1) == torch.tensor([1, 2, 2, 2, 2])[:, None]).all()
    assert td["next", "telemetry"].any()
    env.close()


@pytest.mark.parametrize("kind", ["plain", "versus", "teams"])
def test_partial_step_reads_nothing_on_the_host(kind, monkeypatch):
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", False)
    env = make(kind)
    td = env.step_and_maybe_reset(env.rand_action(env.reset()))[1]
    td = env.rand_action(td).set(STEP, torch.tensor([True, False, True]))
    with HostReads() as counter:
        env._step(td)
    assert not counter.reads


def test_recorded_battle_may_skip_steps_only_after_its_end():
    env = EchelonEnv(SHORT, 2, "cpu", 1, observer=Recorder([0, 1]))
    td = env.rand_action(env.reset())
    with pytest.raises(ConfigError, match=r"^_step must be True for every battle that has not ended"):
        env.step(td.clone().set(STEP, torch.tensor([True, False])))
    env.state.mechs.hp[1, 2:] = 0
    env.rollout(9, auto_reset=False, tensordict=td, break_when_any_done=False, break_when_all_done=True)
    battles = env.observer.finish(["one"] * 2, ["other"] * 2).battles
    assert [battle.about["outcome"]["reason"] for battle in battles] == ["time_up", "elimination"]


# Invalid calls


@pytest.mark.parametrize("kind", ["mechs", "both_teams"])
def test_mask_must_be_equal_for_all_rows_of_a_battle(kind):
    env = make(kind)
    td = env.rand_action(env.reset())
    before, mask = battles_of(env).get_state(), torch.zeros(*env.batch_size, 1, dtype=torch.bool)
    mask[1, 1] = True
    for name, call in ((STEP, env.step), (RESET, env.reset)):
        with pytest.raises(ConfigError, match=f"^'{name}' must be the same for all rows .* in battle 1$"):
            call(td.clone().set(name, mask))
    assert (battles_of(env).get_state() == before).all()
    mask[1] = True
    begun = env.reset(env.step(td)["next"].set(RESET, mask))
    assert battles_of(env).state.tick.tolist() == [1, 0, 1] and begun["is_init"][1].all()


@pytest.mark.parametrize("kind", KINDS)
def test_masks_of_wrong_form_raise(kind):
    env = make(kind)
    td, size = env.rand_action(env.reset()), env.batch_size
    group = next(iter(battles_of(env).group_map)) if kind == "plain" else next(iter(env.group_map))
    for mask in (torch.ones(*size, 1), torch.ones(*size, 2, dtype=torch.bool)):
        for name, call in ((STEP, env.step), (RESET, env.reset)):
            with pytest.raises(ConfigError, match=f"^'{name}' must be bool of shape \\(3"):
                call(td.clone().set(name, mask))
    if kind not in ("mechs", "both_teams"):
        of_mechs = torch.ones(td[group].shape, dtype=torch.bool)
        with pytest.raises(ConfigError, match="per-agent reset is not supported; pass '_reset'"):
            env.reset(td.clone().set((group, RESET), of_mechs))


@pytest.mark.parametrize("kind", KINDS)
def test_is_init_stays_true_until_the_first_step(kind):
    """`maybe_reset` and the reset of another battle do not clear `is_init`; a continued rollout starts with it."""
    env = make(kind)
    td = env.reset()
    assert env.maybe_reset(td.clone())["is_init"].all()
    which = torch.zeros(*env.batch_size, 1, dtype=torch.bool)
    which[1] = True
    assert env.reset(td.clone().set(RESET, which))["is_init"].all()
    again = env.rollout(5, auto_reset=False, tensordict=td, break_when_any_done=False)
    assert again["is_init"].flatten(0, -3)[-1].flatten().tolist() == [True, False, False, False, True]


def commanders(**settings):
    command = CommandConfig(enabled=True)
    return echelon.commanders(dataclasses.replace(SHORT, command=command), num_envs=3, device="cpu", **settings)


@pytest.mark.parametrize("kind", [*KINDS, "commanders"])
def test_reset_with_seed_equals_set_seed_and_reset(kind):
    env, other = (commanders(seed=1) if kind == "commanders" else make(kind) for _ in range(2))
    other.set_seed(5)
    expected, begun = other.reset(), env.reset(seed=5)
    assert battles_of(env).state.seed.tolist() == battles_of(other).state.seed.tolist()
    assert (begun == expected).all()
    assert (env.reset(seed=5) == expected).all()
    assert not (env.reset() == expected).all()


@pytest.mark.parametrize("kind", ["plain", "versus", "mechs", "commanders"])
def test_reset_with_unknown_keyword_or_wrong_seed_raises(kind):
    env = commanders(seed=1) if kind == "commanders" else make(kind)
    seeds = env.next_seed.clone() if kind == "plain" else env.env.next_seed.clone()
    for keywords, words in (
        ({"sede": 5}, "reset must be called with a tensordict and a seed only, got 'sede'"),
        ({"seed": 5, "options": {}}, "reset must be called with a tensordict and a seed only, got 'options'"),
        ({"seed": "five"}, "seed must be an integer, got 'five'"),
        ({"seed": -1}, "seed must be 0..9223372036854775807, got -1"),
    ):
        with pytest.raises(ConfigError) as refused:
            env.reset(**keywords)
        assert str(refused.value) == words
    assert torch.equal(seeds, battles_of(env).next_seed)


def test_partial_reset_with_seed_resets_those_battles():
    env = make("plain")
    before = env.reset()
    begun = env.reset(TensorDict({RESET: torch.tensor([[False], [True], [False]])}, [3]), seed=5)
    expected = make("plain", seed=5).reset()
    assert (begun[1] == expected[1]).all() and (begun[0]["blue"] == before[0]["blue"]).all()


def test_transformed_and_batched_environments_reset_with_seed():
    expected = make("versus", seed=5).reset()["agents", "observation"]
    counted = TransformedEnv(make("versus"), StepCounter())
    assert torch.equal(counted.reset(seed=5)["agents", "observation"], expected)
    batch = SerialEnv(2, lambda: make("versus"))
    begun = batch.reset(list_of_kwargs=[{"seed": 5}, {"seed": 6}])["agents", "observation"]
    assert torch.equal(begun[0], expected) and not torch.equal(begun[1], expected)


def test_state_dict_methods_accept_only_torchs_keywords():
    env = make("plain")
    saved = env.state_dict()
    for call in (lambda: env.state_dict(prefx="a"), lambda: env.load_state_dict(saved, strct=True)):
        with pytest.raises(TypeError, match="unexpected keyword"):
            call()

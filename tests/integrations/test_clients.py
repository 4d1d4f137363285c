"""Each client returns the values of TorchRL's form, mech by mech, in battles with deaths and time limits."""

import time

import numpy as np
import pytest
from arena import ARENA, DECISIONS, OPPONENT, SEED, Battle, action_at, assert_same, battles, note

pytestmark = [pytest.mark.integrations, pytest.mark.long, pytest.mark.filterwarnings("ignore")]
MECHS = 2


def parallel(**how):
    module = pytest.importorskip("echelon.integrations.pettingzoo", exc_type=ImportError)
    return module.parallel_env(ARENA, opponent=OPPONENT, **how)


def vector(count=1, **how):
    module = pytest.importorskip("echelon.integrations.gymnasium", exc_type=ImportError)
    return module.make_vec(ARENA, OPPONENT, count, "cpu", side="blue", **how)


def zeros(envs):
    return np.zeros(envs.action_space.shape, np.float32)


class Log:
    """Group the results of a client by battle."""

    def __init__(self) -> None:
        self.done, self.own = [], Battle()

    def add(self, paid, alive):
        self.own.paid.append(np.asarray(paid, np.float64))
        self.own.alive.append(np.asarray(alive))

    def end(self, terminated, truncated, final, winner, won):
        own, self.own = self.own, Battle()
        own.terminated, own.truncated, own.won = (np.asarray(flags, bool) for flags in (terminated, truncated, won))
        own.final, own.winner = np.asarray(final), int(winner)
        self.done.append(own)


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_gymnasium(mode):
    envs, log, decision = vector(autoreset_mode=mode), Log(), 0
    envs.reset(seed=SEED)
    while decision < DECISIONS:
        seen, paid, terminated, truncated, infos = envs.step(action_at(decision))
        decision += 1
        ended = (terminated | truncated).any()
        told = infos.get("final_info", infos) if ended else infos
        log.add(paid, told["alive"])
        if not ended:
            continue
        final = np.stack(infos["final_obs"]) if mode == "SameStep" else seen
        log.end(terminated, truncated, final, told["winner"][0], told["won"])
        if mode == "NextStep":
            assert not envs.step(action_at(decision) * np.nan)[1].any()
        elif mode == "Disabled":
            envs.reset(options={"reset_mask": np.ones(MECHS, bool)})
    assert_same(log.done, battles())
    if mode == "SameStep":
        many = vector(512)
        many.reset(seed=0)
        actions = zeros(many)
        tells = {"death": "continues, `alive` false", "time_up": "`truncated`", "win": "`final_info['won']`"}
        note("Gymnasium `make_vec`", "gymnasium", lambda: many.step(actions), 1024, glue=1, **tells, masks="infos")


def test_stable_baselines3():
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import VecMonitor

    from echelon.integrations.sb3 import vec_env

    envs, log, decision = VecMonitor(vec_env(ARENA, OPPONENT, 1, "cpu", side="blue")), Log(), 0
    envs.seed(SEED)
    envs.reset()
    told = []
    while decision < DECISIONS:
        _, paid, done, infos = envs.step(action_at(decision))
        decision += 1
        log.add(paid, [info["alive"] for info in infos])
        if done.any():
            truncated = [info["TimeLimit.truncated"] for info in infos]
            final = [info["terminal_observation"] for info in infos]
            winner, won = infos[0]["winner"], [info["won"] for info in infos]
            log.end(~np.array(truncated), truncated, final, winner, won)
            told.append([(info["episode"]["r"], info["episode"]["l"]) for info in infos])
    assert_same(log.done, battles())
    for episodes, battle in zip(told, battles(), strict=True):
        assert [length for _, length in episodes] == [battle.length] * MECHS
        np.testing.assert_allclose([total for total, _ in episodes], battle.returns, atol=1e-4)
    many = vec_env(ARENA, OPPONENT, 512, "cpu", side="blue")
    many.reset()
    actions = np.zeros((1024, *many.action_space.shape), np.float32)
    tells = {"death": "continues, `alive` false", "time_up": "`TimeLimit.truncated`", "win": "`won`"}
    step = lambda: many.step(actions)  # noqa: E731
    note("Stable-Baselines3", "stable-baselines3", step, 1024, glue=1, **tells, masks="`action_masks`")


def of_agents(values, names):
    return np.array([values[name] for name in names])


def test_pettingzoo():
    env, log = parallel(), Log()
    env.reset(seed=SEED)
    for decision in range(DECISIONS):
        actions = dict(zip(env.agents, action_at(decision), strict=True))
        seen, paid, terminated, truncated, infos = env.step(actions)
        names = env.possible_agents
        log.add(of_agents(paid, names), [infos[name]["alive"] for name in names])
        if not env.agents:
            won = [infos[name]["won"] for name in names]
            flags = (of_agents(terminated, names), of_agents(truncated, names))
            log.end(*flags, of_agents(seen, names), infos[names[0]]["winner"], won)
            env.reset()
    assert_same(log.done, battles())

    def step():
        if not env.agents:
            env.reset()
        env.step({name: np.zeros(26, np.float32) for name in env.agents})

    tells = {"death": "continues, or `terminated`", "time_up": "`truncated`", "win": "`won`"}
    note("PettingZoo `parallel_env`", "pettingzoo", step, MECHS, glue=1, **tells, masks="observation or infos")


def test_pettingzoo_with_terminating_deaths():
    """A mech receives rewards while it lives; survivors are truncated at the time limit."""
    env, lives = parallel(death="terminates"), []
    env.reset(seed=SEED)
    own = {name: [] for name in env.possible_agents}
    for decision in range(DECISIONS):
        actions = dict(zip(env.possible_agents, action_at(decision), strict=True))  # dead mechs too, as in AgileRL
        _, paid, terminated, truncated, _ = env.step(actions)
        for name, reward in paid.items():
            own[name].append((reward, terminated[name], truncated[name]))
        if not env.agents:
            lives.append(own)
            own = {name: [] for name in env.possible_agents}
            env.reset()
    for told, battle in zip(lives, battles(), strict=True):
        for mech, name in enumerate(env.possible_agents):
            length = battle.lifetime(mech)
            rewards, terminated, truncated = zip(*told[name], strict=True)
            assert len(rewards) == length and not any((*terminated[:-1], *truncated[:-1]))
            np.testing.assert_allclose(rewards, [step[mech] for step in battle.paid[:length]], atol=1e-6)
            has_died = not battle.alive[length - 1][mech]
            assert terminated[-1] == (has_died or battle.terminated[mech])
            assert truncated[-1] == (length == battle.length and battle.truncated[mech])


def test_supersuit():
    """Its vector resets in the step that ends a battle, and merges the reset's infos into the last ones."""
    supersuit = pytest.importorskip("supersuit")
    envs, log = supersuit.pettingzoo_env_to_vec_env_v1(parallel()), Log()
    envs.reset(seed=SEED)
    for decision in range(DECISIONS):
        _, paid, terminated, truncated, infos = envs.step(action_at(decision))
        log.add(paid, terminated * 0 + 1)
        if (terminated | truncated).any():
            final = [info["terminal_observation"] for info in infos]
            log.end(terminated, truncated, final, infos[0]["winner"], [info["won"] for info in infos])
    assert_same(log.done, battles())
    tells = {"death": "continues, `alive` false", "time_up": "`truncated`", "win": "`won`"}
    actions = np.zeros((MECHS, 26), np.float32)
    note("SuperSuit", "supersuit", lambda: envs.step(actions), MECHS, glue=1, **tells, masks="-")


def test_gym_wrapper_of_torchrl():
    """With `SAME_STEP` it resets again if all environments end in one step, which skips a battle."""
    import torch
    from torchrl.envs import GymWrapper

    envs, log = vector(autoreset_mode="Disabled"), Log()
    env = GymWrapper(envs)
    envs.view.set_seed(SEED)  # `env.set_seed` starts a battle, and `env.reset` the next one
    td = env.reset()
    for decision in range(DECISIONS):
        step, td = env.step_and_maybe_reset(td.set("action", torch.from_numpy(action_at(decision))))
        after = step["next"]
        log.add(after["reward"][:, 0], np.ones(MECHS))
        if after["done"].any():
            true = battles()[len(log.done)]
            flags = (after[flag][:, 0].numpy() for flag in ("terminated", "truncated"))
            log.end(*flags, after["observation"].numpy(), true.winner, true.won)  # no outcome in its keys
    assert_same(log.done, battles())
    many = GymWrapper(vector(512, autoreset_mode="Disabled"))
    held, action = [many.reset()], torch.zeros(1024, 26)

    def step_once():
        held[0] = many.step_and_maybe_reset(held[0].set("action", action))[1]

    tells = {"death": "continues", "time_up": "`truncated`", "win": "not available"}
    note("TorchRL `GymWrapper(make_vec(...))`", "torchrl", step_once, 1024, glue=1, **tells, masks="-")


def test_pettingzoo_wrapper_of_torchrl():
    import torch
    from torchrl.envs import PettingZooWrapper

    battle, log = parallel(), Log()
    env = PettingZooWrapper(battle, use_mask=True, done_on_any=False)
    battle.view.set_seed(SEED)
    td = env.reset()
    for decision in range(DECISIONS):
        step, td = env.step_and_maybe_reset(td.set(("agent", "action"), torch.from_numpy(action_at(decision))))
        after = step["next", "agent"]
        log.add(after["reward"][:, 0], np.ones(MECHS))
        if step["next", "done"].any():
            true = battles()[len(log.done)]
            flags = (after[flag][:, 0].numpy() for flag in ("terminated", "truncated"))
            log.end(*flags, after["observation"].numpy(), true.winner, true.won)
    assert_same(log.done, battles())


# Clients in separate virtual environments


@pytest.mark.parametrize("death", ["stays", "terminates"])
def test_rllib(death):
    """RLlib's own episodes: the value of a truncated episode is bootstrapped."""
    pytest.importorskip("ray.rllib", exc_type=ImportError)
    from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

    from echelon.integrations.rllib import BattleEnv

    env, done, decision = BattleEnv({"config": ARENA, "opponent": OPPONENT, "death": death}), [], 0

    def begun(seed=None):
        observations, infos = env.reset(seed=seed)
        episode = MultiAgentEpisode()
        episode.add_env_reset(observations=observations, infos=infos)
        return episode

    episode = begun(SEED)
    while decision < DECISIONS:
        drawn = dict(zip(env.possible_agents, action_at(decision), strict=True))
        actions = {name: drawn[name] for name in env.agents}
        decision += 1
        seen, paid, terminated, truncated, infos = env.step(actions)
        episode.add_env_step(seen, actions, paid, infos, terminateds=terminated, truncateds=truncated)
        if episode.is_done:
            done.append((episode, infos))
            episode = begun()
    assert len(done) == len(battles())
    for (own, infos), battle in zip(done, battles(), strict=True):
        assert (own.is_terminated, own.is_truncated) == (battle.terminated[0], battle.truncated[0])
        for mech, name in enumerate(env.possible_agents):
            life, length = own.agent_episodes[name], battle.lifetime(mech) if death != "stays" else battle.length
            has_died = death != "stays" and not battle.alive[length - 1][mech]
            assert len(life) == length and life.is_terminated == (battle.terminated[mech] or has_died)
            assert has_died or life.is_truncated == battle.truncated[mech]
            np.testing.assert_allclose(life.get_return(), sum(step[mech] for step in battle.paid[:length]), atol=1e-5)
            if length == battle.length:
                assert infos[name]["won"] == battle.won[mech] and infos[name]["winner"] == battle.winner
                np.testing.assert_array_equal(life.get_observations(-1), battle.final[mech])

    def step():
        if env.battle.is_over:
            env.reset()
        env.step({name: np.zeros(26, np.float32) for name in env.agents})

    if death == "stays":
        tells = {"death": "continues, or `terminated`", "time_up": "`truncated`", "win": "`won`"}
        note("RLlib `BattleEnv`", "ray", step, MECHS, glue=2, **tells, masks="its module's")


@pytest.mark.parametrize("death", ["stays", "terminates"])
def test_skrl(death):
    skrl = pytest.importorskip("skrl.envs.wrappers.torch", exc_type=ImportError)
    import torch

    env, log = skrl.wrap_env(parallel(death=death), wrapper="pettingzoo", verbose=False), Log()
    env._seed = SEED
    env.reset()
    for decision in range(DECISIONS):
        drawn = zip(env.possible_agents, torch.from_numpy(action_at(decision))[:, None], strict=True)
        seen, paid, terminated, truncated, infos = env.step(dict(drawn))
        if death == "stays":
            names = env.possible_agents
            log.add([float(paid[name]) for name in names], [infos[name]["alive"] for name in names])
        if env.agents:
            continue
        if death == "stays":
            flags = ([bool(own[name]) for name in names] for own in (terminated, truncated))
            final = np.stack([seen[name][0].cpu().numpy() for name in names])
            log.end(*flags, final, infos[names[0]]["winner"], [infos[name]["won"] for name in names])
        else:
            log.done.append(len(paid))
        env.reset()
    if death == "terminates":
        assert len(log.done) == len(battles()) and 1 in log.done
        return
    assert_same(log.done, battles())

    def step():
        if not env.agents:
            env.reset()
        env.step({name: torch.zeros(1, 26) for name in env.possible_agents})

    tells = {"death": "continues, `alive` false", "time_up": "`truncated`", "win": "`won`"}
    note("skrl", "skrl", step, MECHS, glue=0, **tells, masks="-")


@pytest.mark.parametrize("death", ["stays", "terminates"])
def test_agilerl(death):
    """With its vector of worker processes, which sends actions for all agents, including dead ones."""
    pytest.importorskip("agilerl", exc_type=ImportError)
    from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv

    envs, log = AsyncPettingZooVecEnv([lambda: parallel(death=death)]), Log()
    try:
        names = envs.possible_agents if hasattr(envs, "possible_agents") else envs.agents
        envs.reset(seed=SEED)
        for decision in range(DECISIONS):
            actions = dict(zip(names, action_at(decision)[:, None], strict=True))
            _, paid, terminated, truncated, _ = envs.step(actions)
            paid = np.array([np.ravel(paid[name])[0] for name in names], np.float64)
            flags = [np.array([bool(np.ravel(own[name])[0]) for name in names]) for own in (terminated, truncated)]
            log.add(np.nan_to_num(paid), np.ones(MECHS))
            if (flags[0] | flags[1]).all():
                log.done.append(log.own)
                log.own = Battle()
        if death == "stays":
            for own, battle in zip(log.done, battles(), strict=True):
                assert own.length == battle.length
                np.testing.assert_allclose(own.returns, battle.returns, atol=1e-5)
        else:
            assert len(log.done) > 0
        if death == "stays":
            tells = {"death": "continues, or `terminated`", "time_up": "`truncated`", "win": "not available"}
            zero = {name: np.zeros((1, 26), np.float32) for name in names}
            step = lambda: envs.step(zero)  # noqa: E731
            note("AgileRL", "agilerl", step, MECHS, time.perf_counter, glue=2, **tells, masks="infos")
    finally:
        envs.close()

"""Value estimates in recordings, which do not change the battles."""

import dataclasses

import numpy as np
import pytest
import torch
from host_reads import HostReads
from leagues import BRIEF, TINY, policy_of

from echelon.agents.heuristic import Heuristic
from echelon.arena import batch_arena, until_done
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import GROUPS
from echelon.replay.battle import NO_VALUE, REWARD_UNITS
from echelon.replay.recorder import Recorder
from echelon.rules.physics import RulesConfig
from echelon.views.group_policy import team_input

CPU = torch.device("cpu")
LASTING = dataclasses.replace(BRIEF, blue=("heavy", "light", "scout"), red=("medium", "scout"))
POLICIES = {
    "local": policy_of(1),
    "central": policy_of(2, dataclasses.replace(TINY, critic="central")),
    "script": Heuristic(LASTING, "easy"),
}


def arena(policies=POLICIES, env=LASTING) -> BatchArena:
    return BatchArena(env, policies.__getitem__, ArenaConfig(CPU))


class Decisions:
    """A sink that stores every decision."""

    def __init__(self):
        self.stepped = []

    def begin(self, battles):
        pass

    def step(self, stepped, running):
        self.stepped.append(stepped.clone())

    def end(self, outcome):
        pass


@torch.no_grad()
def expected(policy, stepped, side, b):
    """Return the mean value of a team's living mechs, `[T]`, from the policy alone: one battle, no padding."""
    own, enemy = GROUPS[side], GROUPS[1 - side]
    memory, values = policy.memory_spec().expand(1, stepped[0][own, "mask"].shape[1]).zero(), []
    for td in stepped:
        td, now = td[b : b + 1], td[b : b + 1][own]
        team = team_input(dict(now["observation"].items()), now["mask"], td["telemetry"], memory, None)
        out = policy(team)
        memory = out["next", "memory"]
        value = policy.critic(out["embed"], now["observation", "ego"], td[enemy, "observation", "ego"])
        values.append(float((value * now["mask"]).sum() / now["mask"].sum().clamp_min(1)))
    return np.array(values)


@pytest.mark.parametrize("name", ["local", "central"])
@pytest.mark.parametrize("side", [0, 1])
def test_values_equal_the_critics_output(name, side):
    """Teams have unequal sizes, the second of three battles is recorded, and the scripted enemy has no value."""
    names = ["script", "script"]
    names[side] = name
    battles, recorder, kept = (
        [Battle("local", "central", 1), Battle(*names, 2), Battle("script", "local", 3)],
        None,
        Decisions(),
    )
    recorder = Recorder([1])
    arena().play(battles, recorder, kept)
    battle = recorder.finish(names[:1], names[1:]).battles[0]
    wanted = expected(POLICIES[name], kept.stepped[: battle.decisions], side, 1)
    assert len(set(wanted)) > 3
    assert battle.values[:-1, side] / REWARD_UNITS == pytest.approx(wanted, abs=1e-4)
    assert (battle.values[:, 1 - side] == NO_VALUE).all() and (battle.values[-1] == NO_VALUE).all()


def test_values_are_absent_without_a_critic():
    recorder = Recorder([0])
    arena().play([Battle("script", "script", 1), Battle("local", "script", 1)], recorder)
    battle = recorder.finish(["script"], ["script"]).battles[0]
    assert battle.values is None and battle.rewards is not None


def test_recording_values_changes_nothing_and_only_recorded_battles_are_estimated(monkeypatch):
    battles = [Battle("local", "central", 1), Battle("central", "local", 2), Battle("local", "script", 3)]
    plain, asked = arena().play(battles).results, []
    critic = type(POLICIES["local"].critic)
    forward = critic.forward
    monkeypatch.setattr(
        critic, "forward", lambda self, embed, *rest: asked.append(len(embed)) or forward(self, embed, *rest)
    )
    assert arena().play(battles).results == plain and not asked
    recorder = Recorder([0, 1])
    assert arena().play(battles, recorder).results == plain
    assert set(asked) == {1} and len(asked) % 4 == 0  # each of two policies, on each side, in one battle
    values = [battle.values for battle in recorder.finish(["a"] * 2, ["b"] * 2).battles]
    assert all((own[:-1] != NO_VALUE).all() for own in values)


def test_values_copy_nothing_to_the_host(monkeypatch):
    """In the form of a GPU, a recorded match copies to the host as rarely as any other."""
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", False)
    monkeypatch.setattr(batch_arena, "loops_on", lambda device: False)
    monkeypatch.setattr(until_done, "state_hashes", lambda state, which: torch.zeros(len(which), 1, dtype=torch.int64))
    env = dataclasses.replace(LASTING, rules=RulesConfig(max_episode_s=0.8, decision_repeat=1))
    recorder, counts = Recorder([0]), []
    expect = recorder.expect
    estimates = batch_arena.ValueEstimates.__call__

    def watched(self, observation):
        with HostReads() as reads:
            values = estimates(self, observation)
            expect(values)
        counts.append(reads.reads.total())
        return values

    monkeypatch.setattr(batch_arena.ValueEstimates, "__call__", watched)
    arena(env=env).play([Battle("local", "central", 1)], recorder)
    assert len(counts) >= 16 and sum(counts) == 0

"""Commanders of different kinds alternate in one environment, each with separate memory."""

import dataclasses

import pytest
import torch
from builders import flat_maps
from tensordict import TensorDict
from tiny_runs import TINY, short_battles
from torchrl.data import Composite, Unbounded

from echelon.agents.heuristic import Heuristic, scripted
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import action_width
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.opponents.assignment import SLOT, OpponentGroup, PolicyAssignment
from echelon.learn.opponents.named import NamedOpponents
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

CPU = torch.device("cpu")
CONFIG = short_battles()


class Counter:
    """Counts its decisions in a memory of a given shape, and writes the count to the first action column."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def memory_spec(self) -> Composite:
        return Composite(slot=Unbounded(self.shape))

    def __call__(self, team):
        count = team["memory", "slot"] + 1
        action = torch.zeros(*team.shape, action_width(CONFIG.comm_dim))
        action[..., 0] = count.flatten(2).mean(-1) if self.shape else count
        return team.set("action", action).set(("next", "memory", "slot"), count)


def idle(team):
    """A commander without memory, which also receives none."""
    assert len(team["memory"].keys()) == 0
    return team.set("action", torch.full((*team.shape, action_width(CONFIG.comm_dim)), 0.5))


KNOWN = {"one:Counter": lambda: Counter(2, 3), "bare:Counter": lambda: Counter(), "my:idle": lambda: idle}


def opponent_of(name, env, device):
    return KNOWN[name]() if name in KNOWN else scripted(name, env, device)


def opponents(*names: str) -> NamedOpponents:
    return NamedOpponents(CONFIG, names, names[0], 1.0, CPU, opponent_of)


def begin(rivals: NamedOpponents, battles: int = 4) -> TensorDict:
    """Return the opponent's view at the start of its battles."""
    seats = PolicyAssignment(TINY.build(PolicySpecs(8)), [OpponentGroup("them", rivals, battles)])
    env = EchelonEnv(CONFIG, battles, device="cpu", seed=0, memory=seats.memory, maps=flat_maps(CONFIG))
    return seats.view(env.reset(), "them")


def carried(decided: TensorDict, team: TensorDict, begins: slice) -> TensorDict:
    """Return the team at its next decision; the battles in `begins` restart."""
    following = team.copy()
    following.set("memory", decided["next", "memory"].clone())
    following["memory"][begins] = 0
    return following


def test_commanders_with_equal_memory_names_and_other_shapes_alternate():
    rivals = opponents("one:Counter", "bare:Counter", "heuristic:hard", "my:idle")
    team = begin(rivals)
    first = rivals(team.copy())
    assert (first["action"][..., 0] == 1).all() and first["next", "memory", "commander_0", "slot"].shape[2:] == (2, 3)
    rivals.set_opponent("bare:Counter", 1.0)
    second = rivals(carried(first, team, slice(2, 4)))
    assert second["next", "memory", SLOT][:, 0, 0].tolist() == [1, 1, 2, 2]
    assert second["action"][:, 0, 0].tolist() == [2, 2, 1, 1], "two battles continue with the first commander's memory"
    memory = second["next", "memory"]
    assert memory["commander_0", "slot"][:, 0, 0, 0].tolist() == [2, 2, 0, 0]
    assert memory["commander_1", "slot"][:, 0].tolist() == [0, 0, 1, 1]
    # A third commander takes the slot of the first when no battle uses it.
    rivals.set_opponent("heuristic:hard", 0.5)
    rivals.refresh([[0, 4]])
    fourth = carried(second, team, slice(0, 2))
    third = rivals(fourth.copy())
    alone = Heuristic(CONFIG, "hard", 0.5)(fourth[:2].copy())
    assert torch.equal(third["action"][:2], alone["action"]) and third["action"][2:, 0, 0].tolist() == [2, 2]
    for name in ("stuck_s", "target_at", "jammed_s", "shots_due"):
        assert torch.equal(third["next", "memory", name][:2], alone["next", "memory", name])


def test_commander_without_memory_alternates_with_a_tier():
    rivals = opponents("heuristic:trivial", "my:idle")
    team = begin(rivals)
    first = rivals(team.copy())
    rivals.set_opponent("my:idle", 1.0)
    decided = rivals(carried(first, team, slice(0, 1)))
    assert (decided["action"][0] == 0.5).all() and not (decided["action"][1:] == 0.5).all(-1).any()
    assert (decided["next", "memory", "shots_due"][0] == 0).all(), "unused memory stays zero"
    assert set(opponents("my:idle").memory_spec().keys()) == {SLOT, "weapon_use"}


def test_memory_spec_of_tiers_alone_is_unchanged():
    rivals = opponents("heuristic:trivial", "heuristic:hard")
    assert set(rivals.memory_spec().keys()) == {SLOT, "weapon_use", *Heuristic(CONFIG).memory_spec().keys()}
    assert rivals.description() == {}
    assert opponents("heuristic:hard", "my:idle").description() == {"commanders": ["heuristic:hard", "my:idle"]}


def test_state_with_bare_tier_names_loads():
    rivals = opponents("heuristic:trivial", "my:idle")
    kept = rivals.state_dict()
    facts = {**kept.facts, "tiers": ["easy", "trivial"], "newest": 1, "next_tier": "hard", "next_weapon_use": 0.5}
    rivals.load_state_dict(dataclasses.replace(kept, facts=facts))
    assert rivals.slots == ["heuristic:easy", "heuristic:trivial"] and rivals.requested == ("heuristic:hard", 0.5)
    assert rivals(begin(rivals))["action"].isfinite().all()


@pytest.mark.parametrize("name", ["evil:Commander", "one:Counter", "heuristic:godlike", "godlike"])
def test_state_with_unknown_commander_raises(name):
    rivals = opponents("heuristic:trivial", "my:idle")
    kept = rivals.state_dict()
    for facts in ({"tiers": [name, "my:idle"]}, {"next_tier": name}):
        with pytest.raises(FileError, match=rf"tiers must be of .*, my:idle, got \[.*{name}"):
            rivals.load_state_dict(dataclasses.replace(kept, facts={**kept.facts, **facts}))


def test_default_opponents_are_scripted_tiers():
    with pytest.raises(ConfigError, match=r"a scripted commander must be heuristic:trivial\|easy.*got 'my:idle'"):
        NamedOpponents(CONFIG, ["my:idle"], "my:idle", 1.0, CPU)

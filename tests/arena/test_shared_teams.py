"""Teams shared by two policies: each mech follows its own policy, independent of the rest of the batch."""

import dataclasses

import pytest
import torch
from host_reads import HostReads
from leagues import BRIEF, TINY, policy_of

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.agents.runner import SharedTeam
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.fingerprint import state_hash
from echelon.views.group_policy import team_input

CPU = torch.device("cpu")
WIDER = dataclasses.replace(TINY, hidden=24)
KNOWN = {
    **{tier: Heuristic(BRIEF, tier) for tier in ("easy", "hard", "expert")},
    "hard too": Heuristic(BRIEF, "hard"),
    "one": policy_of(1),
    "two": policy_of(2),
    "wide": policy_of(3, WIDER),
    "all hard": SharedTeam("hard", "hard too", (1, 3)),
    "easy and expert": SharedTeam("easy", "expert", (0, 2)),
    "one and two": SharedTeam("one", "two", (4,)),
    "two and one": SharedTeam("two", "one", (0, 1, 2, 3)),
    "one and easy": SharedTeam("one", "easy", (0, 3)),
    "wide and one": SharedTeam("wide", "one", (1, 2)),
}


def hashes(battles, batch=64, recorder=None):
    arena = BatchArena(BRIEF, KNOWN.__getitem__, ArenaConfig(CPU, batch))
    return [one.state_hash for played in arena.play_all(battles, recorder) for one in played.results]


def test_team_shared_by_equal_policies_plays_like_one():
    shared = [Battle("all hard", "easy", 1), Battle("easy", "all hard", 2)]
    assert hashes(shared) == hashes([Battle("hard", "easy", 1), Battle("easy", "hard", 2)])
    assert hashes([Battle("easy and expert", "hard", 1)]) != hashes([Battle("expert", "hard", 1)])


def test_a_battle_is_the_same_alone_and_among_others():
    """The policies are scripted commanders and networks of one architecture and of two, against each other."""
    names = [name for name, each in KNOWN.items() if isinstance(each, SharedTeam)]
    battles = [Battle(x, y, seed) for seed, (x, y) in enumerate(zip(names, [*names[2:], "one", "hard"], strict=True))]
    together = hashes(battles)
    assert together == [hashes([battle])[0] for battle in battles] == hashes(battles, batch=2)
    assert len(set(together)) == len(battles)


def test_a_view_with_a_partner_plays_the_same_battles():
    """`easy` commands its two mechs through the view."""
    view = echelon.partners(
        BRIEF, "heuristic:expert", [0, 2], "heuristic:hard", 1, "cpu", torch.tensor([7]), side="red"
    )
    own, td = Heuristic(BRIEF, "easy"), view.reset()
    memory = own.memory_spec().expand(1, 5).zero()
    while True:
        seen = view.env.last_observation()
        streams = dict(seen["red", "observation"].items())
        decided = own(team_input(streams, seen["red", "mask"], seen["telemetry"], memory, None))
        memory = decided["next", "memory"]
        stepped = view.step(td.set(("agents", "action"), decided["action"][:, [0, 2]]))["next"]
        if stepped["done"].all():
            break
        td = stepped
    ended = f"{state_hash(view.env.state).item() & (1 << 64) - 1:016x}"
    assert hashes([Battle("hard", "easy and expert", 7)]) == [ended]


@pytest.mark.parametrize("name", ["one and two", "one and easy"])
def test_decision_copies_nothing_to_the_host(name):
    arena = BatchArena(BRIEF, KNOWN.__getitem__, ArenaConfig(CPU, 2))
    batch = arena.make_batch(arena, [Battle(name, "hard", 1), Battle("hard", name, 2)], None)
    with torch.inference_mode():
        now = batch.reset_battles()
        batch._decide(now, 0)
        with HostReads() as counter:
            batch._decide(now, 1)
    assert not counter.reads

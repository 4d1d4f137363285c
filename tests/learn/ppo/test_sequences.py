"""Training sequences of single mechs, without those of absent mechs."""

import torch
from tensordict import TensorDict

from echelon.learn.padding import EXISTS
from echelon.learn.ppo.sequences import MechSequences, Sequences

TEAMS, TIME, MECHS, LENGTH = 3, 4, 2, 2


def rollout(exists: torch.Tensor) -> tuple[TensorDict, TensorDict]:
    """A rollout `[G, T]` of distinct numbers, stored time first, with the memory of each sequence."""
    ego = torch.arange(TIME * TEAMS * MECHS).float().view(TIME, TEAMS, MECHS, 1)
    leaves = {
        ("observation", "ego"): ego,
        "telemetry": torch.arange(TIME * TEAMS).float().view(TIME, TEAMS, 1, 1),
        "mask": ego[..., 0] >= 0,
        EXISTS: exists,
        "is_init": torch.zeros(TIME, TEAMS, 1, dtype=torch.bool),
        "advantage": ego * 10,
    }
    batch = TensorDict(leaves, [TIME, TEAMS]).transpose(0, 1)
    memory = {"h": torch.arange(2 * TEAMS * MECHS).float().view(2, TEAMS, MECHS, 1)}
    return batch, TensorDict(memory, [2, TEAMS]).transpose(0, 1)


def test_sequences_of_mechs_are_those_of_teams():
    batch, memory = rollout(torch.ones(TIME, TEAMS, MECHS, dtype=torch.bool))
    teams, mechs = Sequences(batch, memory, LENGTH), MechSequences(batch, memory, LENGTH)
    assert (teams.count, mechs.count) == (6, 12) and (teams.decisions(6), mechs.decisions(12)) == (24, 24)
    whole, single = teams.take(torch.arange(6)), mechs.take(torch.arange(12))
    for name in (("observation", "ego"), "mask", EXISTS, "advantage", ("memory", "h")):
        expected = whole.get(name).transpose(1, 2).flatten(0, 1)  # [S * A, L, ...]
        assert torch.equal(single.get(name)[:, :, 0], expected), name
    assert torch.equal(single.get("telemetry"), whole.get("telemetry").repeat_interleave(MECHS, 0))
    assert int(mechs.counted(torch.arange(12)).get("mask").sum()) == 24


def test_sequences_without_any_present_mech_are_left_out():
    exists = torch.ones(TIME, TEAMS, MECHS, dtype=torch.bool)
    exists[:, 1, 0] = False  # absent in both sequences
    exists[:3, 2, 1] = False  # a new battle begins with the last decision
    mechs = MechSequences(*rollout(exists), LENGTH)
    taken = mechs.take(torch.arange(mechs.count))
    assert mechs.count == 9 and torch.equal(taken.get(EXISTS)[-1, :, 0], torch.tensor([False, True]))
    shown = set(taken.get(("observation", "ego")).flatten().tolist())
    assert set(range(24)) - shown == {2, 8, 14, 20, 5, 11}

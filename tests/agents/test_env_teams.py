"""Teams of different size in the TensorDict of an environment."""

import dataclasses

import torch
from builders import flat_maps
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded

from echelon.agents.env_teams import EnvTeams, TeamSlice
from echelon.env.env import EchelonEnv
from echelon.rules.config import EnvConfig

UNEQUAL = dataclasses.replace(EnvConfig.small(), map_pool=1, blue=("light",) * 3, red=("heavy",) * 2)


class Counter:
    """Counts the decisions of every mech it commands, and stores the sizes of its teams."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def memory_spec(self) -> Composite:
        return Composite(count=Unbounded((1,)))

    def __call__(self, team: TensorDict) -> TensorDict:
        self.sizes.append(team.shape[1])
        count = team.get(("memory", "count"))
        team.set("action", torch.full((*count.shape[:2], 26), 0.5))
        return team.set(("next", "memory", "count"), count + 1)


def teams() -> tuple[EnvTeams, EchelonEnv]:
    """Two battles: the first policy is blue in one and red in the other."""
    first, second = slice(0, 1), slice(1, 2)
    slices = {
        "own": [TeamSlice("blue", first), TeamSlice("red", second)],
        "other": [TeamSlice("red", first), TeamSlice("blue", second)],
    }
    seats = EnvTeams({name: Counter() for name in slices}, slices)
    return seats, EchelonEnv(UNEQUAL, 2, device="cpu", seed=0, memory=seats.memory, maps=flat_maps(UNEQUAL))


def test_first_policy_is_padded_and_others_run_per_team():
    seats, env = teams()
    td = env.reset()
    for _ in range(2):
        output = seats.decide(td)
        _, td = env.step_and_maybe_reset(td)
    assert output.shape == (2, 3) and output["mask"].tolist() == [[True] * 3, [True, True, False]]
    assert seats.policies["own"].sizes == [3, 3] and seats.policies["other"].sizes == [2, 3, 2, 3]
    assert td["blue", "memory", "own", "count"][..., 0].tolist() == [[2.0] * 3, [0.0] * 3]
    assert td["red", "memory", "own", "count"][..., 0].tolist() == [[0.0] * 2, [2.0] * 2]


def test_view_in_another_dtype_keeps_masks_and_memory():
    seats, env = teams()
    td = env.reset()
    plain, reduced = seats.view(td, "own"), seats.view(td, "own", dtype=torch.bfloat16)
    assert plain["telemetry"].stride(1) == 0 == reduced["telemetry"].stride(1)
    for key, leaf in plain.items(True, True):
        is_kept = leaf.dtype == torch.bool or key[0] == "memory"
        assert torch.equal(reduced[key], leaf if is_kept else leaf.bfloat16()), key
    assert reduced["observation", "ego"].dtype == torch.bfloat16 and reduced["memory", "count"].dtype == torch.float32

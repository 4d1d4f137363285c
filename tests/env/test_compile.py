"""Compiled and eager play the same battle."""

import dataclasses

import pytest
import torch
from builders import brawl

from echelon.config import EnvConfig, RulesConfig
from echelon.env.env import EchelonEnv


@pytest.mark.slow
def test_compiled_equals_eager():
    """`EchelonEnv(compiled=True)` compiles the substep and the observation with `fullgraph`: no graph breaks.

    Twenty decisions, a restart among them. Fused kernels round sums and products otherwise: 1e-3.
    """
    config = dataclasses.replace(
        EnvConfig.small(),
        map_pool=2,
        blue=("medium", "light"),
        red=("medium", "scout"),
        rules=RulesConfig(max_episode_s=4.0),
    )
    eager = EchelonEnv(config, 2, "cpu", seed=1)
    compiled = EchelonEnv(config, 2, "cpu", seed=1, maps=eager.game.maps, compiled=True)
    generator = torch.Generator().manual_seed(0)
    one, other = eager.reset(), compiled.reset()
    for t in range(20):
        brawl(one, generator)
        for group in ("blue", "red"):
            other[group, "action"] = one[group, "action"]
        step_one, one = eager.step_and_maybe_reset(one)
        step_other, other = compiled.step_and_maybe_reset(other)
        for key in step_one.keys(True, True):
            torch.testing.assert_close(
                step_other[key], step_one[key], atol=1e-3, rtol=1e-4, msg=lambda m, k=(t, key): f"{k}: {m}"
            )
    assert one["is_init"].sum() == 0 and eager.state.tick.tolist() == [20, 20]

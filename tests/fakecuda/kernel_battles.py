"""Battles on a CPU in which the kernels of `sim/gpu` have much to do."""

import contextlib
import dataclasses
from collections.abc import Iterator
from unittest import mock

import torch

from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.rules import actions
from echelon.rules.actions import Orders
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.sim import firing, movement, rubble, shots
from echelon.state import State

SYSTEMS = (firing, movement, rubble, shots)
"""Those that ask `runs_on`."""


@contextlib.contextmanager
def by_kernels() -> Iterator[None]:
    """Within, the systems run their kernels on a CPU too."""
    with contextlib.ExitStack() as patches:
        for system in SYSTEMS:
            patches.enter_context(mock.patch.object(system, "runs_on", lambda device: True))
        yield


def crowded(battles: int) -> EchelonEnv:
    """Battles in a jungle whose teams stand close together, or on each other, some of them weak, one dead."""
    config = dataclasses.replace(EnvConfig.standard(), map_pool=2, world=WorldConfig(biomes=("dense_jungle",)))
    env = EchelonEnv(config, battles, "cpu", seed=3, backend="eager")
    mechs = env.state.mechs
    centre, share = mechs.pos.mean(1, keepdim=True), torch.tensor([0.15, 0.4, 0.7])[torch.arange(battles) % 3]
    mechs.pos[..., :2] = (centre + share[:, None, None] * (mechs.pos - centre))[..., :2]
    mechs.pos[..., 2] += 3.0
    mechs.hp[:, ::3] *= 0.02
    mechs.leg_hp[:, ::4] *= 0.02
    mechs.hp[0, 1] = 0.0
    return env


def random_orders(env: EchelonEnv, state: State, generator: torch.Generator) -> Orders:
    """Everybody does something."""
    shape = env.num_envs, env.config.num_mechs, layout.action_width(env.config.comm_dim)
    action = 2 * torch.rand(shape, generator=generator) - 1
    return actions.decode(action, state.focus_slots, env.game.roster, env.config.features)

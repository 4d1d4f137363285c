"""Runs the kernels of `sim/gpu` by Triton's interpreter, on a CPU, and compares battles with those of the dense forms."""

import os

os.environ["TRITON_INTERPRET"] = "1"
import sys

import torch

import echelon.sim.gpu.launch
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.rules import actions
from echelon.rules.config import ENV_PRESETS
from echelon.state import Terrain, leaves_of

SYSTEMS = ("movement", "rubble", "shots", "firing", "damage", "smoke", "ams")
"""Modules of `echelon.sim` that ask `runs_on`."""


def told(state) -> dict[str, torch.Tensor]:
    """Every tensor of a state, its ground included."""
    ground = {name: getattr(state.terrain, name).clone() for name in Terrain.__dataclass_fields__}
    return {**leaves_of(state), **ground}


def main(preset: str, battles: int, decisions: int) -> None:
    """Battles of random actions, in which everybody fires."""
    from echelon.sim import step

    env = EchelonEnv(ENV_PRESETS[preset](), battles, "cpu", seed=3, compiled=False, kernels="dense")
    game, state, generator = env.game, env.state, torch.Generator().manual_seed(1)
    asked = [sys.modules[f"echelon.sim.{name}"] for name in SYSTEMS]
    asked = [module for module in asked if hasattr(module, "runs_on")]
    changed = set()
    crowd(state)
    for _ in range(decisions):
        width = layout.action_width(env.config.comm_dim)
        action = torch.rand(battles, env.config.num_mechs, width, generator=generator) * 2 - 1
        orders = actions.decode(action, state.focus_slots, game.roster, env.config.features)
        for _ in range(game.rules.decision_repeat):
            before = told(state)
            twin = state.clone()
            for module in asked:
                module.runs_on = lambda device: True
            ours = step.play(twin, orders, game)
            for module in asked:
                module.runs_on = lambda device: False
            theirs = step.play(state, orders, game)
            ours_told, theirs_told = told(ours), told(theirs)
            for name, value in theirs_told.items():
                assert torch.equal(ours_told[name], value), (
                    name, int((ours_told[name] != value).sum()), (ours_told[name] - value).abs().max()
                )
                if not torch.equal(before[name], value):
                    changed.add(name)
            state = theirs
    print("equal", len(changed), "changed; unchanged:", sorted(set(before) - changed))


def crowd(state) -> None:
    """Bring the teams together, weaken some mechs."""
    pos, hp = state.mechs.pos, state.mechs.hp
    centre = pos.mean(1, keepdim=True)
    pos[..., :2] = (centre + torch.tensor([0.15, 0.4, 0.7]).repeat(9)[: len(pos), None, None] * (pos - centre))[..., :2]
    pos[..., 2] += 3.0
    hp[:, ::3] *= 0.02
    state.mechs.leg_hp[:, ::4] *= 0.02
    hp[0, 1] = 0.0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

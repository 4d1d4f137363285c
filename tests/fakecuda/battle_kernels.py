"""Runs the kernels of `sim/gpu` by Triton's interpreter, on a CPU: battles are those of the dense forms."""

import os

os.environ["TRITON_INTERPRET"] = "1"
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from echelon.sim import step
from echelon.state import State, Terrain, leaves_of
from fakecuda.kernel_battles import by_kernels, crowded, random_orders

DECISIONS = 2
CHANGED = {
    *("mechs.pos", "mechs.vel", "mechs.hp", "mechs.wrecked", "mechs.hit_from", "mechs.paint", "shots.pos", "shots.ttl"),
    *("tally.hits", "tally.taken", "tally.shots", "tally.killed_by", "damage", "rubble", "opaque"),
}
"""What must change in these battles, else nothing is shown."""


def told(state: State) -> dict[str, torch.Tensor]:
    """Every tensor of a state, its ground included."""
    ground = {name: getattr(state.terrain, name).clone() for name in Terrain.__dataclass_fields__}
    return {**leaves_of(state), **ground}


def main() -> None:
    """Crowded battles of random actions."""
    env = crowded(battles=3)
    game, state, generator = env.game, env.state, torch.Generator().manual_seed(1)
    changed = set()
    for _ in range(DECISIONS):
        orders = random_orders(env, state, generator)
        for _ in range(game.rules.decision_repeat):
            before, twin = told(state), state.clone()
            with by_kernels():
                ours = told(step.play(twin, orders, game))
            state = step.play(state, orders, game)
            theirs = told(state)
            for name, value in theirs.items():
                assert torch.equal(ours[name], value), f"{name}: {int((ours[name] != value).sum())} differ"
            changed |= {name for name, value in theirs.items() if not torch.equal(before[name], value)}
    assert changed >= CHANGED, CHANGED - changed
    print("equal")


if __name__ == "__main__":
    main()

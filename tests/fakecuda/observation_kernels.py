"""Runs the kernels of an observation by Triton's interpreter, on a CPU, and compares them with the dense forms; with
`compile` it compiles them for a GPU that is not there (sm_90)."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

if "compile" not in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from echelon.env.gpu import contact_rows
from echelon.env.observation import contacts, sensing
from echelon.env.observation.build import observe
from echelon.env.observation.layout import STREAMS
from echelon.sim import step
from echelon.sim.gpu import lines
from fakecuda.compiled_kernels import compiled
from fakecuda.kernel_battles import crowded, random_orders


@contextlib.contextmanager
def by_kernels() -> Iterator[None]:
    """Within, a CPU runs the kernels too."""
    with contextlib.ExitStack() as patches:
        for module in (contacts, sensing):
            patches.enter_context(mock.patch.object(module, "runs_on", lambda device: True))
        yield


def main() -> None:
    """Battles of random actions, some of them in smoke, seen after each of some decisions."""
    env = crowded(battles=3)
    game, state, generator = env.game, env.state, torch.Generator().manual_seed(1)
    state.mechs.fallen[:, 2], state.mechs.leg_hp[:, 5] = 9, 0.0
    state.clouds.ttl[0, :2], state.clouds.pos[0, :2] = 9, state.mechs.pos[0, :2] + 1.0
    told = set()
    for _ in range(3):
        orders = random_orders(env, state, generator)
        after, theirs = observe(state, orders, game)
        told |= {name for name in ("smoky", "open") if sensing.lines(state, game)[name == "smoky"].any()}
        there = {name: torch.full_like(theirs[name], 1) for name in STREAMS}
        with by_kernels():
            own, ours = observe(state, orders, game, there)
            _, fresh = observe(state, orders, game)
        assert ours is there
        for name in STREAMS:
            assert torch.equal(ours[name], theirs[name]), f"{name}: {(ours[name] - theirs[name]).abs().max()}"
            assert torch.equal(fresh[name], theirs[name]), name
        assert torch.equal(fresh["clear_lines"], theirs["clear_lines"])
        assert torch.equal(own.focus_slots, after.focus_slots)
        told |= {name for name, span in contact_rows.COLUMNS.items() if (theirs["contacts"][..., span] != 0).any()}
        for _ in range(game.rules.decision_repeat):
            state = step.play(state, orders, game)
    unseen = {"smoky", "open", *contact_rows.COLUMNS} - told
    assert not unseen, unseen
    print("equal")


def compile_them() -> None:
    """An observation whose kernels are compiled and do nothing."""
    env = crowded(battles=2)
    orders = random_orders(env, env.state, torch.Generator().manual_seed(1))
    contact_rows.launch = lines.launch = compiled
    with by_kernels():
        observe(env.state, orders, env.game)


if __name__ == "__main__":
    compile_them() if "compile" in sys.argv else main()

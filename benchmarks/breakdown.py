"""Time of each part of a decision, measured alone: systems of a substep and parts of an observation, a line each.

On a CPU with numba each part is a loop (`loop_parts.py`); the last lines give the whole decision and the rest. In other
modes each part is a torch function, compiled alone or eager. Fusion across systems is not visible, so compare shares,
not sums. Two floors are printed beside the time: moving all input and output tensors once, and writing all numbers that
eager operations write, at the copy and addition rates of this machine.

python benchmarks/breakdown.py --preset standard --num-envs 128
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from measure import report, seconds
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from echelon import EchelonEnv
from echelon.env import outcome, reward
from echelon.env.arguments import joined_actions
from echelon.env.form import Backend
from echelon.env.objectives import zone
from echelon.env.observation import sensing
from echelon.env.observation.build import observe
from echelon.env.observation.stream import StreamInputs
from echelon.env.observation.streams import contacts
from echelon.env.observation.streams.registry import OF_MECHS
from echelon.rules import actions
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.command_line import settings
from echelon.runtime.compile import fused
from echelon.runtime.device import resolve_device, use_device
from echelon.sim import ams, damage, firing, footing, hazards, heat, movement, rubble, shots, smoke, step, timers
from echelon.sim.model import SimModel
from echelon.state import Terrain


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["small", "standard", "large"] = "standard"
    num_envs: int = 128
    mode: Literal["auto", "loops", "eager", "compiled"] = "auto"
    """`auto`: loops where available, else compiled."""
    only: tuple[str, ...] = ()
    """Names of systems; all by default."""
    repeats: int = 10
    """Number of timed calls; the median is reported."""
    device: str = "auto"


def systems(env: EchelonEnv) -> dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]]:
    """Return for each system its calls a decision, the function, and arguments from a running battle."""
    sim_model, state = env.sim_model, env.state
    action = joined_actions(env.action_spec.rand(), env.group_map, env.batch_size, env.config.comm_dim)
    orders = actions.decode(action, state.focus_slots, sim_model.roster, env.config.features)
    draws = step.draw(state, sim_model)
    dealt = damage.nothing_dealt(state)
    vents = heat.is_venting(state, orders, sim_model)
    _, impacts = shots.fly(state, sim_model)
    marked = damage.paint_factor(state, sim_model)
    hits = shots.strike(state, impacts, marked, sim_model)
    senses = sensing.perceive(state, orders, sim_model)
    slots, is_filled = contacts.contact_slots(senses, state, orders, sim_model)
    inputs = StreamInputs(state, orders, sim_model, senses, slots, is_filled)
    ending = outcome.judge(state, sim_model)
    substeps = sim_model.rules.decision_repeat
    return {
        "draw": (substeps, step.draw, (state, sim_model)),
        "timers": (substeps, timers.count_down, (state,)),
        "hazards": (substeps, hazards.apply_hazards, (state, orders, sim_model)),
        "footing": (substeps, footing.update_footing, (state, sim_model)),
        "heat": (substeps, heat.dissipate_heat, (state, vents, sim_model)),
        "ams": (substeps, ams.intercept, (state, draws.ams, sim_model)),
        "fly": (substeps, shots.fly, (state, sim_model)),
        "strike": (substeps, shots.strike, (state, impacts, marked, sim_model)),
        "smoke": (substeps, smoke.spawn_clouds, (state, impacts, sim_model)),
        "chip": (substeps, rubble.damage_voxels, (state, impacts, sim_model)),
        "apply": (2 * substeps, damage.apply, (state, hits, dealt, sim_model)),
        "fire": (substeps, firing.fire, (state, orders, vents, draws.beam_height, marked, sim_model)),
        "wrecks": (substeps, rubble.lay_wrecks, (state, draws.wreck, draws.priority, sim_model)),
        "move": (substeps, movement.move, (state, orders, draws.priority, sim_model)),
        "substep": (substeps, step.substep, (state, orders, draws, sim_model)),
        "perceive": (1, sensing.perceive, (state, orders, sim_model)),
        "contact_slots": (1, contacts.contact_slots, (senses, state, orders, sim_model)),
        **{stream.name: (1, stream.dense, (inputs,)) for stream in OF_MECHS if stream.dense is not None},
        "observation": (1, observe, (state, orders, sim_model)),
        "zone": (1, zone.score, (state, sim_model)),
        "reward": (1, reward.terms, (state, state, ending, sim_model)),
    }


class Written(TorchDispatchMode):
    """Count the numbers that operations write; views write none."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.count += sum(leaf.numel() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))
        return result


def floors(run: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[int, int]:
    """Return the bytes of inputs and outputs with a battle axis, and how many numbers eager operations write."""
    with Written() as written:
        result = run(*arguments)
    return bytes_of([*arguments, result]), written.count


def bytes_of(values: Any) -> int:
    """Return the bytes of all tensors in a structure, without terrain and constants."""
    if isinstance(values, torch.Tensor):
        return values.numel() * values.element_size()
    if isinstance(values, SimModel | Terrain):
        return 0
    if isinstance(values, dict):
        return sum(bytes_of(value) for value in values.values())
    if isinstance(values, list | tuple):
        return sum(bytes_of(value) for value in values)
    fields = getattr(values, "__dataclass_fields__", {})
    return sum(bytes_of(getattr(values, name)) for name in fields if name != "batch_size")


def rates(device: torch.device, repeats: int) -> tuple[float, float]:
    """Return the copy rate of 64 MB in bytes a second, and the addition rate within the first cache."""
    large, small = torch.ones(2**24, device=device), torch.ones(2**12, device=device)
    into = torch.empty_like(large)
    copy_s = seconds(lambda: into.copy_(large), device, repeats)
    add_s = seconds(lambda: [small.add_(1.0) for _ in range(100)], device, repeats)
    return 2 * large.numel() * 4 / copy_s, 100 * small.numel() / add_s


def main(args: Args) -> None:
    """Run all measurements."""
    device = use_device(resolve_device(args.device))
    backend: Backend = "loops" if args.mode == "loops" else "auto"
    env = EchelonEnv(ENV_PRESETS[args.preset](), args.num_envs, device=device, seed=0, backend=backend)
    env.rollout(3, break_when_any_done=False)
    mode = args.mode if args.mode != "auto" else "loops" if env.form == "loops" else "compiled"
    if mode == "loops":
        tell_loops(env, args)
    else:
        tell_operations(env, args, mode)


def tell_loops(env: EchelonEnv, args: Args) -> None:
    """Print a line for each system in loops, on one thread."""
    # numba may be missing.
    from loop_parts import parts

    torch.set_num_threads(1)
    for name, spent_ms in parts(env, args.repeats).items():
        if not args.only or name in args.only:
            sizes = {"preset": args.preset, "num_envs": args.num_envs}
            report("breakdown", env.device, system=name, mode="loops", **sizes, ms_per_decision=round(spent_ms, 3))


def tell_operations(env: EchelonEnv, args: Args, mode: str) -> None:
    """Print a line for each system as torch operations."""
    device = env.device
    copied_per_s, added_per_s = rates(device, args.repeats)
    with torch.inference_mode():
        by_name = systems(env)
        for name in args.only or by_name:
            times, run, arguments = by_name[name]
            if mode == "compiled":
                run = fused(run, device)
            spent_s = seconds(lambda run=run, arguments=arguments: run(*arguments), device, args.repeats)
            num_bytes, num_written = floors(by_name[name][1], arguments)
            report(
                "breakdown",
                device,
                system=name,
                mode=mode,
                preset=args.preset,
                num_envs=args.num_envs,
                ms_per_decision=round(spent_s * times * 1e3, 2),
                bytes_floor_ms=round(num_bytes / copied_per_s * times * 1e3, 3),
                operations_floor_ms=round(num_written / added_per_s * times * 1e3, 3),
            )


if __name__ == "__main__":
    main(settings(Args, __doc__))

"""Where a decision's time goes: the systems of a substep and the parts of an observation, each by itself, a line each.

Each is compiled alone, so what fuses across systems in the whole step is not seen here: read the shares, not the sum.

python benchmarks/systems.py --preset standard --num-envs 256
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import tyro
from measure import report, seconds

from echelon import EchelonEnv
from echelon.config import ENV_PRESETS
from echelon.env import contacts, observe, outcome, reward, sensing, squad, zone
from echelon.learn.machine import resolve_device
from echelon.sim import ams, damage, firing, footing, hazards, heat, movement, rubble, shots, smoke, step, timers


@dataclass(frozen=True)
class Args:
    """What to measure."""

    preset: Literal["small", "standard", "large"] = "standard"
    num_envs: int = 256
    mode: Literal["eager", "compiled"] = "compiled"
    only: tuple[str, ...] = ()
    """Names of systems; all of them by default."""
    repeats: int = 10
    """Timed calls; the median counts."""
    device: str = "auto"


def systems(env: EchelonEnv) -> dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]]:
    """By name: how often a decision runs it, the function, and its arguments at a moment of battle."""
    game, state = env.game, env.state
    orders = env._orders(env.action_spec.rand())
    draws = step.draw(state, game)
    dealt = damage.nothing_dealt(state)
    vents = heat.is_venting(state, orders, game)
    _, impacts = shots.fly(state, game)
    hits = shots.strike(state, impacts, game)
    senses = sensing.perceive(state, orders, game)
    slots, filled = contacts.contact_slots(senses, state, orders, game)
    ending = outcome.judge(state, game)
    substeps = game.rules.decision_repeat
    return {
        "draw": (substeps, step.draw, (state, game)),
        "timers": (substeps, timers.count_down, (state,)),
        "hazards": (substeps, hazards.burn, (state, orders, game)),
        "footing": (substeps, footing.stand, (state, game)),
        "heat": (substeps, heat.cool, (state, vents, game)),
        "ams": (substeps, ams.intercept, (state, draws.ams, game)),
        "fly": (substeps, shots.fly, (state, game)),
        "strike": (substeps, shots.strike, (state, impacts, game)),
        "smoke": (substeps, smoke.billow, (state, impacts, game)),
        "chip": (substeps, rubble.chip, (state, impacts, game)),
        "apply": (2 * substeps, damage.apply, (state, hits, dealt, game)),
        "fire": (substeps, firing.fire, (state, orders, vents, draws.beam_height, game)),
        "wrecks": (substeps, rubble.lay_wrecks, (state, draws.wreck, draws.priority, game)),
        "move": (substeps, movement.move, (state, orders, draws.priority, game)),
        "substep": (substeps, step.substep, (state, orders, draws, game)),
        "perceive": (1, sensing.perceive, (state, orders, game)),
        "contacts": (1, contacts.contacts, (slots, filled, senses, state, game)),
        "contact_slots": (1, contacts.contact_slots, (senses, state, orders, game)),
        "squad": (1, squad.squad, (state, orders, game)),
        "ego": (1, observe.ego, (senses, state, orders, game)),
        "local_map": (1, observe.local_map, (state, game)),
        "observation": (1, observe.build, (state, orders, game)),
        "zone": (1, zone.score, (state, game)),
        "reward": (1, reward.terms, (state, state, ending, game)),
    }


def main(args: Args) -> None:
    """Measure each system."""
    device = resolve_device(args.device)
    env = EchelonEnv(ENV_PRESETS[args.preset](), args.num_envs, device=device, seed=0)
    env.rollout(3, break_when_any_done=False)
    with torch.inference_mode():
        parts = systems(env)
        for name in args.only or parts:
            times, run, arguments = parts[name]
            if args.mode == "compiled":
                run = torch.compile(run, fullgraph=True, dynamic=False)
            spent_s = seconds(lambda run=run, arguments=arguments: run(*arguments), device, args.repeats)
            report(
                "systems",
                device,
                system=name,
                mode=args.mode,
                preset=args.preset,
                num_envs=args.num_envs,
                ms_per_decision=round(spent_s * times * 1e3, 2),
            )


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))

"""Throughput and memory by number of battles, number of mechs and map size. JSON lines and a plot.

python benchmarks/scaling.py --battles 256 1024 4096 --out scaling.png
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from breakdown import bytes_of
from env import Player
from matplotlib.figure import Figure
from measure import report

from echelon import EchelonEnv, EnvConfig
from echelon.env.form import Backend
from echelon.rules.config import ENV_PRESETS, PACK
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    battles: tuple[int, ...] = (256, 1024, 4096)
    """Numbers of battles of the standard preset."""
    packs: tuple[int, ...] = ()
    """Packs a team, with the first number of battles: 1 is 5v5, 8 is 40v40."""
    presets: tuple[Literal["small", "standard", "large"], ...] = ()
    """Map sizes, with the first number of battles."""
    backend: Backend = "auto"
    decisions: int = 12
    """Number of timed decisions; the median is reported."""
    out: Path | None = None
    """File for a plot of throughput and memory by battles."""
    device: str = "auto"


def battle_bytes(env: EchelonEnv, player: Player) -> int:
    """Return the bytes of a battle's state and observation, without the shared maps."""
    state = env.state
    terrain = sum(leaf.numel() * leaf.element_size() for leaf in state.terrain.values())
    observation_bytes = sum(player.now.get((group, "observation")).bytes() for group in env.group_map)
    return (bytes_of(state) + terrain + observation_bytes) // env.num_envs


def measure(config: EnvConfig, num_envs: int, args: Args, **names: object) -> tuple[float, int]:
    """Report one line: agent-steps a second, and bytes a battle."""
    device = use_device(resolve_device(args.device))
    env = EchelonEnv(config, num_envs, device=device, seed=0, backend=args.backend)
    player = Player(env)
    first_s, step_s = player.measure(args.decisions)
    speed, size = num_envs * config.num_mechs / step_s, battle_bytes(env, player)
    sizes = {"num_envs": num_envs, "agents": config.num_mechs, "backend": args.backend, **names}
    speeds = {"agent_steps_per_s": round(speed), "ms_per_decision": round(step_s * 1e3, 2)}
    report("scaling", device, **sizes, **speeds, first_decision_s=round(first_s, 1), bytes_per_battle=size)
    return speed, size


def draw(battles: tuple[int, ...], results: list[tuple[float, int]], out: Path) -> None:
    """Draw throughput and memory by battles."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(battles, [speed for speed, _ in results], "o-")
    left.set(xscale="log", xlabel="battles", ylabel="agent-steps/s", ylim=(0, None))
    right.plot(battles, [size * count / 2**20 for (_, size), count in zip(results, battles, strict=True)], "o-")
    right.set(xscale="log", yscale="log", xlabel="battles", ylabel="state and observation, MiB")
    figure.savefig(out, dpi=150)


def main(args: Args) -> None:
    """Measure each size and report."""
    standard = EnvConfig.standard()
    results = [measure(standard, count, args, preset="standard") for count in args.battles]
    if args.out is not None:
        draw(args.battles, results, args.out)
    for packs in args.packs:
        measure(dataclasses.replace(standard, blue=PACK * packs, red=PACK * packs), args.battles[0], args, packs=packs)
    for preset in args.presets:
        measure(ENV_PRESETS[preset](), args.battles[0], args, preset=preset)


if __name__ == "__main__":
    main(settings(Args, __doc__))

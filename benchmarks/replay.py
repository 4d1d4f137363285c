"""Cost of recording: the same battles with and without a recorder, decision by decision in turn. One JSON line.

python benchmarks/replay.py --preset standard --num-envs 256 --battles 4
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import torch
from env import Player
from measure import in_turn, report

from echelon import EchelonEnv
from echelon.env.form import Backend
from echelon.replay.recorder import Recorder
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["small", "standard", "large"] = "standard"
    num_envs: int = 256
    battles: int = 4
    """Number of recorded battles."""
    mode: Literal["eager", "compiled"] = "eager"
    decisions: int = 40
    device: str = "auto"


def main(args: Args) -> None:
    """Play both in turn and report the ratio."""
    device = use_device(resolve_device(args.device))
    config = ENV_PRESETS[args.preset]()
    backend: Backend = "auto" if args.mode == "compiled" else "eager"
    recorder = Recorder(range(args.battles))
    plain = EchelonEnv(config, args.num_envs, device=device, seed=0, backend=backend)
    recorded_env = EchelonEnv(
        config, args.num_envs, device=device, seed=0, maps=plain.sim_model.maps, backend=backend, observer=recorder
    )
    with torch.inference_mode():
        players = Player(plain), Player(recorded_env)
        for player in players:
            player.decide()
        plain_s, watched_s, ratio = in_turn(players[0].decide, players[1].decide, device, args.decisions)
    start_s = time.perf_counter()
    recorder.finish(["blue"] * args.battles, ["red"] * args.battles)
    report(
        "replay",
        device,
        mode=args.mode,
        preset=args.preset,
        num_envs=args.num_envs,
        recorded=args.battles,
        plain_ms_per_decision=round(plain_s * 1e3, 2),
        recorded_ms_per_decision=round(watched_s * 1e3, 2),
        median_ratio=round(ratio, 4),
        finish_s=round(time.perf_counter() - start_s, 3),
    )


if __name__ == "__main__":
    main(settings(Args, __doc__))

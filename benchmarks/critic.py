"""Compare a critic with counted win rates: does the value of a moment predict how often the policy wins from it?

python benchmarks/critic.py --policy runs/mine --against heuristic:hard --battles 32
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import torch

from echelon.arena.config import ArenaConfig
from echelon.arena.match import named_match, replay_of
from echelon.arena.resolve import common_env, resolve
from echelon.arena.whatif import whatif
from echelon.replay.battle import NO_VALUE, REWARD_UNITS, Replay
from echelon.replay.recorder import Recorder
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import ConfigError

BINS = 5
"""Number of classes of moments by the critic's value, of equal size."""


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    policy: str
    """A trained commander, by any name that `arena.py play` accepts."""
    against: str = "heuristic:hard"
    battles: int = 32
    every: int = 16
    """Number of decisions between two moments."""
    branches: int = 32
    """Number of battles from each moment."""
    seed: int = 0
    device: str = "auto"


def main(args: Args) -> None:
    """Print a JSON object: the correlation, and the counted win rate for each class of values."""
    device = use_device(resolve_device(args.device))
    env = common_env([resolve(args.policy)])
    settings, recorder = ArenaConfig(device, args.battles), Recorder(range(args.battles))
    match = named_match(args.policy, args.against, env, args.battles, settings)
    match.play(args.seed, recorder)
    replay = replay_of(recorder, args.policy, args.against)
    pairs = torch.cat([moments_of(replay, index, args, device) for index in range(args.battles)])
    value, share = pairs.unbind(1)
    by_value = [bin_pairs.mean(0).tolist() for bin_pairs in pairs[value.argsort()].tensor_split(BINS)]
    ranks = torch.stack([column.argsort().argsort().double() for column in (value, share)])
    result = {
        "policy": args.policy,
        "against": args.against,
        "moments": len(pairs),
        "branches": args.branches,
        "pearson": round(float(torch.corrcoef(pairs.T)[0, 1]), 3),
        "spearman": round(float(torch.corrcoef(ranks)[0, 1]), 3),
        "by_value": [{"value": round(mean, 3), "wins": round(wins, 3)} for mean, wins in by_value],
    }
    print(json.dumps(result))


def moments_of(replay: Replay, index: int, args: Args, device: torch.device) -> torch.Tensor:
    """Return `[K, 2]`: the critic's value and the share of wins of its side, for each moment of a battle."""
    battle = replay.battles[index]
    expected = battle.values
    if expected is None:
        raise ConfigError(f"--policy must be one with a critic, got {args.policy}")
    side = 0 if battle.about["blue"] == args.policy else 1
    lane = whatif(replay, index, every=args.every, branches=args.branches, device=device).moments[:-1]
    values = torch.from_numpy(expected[lane["decision"].numpy(), side].astype(float))
    share = lane["blue"].double() if side == 0 else 1 - lane["blue"].double()
    return torch.stack([values / REWARD_UNITS, share], 1)[values > NO_VALUE]


if __name__ == "__main__":
    main(settings(Args, __doc__))

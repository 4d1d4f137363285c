"""Costs of work on many processes, as JSON lines: bytes of gradients, checkpoints and records, battles a second of a
core, a growing league database, Ray tasks, and a tournament with one and two workers.

python benchmarks/costs.py --parts learner battles database --matches 200000
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from measure import once, report

from echelon.arena.batch_arena import BatchArena, BatchResult, Battle, BattleResult
from echelon.arena.config import ArenaConfig
from echelon.arena.resolve import resolve
from echelon.env.outcome import Reason, Winner
from echelon.league import commands
from echelon.league.league_arena import LeagueArena, claiming
from echelon.league.matchmaking import period_seeds, round_robin
from echelon.league.rating_period import close_period, payoff_matrix
from echelon.league.records import MatchRecord
from echelon.league.store import Store
from echelon.learn.config import TRAIN_PRESETS
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.trainer import Trainer
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.command_line import settings
from echelon.runtime.ray_tasks import RayArgs

CPU = torch.device("cpu")
Part = Literal["learner", "battles", "database", "tasks", "tournament"]


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    parts: tuple[Part, ...] = ("learner", "battles", "database", "tasks", "tournament")
    matches: int = 200_000
    """Number of matches that the database grows to."""
    num_envs: int = 32
    """Number of battles of the run whose checkpoint is measured."""
    battles: int = 256
    """Number of timed battles, for each preset."""
    seeds: int = 16
    """Number of seeds of the tournament of the scripted tiers."""
    repeats: int = 2
    """Number of tournaments with each number of workers, in turn."""


def learner(args: Args) -> None:
    """Measure the bytes of a gradient, and of a checkpoint by file."""
    for name in ("quick", "standard"):
        config = dataclasses.replace(
            TRAIN_PRESETS[name](), num_envs=args.num_envs, device="cpu", compile_policy="off", opponent="heuristic:easy"
        )
        policy = config.model.build(PolicySpecs(config.env.comm_dim))
        gradient = sum(4 * weight.numel() for weight in policy.parameters())
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(dataclasses.replace(config, run_dir=folder), folder)
            trainer.train(1)
            checkpoint_path = trainer.save()
            files = {file.name: file.stat().st_size for file in sorted(checkpoint_path.iterdir())}
        battle_bytes = files["run_0.safetensors"] // args.num_envs
        report("gradient and checkpoint", CPU, preset=name, gradient_bytes=gradient, bytes=files, a_battle=battle_bytes)


def battles(args: Args) -> None:
    """Measure battles a second of one thread, between scripted commanders and between networks."""
    torch.set_num_threads(1)
    for preset, count in (("small", args.battles), ("standard", args.battles // 4)):
        env = ENV_PRESETS[preset]()
        names = ("heuristic:normal", *(("trained:quick",) if preset == "small" else ()))
        for name in names:
            policy = resolve(name).policy(env, CPU)
            arena = BatchArena(env, {name: policy, "other": policy}.__getitem__, ArenaConfig(CPU, count))
            arena.play([Battle(name, "other", seed) for seed in range(min(count, 2))])
            battle_list = [Battle(name, "other", seed) for seed in range(count)]
            seconds = once(lambda arena=arena, fought=battle_list: arena.play(fought), CPU)  # type: ignore[misc]
            report(
                "battles of a core", CPU, preset=preset, policy=name, battles=count, a_second=round(count / seconds, 2)
            )


def database(args: Args) -> None:
    """Measure writes a second, and other waits for the database, as it grows."""
    with tempfile.TemporaryDirectory() as folder, closing(Store.create(folder, brief())) as store:
        ids = [entry.id for entry in store.entries()]
        arena = LeagueArena(store, ArenaConfig(CPU))
        stats = [[1.0] * 65, [1.0] * 65]
        size, batch = 0, 256
        for goal in (1_000, 10_000, 50_000, 200_000):
            goal = min(goal, args.matches)
            start_s, before = time.perf_counter(), size
            while size < goal:
                pairs = [(ids[k % len(ids)], ids[(k + 1) % len(ids)], k) for k in range(size, size + batch)]
                store.record([made_up(arena, Battle(*pair), stats) for pair in pairs])
                size += batch
            if size > before:
                tell_database(store, arena, size, (size - before) / (time.perf_counter() - start_s), Path(folder))
        seconds = once(lambda: close_period(store), CPU)
        report("closing a period", CPU, matches=size, seconds=round(seconds, 2))


def tell_database(store: Store, arena: LeagueArena, size: int, rate: float, folder: Path) -> None:
    ids = [entry.id for entry in store.entries()]
    ahead = round_robin(ids, period_seeds(10**6, 16))
    file = sum(path.stat().st_size for path in folder.glob("league.sqlite*"))

    def claim() -> None:
        with claiming(store) as metadata:
            metadata.claim(ahead, 256)

    timed: dict[str, Callable[[], object]] = {
        "claim": claim,
        "unplayed": lambda: arena.unplayed(ahead),
        "standings": store.standings,
        "payoff": lambda: payoff_matrix(store, ids),
    }
    timings = {f"{name}_s": round(once(run, CPU), 4) for name, run in timed.items()}
    report("database", CPU, matches=size, writes_a_second=round(rate), bytes_a_match=file // size, **timings)


def made_up(arena: LeagueArena, battle: Battle, stats: Sequence[Sequence[float]]) -> MatchRecord:
    """Return an invented match with a record of realistic length."""
    result = BattleResult(
        Winner(1), Reason(1), [1.5, 2.5], 120, 1.0, [list(side) for side in stats], f"{battle.seed:016x}"
    )
    [match] = arena.batch_of([battle], BatchResult([result], 0.1)).matches
    return match


def brief() -> EnvConfig:
    return dataclasses.replace(EnvConfig.small(), rules=RulesConfig(max_episode_s=2.0), map_pool=2)


def nothing(number: int) -> int:
    return number


def tasks(args: Args) -> None:
    """Measure how many empty Ray tasks this process submits a second."""
    with RayArgs("local").connected() as ray_tasks:
        assert ray_tasks is not None
        for count in (10, 1000):
            calls, names = [(number,) for number in range(count)], [f"nothing {number}" for number in range(count)]
            seconds = once(lambda c=calls, n=names: list(ray_tasks.results(nothing, c, n)), CPU)  # type: ignore[misc]
            report("empty tasks of Ray", CPU, tasks=count, seconds=round(seconds, 3), a_second=round(count / seconds))


def tournament(args: Args) -> None:
    """Time a round robin of the scripted tiers in this process, and with one and two workers of one CPU, in turn."""
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory() as folder:
        Store.create(Path(folder) / "league", EnvConfig.small()).close()
        for repeat in range(args.repeats):
            for workers in (0, 1, 2):
                league = Path(folder) / f"{repeat}-{workers}"
                shutil.copytree(Path(folder) / "league", league)
                if workers == 0:
                    tell_tournament(args, league, RayArgs(), repeat, 0)
                    continue
                cluster = Cluster(
                    initialize_head=True, head_node_args={"num_cpus": workers, "include_dashboard": False}
                )
                tell_tournament(args, league, RayArgs(cluster.address), repeat, workers)
                cluster.shutdown()


def tell_tournament(args: Args, league: Path, where: RayArgs, repeat: int, workers: int) -> None:
    torch.set_num_threads(1)
    with where.connected() as ray_tasks, closing(Store(league)) as store:
        arena = LeagueArena(store, ArenaConfig(CPU, 256), tasks=ray_tasks)
        ids = [entry.id for entry in store.entries()]
        # Each worker creates its maps and loads the loops.
        list(arena.arena.play_all(round_robin(ids, [1, 2])))
        load, start_s = os.getloadavg()[0], time.perf_counter()
        commands.tournament(arena, args.seeds, lambda batches, total, own: list(batches))
        seconds, count = time.perf_counter() - start_s, len(store.matches())
    facts = {"workers": workers, "repeat": repeat, "battles": count, "seconds": round(seconds, 1)}
    loads = {"load_before": round(load, 2), "load_after": round(os.getloadavg()[0], 2)}
    report("tournament", CPU, **facts, a_second=round(count / seconds, 2), **loads)


PARTS: dict[Part, Callable[[Args], None]] = {
    "learner": learner,
    "battles": battles,
    "database": database,
    "tasks": tasks,
    "tournament": tournament,
}


def main(args: Args) -> None:
    """Run the measurements in order."""
    for name in args.parts:
        PARTS[name](args)


if __name__ == "__main__":
    main(settings(Args, __doc__))

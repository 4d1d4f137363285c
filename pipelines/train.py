"""Train a policy: `python pipelines/train.py [--preset quick|standard|large] [--opponent heuristic:normal|self] …`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from pathlib import Path

import torch
import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from echelon.config import TRAIN_PRESETS, ConfigError, TrainConfig, require
from echelon.league.match import Result, play, wilson_interval
from echelon.learn import checkpoint
from echelon.learn.checkpoint import Checkpoint, CheckpointError
from echelon.learn.metrics import read_metrics
from echelon.learn.policy import MechPolicy
from echelon.learn.trainer import Trainer, make_heuristic, resolve_device
from echelon.view.plots import draw_metrics

EVAL_SEED = 1_000_003
"""Evaluation battles are drawn from this seed, on maps of this seed: none is met in training."""


def parse(arguments: list[str]) -> TrainConfig:
    """The preset, with every flag that was given in place of its value there."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--preset", default="standard" if torch.cuda.is_available() else "quick")
    known, rest = first.parse_known_args(arguments)
    require(known.preset in TRAIN_PRESETS, "--preset", f"one of {', '.join(TRAIN_PRESETS)}", known.preset)
    presets = " | ".join(TRAIN_PRESETS)
    description = f"Train a policy. --preset {presets} sets the defaults below (now: {known.preset})."
    return tyro.cli(TrainConfig, default=TRAIN_PRESETS[known.preset](), args=rest, description=description)


def open_run(config: TrainConfig) -> Path:
    """The run folder, made and found writable."""
    folder = Path(config.run_dir.replace("{time}", time.strftime("%Y%m%d-%H%M%S")))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"--run-dir must be a writable folder, got {str(folder)!r}: {error.strerror}") from None
    return folder


def find_start(config: TrainConfig, folder: Path) -> Checkpoint | None:
    """The checkpoint to resume from, if one was asked for."""
    if not config.resume:
        return None
    path = checkpoint.newest(folder / "checkpoints") if config.resume == "latest" else Path(config.resume)
    return checkpoint.open_checkpoint(path)


def evaluate(policy: MechPolicy, config: TrainConfig) -> Result:
    """Battles against the normal heuristic on held-out maps, the same for every policy of a run."""
    device = resolve_device(config.device)
    env = dataclasses.replace(config.env, map_seed=config.env.map_seed + EVAL_SEED)
    opponent = make_heuristic("heuristic:normal", env, device)
    policy.eval()
    return play(policy, opponent, env, config.eval_battles, EVAL_SEED, device, config.compiled)


def describe(result: Result) -> str:
    """An evaluation in one line."""
    low, high = wilson_interval(result.x_wins, result.battles)
    stats = result.mean_stats(x=True)
    return (
        f"wins {result.x_wins}/{result.battles} ({low:.0%} to {high:.0%}), kills {stats['kills']:.2f}, "
        f"deaths {stats['deaths']:.2f}, damage {stats['damage']:.0f}, zone {stats['zone_s']:.1f} s"
    )


def learn(trainer: Trainer, console: Console) -> None:
    """Iterate until the run is finished, behind a progress bar."""
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    total = trainer.config.total_agent_steps
    with Progress(*columns, console=console, speed_estimate_period=120) as progress:
        task = progress.add_task("compiling" if trainer.config.compiled else "starting", total=total)
        progress.update(task, completed=trainer.counters.agent_steps)
        while not trainer.finished:
            row = trainer.iterate()
            text = f"{row['agent_steps_per_s']:,.0f} agent-steps/s"
            if row["win_rate"] is not None:
                text += f", wins {row['win_rate']:.0%}, return {row['return']:.2f}"
            text += f", entropy {row['entropy']:.2f}, KL {row['kl']:.3f}"
            progress.update(task, completed=trainer.counters.agent_steps, description=text)
            if not console.is_terminal and trainer.counters.iterations % 10 == 0:
                console.print(f"{trainer.counters.agent_steps:>12,} steps, {text}")


def main(config: TrainConfig) -> None:
    """Train, evaluate before and after, and say where everything is."""
    console = Console(soft_wrap=True)
    folder = open_run(config)
    start = find_start(config, folder)
    trainer = Trainer(config, folder, start)
    sizes = f"{config.num_envs} battles of {len(config.env.blue)} against {len(config.env.red)}"
    console.print(
        f"{sizes} on {trainer.device}, {trainer.policy.num_parameters():,} parameters, opponent {config.opponent}"
    )

    untrained = MechPolicy(config.model, config.env.comm_dim).to(trainer.device)
    before = evaluate(untrained, config)
    console.print(f"untrained against heuristic:normal: {describe(before)}")
    learn(trainer, console)
    after = evaluate(trainer.policy, config)
    console.print(f"untrained against heuristic:normal: {describe(before)}")
    console.print(f"trained   against heuristic:normal: {describe(after)}")

    trainer.metrics.close()
    plot = folder / "metrics.png"
    draw_metrics(read_metrics(trainer.metrics.path), plot)
    console.print(f"metrics     {trainer.metrics.path}\nplot        {plot}")
    console.print(f"checkpoint  {checkpoint.newest(folder / 'checkpoints')}")


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    try:
        main(parse(sys.argv[1:]))
    except (ConfigError, CheckpointError) as error:
        sys.exit(f"error: {error}")

"""Train a policy: `python pipelines/train.py [--preset quick|standard|large] [--opponent heuristic:normal|self] …`."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import torch
import tyro
from command_line import parse, run
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from echelon.agents.heuristic import scripted
from echelon.config import ConfigError, require
from echelon.files import FileError
from echelon.league.match import Result, both_sides, play, replay_of, wilson_interval
from echelon.learn import checkpoint
from echelon.learn.config import TRAIN_PRESETS, TrainConfig
from echelon.learn.machine import can_compile, resolve_device
from echelon.learn.metrics import read_metrics
from echelon.learn.policy import MechPolicy
from echelon.learn.trainer import SELF, Trainer
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.view.plots import draw_metrics

EVAL_SEED = 1_000_003
"""Evaluation battles are drawn from this seed, on maps of this seed: none is met in training."""
YARDSTICK = "heuristic:normal"


def read_config(arguments: list[str]) -> TrainConfig:
    """The preset, with every flag that was given in place of its value there."""
    rest, preset = [], "standard" if torch.cuda.is_available() else "quick"
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--preset":
            preset = value if equals else next(words, "")
        else:
            rest.append(word)
    names = ", ".join(TRAIN_PRESETS)
    require(preset in TRAIN_PRESETS, "--preset", f"one of {names}", preset)
    description = f"Train a policy. --preset NAME, one of {names}, sets the defaults below; now {preset}."
    return parse(lambda: tyro.cli(TrainConfig, default=TRAIN_PRESETS[preset](), args=rest, description=description))


def choose_folder(config: TrainConfig) -> Path:
    """The run folder: that of the run to go on from, unless another one is named."""
    is_named = "{time}" not in config.run_dir
    if config.resume not in ("", "latest") and not is_named:
        return Path(config.resume).absolute().parent.parent
    if config.resume == "latest" and not is_named:
        parent = Path(config.run_dir).parent
        runs = [found.parent for found in parent.glob("*/checkpoints")]
        if not runs:
            raise FileError(f"{parent}: expected a run to resume, found none")
        return max(runs, key=lambda folder: folder.stat().st_mtime)
    return Path(config.run_dir.replace("{time}", time.strftime("%Y%m%d-%H%M%S")))


def check_folder(folder: Path, resumes: bool) -> None:
    """Make the run folder, and see that it is writable and holds no other run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"--run-dir must be a writable folder, got {str(folder)!r}: {error.strerror}") from None
    taken = any((folder / "checkpoints").glob("[!.]*"))
    require(resumes or not taken, "--run-dir", "a folder without a run, or go on with --resume latest", str(folder))


def find_start(config: TrainConfig, folder: Path) -> checkpoint.Checkpoint | None:
    """The checkpoint to resume from, if one was asked for. It must be the furthest of its run folder."""
    if not config.resume:
        return None
    if config.resume == "latest":
        return checkpoint.open_checkpoint(checkpoint.newest(folder / "checkpoints"))
    start = checkpoint.open_checkpoint(config.resume)
    if any((folder / "checkpoints").glob("[!.]*")):
        furthest = checkpoint.newest(folder / "checkpoints")
        last = checkpoint.open_checkpoint(furthest).counters.iterations
        limit = f"a folder without later checkpoints than iteration {start.counters.iterations}"
        require(last <= start.counters.iterations, "--run-dir", limit, str(furthest))
    return start


def untrained(config: TrainConfig, device: torch.device) -> MechPolicy:
    """The policy this run began with, drawn again without touching the random stream."""
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        return MechPolicy(config.model, config.env.comm_dim).to(device)


def evaluate(policy: MechPolicy, config: TrainConfig, device: torch.device, recorder: Recorder | None = None) -> Result:
    """Battles against the normal heuristic on held-out maps, the same for every policy of a run."""
    env = dataclasses.replace(config.env, map_seed=config.env.map_seed + EVAL_SEED)
    opponent = scripted(YARDSTICK, env, device)
    return play(policy.eval(), opponent, env, config.eval_battles, EVAL_SEED, device, config.compiled, recorder)


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
    with Progress(*columns, console=console, speed_estimate_period=120) as progress:
        task = progress.add_task("first iteration", total=trainer.config.total_agent_steps)
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


def main() -> None:
    """Train, evaluate before and after, and say where everything is."""
    config = read_config(sys.argv[1:])
    console = Console(soft_wrap=True)
    device = resolve_device(config.device)
    if config.opponent != SELF:
        scripted(config.opponent, config.env, device)
    if config.compiled and not can_compile():
        console.print("no C++ compiler or Python headers here: going on without torch.compile, at a third of the speed")
        config = dataclasses.replace(config, compiled=False)
    folder = choose_folder(config)
    start = find_start(config, folder)
    check_folder(folder, resumes=start is not None)
    trainer = Trainer(config, folder, start)
    sizes = f"{config.num_envs} battles of {len(config.env.blue)} against {len(config.env.red)}"
    console.print(f"{sizes} on {device}, {trainer.policy.num_parameters():,} parameters, opponent {config.opponent}")

    before = evaluate(untrained(config, device), config, device)
    console.print(f"untrained against {YARDSTICK}: {describe(before)}")
    try:
        learn(trainer, console)
    except KeyboardInterrupt:
        path = trainer.save()
        trainer.metrics.close()
        console.print(f"interrupted; go on with the same flags and --resume {path}")
        raise
    places = both_sides(config.replay_battles, config.eval_battles)
    recorder = Recorder(places) if places else None
    after = evaluate(trainer.policy, config, device, recorder)
    if recorder is not None:
        kept = folder / "evaluation.echelon"
        save(replay_of(recorder, str(folder), YARDSTICK, config.eval_battles), kept)
        console.print(f"replay      {kept}")
    console.print(f"untrained against {YARDSTICK}: {describe(before)}")
    console.print(f"trained   against {YARDSTICK}: {describe(after)}")

    trainer.metrics.close()
    plot = folder / "metrics.png"
    draw_metrics(read_metrics(trainer.metrics.path), plot)
    console.print(f"metrics     {trainer.metrics.path}\nplot        {plot}")
    console.print(f"checkpoint  {checkpoint.newest(folder / 'checkpoints')}")


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    run(main)

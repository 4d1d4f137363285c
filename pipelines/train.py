"""Train a policy: `python pipelines/train.py [--preset quick|standard|large] [--opponent heuristic:normal|self] …`."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch
import tyro
from command_line import parse, run
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from echelon.config import ConfigError, first_difference, require
from echelon.files import FileError
from echelon.league.campaign import Campaign
from echelon.league.evaluation import Panel, Score
from echelon.league.hall import Hall
from echelon.league.match import both_sides, replay_of
from echelon.league.sparring import Sparring
from echelon.league.store import Store
from echelon.learn import checkpoint
from echelon.learn.config import TRAIN_PRESETS, TrainConfig
from echelon.learn.curriculum import stages_of
from echelon.learn.machine import can_compile, resolve_device
from echelon.learn.metrics import read_metrics, read_table
from echelon.learn.trainer import Trainer
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.view.plots import draw_metrics


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


def evaluate(trainer: Trainer, panel: Panel, console: Console) -> list[Score]:
    """Judge the policy as it is now, and keep it if it is the best so far."""
    best_before = panel.best_rate
    scores = panel.judge()
    tell(scores, trainer, panel, console)
    if panel.best_rate > best_before and trainer.counters.iterations > 0:
        console.print(f"{'':>12} best so far, kept as {trainer.save()}")
    return scores


def tell(scores: list[Score], trainer: Trainer, panel: Panel, console: Console) -> None:
    """Print an evaluation and write it down."""
    counters = trainer.counters
    panel.record(scores, counters.iterations, counters.agent_steps, counters.seconds)
    for score in scores:
        console.print(f"{counters.agent_steps:>12,} steps, {counters.seconds / 60:5.1f} min, against {score}")


def join_league(config: TrainConfig, device: torch.device) -> Campaign | None:
    """The run's part in the league that its opponent names, if it names one."""
    if not config.league:
        return None
    store = Store(config.league)
    ours, theirs = ({**env.signature(), "reward": None} for env in (config.env, store.env))
    difference = first_difference(ours, theirs, "env")
    require(difference is None, "--opponent", f"a league of the same battle ({difference})", config.league)
    hall = Hall(store, device, compiled=config.evaluation.compiled)
    return Campaign(hall, Sparring(store, hall.library, config.model, config.seed), config.league_seeds)


def submit(trainer: Trainer, campaign: Campaign | None, console: Console) -> None:
    """Enter the learner as it is now into its league."""
    if campaign is not None:
        campaign.submit(trainer.save())
        console.print(f"{trainer.counters.agent_steps:>12,} steps, in the league {campaign.standing()}")


def learn(trainer: Trainer, panel: Panel, campaign: Campaign | None, console: Console) -> None:
    """Iterate until the run is finished, behind a progress bar."""
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    every, stage = trainer.config.evaluation.every, trainer.curriculum.stage
    console.print(f"{stage}")
    with Progress(*columns, console=console, speed_estimate_period=120) as progress:
        task = progress.add_task("first iteration", total=1.0)
        progress.update(task, completed=trainer.progress)
        while not trainer.finished:
            row = trainer.iterate()
            iterations, steps = trainer.counters.iterations, trainer.counters.agent_steps
            text = describe(row)
            progress.update(task, completed=trainer.progress, description=text)
            if not console.is_terminal and iterations % 10 == 0:
                console.print(f"{steps:>12,} steps, {text}")
            if trainer.curriculum.stage != stage:
                stage = trainer.curriculum.stage
                console.print(f"{steps:>12,} steps, {stage}")
            if every > 0 and iterations % every == 0 and not trainer.finished:
                evaluate(trainer, panel, console)
            if iterations % trainer.config.league_every == 0 or trainer.finished:
                submit(trainer, campaign, console)


def describe(row: Mapping[str, float | None]) -> str:
    """An iteration in one line."""
    text = f"{row['agent_steps_per_s']:,.0f} agent-steps/s"
    if row["win_rate"] is not None:
        text += f", wins {row['win_rate']:.0%}, return {row['return']:.2f}"
    return text + f", entropy {row['entropy']:.2f}, KL {row['kl']:.3f}"


def main() -> None:
    """Train, evaluate before, meanwhile and after, and say where everything is."""
    config = read_config(sys.argv[1:])
    console = Console(soft_wrap=True)
    device = resolve_device(config.device)
    stages_of(config)
    if config.compiled and not can_compile():
        console.print("no C++ compiler or Python headers here: going on without torch.compile, at a third of the speed")
        config = dataclasses.replace(config, compiled=False, compile_policy="off")
    campaign = join_league(config, device)
    folder = choose_folder(config)
    start = find_start(config, folder)
    check_folder(folder, resumes=start is not None)
    trainer = Trainer(config, folder, start, campaign.sparring if campaign is not None else None)
    sizes = f"{config.num_envs} battles of {len(config.env.blue)} against {len(config.env.red)}"
    kind = str(trainer.policy.network.compute).removeprefix("torch.")
    console.print(f"{sizes} on {device}, {trainer.policy.num_parameters():,} parameters in {kind}, {config.opponent}")
    panel = Panel(trainer.policy, config, folder, trainer.counters.iterations)
    before = evaluate(trainer, panel, console)
    try:
        learn(trainer, panel, campaign, console)
    except KeyboardInterrupt:
        path = trainer.save()
        trainer.metrics.close()
        console.print(f"interrupted; go on with the same flags and --resume {path}")
        raise
    after = finish(trainer, panel, console)
    trainer.metrics.close()
    for when, scores in (("before", before), ("after ", after)):
        for score in scores[:-1]:
            console.print(f"{when} against {score}")
    plot = folder / "metrics.png"
    draw_metrics(read_metrics(trainer.metrics.path), read_table(panel.table.path), plot)
    console.print(f"metrics     {trainer.metrics.path}\nevaluations {panel.table.path}\nplot        {plot}")
    console.print(f"checkpoint  {checkpoint.newest(folder / 'checkpoints')}")


def finish(trainer: Trainer, panel: Panel, console: Console) -> list[Score]:
    """The last evaluation, part of it recorded if the run asked for that."""
    battles, wanted = trainer.config.evaluation.final_battles, trainer.config.replay_battles
    name, first = panel.last_tier
    recorder = Recorder([first + place for place in both_sides(wanted, battles)]) if wanted > 0 else None
    scores = panel.judge_finally(recorder)
    tell(scores, trainer, panel, console)
    if recorder is not None:
        kept = trainer.folder / "evaluation.echelon"
        save(replay_of(recorder, str(trainer.folder), name, battles, first), kept)
        console.print(f"replay      {kept}")
    return scores


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    run(main)

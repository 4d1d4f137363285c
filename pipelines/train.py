"""Train a policy: `python pipelines/train.py [--preset quick|standard|large] [--opponent heuristic:normal|self] …`.

On K GPUs: `torchrun --nproc-per-node K pipelines/train.py …`.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import torch
import tyro
from rich.console import Console

from echelon.arena.eval_callback import EvalCallback
from echelon.league.league_arena import LeagueArena
from echelon.league.league_callback import LeagueCallback
from echelon.league.opponent_sampler import OpponentSampler
from echelon.league.store import Store
from echelon.learn.callbacks.signals import Interrupted, Stop
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.run_folder import choose_folder, find_start, lock_run_folder
from echelon.learn.config import TRAIN_PRESETS, TrainConfig
from echelon.learn.curriculum import stages_of
from echelon.learn.trainer import Trainer
from echelon.pipelines.console import parse, run, terminal
from echelon.pipelines.session import Session
from echelon.rules.config import battle_difference
from echelon.runtime.device import resolve_device
from echelon.runtime.distributed import Ranks, destroy_ranks, init_ranks
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError, check_writable


def read_config(arguments: list[str]) -> TrainConfig:
    """Parse the command line: a preset whose values are overridden by flags.

    Raises:
        ConfigError: if the command line is invalid.
    """
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


def join_league(config: TrainConfig, device: torch.device, ranks: Ranks) -> LeagueCallback | None:
    """Callback for the league named by `--opponent`; None if it names none.

    Raises:
        ConfigError: if the league has another battle.
    """
    if not config.league:
        return None
    store = Store(config.league)
    difference = battle_difference(config.env.signature(), store.env.signature())
    require(difference is None, "--opponent", f"a league of the same battle ({difference})", config.league)
    arena = LeagueArena(store, ranks.place(device), compiled=config.evaluation.compiled)
    sampler = OpponentSampler(store, config.model, config.seed + ranks.rank)
    return LeagueCallback(arena, sampler, config.league_seeds)


def train(config: TrainConfig, ranks: Ranks, stop: Stop) -> None:
    """Train with evaluations before, during and after, and print a summary.

    Args:
        config: config of the run.
        ranks: this process among all.
        stop: set by signals.

    Raises:
        ConfigError: if the config is invalid.
        FileError: if a file cannot be read or written.
    """
    console = terminal(quiet=not ranks.is_first)
    device = resolve_device(config.device)
    stages_of(config)
    wanted, config = config, config.compiled_if_possible()
    if config is not wanted:
        console.print("no C++ compiler or Python headers here: going on without torch.compile, at a third of the speed")
    league = join_league(config, device, ranks)
    folder = Path(ranks.broadcast_text(str(choose_folder(config))))
    if config.resume == "latest":
        # Fail before the folder is created.
        newest_checkpoint(folder / "checkpoints")
    with lock_run_folder(folder, resumes=bool(config.resume)) if ranks.is_first else contextlib.nullcontext():
        train_in(folder, config, league, ranks, stop, console)


def train_in(
    folder: Path, config: TrainConfig, league: LeagueCallback | None, ranks: Ranks, stop: Stop, console: Console
) -> None:
    """`train` in a locked run folder."""
    if ranks.is_first and config.profile:
        check_writable(Path(config.profile))
    # No process reads before the folder is locked, and none writes before all have read.
    ranks.barrier()
    start = find_start(config, folder)
    ranks.barrier()
    draw_opponent = league.sampler if league is not None else None
    trainer = Trainer(config, folder, start, draw_opponent, ranks=ranks)
    sizes = f"{config.num_envs} battles of {len(config.env.blue)} against {len(config.env.red)}"
    sizes += "" if ranks.is_alone else f" in each of {ranks.size} processes"
    kind = str(trainer.policy.network.compute).removeprefix("torch.")
    console.print(
        f"{sizes} on {trainer.device}, {trainer.policy.num_parameters():,} parameters in {kind}, {config.opponent}"
    )
    if trainer.resume_note:
        console.print(trainer.resume_note)
    if league is not None and not league.sampler.shares and config.past_battles > 0:
        console.print(
            f"{config.league}: no policy there has this architecture (--model): until one has, "
            f"{config.past_battles} of {config.num_envs} battles are against earlier selves"
        )
    evaluation = EvalCallback(trainer.policy, config, folder, trainer.loaded.get("panel")) if ranks.is_first else None
    session = Session(trainer, evaluation, league, stop, console)
    # From here on a killed run can be resumed.
    trainer.save()
    try:
        session.learn()
        session.finish()
    except Interrupted as interrupt:
        session.save_and_exit(interrupt.number)


def main() -> None:
    """Join the other processes, if there are any, and train until finished or interrupted."""
    config = read_config(sys.argv[1:])
    ranks = init_ranks()
    with Stop() as stop:
        try:
            train(config, ranks, stop)
        except (ConfigError, FileError) as error:
            raise ConfigError(ranks.with_rank(str(error))) from None
        except RuntimeError as error:
            explained = ranks.explain_failure(error)
            if explained is None:
                raise
            # Print while signals are still handled: the launcher sends one as soon as a process has died.
            print(f"error: {explained}", file=sys.stderr, flush=True)
            sys.exit(1)
    destroy_ranks(ranks)


def program() -> None:
    """The console script `echelon-train`."""
    run(main)


if __name__ == "__main__":
    program()

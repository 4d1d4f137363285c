"""Train with `python pipelines/train.py [--preset quick|standard|large] [--opponent heuristic:normal|self|…] …`.

On K GPUs, run `torchrun --nproc-per-node K pipelines/train.py …`.
"""

import sys
from pathlib import Path

from rich.console import Console

from echelon.arena.eval_callback import EvalCallback, Summary
from echelon.arena.resolve import check_opponents, named_checkpoint, policy_of
from echelon.league.league_callback import join_league
from echelon.learn.callbacks.base import Callback, Interrupted, load_callbacks
from echelon.learn.callbacks.loggers import Profiler
from echelon.learn.callbacks.progress import ProgressBar
from echelon.learn.callbacks.signals import SignalHandler
from echelon.learn.callbacks.warning_signs import WarningSigns
from echelon.learn.checkpoint.run_folder import opened_run
from echelon.learn.config import TrainConfig
from echelon.learn.extra_rewards import load_extra_rewards
from echelon.learn.footprint import memory_explained
from echelon.learn.startup import smoke_test_components
from echelon.learn.train_flags import interrupted_status, read_config, resolve_config, resume_command
from echelon.learn.trainer import Trainer
from echelon.reports.callback import BattleStrips, BattleVideos, Curves, Report
from echelon.runtime.command_line import arguments
from echelon.runtime.device import resolve_device
from echelon.runtime.distributed import Ranks, destroy_ranks, init_ranks
from echelon.runtime.terminal import lasting_output, run, terminal
from echelon.serve.live import Live


def train(
    config: TrainConfig, ranks: Ranks, stop: SignalHandler, console: Console | None = None, again: str | None = None
) -> None:
    """Train with evaluations before, during and after, and print a summary to `console`, by default standard output.
    `again` is the command that resumes an interrupted run, by default the one that `resume_command` builds."""
    console = console or terminal(quiet=not ranks.is_first)
    device = ranks.place(resolve_device(config.device))
    # Build everything named on the command line before the run folder is created, so that an error leaves no folder.
    check_opponents(config, device)
    smoke_test_components(config, load_extra_rewards(config.extra_rewards), device, policy_of)
    init = named_checkpoint(config.init_from) if config.init_from and not config.resume else None
    user_callbacks = load_callbacks(config.callbacks)
    league, evaluation = join_league(config, device, ranks), EvalCallback(policy_of)
    callbacks: list[Callback] = [Profiler(Path(config.profile))] if config.profile else []
    live = [Live(config.dashboard_port, config.dashboard_host)] if config.dashboard else []
    callbacks += [ProgressBar(console), *live, WarningSigns(), stop, *user_callbacks]
    callbacks += [evaluation, BattleStrips(), BattleVideos(), Curves(), Report()]
    callbacks += [*filter(None, [league]), Summary(evaluation)]
    with opened_run(config, ranks) as (folder, start):
        config = resolve_config(config, device, start, ranks, console)
        with memory_explained(config, device), console.status("making maps and the simulation"):
            pool = league.sampler if league else None
            trainer = Trainer(config, folder, start, pool, ranks, policy_of, callbacks, init)
        try:
            with memory_explained(config, device):
                trainer.train()
        except Interrupted as interrupt:
            command = again or resume_command(sys.argv, folder, ranks)
            sys.exit(interrupted_status(interrupt, trainer, command, console))


def main() -> None:
    """Connect to the other processes, if there are any, and train until the run is finished or interrupted."""
    config = read_config(arguments())
    ranks = init_ranks()
    with lasting_output(), SignalHandler() as stop, ranks.errors_in_a_line():
        train(config, ranks, stop)
    destroy_ranks(ranks)


def program() -> None:
    run(main)


if __name__ == "__main__":
    program()

"""Command line of `train.py`: a preset and a kind of model set the defaults, and every setting is a flag."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console

from echelon.agents.names import is_imported
from echelon.learn.callbacks.base import Interrupted, TrainingRun
from echelon.learn.callbacks.signals import EXIT_BASE
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import Checkpoint, open_checkpoint
from echelon.learn.checkpoint.resume import OF_PROCESS, stored_config
from echelon.learn.checkpoint.run_folder import choose_folder, resolve_resume
from echelon.learn.config import TRAIN_PRESETS, TrainConfig
from echelon.learn.device_defaults import OF_DEVICE, describe_settings, resolve_settings
from echelon.learn.models.registry import BUILT_IN, kind_of, model_with
from echelon.rules.catalog import read_catalog
from echelon.runtime.command_line import ALLOW_MODULE, parse, pop_flag, program_words
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import require
from echelon.runtime.imports import allow_module, allowed_modules
from echelon.scenarios.scene import config_of_words


def read_config(arguments: list[str]) -> TrainConfig:
    """Parse the command line: flags override the defaults of a preset and a kind of model, or the settings
    of the resumed run."""
    presets, rest = pop_flag(arguments, "--preset")
    models, rest = pop_flag(rest, "--model")
    catalogs, rest = pop_flag(rest, "--catalog")
    scenarios, rest = pop_flag(rest, "--scenario")
    preset = presets[-1] if presets else "standard" if torch.cuda.is_available() else "quick"
    names = ", ".join(TRAIN_PRESETS)
    require(preset in TRAIN_PRESETS, "--preset", f"one of {names}", preset)
    default = TRAIN_PRESETS[preset]()
    kind = models[-1] if models else kind_of(default.model)
    if ":" in kind:
        # The user named this module, so a checkpoint of this run may name it too.
        allow_module(kind.partition(":")[0])
    default = replace(default, model=model_with(kind, default.model))
    require(not (scenarios and catalogs), "--scenario", "given without --catalog", " ".join(scenarios))
    start = resumed_checkpoint(rest, default)
    if start is not None:
        if presets and not (models or catalogs or scenarios):
            check_preset(preset, default, start, rest)
        default = resumed_defaults(start, default)
        default = replace(default, model=model_with(kind, default.model)) if models else default
    if catalogs:
        default = replace(default, env=replace(default.env, catalog=read_catalog(Path(catalogs[-1]))))
    if scenarios:
        default = replace(default, env=config_of_words(scenarios, default.env))
    description = (
        f"Train a policy. --preset NAME, one of {names}, sets the defaults below; currently {preset}. --model NAME, "
        f"one of {', '.join(BUILT_IN)} or package.module:Config, selects the network; currently {kind}. --catalog "
        f"FILE.json adds or changes hulls, weapons, suites and materials. --scenario NAME or FILE.json, repeatable, "
        f"starts battles from that scenario, with its world and rules; append :WEIGHT to weight several scenarios. "
        f"With --resume the settings of the resumed run are the defaults. {ALLOW_MODULE}"
    )
    return resolve_resume(parse(lambda: tyro.cli(TrainConfig, default=default, args=rest, description=description)))


def resumed_checkpoint(words: Sequence[str], default: TrainConfig) -> Checkpoint | None:
    """Return the checkpoint to resume from, or None for a new run."""
    named: dict[str, Any] = {
        name: pop_flag(words, f"--{name.replace('_', '-')}")[0][-1:] for name in ("run_dir", "resume")
    }
    config = resolve_resume(replace(default, **{name: values[0] for name, values in named.items() if values}))
    if not config.resume:
        return None
    is_path = config.resume != "latest"
    return open_checkpoint(config.resume if is_path else newest_checkpoint(choose_folder(config) / "checkpoints"))


def check_preset(preset: str, default: TrainConfig, start: Checkpoint, words: Sequence[str]) -> None:
    """Refuse a preset whose battles or network differ from the resumed run, unless flags change the preset's values."""
    ours, theirs = (
        f"{len(env.blue)}v{len(env.red)} on {env.world.size_x}x{env.world.size_y}x{env.world.size_z}, {kind_of(model)}"
        for env, model in ((default.env, default.model), (start.env, start.model))
    )
    is_same = ours == theirs or any(word.startswith(("--env", "--model")) for word in words)
    require(
        is_same, "--preset", f"left out, or equal to the preset of the resumed run ({theirs})", f"{preset} ({ours})"
    )


def resumed_defaults(start: Checkpoint, default: TrainConfig) -> TrainConfig:
    """Return the settings of a resumed run as defaults for the flags.

    `default` keeps settings that a checkpoint does not decide: those of this process and device, and names of code,
    which no file may import (unless `--allow-module` permits it).
    """
    if not start.metadata["settings"]:
        return replace(default, env=start.env, model=start.model)
    stored = stored_config(start)
    curriculum, evaluation = stored.curriculum, stored.evaluation
    if any(map(is_code, curriculum.opponents)):
        curriculum = replace(curriculum, opponents=default.curriculum.opponents)
    if any(map(is_code, evaluation.tiers)):
        evaluation = replace(evaluation, tiers=default.evaluation.tiers)
    names = {"opponent": (stored.opponent,), "callbacks": stored.callbacks, "extra_rewards": stored.extra_rewards}
    others = [*OF_PROCESS, *OF_DEVICE, *(name for name, texts in names.items() if any(map(is_code, texts)))]
    changes = {name: getattr(default, name) for name in others}
    return replace(stored, curriculum=curriculum, evaluation=evaluation, **changes)


def is_code(name: str) -> bool:
    """Return whether a setting names code in a module that files may not import."""
    return is_imported(name.partition("=")[0]) and name.partition(":")[0] not in allowed_modules()


def resolve_config(
    wanted: TrainConfig, device: torch.device, start: Checkpoint | None, ranks: Ranks, console: Console
) -> TrainConfig:
    """Resolve all settings for the device; on a GPU, print the choices."""
    config = resolve_settings(wanted, device, start, ranks)
    if device.type == "cuda":
        console.print(describe_settings(config, device))
    return config


def resume_command(words: Sequence[str], folder: Path, ranks: Ranks) -> str:
    """Return the command line that resumes the run in `folder`, which was started with the command `words`; with
    several nodes, that of every node."""
    _, flags = pop_flag(pop_flag(words[1:], "--resume")[1], "--run-dir")
    program = program_words(words[0]) if ranks.is_alone else [*launcher_words(os.environ), words[0]]
    return shlex.join([*program, *flags, "--run-dir", str(folder), "--resume", "latest"])


def launcher_words(variables: Mapping[str, str]) -> list[str]:
    """Return `torchrun` with the nodes, processes and rendezvous that it passed to this process in the environment.

    The environment does not contain the rendezvous port; without a port torchrun uses its default.
    """
    nodes, processes = variables.get("GROUP_WORLD_SIZE", "1"), variables.get("LOCAL_WORLD_SIZE", "1")
    if nodes == "1":
        return ["torchrun", "--nproc-per-node", processes]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", variables.get("MASTER_ADDR", "localhost")]
    job = ["--rdzv-id", variables.get("TORCHELASTIC_RUN_ID", "echelon")]
    restarts = variables.get("TORCHELASTIC_MAX_RESTARTS", "0")
    job += ["--max-restarts", restarts] if restarts != "0" else []
    return ["torchrun", "--nnodes", nodes, "--nproc-per-node", processes, *meeting, *job]


def interrupted_status(interrupt: Interrupted, run: TrainingRun, command: str, console: Console) -> int:
    """Save a run that a signal stopped and print the command that resumes it; return the exit status."""
    name, path = signal.Signals(interrupt.number).name, run.save()
    console.print(f"{name}: stopped after iteration {run.counters.iterations}, saved as {path}; resume with")
    console.print(command, markup=False, highlight=False)
    return EXIT_BASE + interrupt.number

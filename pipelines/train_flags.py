"""The command line of `train.py`: a preset and a kind of model give the defaults, and every setting is a flag."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import tyro

from echelon.learn.config import TRAIN_PRESETS, TrainConfig
from echelon.learn.models.registry import BUILT_IN, allow_module, model_with
from echelon.pipelines.console import ALLOW_MODULE, parse, pop_flag
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import require


def read_config(arguments: list[str]) -> TrainConfig:
    """Parse the command line: a preset and a kind of model, whose values are overridden by flags.

    Raises:
        ConfigError: if the command line is invalid.
        FileError: if there is no module of that name.
    """
    presets, rest = pop_flag(arguments, "--preset")
    models, rest = pop_flag(rest, "--model")
    preset = presets[-1] if presets else "standard" if torch.cuda.is_available() else "quick"
    names = ", ".join(TRAIN_PRESETS)
    require(preset in TRAIN_PRESETS, "--preset", f"one of {names}", preset)
    default, kind = TRAIN_PRESETS[preset](), models[-1] if models else "lstm"
    if ":" in kind:
        # Named by the user, so that a checkpoint of this run may name it too.
        allow_module(kind.partition(":")[0])
    default = replace(default, model=model_with(kind, default.model))
    description = (
        f"Train a policy. --preset NAME, one of {names}, sets the defaults below; now {preset}. --model NAME, one of "
        f"{', '.join(BUILT_IN)} or package.module:Config, is the kind of the network; now {kind}. {ALLOW_MODULE}"
    )
    return parse(lambda: tyro.cli(TrainConfig, default=default, args=rest, description=description))


def resume_command(words: Sequence[str], folder: Path, ranks: Ranks) -> str:
    """Command line that resumes the run in `folder` that was started with the command `words`."""
    _, kept = pop_flag(pop_flag(words[1:], "--resume")[1], "--run-dir")
    program = ["python"] if ranks.is_alone else ["torchrun", "--nproc-per-node", os.environ["LOCAL_WORLD_SIZE"]]
    return shlex.join([*program, words[0], *kept, "--run-dir", str(folder), "--resume", "latest"])

"""Resolve the `auto` settings of a run once, from the checkpoint or the device: battles, precision, compilation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from echelon.env.footprint import amount
from echelon.env.form import form_of
from echelon.learn.checkpoint.format import Checkpoint
from echelon.learn.config import CPU_BATTLES, TrainConfig
from echelon.learn.footprint import training_bytes
from echelon.learn.models.precision import resolve_precision
from echelon.learn.models.registry import BUILT_IN, kind_of
from echelon.runtime import cuda_graphs
from echelon.runtime.device import can_compile, free_memory, total_memory
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.errors import ConfigError

AUTO = "auto"
GPU_BATTLES = 1024
"""Maximum number of battles on a GPU if `TrainConfig.num_envs` is 0. An H200 then runs 1.4 million agent-steps/s; more
battles would make each update larger and updates fewer (`docs/PERFORMANCE.md`)."""
SPARE = 0.15
"""Fraction of the free memory reserved for what the estimate omits: CUDA context, compilation, fragmentation."""
OF_DEVICE = ("precision", "compile_policy", "cuda_graphs")
"""Settings that a resumed run inherits only from GPU to GPU; on a CPU the flags decide."""
GIB = 2**30


def resolve_settings(
    config: TrainConfig, device: torch.device, start: Checkpoint | None = None, ranks: Ranks = ALONE
) -> TrainConfig:
    """Return the config with definite `num_envs`, `precision`, `compile_policy`, `cuda_graphs` and `device`.

    Unset settings (`auto`, or 0 battles) come from the resumed checkpoint, or else from the device. A GPU gets as many
    battles as fit into its memory (at most 1,024), and for built-in models it compiles everything and captures CUDA
    graphs. A CPU gets `CPU_BATTLES` battles and compiles no network.
    """
    if start is not None:
        config = replace(config, **stored_settings(config, device, start.metadata["settings"]))
    changes: dict[str, Any] = {} if config.device != AUTO else {"device": str(device)}
    if config.precision == AUTO:
        reduced = resolve_precision(AUTO, device) == torch.bfloat16
        changes["precision"] = "bf16" if reduced else "fp32"
    # By default only built-in models are compiled, because a custom model may not compile into one graph.
    can_be_graph = device.type == "cuda" and kind_of(config.model) in BUILT_IN
    if config.compile_policy == AUTO:
        changes["compile_policy"] = "all" if can_be_graph else "off"
    if cuda_graphs.are_off() and config.cuda_graphs != "off":
        changes["cuda_graphs"] = "off"
    elif config.cuda_graphs == AUTO:
        changes["cuda_graphs"] = "on" if can_be_graph and not config.extra_rewards else "off"
    config = replace(config, **changes) if changes else config
    if config.num_envs > 0:
        return config
    if device.type == "cpu":
        return replace(config, num_envs=CPU_BATTLES)
    # All processes use equally many battles, so the GPU with the least free memory limits their number.
    free = int(-ranks.max(-float(free_memory(device))))
    return fitting_battles(config, free, lambda fewer: training_bytes(fewer, device))


def stored_settings(config: TrainConfig, device: torch.device, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checkpoint's values for the unset settings (`auto`, or 0 battles) of a config.

    Args:
        stored: the stored `TrainConfig` as JSON; settings missing there stay unset.
    """
    wrote = str(stored.get("device", AUTO)).partition(":")[0]
    same_device = device.type == "cuda" and wrote in (AUTO, "cuda")
    open_settings = [name for name in OF_DEVICE if same_device and getattr(config, name) == AUTO]
    open_settings += ["num_envs"] if config.num_envs == 0 else []
    return {name: stored[name] for name in open_settings if name in stored}


def fitting_battles(config: TrainConfig, free: int, need: Callable[[TrainConfig], int]) -> TrainConfig:
    """Return the config with the largest valid number of battles, a power of two, that fits into memory. A number is
    valid if the config's shares and minibatches divide it evenly.

    Args:
        config: config of the run, resolved except for `num_envs`.
        free: available memory, bytes.
    """
    candidates = []
    for power in range(GPU_BATTLES.bit_length() - 1, 0, -1):
        # `replace` raises ConfigError if the opponent shares or minibatches cannot divide this number of battles.
        with contextlib.suppress(ConfigError):
            candidates.append(replace(config, num_envs=2**power))
    for candidate in candidates:
        if need(candidate) <= (1 - SPARE) * free:
            return candidate
    smallest = candidates[-1]
    message = f"{smallest.num_envs:,} battles of {smallest.env.title} and their training need about"
    raise ConfigError(f"{message} {amount(need(smallest))}, {smallest.device} has {amount(free)} free: set num_envs")


def describe_settings(config: TrainConfig, device: torch.device) -> str:
    """Return one line with the battles, memory, precision and compilation of a run on a GPU."""
    need, total = (size / GIB for size in (training_bytes(config, device), total_memory(device)))
    compiles = can_compile(device)
    graphs = {"off": "networks not compiled", "act": "acting compiled", "all": "acting and learning compiled"}
    networks = graphs[config.compile_policy if compiles else "off"]
    simulation = "simulation compiled" if form_of(device, config.backend) == "graph" else "simulation not compiled"
    sizes = f"{config.num_envs:,} battles ({need:.1f} of {total:.1f} GiB)"
    captured = ", CUDA graphs" if config.cuda_graphs == "on" else ""
    return f"{device}: {sizes}, {config.precision}, {simulation}, {networks}{captured}"

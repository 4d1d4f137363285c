"""Settings of arenas: device, batch size, precision, compilation and CUDA graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch

from echelon.env.arguments import number_of_battles
from echelon.learn.config import SWITCH, TrainConfig
from echelon.learn.models.precision import resolve_precision
from echelon.runtime.device import can_compile, resolve_device
from echelon.runtime.errors import require

Precision = Literal["auto", "fp32", "bf16", "fp16"]
COMPUTE = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Dtype of the matrix products of networks."""
COMPILED_FROM = 1024
"""Batch size from which a GPU compiles by default, for any total number of battles."""
SAVED_S, SAVED_S_A_BATTLE = 0.027, 21e-6
"""Seconds saved per decision of a batch and per battle of it by compiled graphs, compared with captured operations.

Both are replayed. On an H200 at 10v10, captured operations take 54 ms for 256 battles, 71 ms for 1,024 and 230 ms for
8,192; compiled graphs take 27 ms for 8,192."""
COMPILE_S = 164.0
"""Seconds for compiling there with an empty cache."""
STARTS = 8
"""Assumed number of programs that share a compiled graph through the cache on disk."""


@dataclass(frozen=True)
class ArenaConfig:
    """Settings of an arena, checked by the constructor.

    Args:
        device: device of simulation and policies: a device, its name, or `auto` for a GPU if there is one.
        batch: maximum number of simultaneous battles.
        precision: dtype of the networks' matrix products, see `definite_precision`.
        compiled: whether to compile networks, and on a GPU also simulation and scripted commanders; by default on a GPU
            if it saves more time than it takes, see `is_much_work`.
        cuda_graph: whether to capture a decision of each batch as a CUDA graph and replay it; by default on a GPU.
        battles: total number of battles, if known; affects only the default of `compiled`.

    Raises:
        ConfigError: if a field is out of range, or the device does not exist.
    """

    device: torch.device
    batch: int = 256
    precision: Precision = "auto"
    compiled: bool | None = None
    cuda_graph: bool | None = None
    battles: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch", number_of_battles(self.batch, "batch"))
        object.__setattr__(self, "device", resolve_device(self.device))
        limit = f"one of {', '.join(get_args(Precision))}"
        require(self.precision in get_args(Precision), "precision", limit, self.precision)
        for name in ("compiled", "cuda_graph"):
            switch = getattr(self, name)
            require(switch is None or isinstance(switch, bool), name, "True, False or None", switch)

    @staticmethod
    def of_run(run: TrainConfig, device: torch.device) -> ArenaConfig:
        """Return the settings for the evaluations of a training run."""
        cuda_graph = False if run.cuda_graphs == "off" else None
        return ArenaConfig(device, compiled=SWITCH[run.evaluation.compiled], cuda_graph=cuda_graph)

    def of_match(self, battles: int) -> ArenaConfig:
        """Return the settings for a match of `battles` battles in total, which is also the maximum batch."""
        return replace(self, batch=min(self.batch, battles), battles=battles)

    def definite(self, decisions: int) -> ArenaConfig:
        """Return the settings with each `auto` or None replaced by the value for the device.

        Args:
            decisions: length of the longest battle.
        """
        device, compiled, cuda_graph = self.device, self.compiled, self.cuda_graph
        if compiled is None:
            compiled = is_worth_compiling(device, self.batch, self.battles, decisions)
        if cuda_graph is None:
            cuda_graph = device.type == "cuda"
        precision = definite_precision(self.precision, device)
        return replace(self, precision=precision, compiled=compiled, cuda_graph=cuda_graph)

    def as_json(self) -> dict[str, Any]:
        """Return the precision, whether networks and simulation are compiled, and whether CUDA graphs are captured.

        Each setting may change the last bits of a network's decision, and so the winner.
        """
        return {"precision": self.precision, "compiled": self.compiled, "captured": self.cuda_graph}


def check_settings(settings: object) -> None:
    """Raise `ConfigError` unless `settings` is an `ArenaConfig`; earlier versions of Echelon accepted a device."""
    require(isinstance(settings, ArenaConfig), "settings", "an ArenaConfig, such as ArenaConfig(device)", settings)


def definite_precision(precision: Precision, device: torch.device) -> Precision:
    """Return the precision that a device uses; `auto` is bf16 on a GPU with native bf16 products, else fp32.

    On a CPU `auto` is fp32 even if there are bf16 instructions, so that results do not depend on the CPU's
    instructions.
    """
    if precision != "auto":
        return precision
    return "bf16" if device.type == "cuda" and resolve_precision(precision, device) == torch.bfloat16 else "fp32"


def is_worth_compiling(device: torch.device, batch: int, battles: int | None = None, decisions: int = 0) -> bool:
    """Return whether arenas on a device compile by default; for the arguments see `is_much_work`."""
    return device.type == "cuda" and is_much_work(battles, batch, decisions) and can_compile(device)


def saved_s(battles: int, batch: int, decisions: int) -> float:
    """Return the seconds that compiled graphs save in a match.

    Args:
        battles: total number of battles.
        batch: simultaneous battles.
        decisions: length of the longest battle, which determines the length of a batch.
    """
    return decisions * (SAVED_S * -(-battles // batch) + SAVED_S_A_BATTLE * battles)


def is_much_work(battles: int | None, batch: int, decisions: int) -> bool:
    """Return whether a match is long enough that compiling on a GPU saves time.

    Args:
        battles: total number of battles; None if unknown.
    """
    saves = battles is not None and saved_s(battles, min(batch, battles), decisions) >= COMPILE_S / STARTS
    return saves or batch >= COMPILED_FROM


def setup_words(setup: Mapping[str, Any]) -> str:
    """Format `BatchArena.setup` as a line for a table."""
    words = [f"{'' if setup[name] else 'not '}{name}" for name in ("compiled", "captured")]
    return f"on {setup['device']}: {setup['precision']}, {', '.join(words)}"

"""How battles between policies are computed: device, batch, precision, compiled graphs and captured decisions."""

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
"""Battles at once from which a GPU compiles by default, however many there are in all."""
SAVED_S, SAVED_S_A_BATTLE = 0.027, 21e-6
"""What a decision of a batch, and of each of its battles, takes less in compiled graphs than in captured operations,
both replayed. On an H200 at 10v10 captured operations take 54 ms for 256 battles, 71 for 1,024 and 230 for 8,192;
compiled graphs take 27 ms for 8,192."""
COMPILE_S = 164.0
"""What compiling takes there where nothing is kept from earlier starts."""
STARTS = 8
"""Programs that share what one of them compiled, because it is kept between starts."""


@dataclass(frozen=True)
class ArenaConfig:
    """How an arena computes. The fields are checked by the constructor.

    Args:
        device: where simulation and policies run; also its name, or `auto` for a GPU where there is one.
        batch: maximum number of battles in parallel.
        precision: dtype of the networks' matrix products, see `definite_precision`.
        compiled: whether to compile networks, and on a GPU simulation and scripted commanders; by default on a GPU
            where that saves more time than it takes, see `is_much_work`.
        cuda_graph: whether to capture a decision of each batch as a CUDA graph and replay it; by default on a GPU.
        battles: how many will be played in all, if that is known; decides the default of `compiled` alone.

    Raises:
        ConfigError: one of them is out of range, or there is no such device.
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
        """Return the settings of the evaluations of a training."""
        cuda_graph = False if run.cuda_graphs == "off" else None
        return ArenaConfig(device, compiled=SWITCH[run.evaluation.compiled], cuda_graph=cuda_graph)

    def of_match(self, battles: int) -> ArenaConfig:
        """Return the settings for a match of `battles` battles in all, which bound the batch."""
        return replace(self, batch=min(self.batch, battles), battles=battles)

    def definite(self, decisions: int) -> ArenaConfig:
        """Return the settings with a value for each field that the device decides.

        Args:
            decisions: of the longest battle.
        """
        device, compiled, cuda_graph = self.device, self.compiled, self.cuda_graph
        if compiled is None:
            compiled = is_worth_compiling(device, self.batch, self.battles, decisions)
        if cuda_graph is None:
            cuda_graph = device.type == "cuda"
        precision = definite_precision(self.precision, device)
        return replace(self, precision=precision, compiled=compiled, cuda_graph=cuda_graph)

    def as_json(self) -> dict[str, Any]:
        """Precision, and whether networks and simulation are compiled and decisions captured. Each of them may change
        the last bits of a network's decision, and so the winner."""
        return {"precision": self.precision, "compiled": self.compiled, "captured": self.cuda_graph}


def check_settings(settings: object) -> None:
    """Raise `ConfigError` unless `settings` are an `ArenaConfig`; earlier versions took a device in that place."""
    require(isinstance(settings, ArenaConfig), "settings", "an ArenaConfig, such as ArenaConfig(device)", settings)


def definite_precision(precision: Precision, device: torch.device) -> Precision:
    """Return the precision that a device uses; `auto` is bf16 on a GPU that multiplies it, else fp32.

    A CPU always uses fp32, with bf16 instructions or without, so that they change no match.
    """
    if precision != "auto":
        return precision
    return "bf16" if device.type == "cuda" and resolve_precision(precision, device) == torch.bfloat16 else "fp32"


def is_worth_compiling(device: torch.device, batch: int, battles: int | None = None, decisions: int = 0) -> bool:
    """Whether a device compiles by default; arguments as of `is_much_work`."""
    return device.type == "cuda" and is_much_work(battles, batch, decisions) and can_compile(device)


def saved_s(battles: int, batch: int, decisions: int) -> float:
    """Seconds that compiled graphs save in a match.

    Args:
        battles: in all.
        batch: battles at once.
        decisions: of the longest battle, which a batch takes.
    """
    return decisions * (SAVED_S * -(-battles // batch) + SAVED_S_A_BATTLE * battles)


def is_much_work(battles: int | None, batch: int, decisions: int) -> bool:
    """Whether a match is worth compiling on a GPU.

    Args:
        battles: in all; None if that is not known before.
    """
    saves = battles is not None and saved_s(battles, min(batch, battles), decisions) >= COMPILE_S / STARTS
    return saves or batch >= COMPILED_FROM


def setup_words(setup: Mapping[str, Any]) -> str:
    """`BatchArena.setup` as a line for a table."""
    words = [f"{'' if setup[name] else 'not '}{name}" for name in ("compiled", "captured")]
    return f"on {setup['device']}: {setup['precision']}, {', '.join(words)}"

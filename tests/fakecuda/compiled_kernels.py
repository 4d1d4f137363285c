"""Compiles the kernels of `sim/gpu` for a GPU that is not there (sm_90), as a substep launches them."""

import importlib
import sys
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.insert(0, str(Path(__file__).parents[1]))
from echelon.sim import step
from fakecuda.kernel_battles import by_kernels, crowded, random_orders

KERNELS = ("travel", "wrecks", "chip", "flight", "aiming", "volleys", "strikes")
TYPES = {torch.float32: "*fp32", torch.int32: "*i32", torch.int64: "*i64", torch.bool: "*i1", torch.uint8: "*u8"}


def compiled(kernel: Any, battles: int, device: torch.device, *arguments: Any, warps: int = 1, **sizes: Any) -> None:
    """In place of a launch."""
    kinds = {float: "fp32", int: "i32"}
    given = zip(kernel.arg_names, arguments, strict=False)
    signature = {name: TYPES[v.dtype] if isinstance(v, Tensor) else kinds[type(v)] for name, v in given}
    constants = {(kernel.arg_names.index(name),): value for name, value in sizes.items()}
    source = ASTSource(kernel, signature={**signature, **dict.fromkeys(sizes, "constexpr")}, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    assert made.asm["cubin"]
    print(kernel.__name__)


def main() -> None:
    """A substep whose kernels are compiled and do nothing."""
    env = crowded(battles=2)
    orders = random_orders(env, env.state, torch.Generator().manual_seed(1))
    for name in KERNELS:
        importlib.import_module(f"echelon.sim.gpu.{name}").launch = compiled
    with by_kernels():
        step.play(env.state, orders, env.game)


if __name__ == "__main__":
    main()

"""Runs the kernel of `SetEncoder` by Triton's interpreter, on a CPU, against the layers; or `compile`s it for sm_90."""

import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["TRITON_INTERPRET"] = "0" if sys.argv[1:] == ["compile"] else "1"
import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.insert(0, str(Path(__file__).parents[1]))
from echelon.learn.models import encoder, set_kernel
from echelon.learn.models.precision import autocast

COMPILES = sys.argv[1:] == ["compile"]
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.bool: "*i1", int: "i32"}
SHAPES = ((19, 25, 64), (5, 15, 32), (5, 8, 16), (1, 3, 16))
"""Members, features, width."""


class Compiled:
    """In place of the kernel: a launch compiles it and does nothing."""

    def __getitem__(self, programs: tuple[int, ...]) -> Any:
        return self.launched

    def launched(self, *arguments: Any, num_warps: int, **sizes: Any) -> None:
        kernel, sizes = set_kernel._encode_set, {**sizes, "is_interpreted": False}
        kinds = [TYPES[value.dtype if isinstance(value, Tensor) else type(value)] for value in arguments]
        signature = {**dict(zip(kernel.arg_names, kinds, strict=False)), **dict.fromkeys(sizes, "constexpr")}
        constants = {(kernel.arg_names.index(name),): value for name, value in sizes.items()}
        source = ASTSource(kernel, signature=signature, constexprs=constants)
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": num_warps})
        assert made.asm["cubin"]


def compare(count: int, features: int, width: int, dtype: torch.dtype) -> None:
    """Sets of every size, an empty one too, and more sets than programs of full size."""
    torch.manual_seed(count)
    layers = encoder.SetEncoder(features, width)
    torch.nn.init.normal_(layers.each[0].bias)
    torch.nn.init.normal_(layers.each[2].bias)
    members, mask = torch.randn(37, count, features), torch.rand(37, count) < 0.6
    mask[0], mask[1] = False, True
    by_layers = mock.patch.object(encoder, "uses_packing", lambda members: False)
    by_kernel = mock.patch.object(encoder, "runs_on", lambda device: True)

    def single(own: dict[str, Tensor]) -> Tensor:
        found: Tensor = torch.func.functional_call(layers, own, (members, mask))
        return found

    with torch.no_grad(), autocast(dtype, members.device), by_layers:
        theirs = layers(members, mask)
        with by_kernel:
            ours = layers(members, mask)
            weights = {name: torch.stack([value, value + 1]) for name, value in layers.state_dict().items()}
            several = torch.vmap(single)(weights)
    assert ours.dtype == theirs.dtype == dtype and ours.shape == theirs.shape == (37, 2 * width)
    # Sums in another order: bfloat16 has 8 bits.
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=tolerance, atol=tolerance)
    assert torch.equal(several[0], ours) and not torch.equal(several[1], ours)
    assert bool((ours[0] == 0).all()) and bool((ours[1:] != 0).any())


def main() -> None:
    """All shapes that a network of the default widths has, and the least."""
    for count, features, width in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            if COMPILES:
                weights = [torch.zeros(width, features), torch.zeros(width), torch.zeros(width, width)]
                members, mask = torch.zeros(8, count, features), torch.ones(8, count, dtype=torch.bool)
                with mock.patch.object(set_kernel, "launcher", Compiled()):
                    set_kernel.encode_set(members, mask, (*weights, torch.zeros(width)), dtype)
            else:
                compare(count, features, width, dtype)
    print("compiled" if COMPILES else "equal")


if __name__ == "__main__":
    main()

"""Runs the Triton form of `replace_rows` by Triton's interpreter, on a CPU, and compares it with the dense one; with
`compile` it compiles the kernel for a GPU that is not there (sm_90)."""

import os
import sys
from pathlib import Path
from unittest import mock

if "compile" not in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from kernel_cases import BATTLES, standard_maps

from echelon.env.kernels import replace_rows
from echelon.env.kernels.replace_rows import BLOCK, PROGRAMS, replace_rows_dense, replace_rows_triton
from echelon.env.restart import restore_ground
from echelon.state import untouched


def compare() -> None:
    """Rows of several dtypes and sizes, longer than what the programs write at a time, of tensors and parts of them."""
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> torch.Tensor:
        # Whole numbers, which bfloat16 holds: Triton's interpreter rounds to it in its own way.
        return torch.randint(-99, 99, shape, generator=generator).float()

    # A column of a table, as TorchRL's rollouts hand out.
    which = (torch.rand(BATTLES, 3, generator=generator) < 0.5)[:, 1]
    assert which.any() and not which.all() and not which.is_contiguous()
    rows = torch.randint(0, 4, (BATTLES,), generator=generator)
    long = BLOCK * PROGRAMS + 5
    sources = [drawn(4, 3, 5), drawn(4, 8, 2)[:, 2:7], drawn(4, long), (drawn(7, 4) > 0).T, drawn(4, 2).long()]
    made = [drawn(BATTLES, 6, 5), drawn(BATTLES, 5, 2).bfloat16(), drawn(BATTLES, long), drawn(BATTLES, 7) > 0]
    made.append(drawn(BATTLES, 2).long())
    found = []
    for form in (replace_rows_triton, replace_rows_dense):
        mine = [tensor.clone() for tensor in made]
        form(which, rows, [mine[0][:, 3:], *mine[1:]], sources)
        found.append(mine)
    for ours, theirs, before in zip(*found, made, strict=True):
        assert torch.equal(ours, theirs) and not torch.equal(ours, before)


def compare_ground() -> None:
    """Ground that was fought on, of which about half is restored: of maps, and of zeros."""
    maps, generator = standard_maps(), torch.Generator().manual_seed(1)
    map_id = torch.arange(BATTLES).flip(0)
    which = (torch.rand(BATTLES, 3, generator=generator) < 0.5)[:, 1]
    assert which.any() and not which.all() and not which.is_contiguous()
    fought = untouched(map_id, maps)
    fought = fought.replace(
        solid=fought.solid ^ 5, opaque=fought.opaque ^ 9, rubble=fought.rubble + 3, damage=fought.damage + 7
    )
    found = []
    for is_gpu in (True, False):
        with mock.patch.object(replace_rows, "runs_on", lambda device, is_gpu=is_gpu: is_gpu):
            found.append(fought.clone())
            restore_ground(found[-1], which, map_id, maps)
    for name in ("solid", "opaque", "rubble", "damage"):
        ours, theirs, before = (getattr(ground, name) for ground in (*found, fought))
        assert torch.equal(ours, theirs) and not torch.equal(ours, before), name


def compile_it() -> None:
    """As a restart and the storing of final views launch it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from echelon.env.kernels.replace_rows import _replace

    constants = [(True, True, False), (285, 200, 7), (570, 200, 7), (285, 400, 7)]
    signature = {
        **{"which": "*i1", "rows": "*i64"},
        **{"targets": ("*fp32", "*bf16", "*u8"), "sources": ("*fp32", "*fp32", "*u8")},
        **dict.fromkeys(("is_given", "sizes", "to_next", "from_next"), ("constexpr",) * 3),
        **dict.fromkeys(("share", "block"), "constexpr"),
    }
    known = {(4 + at, each): value for at, row in enumerate(constants) for each, value in enumerate(row)}
    source = ASTSource(_replace, signature=signature, constexprs={**known, (8,): PROGRAMS, (9,): BLOCK})
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
    print("compiled")


if __name__ == "__main__":
    if "compile" in sys.argv:
        compile_it()
    else:
        compare()
        compare_ground()
        print("equal")

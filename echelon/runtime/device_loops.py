"""Loops as kernels of a GPU, with the bits that they give on a CPU: numba-cuda compiles them, torch's tensors are their
memory, and they run on torch's current stream, so that captured graphs hold them.

On a GPU compilers fuse multiplications with additions, and a maximum of zeros has another sign than on a CPU. Neither
is so here. Constants and records lie in tensors of bytes; every argument is a tensor, `DeviceRecords`, a whole
number, or a tuple of such.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.runtime import jit
from echelon.runtime.loop_cache import cache_folder

EXACT = "".join(
    f"define {kind} @__nv_{name}{suffix}({kind} %a, {kind} %b) alwaysinline {{\n"
    f"  %is_beyond = fcmp {order} {kind} %b, %a\n"
    f"  %result = select i1 %is_beyond, {kind} %b, {kind} %a\n"
    f"  ret {kind} %result\n}}\n"
    for kind, suffix in (("float", "f"), ("double", ""))
    for name, order in (("fmax", "ogt"), ("fmin", "olt"))
)
"""`max` and `min` as numba compiles them for a CPU, in place of those of NVIDIA's library."""
EXACT += """define i32 @numba_attempt_nocopy_reshape(
    i64 %nd, i64* %dims, i64* %strides, i64 %new_nd, i64* %new_dims, i64* %new_strides, i64 %item, i32 %order
) alwaysinline {
  store i64 %item, i64* %new_strides
  ret i32 1
}
"""
"""Loops reshape contiguous arrays alone, and to one axis. numba-cuda would link a file of CUDA C++, which takes a
compiler for that."""
DECLARED = re.compile(r'^declare .*@"(__nv_f(max|min)f?|numba_attempt_nocopy_reshape)"\(.*\n', re.MULTILINE)


def has_device_loops() -> bool:
    """Whether what compiles loops for a GPU is installed."""
    return jit.HAS_LOOPS and all(importlib.util.find_spec(name) for name in ("numba_cuda", "cuda"))


@dataclass(frozen=True)
class DeviceRecords:
    """An array of NumPy's records in the memory of a GPU, as bytes."""

    memory: Tensor
    """[bytes] uint8."""
    kind: np.dtype
    shape: tuple[int, ...]


def to_device(values: Any, device: torch.device) -> Any:
    """NumPy's arrays, by themselves or in named tuples, as tensors and `DeviceRecords` on a device."""
    if isinstance(values, tuple):
        return type(values)(*(to_device(value, device) for value in values))  # type: ignore[call-arg]
    if values.dtype.names is None:
        return torch.from_numpy(values).to(device)
    return DeviceRecords(torch.from_numpy(values.view(np.uint8).reshape(-1)).to(device), values.dtype, values.shape)


def empty_device_records(kind: np.dtype, shape: tuple[int, ...], device: torch.device) -> DeviceRecords:
    """Records of zeros."""
    memory = torch.zeros(kind.itemsize * math.prod(shape), dtype=torch.uint8, device=device)
    return DeviceRecords(memory, kind, shape)


def words(value: Any) -> Iterator[int]:
    """What a kernel is given of an argument, as 64-bit words: of an array what numba holds of one."""
    if isinstance(value, tuple):
        for item in value:
            yield from words(item)
    elif isinstance(value, int):
        yield value
    else:
        memory, shape = (value.memory, value.shape) if isinstance(value, DeviceRecords) else (value, tuple(value.shape))
        item = value.kind.itemsize if isinstance(value, DeviceRecords) else value.element_size()
        count = math.prod(shape)
        # Neither numba's own memory nor an object of Python's; then what it is and where.
        yield from (0, 0, count, item, memory.data_ptr(), *shape)
        for size in shape:
            count //= max(size, 1)
            yield count * item


def type_of(value: Any) -> Any:
    """numba's type of an argument."""
    from numba import from_dtype, types

    if isinstance(value, tuple):
        kinds = [type_of(item) for item in value]
        return types.NamedTuple(kinds, type(value)) if hasattr(value, "_fields") else types.BaseTuple.from_types(kinds)
    if isinstance(value, int):
        return types.int64
    if isinstance(value, DeviceRecords):
        return types.Array(from_dtype(value.kind), len(value.shape), "C")
    if not value.is_contiguous():
        raise ValueError(f"a loop takes contiguous tensors, got strides {value.stride()}")
    return types.Array(from_dtype(torch.empty(0, dtype=value.dtype).numpy().dtype), value.dim(), "C")


@contextlib.contextmanager
def exact_compilation(capability: tuple[int, int]) -> Iterator[None]:
    """Inside, numba-cuda compiles for GPUs of a compute capability, whatever is here, and rounds as a CPU does."""
    from numba.cuda import dispatcher, ufuncs
    from numba.cuda.cudadrv import nvvm
    from numba.cuda.np import ufunc_db

    for function in (np.floor, np.ceil, np.rint, np.isfinite):
        ufuncs.ufunc_db()[function] = ufunc_db.get_ufunc_info(function)
    originals = nvvm.compile_ir, dispatcher.get_current_device

    def compile_ir(modules: Any, **options: Any) -> Any:
        texts = [modules] if isinstance(modules, str) else list(modules)
        # The library has what NVVM does not take from LLVM.
        texts = [text.replace('llvm.rint.f32"', '__nv_rintf"') for text in texts]
        texts[0] = DECLARED.sub("", texts[0]) + EXACT
        return originals[0](texts, **options, fma=False)

    nvvm.compile_ir = compile_ir  # type: ignore[assignment]
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        nvvm.compile_ir, dispatcher.get_current_device = originals


def assemble(kernel: Callable[..., None], types: Sequence[Any], capability: tuple[int, int]) -> str:
    """A kernel in NVIDIA's assembly language, PTX, under its own name: numba's tells all types, in 24 kB."""
    from numba import cuda, void

    with exact_compilation(capability):
        ptx, _ = cuda.compile_ptx(kernel, void(*types), cc=capability)
    name = ptx.partition(".visible .entry ")[2].partition("(")[0]
    return ptx.replace(name, kernel.__name__)


def machine_code(kernel: Callable[..., None], types: Sequence[Any], capability: tuple[int, int]) -> Any:
    """A kernel for GPUs of a compute capability, from the cache of loops if it is there."""
    from cuda.core import Linker, LinkerOptions, ObjectCode
    from numba_cuda import __version__

    key = hashlib.sha256(repr((capability, __version__, types)).encode()).hexdigest()[:16]
    folder = cache_folder()
    file = None if folder is None else folder / f"{kernel.__name__}-{key}.cubin"
    if file is not None and file.is_file():
        return ObjectCode.from_cubin(file.read_bytes()).get_kernel(kernel.__name__)
    options = LinkerOptions(arch="sm_{}{}".format(*capability), fma=False)
    linked = Linker(ObjectCode.from_ptx(assemble(kernel, types, capability).encode()), options=options).link("cubin")
    if file is not None:
        with contextlib.suppress(OSError):
            part = file.with_suffix(f".{os.getpid()}")
            part.write_bytes(bytes(linked.code))
            part.replace(file)
    return linked.get_kernel(kernel.__name__)


@functools.cache
def load_kernel(kernel: Callable[..., None], types: tuple[Any, ...], device: torch.device) -> Any:
    """`machine_code` for a GPU, once a process."""
    return machine_code(kernel, types, torch.cuda.get_device_capability(device))


def launch(kernel: Callable[..., None], blocks: int, threads: int, device: torch.device, *arguments: Any) -> None:
    """Run a kernel in so many blocks of so many threads, on torch's current stream of a device."""
    from cuda.core import LaunchConfig, Stream
    from cuda.core import launch as start

    code = load_kernel(kernel, tuple(map(type_of, arguments)), device)
    with torch.cuda.device(device):
        stream = Stream.from_handle(torch.cuda.current_stream(device).cuda_stream)
        start(stream, LaunchConfig(grid=blocks, block=threads), code, *words(arguments))

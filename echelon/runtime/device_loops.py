"""Run the simulation's numba loops as GPU kernels, with the same bits as on a CPU. The package numba-cuda compiles the
loops. The kernels use the memory of torch tensors and run on torch's current stream, so CUDA graphs can capture them.
Two defaults of GPU compilers are disabled, because they change bits: fused multiply-add, and the sign of the maximum of
two zeros. Records are stored in tensors of bytes. Each argument of a kernel is a tensor, a `DeviceRecords`, an integer,
or a tuple of these.
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
"""`max` and `min` as numba compiles them for a CPU. They replace the functions of NVIDIA's library."""
EXACT += """define i32 @numba_attempt_nocopy_reshape(
    i64 %nd, i64* %dims, i64* %strides, i64 %new_nd, i64* %new_dims, i64* %new_strides, i64 %item, i32 %order
) alwaysinline {
  store i64 %item, i64* %new_strides
  ret i32 1
}
"""
"""Reshape function for loops, which only flatten contiguous arrays. The one of numba-cuda needs a CUDA C++ compiler."""
DECLARED = re.compile(r'^declare .*@"(__nv_f(max|min)f?|numba_attempt_nocopy_reshape)"\(.*\n', re.MULTILINE)


def has_device_loops() -> bool:
    """Return True if the packages that compile numba loops for a GPU are installed."""
    return jit.HAS_LOOPS and all(importlib.util.find_spec(name) for name in ("numba_cuda", "cuda"))


@dataclass(frozen=True)
class DeviceRecords:
    """An array of NumPy records in the memory of a GPU."""

    memory: Tensor
    """[bytes] uint8, the records as bytes."""
    kind: np.dtype
    shape: tuple[int, ...]


def to_device(values: Any, device: torch.device) -> Any:
    """Copy NumPy arrays, or named tuples of arrays, to tensors and `DeviceRecords` on a device."""
    if isinstance(values, tuple):
        return type(values)(*(to_device(value, device) for value in values))  # type: ignore[call-arg]
    if values.dtype.names is None:
        return torch.from_numpy(values).to(device)
    return DeviceRecords(torch.from_numpy(values.view(np.uint8).reshape(-1)).to(device), values.dtype, values.shape)


def empty_device_records(kind: np.dtype, shape: tuple[int, ...], device: torch.device) -> DeviceRecords:
    """Return records of zeros on a device."""
    memory = torch.zeros(kind.itemsize * math.prod(shape), dtype=torch.uint8, device=device)
    return DeviceRecords(memory, kind, shape)


def words(value: Any) -> Iterator[int]:
    """Yield the 64-bit words that a kernel receives for an argument; for an array, the fields of numba's struct."""
    if isinstance(value, tuple):
        for item in value:
            yield from words(item)
    elif isinstance(value, int):
        yield value
    else:
        memory, shape = (value.memory, value.shape) if isinstance(value, DeviceRecords) else (value, tuple(value.shape))
        item = value.kind.itemsize if isinstance(value, DeviceRecords) else value.element_size()
        count = math.prod(shape)
        # Fields of numba's array struct: no meminfo, no parent object, count, item size, address, shape, strides
        yield from (0, 0, count, item, memory.data_ptr(), *shape)
        for size in shape:
            count //= max(size, 1)
            yield count * item


def type_of(value: Any) -> Any:
    """Return the numba type of an argument."""
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
    """Context manager in which numba-cuda compiles for a compute capability, without a GPU, and rounds like a CPU."""
    from numba.cuda import dispatcher, ufuncs
    from numba.cuda.cudadrv import nvvm
    from numba.cuda.np import ufunc_db

    for function in (np.floor, np.ceil, np.rint, np.isfinite):
        ufuncs.ufunc_db()[function] = ufunc_db.get_ufunc_info(function)
    originals = nvvm.compile_ir, dispatcher.get_current_device

    def compile_ir(modules: Any, **options: Any) -> Any:
        texts = [modules] if isinstance(modules, str) else list(modules)
        # NVVM lacks LLVM's `rint` intrinsic; CUDA's libdevice has an equivalent function.
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
    """Compile a kernel to PTX under its Python name, because numba's own name contains all types and is 24 kB long."""
    from numba import cuda, void

    with exact_compilation(capability):
        ptx, _ = cuda.compile_ptx(kernel, void(*types), cc=capability)
    name = ptx.partition(".visible .entry ")[2].partition("(")[0]
    return ptx.replace(name, kernel.__name__)


def machine_code(kernel: Callable[..., None], types: Sequence[Any], capability: tuple[int, int]) -> Any:
    """Return a kernel compiled for a compute capability, from the cache of loops if possible."""
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
    """Return `machine_code` for a GPU, cached per process."""
    return machine_code(kernel, types, torch.cuda.get_device_capability(device))


def launch(kernel: Callable[..., None], blocks: int, threads: int, device: torch.device, *arguments: Any) -> None:
    """Launch a kernel with `blocks` blocks of `threads` threads, on torch's current stream of a device."""
    from cuda.core import LaunchConfig, Stream
    from cuda.core import launch as start

    code = load_kernel(kernel, tuple(map(type_of, arguments)), device)
    with torch.cuda.device(device):
        stream = Stream.from_handle(torch.cuda.current_stream(device).cuda_stream)
        start(stream, LaunchConfig(grid=blocks, block=threads), code, *words(arguments))

"""Compile the loops of the simulation with numba. Without numba, dense torch code runs on all devices instead."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.runtime.exact import HAS_NUMBA
from echelon.runtime.loop_cache import compile_and_keep

HAS_LOOPS = HAS_NUMBA
"""Whether loops are available."""
ZERO, HALF, ONE, INFINITY = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(np.inf)
"""float32 constants for loops. Python floats would make them compute in float64."""

if HAS_LOOPS:
    import numba
    import numba.extending


OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
"""numba options of all loops. Disabling numba's runtime (`_nrt`) removes reference counting of arrays, which took 40 %
of a decision. Loops then cannot allocate memory: callers pass scratch memory, and numba rejects allocations. Loops
have no wrapper for C."""


def kernel(loop: Any) -> Any:
    """Decorator that compiles a loop for calls from Python. Without numba the decorator returns the plain Python
    function, which is then not used."""
    return compile_and_keep(loop, nogil=True, **OPTIONS) if HAS_LOOPS else loop


def device_function(function: Any) -> Any:
    """Decorator for a function that is called only by loops compiled with numba.

    The function is compiled once, and LLVM inlines it into its callers. numba's own inlining compiles slower and is not
    faster.
    """
    options: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "forceinline": True}
    if HAS_LOOPS and (pipeline := inlined_pipeline()) is not None:
        options["pipeline_class"] = pipeline
    return numba.njit(**options)(function) if HAS_LOOPS else function


@functools.cache
def inlined_pipeline() -> Any:
    """Return a numba compiler for functions that are always inlined; None if numba lacks the required classes.

    By default numba optimises each function together with its callees, and emits machine code for it. Inlined functions
    need neither step, because LLVM optimises their code again in each kernel. Omitting both steps reduces the compile
    time of the loops of a decision to 0.62 of its value, with kernels of the same speed (`benchmarks/README.md`).
    """
    try:
        from numba.core.codegen import JITCodeLibrary
        from numba.core.compiler import Compiler
    except ImportError:
        return None
    replaced = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals", "codegen")
    if not all(hasattr(JITCodeLibrary, name) for name in replaced):
        return None

    class WithoutEnvironment:
        """A stub of numba's code generator, which would store a Python object next to the machine code."""

        def set_env(self, name: str, environment: Any) -> None:
            """Store nothing, because there is no machine code."""

    class InlinedLibrary(JITCodeLibrary):
        """The code of one function that LLVM will inline. The code is not optimised and not compiled to machine
        code."""

        @property
        def codegen(self) -> Any:
            return WithoutEnvironment()

        def _optimize_final_module(self) -> None:
            """Do nothing: the kernel is optimised as a whole."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    class InlinedCompiler(Compiler):
        """numba's compiler with an `InlinedLibrary`."""

        numbers = itertools.count()

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if self.state.library is None:
                name = f"inlined_{next(self.numbers)}"
                self.state.library = InlinedLibrary(self.state.targetctx.codegen(), name)
                self.state.library.enable_object_caching()

    return InlinedCompiler


def _prefetch(context: Any, values: Any, offset: Any) -> Any:
    """Implement `prefetch` for numba with the LLVM intrinsic `llvm.prefetch`."""
    from llvmlite import ir

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        memory = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        at = builder.gep(builder.bitcast(memory, pointer), [arguments[1]])
        # Arguments of LLVM's prefetch: read access, locality 2 (L2 cache), data cache
        builder.call(fetch, [at, number(0), number(2), number(1)])
        return context.get_dummy_value()

    return numba.types.void(values, numba.types.intp), emit


prefetch: Any = numba.extending.intrinsic(_prefetch) if HAS_LOOPS else None
"""`prefetch(values, offset)` in a loop makes a CPU prefetch the cache line with byte `offset` of a contiguous array. It
does not block and changes no values."""


def whole_vectors(count: int) -> int:
    """Round `count` up to a multiple of 8, so that loops without branches need only vector instructions."""
    return (count + 7) & -8


padded = device_function(whole_vectors)
"""Numba version of `whole_vectors`."""


def loops_on(device: torch.device) -> bool:
    """Return True if this device runs numba loops: a CPU, if numba is installed."""
    return HAS_LOOPS and device.type == "cpu"


def array(values: Tensor) -> Any:
    """Return the values of a tensor as an array that a numba loop can read; see `shared`. Values that are not
    contiguous are copied.

    All arrays that loops receive are contiguous, so each loop is compiled for a single signature.
    """
    return shared(values.contiguous())


def shared(values: Tensor) -> Any:
    """Return the memory of a tensor, which a numba loop can read and write: a NumPy array on a CPU, the tensor
    elsewhere."""
    if values.requires_grad:
        values = values.detach()
    return values.numpy() if values.device.type == "cpu" else values


def tensor(values: Any) -> Tensor:
    """Return an array of a loop as a tensor with the same memory."""
    return values if isinstance(values, Tensor) else torch.from_numpy(values)

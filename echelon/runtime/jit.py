"""How loops are compiled by numba, and on which devices they run. Without numba the dense form runs everywhere."""

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
"""Whether loops exist."""
ZERO, HALF, ONE, INFINITY = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(np.inf)
"""float32 constants, so that loops do not compute in float64."""

if HAS_LOOPS:
    import numba
    import numba.extending


OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
"""How all loops are compiled. Without numba's runtime (`_nrt`) nothing in them counts references to arrays, which took
40 % of a decision. Nor can they allocate memory: their callers pass scratch memory, and numba refuses what would. No
wrapper for callers in C is made."""


def kernel(loop: Any) -> Any:
    """Decorator that compiles a loop called from Python. Without numba it returns the loop, which is never called."""
    return compile_and_keep(loop, nogil=True, **OPTIONS) if HAS_LOOPS else loop


def device_function(function: Any) -> Any:
    """Decorator for a function that is called by compiled loops only. It is compiled once for all callers, which LLVM
    inlines it into; numba's own inlining took longer to compile and made nothing faster."""
    options: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "forceinline": True}
    if HAS_LOOPS and (pipeline := inlined_pipeline()) is not None:
        options["pipeline_class"] = pipeline
    return numba.njit(**options)(function) if HAS_LOOPS else function


@functools.cache
def inlined_pipeline() -> Any:
    """A numba compiler for functions that exist only inside their callers; None for a numba without these classes.

    numba optimises each function with all that it calls, and emits machine code for it, before its callers do the
    same again. A function that every caller inlines needs neither: LLVM sees its code once more in the kernel. Left
    out, the loops of a decision compile in 0.62 of the CPU time, to kernels of the same speed
    (`benchmarks/README.md`).
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
        """Stands for the code generator where numba would store a Python object beside the machine code."""

        def set_env(self, name: str, environment: Any) -> None:
            """Store nothing: there is no machine code."""

    class InlinedLibrary(JITCodeLibrary):
        """Code of one function for LLVM to inline, neither optimised with its callees nor made machine code."""

        @property
        def codegen(self) -> Any:
            return WithoutEnvironment()

        def _optimize_final_module(self) -> None:
            """Leave it to the kernel."""

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
    """`prefetch`, as numba makes it of an instruction of LLVM."""
    from llvmlite import ir

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        memory = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        at = builder.gep(builder.bitcast(memory, pointer), [arguments[1]])
        # To read, into the second cache and those behind it, of data.
        builder.call(fetch, [at, number(0), number(2), number(1)])
        return context.get_dummy_value()

    return numba.types.void(values, numba.types.intp), emit


prefetch: Any = numba.extending.intrinsic(_prefetch) if HAS_LOOPS else None
"""`prefetch(values, offset)` in a loop has a CPU fetch the line of a contiguous array that holds its byte `offset` into
a cache. Nothing waits for it, and no number changes."""


def whole_vectors(count: int) -> int:
    """`count` or up to seven more: a loop over so many that has no branch is done by vector instructions alone."""
    return (count + 7) & -8


padded = device_function(whole_vectors)
"""`whole_vectors` in a loop."""


def loops_on(device: torch.device) -> bool:
    """Whether loops run on this device."""
    return HAS_LOOPS and device.type == "cpu"


def array(values: Tensor) -> Any:
    """The values of a tensor for a loop to read, contiguous, so a copy where they are not; as in `shared`.

    Because all arrays are contiguous, each loop is compiled for a single signature.
    """
    return shared(values.contiguous())


def shared(values: Tensor) -> Any:
    """The memory of a tensor for a loop to read and write: a NumPy array on a CPU, a tensor elsewhere."""
    values = values.detach()
    return values.numpy() if values.device.type == "cpu" else values


def tensor(values: Any) -> Tensor:
    """What a loop wrote, as a tensor of the same memory."""
    return values if isinstance(values, Tensor) else torch.from_numpy(values)

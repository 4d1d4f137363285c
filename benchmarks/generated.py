"""The code that Inductor generates for a GPU that is not present: its kernels, and what they read and write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from tensordict import TensorDict, TensorDictBase, is_tensorclass
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from echelon.runtime.compile import EXACT_ON_GPU, ON_GPU

SECTOR = 32
"""Smallest number of bytes that a GPU fetches for one indexed cell."""


class Chip:
    """Properties of a GPU that Inductor reads: those of an H100."""

    name, major, minor, multi_processor_count, warp_size = "H100", 9, 0, 132, 32
    total_memory, L2_cache_size, regs_per_multiprocessor = 80 << 30, 50 << 20, 65536
    max_threads_per_multi_processor, max_threads_per_block = 2048, 1024
    shared_memory_per_block, shared_memory_per_block_optin = 48 << 10, 227 << 10
    gcnArchName, is_integrated = "", False


def pretend_a_gpu() -> None:
    """Make torch's compiler generate code for a GPU that is not present. It cannot be undone in this process."""
    import torch._inductor.config as inductor
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor.runtime.hints import DeviceProperties
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    properties = {
        **{"is_available": True, "device_count": 1, "current_device": 0, "get_device_name": Chip.name},
        **{"get_device_properties": Chip, "get_device_capability": (9, 0), "_lazy_init": None},
        **{"get_rng_state": torch.zeros(16, dtype=torch.uint8), "set_rng_state": None},
        **{"_exchange_device": 0, "_maybe_exchange_device": 0, "synchronize": None},
    }
    for name, value in properties.items():
        setattr(torch.cuda, name, lambda *args, _value=value, **kwargs: _value)
    answers = {
        **{"is_available": True, "device_count": 1, "current_device": 0, "get_compute_capability": 90},
        **{"raise_if_triton_unavailable": None, "is_triton_capable": True, "is_bf16_supported": True},
    }
    for name, value in answers.items():
        setattr(CudaInterface, name, staticmethod(lambda *args, _value=value, **kwargs: _value))
    CudaInterface.Worker.get_device_properties = staticmethod(lambda *args: Chip)  # type: ignore
    info = {"type": "cuda", "index": 0, "cc": 90, "major": 9}
    extra = {name: getattr(Chip, name) for name in DeviceProperties._fields if hasattr(Chip, name) and name not in info}
    DeviceProperties.create = classmethod(lambda cls, device: cls(**info, **extra))  # type: ignore
    driver.set_active(type("Driver", (), {"get_current_target": lambda self: GPUTarget("cuda", 90, 32)})())
    inductor.compile_threads, inductor.force_disable_caches = 1, True
    # Inductor would benchmark whether to pad a matrix.
    inductor.shape_padding = False
    FakeTensorMode.avoid_device_init = property(lambda self: True)  # type: ignore
    torch.compiler.is_compiling = lambda: True
    fold_constants_on_the_host()


class OnTheHost(TorchDispatchMode):
    """Create tensors for a GPU on the host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return func(*args, **{key: "cpu" if key == "device" else value for key, value in kwargs.items()})


def fold_constants_on_the_host() -> None:
    """Make Inductor compute uniform constants on the host, not on the device of the graph."""
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder as Folder

    run = Folder.run

    def folded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with OnTheHost():
            return run(self, *args, **kwargs)

    Folder.run = folded  # type: ignore[method-assign]


def parts(value: Any) -> list[Any]:
    """Return the parts of a structure."""
    if is_tensorclass(value) or (is_dataclass(value) and not isinstance(value, type)):
        return [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, TensorDictBase | dict):
        return list(value.values())
    return list(value) if isinstance(value, tuple | list) else []


def leaves(value: Any) -> Iterator[Tensor]:
    """Return all tensors of a structure, in order."""
    if isinstance(value, Tensor):
        yield value
    else:
        for item in parts(value):
            yield from leaves(item)


def with_leaves(value: Any, new: Iterator[Tensor]) -> Any:
    """Return the structure with other tensors."""
    if isinstance(value, Tensor):
        return next(new)
    if is_tensorclass(value):
        fields_by_name = {field.name: with_leaves(getattr(value, field.name), new) for field in fields(value)}
        return type(value)(**fields_by_name, batch_size=value.batch_size)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: with_leaves(getattr(value, f.name), new) for f in fields(value)})
    if isinstance(value, TensorDictBase):
        return TensorDict({name: with_leaves(leaf, new) for name, leaf in value.items()}, value.batch_size)
    if isinstance(value, dict):
        return {name: with_leaves(leaf, new) for name, leaf in value.items()}
    if isinstance(value, tuple | list):
        items = [with_leaves(item, new) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


@dataclass(frozen=True)
class Kernel:
    """One kernel of a graph."""

    name: str
    operations: int
    """Operations of the graph that are fused into it."""
    whole: int
    """Bytes as Inductor counts them: each buffer at most once, indexed buffers whole."""
    moved: int
    """Bytes with indexed reads and writes counted as `SECTOR` bytes each, at most the whole buffer."""
    buffers: dict[str, int]
    """`moved` by buffer, largest first: shape, dtype and use."""


@dataclass(frozen=True)
class Graph:
    """The graph that Inductor made of a function."""

    kernels: list[Kernel]
    launches: int
    """Number of launches of its code."""

    @property
    def moved_gb(self) -> float:
        return sum(kernel.moved for kernel in self.kernels) / 1e9

    @property
    def whole_gb(self) -> float:
        return sum(kernel.whole for kernel in self.kernels) / 1e9


class Written(Exception):
    """Raised when the code of a graph is complete."""


def generate(function: Callable[..., Any], arguments: tuple[Any, ...], keep: Path | None = None) -> Graph:
    """Compile a function of fake CUDA tensors as one graph, up to its code, which is written to the file `keep`."""
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.graph import GraphLowering
    from torch.fx.experimental.proxy_tensor import make_fx

    inputs = list(leaves(arguments))
    graphs: list[Graph] = []

    def flat(*tensors: Tensor) -> list[Tensor]:
        return list(leaves(function(*with_leaves(arguments, iter(tensors)))))

    def written(graph: Any, *_: Any) -> None:
        code = graph.codegen()[0]
        text = getattr(code, "value", str(code))
        if keep is not None:
            keep.write_text(text)
        graphs.append(Graph([kernel_of(node) for node in graph.scheduler.nodes], launches_in(text)))
        raise Written

    with torch.no_grad():
        traced = make_fx(flat)(*inputs)
        fake: Any = inputs[0].fake_mode  # type: ignore[attr-defined]
        patched = mock.patch.object(GraphLowering, "compile_to_module", written)
        with patched, tracing(TracingContext(fake)), config.patch({**ON_GPU, **EXACT_ON_GPU}):
            try:
                compile_fx(traced, inputs)
            except Exception:
                # torch wraps exceptions of a compiler.
                if not graphs:
                    raise
    (graph,) = graphs
    return graph


def launches_in(code: str) -> int:
    """Return the launches of a graph's code: generated kernels, library kernels, and called operations."""
    body = code.split("def call(")[-1]
    calls = re.findall(r"= torch\.ops\.|^\s+torch\.ops\.", body, re.MULTILINE)
    return body.count(".run(") + body.count("extern_kernels.") + len(calls)


def kernel_of(node: Any) -> Kernel:
    """Return the kernel of a node of Inductor's schedule: what it reads and writes."""
    from torch._inductor.scheduler import ForeachKernelSchedulerNode

    steps = node.get_nodes()
    # Kernels combined into one launch read and write as separate kernels do.
    nodes = node.snodes if isinstance(node, ForeachKernelSchedulerNode) else [node]
    bytes_by_buffer: Counter[str] = Counter()
    for snode in nodes:
        bytes_by_buffer.update(accesses(snode, snode.get_nodes()))
    buffers = dict(sorted(bytes_by_buffer.items(), key=lambda entry: -entry[1]))
    total_bytes = sum(snode.get_read_write_buffers_sizes() for snode in nodes)
    return Kernel(node.get_name(), len(steps), total_bytes, sum(bytes_by_buffer.values()), buffers)


def accesses(node: Any, steps: Any) -> dict[str, int]:
    """Return the bytes that one kernel moves, by buffer: those of
    `BaseSchedulerNode.get_read_write_buffer_accesses`, except for indexed buffers."""
    counts: dict[str, int] = {}
    for name, num_bytes in node.get_read_write_buffer_accesses(include_reads=True, include_writes=True).items():
        if is_named_for_order(name, steps):
            continue
        num_lookups = sum(lookups(step, name) for step in steps)
        deps = [
            dep for step in steps for dep in (*step.read_writes.reads, *step.read_writes.writes) if dep.name == name
        ]
        if num_lookups and all(is_looked_up(dep) for dep in deps):
            counts[label(name, "looked up")] = counts.get(label(name, "looked up"), 0) + min(
                num_bytes, num_lookups * SECTOR
            )
        else:
            counts[label(name, "")] = counts.get(label(name, ""), 0) + num_bytes
    return counts


def is_looked_up(dep: Any) -> bool:
    """Return whether a buffer is read or written at computed indices."""
    from torch._inductor.dependencies import MemoryDep

    return bool(dep.is_indirect()) if isinstance(dep, MemoryDep) else False


def is_named_for_order(name: str, steps: Any) -> bool:
    """Return whether a kernel names a buffer only in its dependencies, for the order of kernels, and does not use it.

    An in-place write to `x` is a separate output, which counts. The kernel then also depends on `x` (`StarDep`) and on
    earlier readers of `x` (`WeakDep`). The generated code loads neither, unless there is a `MemoryDep`.
    """
    from torch._inductor.dependencies import StarDep, WeakDep

    changed = {target for step in steps for output in step.get_outputs() for target in output.get_mutations()}
    writes = {dep.name for step in steps for dep in step.read_writes.writes}
    reads = [dep for step in steps for dep in step.read_writes.reads if dep.name == name]
    only_order = all(isinstance(dep, WeakDep) or (isinstance(dep, StarDep) and name in changed) for dep in reads)
    return bool(reads) and only_order and name not in writes


def lookups(step: Any, name: str) -> int:
    """Return the number of cells of a buffer that one operation indexes."""
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.virtualized import V

    deps = [dep for dep in (*step.read_writes.reads, *step.read_writes.writes) if dep.name == name]
    deps = [dep for dep in deps if isinstance(dep, MemoryDep)]
    if not deps or not hasattr(step, "get_ranges"):
        return 0
    count = 1
    for sizes in step.get_ranges():
        for size in sizes:
            count *= V.graph.sizevars.optimization_hint(size, fallback=1)
    return count * sum(is_looked_up(dep) for dep in deps)


def label(name: str, how: str) -> str:
    """Return a buffer's shape, dtype and use."""
    from torch._inductor.virtualized import V

    buffer: Any = V.graph.name_to_buffer.get(name) or V.graph.graph_inputs.get(name)
    try:
        layout = buffer.get_layout()
    except NotImplementedError:
        # A buffer that is written in place under another name.
        return name
    kind = "input" if name in V.graph.graph_inputs else "buffer"
    return f"{kind} {[int(size) for size in layout.size]} {str(layout.dtype).removeprefix('torch.')} {how}".strip()

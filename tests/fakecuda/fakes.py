"""Fake CUDA: create objects on a CPU, then convert their tensors to fake tensors on `cuda:0`, in place.

A CUDA build of torch supports such tensors without a GPU (`torch._subclasses.FakeTensorMode`): operations check device,
dtype and shape, and compute nothing.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, is_tensorclass
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from echelon.env.blocks import Blocks
from echelon.env.env import EchelonEnv
from echelon.learn.ppo.update import PPO
from echelon.runtime.profiling import Stopwatch

CUDA = torch.device("cuda:0")


class Fakes:
    """Convert all tensors reachable from an object to fake tensors on `cuda:0`.

    Objects, modules, lists and dictionaries are changed in place; tensors, TensorDicts and tuples are replaced
    once each, so that shared objects stay shared. Specs of TorchRL stay on the CPU: it checks their bounds
    with a host read.

    Args:
        mode: the mode of the fake tensors.
        battles: numbers of battles, before and after: tensors whose first axis has the one have the other then, and
            are contiguous.
    """

    def __init__(self, mode: FakeTensorMode, battles: tuple[int, int] = (-1, -1)) -> None:
        self.mode, self.battles = mode, battles
        self.memo: dict[int, tuple[Any, Any]] = {}
        """Original and converted object, keyed by `id`; a reference to the original keeps the id unique."""
        self.replaced: list[str] = []
        """Shape and dtype of each tensor that was not on the device."""

    def __call__(self, value: Any) -> Any:
        """Return `value` or its replacement."""
        if isinstance(value, torch.device):
            return CUDA if value.type == "cpu" else value
        if value is None or isinstance(value, str | int | float | bytes | torch.dtype | type | types.ModuleType):
            return value
        if id(value) not in self.memo:
            # Set before the conversion: objects may reference each other, but a replacement never references itself.
            self.memo[id(value)] = (value, value)
            self.memo[id(value)] = (value, self._converted(value))
        return self.memo[id(value)][1]

    def _converted(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if is_tensorclass(value):
            return type(value)._from_tensordict(self(value._tensordict), safe=False)
        if isinstance(value, TensorDictBase):
            leaves = {name: self(leaf) for name, leaf in value.items()}
            names = value.names if value._has_names() else None
            return TensorDict(leaves, self._size(value.batch_size), device=CUDA, names=names)
        if isinstance(value, dict):
            for key, item in list(value.items()):
                value[key] = self(item)
        elif isinstance(value, list):
            value[:] = [self(item) for item in value]
        elif isinstance(value, tuple):
            items = [self(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        elif isinstance(value, types.FunctionType | types.MethodType | functools.partial):
            self._function(value)
        elif isinstance(value, nn.Module | torch.optim.Optimizer) or type(value).__module__.startswith("echelon."):
            self._attributes(value)
        return value

    def _tensor(self, value: Tensor) -> Tensor:
        if isinstance(value, FakeTensor) and value.is_cuda:
            return value
        self.replaced.append(f"{tuple(value.shape)} {value.dtype}")
        size = self._size(value.size())
        with self.mode, torch.no_grad():
            if size != value.size():
                new = torch.empty(size, dtype=value.dtype, device=CUDA)
            else:
                new = torch.empty_strided(size, value.stride(), dtype=value.dtype, device=CUDA)
        return nn.Parameter(new, value.requires_grad) if isinstance(value, nn.Parameter) else new

    def _size(self, size: torch.Size) -> torch.Size:
        before, after = self.battles
        return torch.Size((after, *size[1:])) if size and size[0] == before else size

    def _function(self, value: Any) -> None:
        """Convert a function's bound object, bound arguments and closure variables."""
        if isinstance(value, functools.partial):
            value.__setstate__((value.func, self(value.args), self(value.keywords), value.__dict__))
        elif isinstance(value, types.MethodType):
            self(value.__self__)
        elif value.__module__.startswith("echelon."):
            for cell in value.__closure__ or ():
                with contextlib.suppress(ValueError):  # an empty closure cell
                    cell.cell_contents = self(cell.cell_contents)

    def _attributes(self, value: Any) -> None:
        for name, item in list(vars(value).items()):
            vars(value)[name] = self(item)
        if isinstance(value, EchelonEnv):
            value.num_envs = self._size(torch.Size([value.num_envs]))[0]
            value.engine.blocks, value.engine.loops = Blocks(value.num_envs, CUDA, whole=True), None
            blank = value.observation_spec.zero()
            value._empty = lambda: Fakes(self.mode, self.battles)(blank)
        if isinstance(value, PPO):
            value.host_may_read = value.is_shared = False
        if isinstance(value, Stopwatch):
            value.is_cuda, value.last, value.laps = True, Event(), []


class Event:
    """Replaces `torch.cuda.Event`, which needs a driver."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, *args: Any) -> None:
        """Do nothing."""

    def elapsed_time(self, other: Event) -> float:
        """Return 1 ms."""
        return 1.0


@contextlib.contextmanager
def without_a_driver() -> Iterator[None]:
    """Replace functions that need a driver: events, `synchronize`, generator states, autocast queries, and
    autograd's backward pass.

    Autograd needs a CUDA context, so gradients of the right shape are set instead. A separate test covers the
    backward passes of custom functions.
    """
    patches = (
        (torch.cuda, "Event", Event),
        (torch.cuda, "synchronize", lambda *args: None),
        (torch.cuda, "is_bf16_supported", lambda *args, **kwargs: True),
        (torch.cuda, "get_rng_state", lambda *args: torch.zeros(16, dtype=torch.uint8, device="cpu")),
        (torch.cuda, "set_rng_state", lambda *args: None),
        (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
    )
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    for owner, name, new in patches:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, old in before:
            setattr(owner, name, old)


def put_gradients(parameters: list[nn.Parameter]) -> Any:
    """Return a replacement of `Tensor.backward` that sets a gradient for each of `parameters`."""

    def backward(self: Tensor, *args: Any, **kwargs: Any) -> None:
        assert self.requires_grad
        for parameter in parameters:
            fresh = torch.empty_like(parameter)
            parameter.grad = fresh if parameter.grad is None else parameter.grad + fresh

    return backward


def left_on_the_host(value: Any, mode: FakeTensorMode) -> list[str]:
    """Return shape and dtype of each tensor that is reachable from an object and not on the device."""
    again = Fakes(mode)
    again(value)
    return again.replaced

"""Kernels and bytes of a decision on a GPU, counted without one in the code that Inductor writes for it.

python benchmarks/launches.py --preset standard --num-envs 16384

Needs a torch that is built with CUDA, and no GPU (CONTRIBUTING.md tells how to install one beside another). Every
function of a decision is traced on fake CUDA tensors and compiled for an H100 or H200 (sm_90) as far as its Triton
code, which is counted and never run. Bytes are what the fused kernels read and write, as Inductor counts them
(`GraphLowering.count_bytes`): each buffer at most once a kernel, whole where a fused kernel looks up some of its cells.
One JSON line for each function, and one for the decision.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch
import tyro
from measure import report
from tensordict import TensorDict, TensorDictBase, is_tensorclass
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from echelon import EchelonEnv
from echelon.env import decision
from echelon.env.observation import layout
from echelon.env.restart import begin_by_mask
from echelon.rules import actions
from echelon.rules.config import ENV_PRESETS
from echelon.sim import step

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fakecuda.fakes import CUDA, Fakes, without_a_driver

PLAYED = 7
"""Battles of the environment that is made for real: unlike any other number in it, so that this axis is known."""


@dataclass(frozen=True)
class Args:
    """What to count."""

    preset: Literal["small", "standard", "large"] = "standard"
    num_envs: int = 16384
    functions: tuple[Literal["decode", "play", "conclude", "restart"], ...] = ("decode", "play", "conclude", "restart")
    """Functions of a decision; the decision as a whole is told where all are counted."""


class Chip:
    """What Inductor asks of a GPU: an H100's numbers."""

    name, major, minor, multi_processor_count, warp_size = "H100", 9, 0, 132, 32
    total_memory, L2_cache_size, regs_per_multiprocessor = 80 << 30, 50 << 20, 65536
    max_threads_per_multi_processor, max_threads_per_block = 2048, 1024
    shared_memory_per_block, shared_memory_per_block_optin = 48 << 10, 227 << 10
    gcnArchName, is_integrated = "", False


def pretend_a_gpu() -> None:
    """Let torch's compiler write code for a chip that is not there. For this process, for good."""
    import torch._inductor.config as inductor
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor.runtime.hints import DeviceProperties
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    known = {
        **{"is_available": True, "device_count": 1, "current_device": 0, "get_device_name": Chip.name},
        **{"get_device_properties": Chip, "get_device_capability": (9, 0), "_lazy_init": None},
        **{"get_rng_state": torch.zeros(16, dtype=torch.uint8), "set_rng_state": None},
        **{"_exchange_device": 0, "_maybe_exchange_device": 0, "synchronize": None},
    }
    for name, value in known.items():
        setattr(torch.cuda, name, lambda *args, _value=value, **kwargs: _value)
    answers = {
        **{"is_available": True, "device_count": 1, "current_device": 0, "get_compute_capability": 90},
        **{"raise_if_triton_unavailable": None, "is_triton_capable": True, "is_bf16_supported": True},
    }
    for name, value in answers.items():
        setattr(CudaInterface, name, staticmethod(lambda *args, _value=value, **kwargs: _value))
    CudaInterface.Worker.get_device_properties = staticmethod(lambda *args: Chip)  # type: ignore
    told = {"type": "cuda", "index": 0, "cc": 90, "major": 9}
    own = {name: getattr(Chip, name) for name in DeviceProperties._fields if hasattr(Chip, name) and name not in told}
    DeviceProperties.create = classmethod(lambda cls, device: cls(**told, **own))  # type: ignore
    driver.set_active(type("Driver", (), {"get_current_target": lambda self: GPUTarget("cuda", 90, 32)})())
    inductor.compile_threads, inductor.force_disable_caches = 1, True
    FakeTensorMode.avoid_device_init = property(lambda self: True)  # type: ignore
    torch.compiler.is_compiling = lambda: True


def parts(value: Any) -> list[Any]:
    """What a structure holds."""
    if is_tensorclass(value) or (is_dataclass(value) and not isinstance(value, type)):
        return [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, TensorDictBase | dict):
        return list(value.values())
    return list(value) if isinstance(value, tuple | list) else []


def leaves(value: Any) -> Iterator[Tensor]:
    """All tensors of a structure, in order."""
    if isinstance(value, Tensor):
        yield value
    else:
        for part in parts(value):
            yield from leaves(part)


def with_leaves(value: Any, new: Iterator[Tensor]) -> Any:
    """The structure with other tensors."""
    if isinstance(value, Tensor):
        return next(new)
    if is_tensorclass(value):
        named = {field.name: with_leaves(getattr(value, field.name), new) for field in fields(value)}
        return type(value)(**named, batch_size=value.batch_size)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: with_leaves(getattr(value, f.name), new) for f in fields(value)})
    if isinstance(value, TensorDictBase):
        return TensorDict({name: with_leaves(leaf, new) for name, leaf in value.items()}, value.batch_size)
    if isinstance(value, dict):
        return {name: with_leaves(leaf, new) for name, leaf in value.items()}
    if isinstance(value, tuple | list):
        made = [with_leaves(item, new) for item in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


class Written(Exception):
    """The code of a graph is there."""


def count(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[int, float]:
    """Kernels, and GB that they read and write, of a function as one graph."""
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.graph import GraphLowering
    from torch.func import functionalize
    from torch.fx.experimental.proxy_tensor import make_fx

    given = list(leaves(arguments))
    found: list[tuple[str, int]] = []

    def flat(*tensors: Tensor) -> list[Tensor]:
        return list(leaves(function(*with_leaves(arguments, iter(tensors)))))

    def written(graph: Any, *_: Any) -> None:
        code = graph.codegen()[0]
        found.append((getattr(code, "value", str(code)), graph.count_bytes()[0]))
        raise Written

    with torch.no_grad():
        traced = make_fx(functionalize(flat, remove="mutations"), select_decomp_table())(*given)
        traced.graph.eliminate_dead_code()
        traced.recompile()
        fake: Any = next(tensor for tensor in given).fake_mode  # type: ignore[attr-defined]
        stopped = mock.patch.object(GraphLowering, "compile_to_module", written)
        with stopped, tracing(TracingContext(fake)):
            try:
                compile_fx_inner(traced, given)
            except Exception:
                # torch wraps what a compiler raises.
                if not found:
                    raise
    ((text, moved),) = found
    body = text.split("def call(")[-1]
    return body.count(".run(") + body.count("extern_kernels."), moved / 1e9


def functions(env: EchelonEnv) -> dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]]:
    """The compiled functions of a decision, by name: how often each is called, itself, and its arguments."""
    config, game, state = env.config, env.game, env.state
    action = torch.zeros(env.num_envs, config.num_mechs, layout.action_width(config.comm_dim), device=CUDA)
    orders = actions.decode(action, state.focus_slots, game.roster, config.features)
    there = env._empty()
    shown = {key: there.get(key) for key in env._renewed}
    which = torch.zeros(env.num_envs, dtype=torch.bool, device=CUDA)
    begun = (which, env.next_seed, state, shown, *env._maps_drawn)
    return {
        "decode": (1, actions.decode, (action, state.focus_slots, game.roster, config.features)),
        "play": (config.rules.decision_repeat, step.play, (state, orders, game)),
        "conclude": (1, decision.conclude, (state, state, orders, game)),
        "restart": (1, begin_by_mask, begun),
    }


def main(args: Args) -> None:
    """Count every function."""
    pretend_a_gpu()
    config = ENV_PRESETS[args.preset]()
    env = EchelonEnv(config, PLAYED, device="cpu", seed=1, compiled=False)
    mode = FakeTensorMode()
    sizes = {"preset": args.preset, "num_envs": args.num_envs}
    found = {}
    with without_a_driver(), mode:
        # First what is not of the battles, however long its axes are.
        Fakes(mode)(env.map_pool)
        Fakes(mode, (PLAYED, args.num_envs))(env)
        there = functions(env)
        for name in args.functions:
            times, function, arguments = there[name]
            kernels, moved = count(function, arguments)
            tell(name, {"times": times, "kernels": kernels, "GB": round(moved, 3), **sizes})
            found[name] = (times * kernels, times * moved)
    if found.keys() == there.keys():
        kernels, moved = map(sum, zip(*found.values(), strict=True))
        tell("decision", {"times": 1, "kernels": kernels, "GB": round(moved, 2), **sizes})


def tell(name: str, counted: dict[str, object]) -> None:
    """One JSON line."""
    report("launches", torch.device("cpu"), function=name, **counted)


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))

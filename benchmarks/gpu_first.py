"""Check within 90 s whether Echelon runs on a GPU, whether its battles equal the CPU's, and how fast it is.

python benchmarks/gpu_first.py                  # from a clone; tyro and rich need not be installed
python benchmarks/gpu_first.py --device cpu     # the same at tiny sizes, without graphs

Nothing is compiled: operations run eagerly, and captured as CUDA graphs. With --compiled --seconds 600, GPU loops (if
the extra gpu is installed) and torch.compile graphs are compared too, which takes minutes. Prints a JSON line after
each step and, with --out FILE, appends it to a file. The status is 1 if a step failed or time ran out.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import gc
import importlib.util
import json
import platform
import signal
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

ROOT = Path(__file__).parents[1]
COMMAND_LINES = {"tyro": ("tyro",), "rich": ("rich", "rich.console", "rich.table", "rich.text", "rich.progress")}
"""Packages that only Echelon's command lines use, with the modules that they import."""
TOLERANCE = 1e-3
"""Allowed difference of a substep from the same state."""
OK, FAILED, SKIPPED, TOO_LARGE, LATE = "ok", "failed", "skipped", "does not fit into memory", "timed out"
Values = dict[str, Any]


class Skipped(Exception):
    """Raised if a step has nothing to measure here; its text says why."""


class OutOfTime(BaseException):
    """Raised if the time of the program is over. Not an `Exception`, which a step might catch."""


class Journal:
    """Run steps and report each one when it ends.

    Args:
        out: file to which lines are appended; None for standard output only.
        deadline: value of `time.perf_counter` at which all steps stop.
    """

    def __init__(self, out: Path | None, deadline: float) -> None:
        self.out, self.deadline = out, deadline
        self.statuses: list[str] = []

    def step(self, name: str, work: Callable[[], Values]) -> None:
        """Run a step and report its result or its failure."""
        start_s, values = time.perf_counter(), Values()
        try:
            if start_s >= self.deadline:
                raise OutOfTime
            with alarm(self.deadline - start_s):
                values, status = work(), OK
        except Skipped as reason:
            status, values = SKIPPED, {"reason": str(reason)}
        except OutOfTime:
            status, values = LATE, {"reason": "the time of all steps is over: --seconds"}
        except Exception as error:
            is_memory = "out of memory" in str(error)
            status, values = TOO_LARGE if is_memory else FAILED, explained(error)
        free_memory()
        self.statuses.append(status)
        spent_s = round(time.perf_counter() - start_s, 2)
        line = json.dumps({"benchmark": "gpu_first", "step": name, "status": status, "seconds": spent_s, **values})
        print(line, flush=True)
        if self.out is not None:
            with self.out.open("a") as file:
                file.write(line + "\n")

    @property
    def has_failed(self) -> bool:
        """Return whether a step failed or ran out of time."""
        return not {FAILED, LATE}.isdisjoint(self.statuses)


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Context manager: raise `OutOfTime` after the given seconds."""

    def ring(number: int, frame: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def free_memory() -> None:
    """Release the GPU memory of a step: a graph and its function reference each other."""
    gc.collect()
    if "torch" in sys.modules and (cuda := sys.modules["torch"].cuda).is_initialized():
        cuda.empty_cache()


def explained(error: Exception) -> Values:
    """Return an error as one line, its causes, and the last frames of its traceback."""
    causes, cause = [], error.__cause__ or error.__context__
    while cause is not None:
        causes.append(one_line(cause))
        cause = cause.__cause__ or cause.__context__
    frames = [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    return {"reason": one_line(error), "causes": causes[:4], "where": frames[-6:]}


def one_line(error: BaseException) -> str:
    """Return class and first line of an error."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"


def prepare_imports() -> Values:
    """Allow the import of Echelon from this clone, even if packages of its command lines are missing."""
    sys.path.insert(0, str(ROOT))
    missing = [name for name in COMMAND_LINES if name not in sys.modules and importlib.util.find_spec(name) is None]
    for name in missing:
        sys.modules.update(dict.fromkeys(COMMAND_LINES[name], MagicMock()))
    import echelon  # noqa: F401

    return {"done_without": missing}


def describe(device: Any) -> Values:
    """Return GPU, CUDA version of the driver, and versions."""
    import torch
    import torchrl

    facts: Values = {"python": platform.python_version(), "torch": torch.__version__, "torchrl": torchrl.__version__}
    facts |= {"cuda": torch.version.cuda, "triton": importlib.util.find_spec("triton") is not None}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts |= {"device": properties.name, "capability": f"{properties.major}.{properties.minor}"}
        facts |= {"memory_gib": round(properties.total_memory / 2**30, 1), "bf16": torch.cuda.is_bf16_supported()}
    return facts


class Compared:
    """The same battles on a CPU, eager, and on the device.

    Args:
        device: the device.
        count: battles.
        before: decisions of scripted commanders on the CPU before the comparison, so that teams meet.
        backend: how a decision runs on the device, as in `EchelonEnv`.
    """

    def __init__(self, device: Any, count: int, before: int, backend: Any = "eager") -> None:
        import torch

        from echelon import EchelonEnv, EnvConfig
        from echelon.agents.heuristic import scripted
        from echelon.views.group_policy import GroupPolicy, memory_spec

        config = dataclasses.replace(EnvConfig.small(), map_pool=4)
        commanders = {group: scripted("heuristic:expert", config, torch.device("cpu")) for group in ("blue", "red")}
        settings: Values = {"seed": 1, "memory": memory_spec(**commanders)}
        self.device, self.repeat = device, config.rules.decision_repeat
        self.policies = [GroupPolicy(policy, group, group) for group, policy in commanders.items()]
        self.cpu = EchelonEnv(config, count, "cpu", backend="eager", **settings)
        settings["backend"] = backend
        self.gpu = EchelonEnv(config, count, device, maps=self.cpu.sim_model.maps.to(device), **settings)
        self.now = self.cpu.reset()
        self.gpu.reset()
        for _ in range(before):
            self.decide()
            self.now = self.cpu.step_and_maybe_reset(self.now)[1]

    def decide(self) -> None:
        """Write the actions of both teams, with commanders on the CPU."""
        for policy in self.policies:
            self.now = policy(self.now)

    def moved(self) -> Any:
        """Return state and input of the CPU's next decision, on the device."""
        self.gpu.state = self.cpu.state.clone().to(self.device)
        # Leaf by leaf: `TensorDict.clone` turns -0 into 0.
        return self.now.apply(lambda leaf: leaf.to(self.device, copy=True), device=self.device)


def difference(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, str, int]:
    """Return the largest difference between tensors of equal names, its place, and how many tensors differ in a bit.

    The difference is infinity for other types than floats, and for NaN.
    """
    import torch

    worst, worst_name, unequal = 0.0, "", 0
    for name, x in one.items():
        y = other[name].to(x.device)
        if torch.equal(x, y):
            continue
        unequal += 1
        # NaN counts as the largest difference.
        error = float((x - y).abs().nan_to_num(nan=torch.inf).max()) if x.is_floating_point() else torch.inf
        worst, worst_name = max((worst, worst_name), (error, name))
    return worst, worst_name, unequal


def equal_maps(device: Any, count: int) -> Values:
    """Compare maps generated on the device and on the CPU."""
    import torch

    from echelon import EnvConfig
    from echelon.arena.fingerprint import leaves
    from echelon.rules.roster import build_roster
    from echelon.world.pool import make_pool

    config = dataclasses.replace(EnvConfig.standard(), map_pool=count)
    cpu_maps, device_maps = (
        leaves(make_pool(config, build_roster(config, at_device), at_device))
        for at_device in (torch.device("cpu"), device)
    )
    if wrong := [name for name, tensor in cpu_maps.items() if not torch.equal(tensor, device_maps[name].cpu())]:
        raise RuntimeError(f"maps made on {device} differ from the CPU's in {', '.join(wrong)}")
    return {"maps": count}


def equal(device: Any, count: int, before: int, decisions: int, backend: Any = "eager") -> Values:
    """Compare decisions of device and CPU: first each from the same state, then all in sequence."""
    import torch

    from echelon.arena.fingerprint import leaves, state_hash

    battles = Compared(device, count, before, backend)
    worst, worst_name, unequal, hashes = 0.0, "", 0, []
    start, script = battles.cpu.state.clone().to(device), []
    for _ in range(decisions):
        battles.decide()
        script.append(td := battles.moved())
        cpu_td, battles.now = battles.cpu.step_and_maybe_reset(battles.now)
        gpu_td = battles.gpu.step(td.clone())
        error = difference(leaves(cpu_td.get("next")), leaves(gpu_td.get("next")))
        unequal += error[2]
        worst, worst_name = max((worst, worst_name), error[:2])
        hashes.append(state_hash(battles.cpu.state))
    values = {"battles": count, "worst_difference": worst, "worst_at": worst_name, "unequal_tensors": unequal}
    if not worst <= TOLERANCE * battles.repeat:
        raise RuntimeError(f"a decision on {device} differs from the CPU's by {worst} at {worst_name}: {values}")
    battles.gpu.state = start
    for td in script:
        battles.gpu.step_and_maybe_reset(td)
    same = int((state_hash(battles.gpu.state).cpu() == hashes[-1]).sum())
    return {**values, "same_bits": f"{same} of {count} battles after {decisions} decisions", "torch": torch.__version__}


class Player:
    """Battles with fixed random actions whose decisions run in place: called, or captured and replayed.

    Args:
        device: where.
        preset: `small` or `standard`.
        count: battles.
        maps: a pool made earlier.
        backend: as in `EchelonEnv`.
    """

    def __init__(self, device: Any, preset: str, count: int, maps: Any = None, backend: Any = "eager") -> None:
        from echelon import EchelonEnv
        from echelon.env.static_battles import StaticBattles
        from echelon.rules.config import ENV_PRESETS
        from echelon.runtime.cuda_graphs import GraphedFunction

        config = dataclasses.replace(ENV_PRESETS[preset](), map_pool=16)
        self.env = EchelonEnv(config, count, device, seed=1, maps=maps, backend=backend)
        self.device, self.mechs = device, config.num_mechs
        self.battles, self.actions = StaticBattles(self.env, self.env.reset()), self.env.action_spec.rand()
        self.graphed = GraphedFunction(self.decide, device, "decisions")

    def decide(self) -> None:
        """Play one decision, restarts included."""
        self.battles.restart(self.battles.step(self.battles.current.copy().update(self.actions)))

    def seconds(self, run: Callable[[], object], times: int) -> float:
        """Return the median wall time of several calls."""
        return statistics.median(timed(run, self.device) for _ in range(times))


def timed(run: Callable[[], object], device: Any) -> float:
    """Return the wall time of a call, with the device synchronised after it."""
    import torch

    start_s = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start_s


def captured(device: Any, count: int, decisions: int) -> Values:
    """Compare decisions replayed by a graph with called ones."""
    import torch

    from echelon.arena.fingerprint import leaves, state_hash
    from echelon.runtime.cuda_graphs import has_graphs

    if not has_graphs(device):
        raise Skipped("this device has no CUDA graphs")
    eager, replayed = (Player(device, "small", count) for _ in range(2))
    replayed.actions = eager.actions
    with torch.inference_mode():
        for _ in range(decisions):
            eager.decide()
            replayed.graphed("one")
    if not replayed.graphed.graphs:
        raise RuntimeError("fallback: decisions run eagerly, because they cannot be captured")
    same = int((state_hash(eager.env.state) == state_hash(replayed.env.state)).sum())
    worst, worst_name, _ = difference(leaves(eager.env.state), leaves(replayed.env.state))
    if not worst <= TOLERANCE * eager.env.config.rules.decision_repeat * decisions:
        raise RuntimeError(f"captured decisions differ from called ones by {worst} at {worst_name}")
    return {"same_bits": f"{same} of {count} battles after {decisions} decisions"}


def speed(device: Any, preset: str, count: int, maps: list[Any], backend: Any = "eager") -> Values:
    """Measure agent-steps a second of the environment, called and captured; `maps` keeps the pool."""
    import torch

    player = Player(device, preset, count, maps[0] if maps else None, backend)
    maps[:] = [player.env.sim_model.maps]
    with torch.inference_mode():
        eager_s = player.seconds(player.decide, 3)
        for _ in range(3):
            player.graphed("one")
        replayed = player.seconds(lambda: player.graphed("one"), 5)
    agents = count * player.mechs
    peak = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None
    return {
        "num_envs": count,
        "agent_steps_per_s": round(agents / replayed),
        "called_agent_steps_per_s": round(agents / eager_s),
        "peak_memory_gib": None if peak is None else round(peak, 2),
    }


def training(device: Any, is_tiny: bool, count: int) -> Values:
    """Measure agent-steps a second of rollouts with a policy and of updates, and count their waits."""
    from echelon.learn.config import PPOConfig, TrainConfig
    from echelon.learn.trainer import Trainer

    config = TrainConfig.quick() if is_tiny else TrainConfig.standard()
    changes: Values = {"num_envs": count, "device": str(device), "backend": "eager", "compile_policy": "off"}
    changes |= {"env": dataclasses.replace(config.env, map_pool=4), "total_agent_steps": 10**9, "cuda_graphs": "on"}
    if is_tiny:
        changes["ppo"] = PPOConfig(rollout_decisions=4, chunk_decisions=4, epochs=1, minibatches=2)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(dataclasses.replace(config, opponent="self", **changes), Path(folder))
        first_s = timed(trainer.iterate, device)
        row = trainer.iterate()
        waits = waits_of(trainer.collector.collect) if device.type == "cuda" else None
    return {
        "num_envs": count,
        "precision": trainer.config.precision,
        "first_iteration_s": round(first_s, 2),
        "agent_steps_per_s": row["agent_steps_per_s"],
        "learn_s": row["learn_s"],
        "seconds_of_iteration": round(trainer.counters.seconds, 2),
        "waits_of_a_rollout": waits,
    }


def waits_of(run: Callable[[], object]) -> int:
    """Count how often a function waits for the device."""
    import torch

    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing CUDA operation" in str(warning.message) for warning in caught)


def main(words: list[str] | None = None) -> int:
    """Run all steps; return 1 if one failed or time ran out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=90.0, help="time limit of all steps")
    parser.add_argument("--out", type=Path, help="file to which the lines are appended")
    parser.add_argument("--compiled", action="store_true", help="also compare torch.compile graphs")
    args = parser.parse_args(words)
    journal = Journal(args.out, time.perf_counter() + args.seconds)
    journal.step("imports", prepare_imports)
    if journal.has_failed:
        return 1
    run_steps(journal, args.device, args.compiled)
    return int(journal.has_failed)


def run_steps(journal: Journal, name: str, compiled: bool = False) -> None:
    """Run all steps after the imports."""
    import torch

    from echelon.runtime.device import resolve_device, use_device

    devices: list[Any] = []

    def choose() -> Values:
        devices.append(use_device(resolve_device(name)))
        if devices[0].type == "cuda":
            # All operations on the CPU are small here, and other processes may need its cores.
            torch.set_num_threads(1)
        return describe(devices[0])

    journal.step("device", choose)
    if not devices:
        return
    device = devices[0]
    maps: list[Any] = []
    is_tiny = device.type == "cpu"
    battles = (2, 2, 2) if is_tiny else (16, 24, 8)
    journal.step("equal maps", lambda: equal_maps(device, 2 if is_tiny else 16))
    journal.step("equal", lambda: equal(device, *battles))
    journal.step("captured", lambda: captured(device, *((2, 4) if is_tiny else (16, 8))))
    preset = "small" if is_tiny else "standard"
    for count in (4,) if is_tiny else (1024, 256, 4096, 8192):
        journal.step(f"environment {count}", functools.partial(speed, device, preset, count, maps))
    journal.step("training", lambda: training(device, is_tiny, 4 if is_tiny else 1024))
    if compiled:
        in_loops(journal, device, battles, functools.partial(speed, device, preset, 4 if is_tiny else 8192, maps))
        journal.step("equal compiled", lambda: equal(device, *battles, "graph"))


def in_loops(journal: Journal, device: Any, battles: tuple[int, int, int], measure: Callable[[str], Values]) -> None:
    """Compare GPU loops with the CPU bit by bit, and time them."""
    from echelon.env.form import form_of
    from echelon.runtime.errors import ConfigError

    def compare() -> Values:
        try:
            form_of(device, "loops")
        except ConfigError as reason:
            raise Skipped(str(reason)) from None
        found = equal(device, *battles, "loops")
        if found["unequal_tensors"]:
            raise RuntimeError(f"loops on {device} have other bits than the CPU: {found}")
        return found

    journal.step("equal in loops", compare)
    if journal.statuses[-1] == OK:
        journal.step("environment in loops", lambda: measure("loops"))


if __name__ == "__main__":
    sys.exit(main())

"""Calls handed out as tasks of a Ray cluster, which places them by their resources, and again where a worker dies."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import torch

from echelon.runtime.distributed import TELLS_AFTER_S, told_after
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import Limits, check_settings
from echelon.runtime.version import VERSION

T = TypeVar("T")
SOFTWARE = {"Echelon": VERSION, "torch": torch.__version__}
"""What a worker must have as the driver has it: results depend on it."""
AHEAD = 4
"""Tasks that Ray is given for each that runs."""
ANSWERS_S = 10.0
"""Seconds in which a cluster must take a connection: Ray itself would try for minutes."""


@dataclass(frozen=True)
class RayArgs:
    """Whether to hand work out to a Ray cluster, and what each task of it may use."""

    ray: str = ""
    """Hand the work out as tasks of a Ray cluster: its address as host:port, auto for the one that this machine belongs
    to, or local for one of this machine alone. This process alone writes. Needs the extra ray."""
    ray_cpus: Annotated[float, Limits(0.001, 1024, "CPUs")] = 1.0
    """CPUs of a task, which computes on as many threads."""
    ray_gpus: Annotated[float, Limits(0, 64, "GPUs")] = 0.0
    """GPUs of a task, or the share of one. A task without computes on CPUs."""
    ray_retries: Annotated[int, Limits(0, 1000, "repetitions")] = 3
    """How often a task may be repeated whose worker or machine dies."""

    def __post_init__(self) -> None:
        check_settings(self)
        is_valid = self.ray_gpus <= 1 or self.ray_gpus == int(self.ray_gpus)
        require(is_valid, "--ray-gpus", "a share of one GPU or a whole number", self.ray_gpus)

    @property
    def device(self) -> torch.device:
        """Where a task computes: Ray shows it no GPU but its own."""
        return torch.device("cuda" if self.ray_gpus > 0 else "cpu")

    @contextlib.contextmanager
    def connected(self) -> Iterator[RayTasks | None]:
        """Context manager that joins the cluster as its driver, and leaves it at the end; None without an address.
        What is printed inside goes to the standard error output.

        Raises:
            ConfigError: Ray is not installed, or no cluster answers.
        """
        if not self.ray:
            yield None
            return
        ray = import_ray()
        try:
            check_answers(self.ray)
            variables = {"PYTHONPATH": os.pathsep.join([*own_places(), "${PYTHONPATH}"])}
            ray.init(self.ray, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": variables})
        except (OSError, RuntimeError, ValueError) as error:
            hint = "the address that `ray start --head` prints, auto, or local"
            raise ConfigError(f"--ray must be {hint}, got {self.ray!r}: {error}") from None
        # Ray prints what became of a worker on the output, where results stand, and some of it as it shuts down.
        with contextlib.redirect_stdout(sys.stderr):
            try:
                yield RayTasks(self)
            finally:
                ray.shutdown()


class RayTasks:
    """Hands out calls to the workers of a Ray cluster; made by `RayArgs.connected`."""

    def __init__(self, args: RayArgs) -> None:
        self.args, self.ray = args, import_ray()

    @property
    def slots(self) -> int:
        """Tasks that the cluster, as it is now, can run at once; at least 1."""
        resources, args = self.ray.cluster_resources(), self.args
        fitting = [int(resources.get("CPU", 0.0) / args.ray_cpus)]
        fitting += [int(resources.get("GPU", 0.0) / args.ray_gpus)] if args.ray_gpus > 0 else []
        return max(min(fitting), 1)

    def share(self, value: Any) -> Any:
        """Put a value where all workers can read it, once a machine; `self.ray.get` gives it there."""
        return self.ray.put(value)

    def results(
        self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], names: Sequence[str]
    ) -> Generator[tuple[int, Any], None, None]:
        """Call a function with each of several tuples of arguments, and yield number and result of each as it ends.

        A task whose worker or machine dies is repeated elsewhere. An error of the function itself is raised here, as it
        is; what is still to be done is then cancelled, and so it is where the generator is closed.

        Args:
            names: of the tasks, which Ray's dashboard shows.
        """
        options = {"num_cpus": self.args.ray_cpus, "num_gpus": self.args.ray_gpus, "max_retries": self.args.ray_retries}
        task, threads = self.ray.remote(**options)(call), int(max(self.args.ray_cpus, 1))
        shared, waiting = self.share(function), enumerate(zip(names, calls, strict=True))
        running: dict[Any, int] = {}
        try:
            while True:
                # All at once, `ray.wait` would look at each of them for every one that ends.
                for index, (name, item) in itertools.islice(waiting, max(AHEAD * self.slots - len(running), 0)):
                    running[task.options(name=name).remote(SOFTWARE, threads, shared, *item)] = index
                if not running:
                    return
                with self._told_where_none_fits():
                    (done,), _ = self.ray.wait(list(running), num_returns=1)
                index = running.pop(done)
                yield index, self._result(done)
        finally:
            for item in running:
                # Workers in the middle of a task are ended: nobody waits for it.
                self.ray.cancel(item, force=True)

    def _told_where_none_fits(self) -> contextlib.AbstractContextManager[None]:
        """Tells for what the driver waits where no machine has, in all, what a task asks for."""
        cpus, gpus = self.args.ray_cpus, self.args.ray_gpus
        machines = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if any(machine.get("CPU", 0.0) >= cpus and machine.get("GPU", 0.0) >= gpus for machine in machines):
            return contextlib.nullcontext()
        line = f"--ray: no machine of {self.args.ray} has {cpus:g} CPUs and {gpus:g} GPUs; waiting for one"
        return told_after(TELLS_AFTER_S, line)

    def _result(self, done: Any) -> Any:
        try:
            return self.ray.get(done)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            message = f"a task was lost {self.args.ray_retries + 1} times (--ray-retries)"
            raise ConfigError(f"{message}: {type(error).__name__}: {str(error).partition(chr(10))[0]}") from None


def call(software: dict[str, str], threads: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker does: check that it is like the driver, and call the function."""
    for name, version in software.items():
        limit = f"{version} on the worker {socket.gethostname()}, as on the driver"
        require(SOFTWARE[name] == version, name, limit, SOFTWARE[name])
    torch.set_num_threads(threads)
    return function(*arguments)


def results_of(
    function: Callable[..., T], calls: Sequence[tuple[Any, ...]], names: Sequence[str], tasks: RayTasks | None
) -> Iterator[T]:
    """Results of a function for several tuples of arguments: of tasks as they end, or made here one after the other."""
    if tasks is None:
        yield from (function(*arguments) for arguments in calls)
    else:
        yield from (result for _, result in tasks.results(function, calls, names))


def own_places() -> list[str]:
    """Where this program finds modules that are not installed: workers look there too, where they have such folders."""
    installed = tuple(os.path.realpath(prefix) + os.sep for prefix in (sys.prefix, sys.base_prefix))
    paths = [os.path.realpath(path) for path in sys.path]
    return [path for path in dict.fromkeys(paths) if os.path.isdir(path) and not path.startswith(installed)]


def check_answers(address: str) -> None:
    """Connect to a cluster's host and port once, where an address names them.

    Raises:
        OSError: nobody answers.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), ANSWERS_S).close()


def import_ray() -> Any:
    """The module `ray`.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import ray
    except ModuleNotFoundError:
        hint = "pip install 'echelon-marl[ray]'"
        raise ConfigError(f"--ray needs Ray, which is not installed for {sys.executable}: {hint}") from None
    return ray

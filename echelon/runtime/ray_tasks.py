"""Run function calls as tasks of a Ray cluster. Ray schedules tasks by resources and repeats them if a worker dies."""

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

from echelon.runtime.distributed import MESSAGE_AFTER_S, print_after
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import Limits, check_settings
from echelon.runtime.version import VERSION

T = TypeVar("T")
SOFTWARE = {"Echelon": VERSION, "torch": torch.__version__}
"""Versions that workers must share with the driver, because results depend on them."""
AHEAD = 4
"""Number of submitted tasks per running task."""
ANSWERS_S = 10.0
"""Timeout of a connection to the cluster, s. Ray itself would try for minutes."""


@dataclass(frozen=True)
class RayArgs:
    """Settings of a Ray cluster, and resources of each task."""

    ray: str = ""
    """Address of a Ray cluster that runs the work as tasks: host:port, auto for the cluster of this machine, or local
    for a cluster of this machine only. Only this process writes files. Needs the extra ray."""
    ray_cpus: Annotated[float, Limits(0.001, 1024, "CPUs")] = 1.0
    """CPUs per task, and threads of a task."""
    ray_gpus: Annotated[float, Limits(0, 64, "GPUs")] = 0.0
    """GPUs per task, or a share of one GPU. With 0, tasks run on CPUs."""
    ray_retries: Annotated[int, Limits(0, 1000, "repetitions")] = 3
    """Maximum number of repetitions of a task whose worker or machine dies."""

    def __post_init__(self) -> None:
        check_settings(self)
        is_valid = self.ray_gpus <= 1 or self.ray_gpus == int(self.ray_gpus)
        require(is_valid, "--ray-gpus", "a share of one GPU or an integer", self.ray_gpus)

    @property
    def device(self) -> torch.device:
        """Device of a task. Ray makes only the GPUs that it assigned to a task visible to this task."""
        return torch.device("cuda" if self.ray_gpus > 0 else "cpu")

    @contextlib.contextmanager
    def connected(self) -> Iterator[RayTasks | None]:
        """Context manager that connects to the cluster as its driver, and yields None without an address.

        Inside this context, standard output is redirected to standard error.

        Raises:
            ConfigError: if Ray is not installed, or no cluster answers.
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
        # Ray prints messages about workers to standard output, even at shutdown: redirect them to standard error.
        with contextlib.redirect_stdout(sys.stderr):
            try:
                yield RayTasks(self)
            finally:
                ray.shutdown()


class RayTasks:
    """Runs calls on the workers of a Ray cluster. Created by `RayArgs.connected`."""

    def __init__(self, args: RayArgs) -> None:
        self.args, self.ray = args, import_ray()

    @property
    def slots(self) -> int:
        """Number of tasks that the cluster can currently run at once, at least 1."""
        resources, args = self.ray.cluster_resources(), self.args
        fitting = [int(resources.get("CPU", 0.0) / args.ray_cpus)]
        fitting += [int(resources.get("GPU", 0.0) / args.ray_gpus)] if args.ray_gpus > 0 else []
        return max(min(fitting), 1)

    def share(self, value: Any) -> Any:
        """Put a value into Ray's object store, once per machine. Workers read it with `self.ray.get`."""
        return self.ray.put(value)

    def results(
        self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], names: Sequence[str]
    ) -> Generator[tuple[int, Any], None, None]:
        """Call a function with each of several tuples of arguments, and yield index and result of each as it finishes.

        A task whose worker or machine dies is repeated elsewhere. An error of the function is raised here. An error, or
        closing the generator, cancels the remaining tasks.

        Args:
            function: the function.
            calls: tuples of arguments.
            names: names of the tasks in Ray's dashboard.

        Raises:
            ConfigError: if a task is lost too often, or a worker has another version of Echelon or torch.
        """
        options = {"num_cpus": self.args.ray_cpus, "num_gpus": self.args.ray_gpus, "max_retries": self.args.ray_retries}
        task, threads = self.ray.remote(**options)(call), int(max(self.args.ray_cpus, 1))
        shared, waiting = self.share(function), enumerate(zip(names, calls, strict=True))
        running: dict[Any, int] = {}
        try:
            while True:
                # Submit few tasks at a time, because each `ray.wait` checks all submitted tasks.
                for index, (name, item) in itertools.islice(waiting, max(AHEAD * self.slots - len(running), 0)):
                    running[task.options(name=name).remote(SOFTWARE, threads, shared, *item)] = index
                if not running:
                    return
                with self._message_if_none_fits():
                    (done,), _ = self.ray.wait(list(running), num_returns=1)
                index = running.pop(done)
                yield index, self._result(done)
        finally:
            for item in running:
                # Cancel the remaining tasks and kill their workers, because the results are not needed.
                self.ray.cancel(item, force=True)

    def _message_if_none_fits(self) -> contextlib.AbstractContextManager[None]:
        """Context manager that prints a message if no machine of the cluster has the resources of a task."""
        cpus, gpus = self.args.ray_cpus, self.args.ray_gpus
        machines = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if any(machine.get("CPU", 0.0) >= cpus and machine.get("GPU", 0.0) >= gpus for machine in machines):
            return contextlib.nullcontext()
        line = f"--ray: no machine of {self.args.ray} has {cpus:g} CPUs and {gpus:g} GPUs; waiting for one"
        return print_after(MESSAGE_AFTER_S, line)

    def _result(self, done: Any) -> Any:
        try:
            return self.ray.get(done)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            message = f"a task was lost {self.args.ray_retries + 1} times (--ray-retries)"
            raise ConfigError(f"{message}: {type(error).__name__}: {str(error).partition(chr(10))[0]}") from None


def call(software: dict[str, str], threads: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Check on a worker that its versions equal the driver's, and call the function."""
    for name, version in software.items():
        limit = f"{version} on the worker {socket.gethostname()}, as on the driver"
        require(SOFTWARE[name] == version, name, limit, SOFTWARE[name])
    torch.set_num_threads(threads)
    return function(*arguments)


def results_of(
    function: Callable[..., T], calls: Sequence[tuple[Any, ...]], names: Sequence[str], tasks: RayTasks | None
) -> Iterator[T]:
    """Yield the results of a function for several tuples of arguments, either from Ray tasks as they finish, or
    computed in this process."""
    if tasks is None:
        yield from (function(*arguments) for arguments in calls)
    else:
        yield from (result for _, result in tasks.results(function, calls, names))


def own_places() -> list[str]:
    """Return the folders of modules that are not installed. Ray workers also search these folders, if they exist on the
    worker's machine."""
    installed = tuple(os.path.realpath(prefix) + os.sep for prefix in (sys.prefix, sys.base_prefix))
    paths = [os.path.realpath(path) for path in sys.path]
    return [path for path in dict.fromkeys(paths) if os.path.isdir(path) and not path.startswith(installed)]


def check_answers(address: str) -> None:
    """Connect once to the host and port of a cluster, if the address contains them.

    Raises:
        OSError: if the connection fails.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), ANSWERS_S).close()


def import_ray() -> Any:
    """Import and return the module `ray`.

    Raises:
        ConfigError: if Ray is not installed.
    """
    try:
        import ray
    except ModuleNotFoundError:
        hint = "pip install 'echelon-marl[ray]'"
        raise ConfigError(f"--ray needs Ray, which is not installed for {sys.executable}: {hint}") from None
    return ray

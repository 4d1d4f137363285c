"""Ray clusters of several machines, each of them a few processes of this one."""

import contextlib
import gc
import os
import signal
import time
import warnings
from collections.abc import Iterator
from typing import Any

from patience import STUCK_S


class Machines:
    """A running cluster of Ray's, `ray.cluster_utils.Cluster`, with one CPU a machine.

    Args:
        count: machines, the first of which has Ray's own services and the dashboard.
    """

    def __init__(self, count: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "include_dashboard": True, "dashboard_port": 0}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.others = [self.cluster.add_node(num_cpus=1) for _ in range(count - 1)]
        self.cluster.wait_for_nodes()
        self.address = self.cluster.address

    def tasks(self) -> list[Any]:
        """What the dashboard shows of every attempt at a task, by name."""
        from ray.util.state import list_tasks

        where = f"http://{self.cluster.webui_url}"
        return list_tasks(where, limit=10_000, detail=True, raise_on_missing_output=False)

    def running_on(self, node_id: str = "") -> Any:
        """Waits for a task of battles that runs, on this machine where one is named; returns what is shown of it."""
        deadline = time.monotonic() + STUCK_S
        while time.monotonic() < deadline:
            for task in self.tasks():
                is_of_battles = task.state == "RUNNING" and "battles from" in task.name and task.worker_pid
                if is_of_battles and node_id in ("", task.node_id):
                    return task
            time.sleep(0.02)
        raise AssertionError("no task of battles")

    def kill_worker(self) -> str:
        """SIGKILL for a process in the middle of a task, whose name is returned."""
        task = self.running_on()
        os.kill(task.worker_pid, signal.SIGKILL)
        return str(task.name)

    def kill_machine(self) -> str:
        """SIGKILL for all that stands for the last machine, in the middle of a task, whose name is returned."""
        node = self.others.pop()
        task = self.running_on(node.node_id)
        self.cluster.remove_node(node, allow_graceful=False)
        return str(task.name)

    def close(self) -> None:
        """End all of its processes. Ray leaves pipes to them open."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            self.cluster.shutdown()
            del self.cluster, self.others
            gc.collect()


@contextlib.contextmanager
def machines(count: int) -> Iterator[Machines]:
    """Context manager for a cluster of so many machines."""
    cluster = Machines(count)
    try:
        yield cluster
    finally:
        cluster.close()

"""Ray clusters of several simulated machines; each is a few processes on this machine."""

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
    """A running Ray cluster, `ray.cluster_utils.Cluster`, with one CPU a machine.

    Args:
        count: number of machines; the first one has Ray's services and the dashboard.
    """

    def __init__(self, count: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "include_dashboard": True, "dashboard_port": 0}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.others = [self.cluster.add_node(num_cpus=1) for _ in range(count - 1)]
        self.cluster.wait_for_nodes()
        self.address = self.cluster.address

    def tasks(self) -> list[Any]:
        """Return what the dashboard shows for each attempt of a task, keyed by name."""
        from ray.util.state import list_tasks

        where = f"http://{self.cluster.webui_url}"
        return list_tasks(where, limit=10_000, detail=True, raise_on_missing_output=False)

    def running_on(self, node_id: str = "") -> Any:
        """Wait for a running task of battles, on the given machine if any; return its dashboard entry."""
        deadline = time.monotonic() + STUCK_S
        while time.monotonic() < deadline:
            for task in self.tasks():
                is_of_battles = task.state == "RUNNING" and "battles from" in task.name and task.worker_pid
                if is_of_battles and node_id in ("", task.node_id):
                    return task
            time.sleep(0.02)
        raise AssertionError("no task of battles")

    def kill_worker(self) -> str:
        """Send SIGKILL to a process in the middle of a task; return the name of the task."""
        task = self.running_on()
        os.kill(task.worker_pid, signal.SIGKILL)
        return str(task.name)

    def kill_machine(self) -> str:
        """Send SIGKILL to all processes of the last machine in the middle of a task; return the name of the task."""
        node = self.others.pop()
        task = self.running_on(node.node_id)
        self.cluster.remove_node(node, allow_graceful=False)
        return str(task.name)

    def close(self) -> None:
        """Stop all of its processes and close the pipes that Ray leaves open."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            self.cluster.shutdown()
            del self.cluster, self.others
            gc.collect()


@contextlib.contextmanager
def machines(count: int) -> Iterator[Machines]:
    """Context manager for a cluster of the given number of machines."""
    cluster = Machines(count)
    try:
        yield cluster
    finally:
        cluster.close()

"""The standard controllers: those that a server and a simulation run alike."""

from __future__ import annotations

from collections.abc import Callable

from makeway.api.objects.workload import Workload
from makeway.controllers.contract import Controller
from makeway.controllers.jobs.gangs import JobGangs
from makeway.controllers.jobs.pods import JobPods
from makeway.controllers.jobs.running import JobRunning
from makeway.controllers.pods.budgets import Budgets
from makeway.controllers.pods.lost_nodes import LostNodes
from makeway.controllers.queues.status import INTERVAL_MS, QueueStatus
from makeway.controllers.workloads.lifecycle import Workloads, no_linger
from makeway.controllers.workloads.over_quota import OverQuota


def standard(
    linger: Callable[[Workload], int] = no_linger, figures_ms: int = INTERVAL_MS, *, on_nodes: bool = False
) -> list[Controller]:
    """All controllers, in the order in which they are called. ``on_nodes``: also those that Kubernetes would bring."""
    controllers: list[Controller] = [Workloads(linger), JobRunning(), OverQuota(), QueueStatus(figures_ms)]
    if not on_nodes:
        return controllers
    from makeway.controllers.pods.scheduling import PodScheduling  # brings numpy: 14 MB that only nodes need

    return [*controllers, JobGangs(), JobPods(), PodScheduling(), LostNodes(), Budgets()]

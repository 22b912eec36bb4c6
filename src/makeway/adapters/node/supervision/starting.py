"""The order of starts: init containers and sidecars one after the other, then the others; and restarts."""

from __future__ import annotations

from collections.abc import Sequence

from makeway.adapters.node.supervision.containers import Moment, RunningContainer
from makeway.adapters.node.supervision.records import PodPlan


class StartOrder:
    def __init__(self, plan: PodPlan, containers: Sequence[RunningContainer]) -> None:
        self.early = [container for container in containers if container.plan.role != "app"]
        self.apps = [container for container in containers if container.plan.role == "app"]
        self._restart = plan.restart
        self._has_failed_early = False  # an init container has failed and is not restarted

    @property
    def has_begun(self) -> bool:
        """Whether a container that does the pod's work was ever started."""
        return any(container.has_begun for container in self.apps)

    @property
    def has_succeeded(self) -> bool:
        return not self._has_failed_early and all(container.exit_code == 0 for container in self.apps)

    def advance(self, moment: Moment) -> bool:
        """Start what may start; return False when no part of the pod's work is left."""
        if not self._start_early(moment):
            return not self._has_failed_early
        for container in self.apps:
            self._start(container, moment)
        return not all(_is_done(container) for container in self.apps)

    def _start_early(self, moment: Moment) -> bool:
        """Start init containers and sidecars in order; return whether the other containers may start."""
        for container in self.early:
            self._start(container, moment)
            if container.plan.role == "sidecar":
                if not container.record.has_started and not container.record.restarts:
                    return False
            elif container.record.state != "ended" or container.exit_code != 0:
                self._has_failed_early = _is_done(container)
                return False
        return True

    def _start(self, container: RunningContainer, moment: Moment) -> None:
        if not container.has_begun:
            container.start(moment)
            return
        if container.start_at_ms is None and container.record.state == "ended" and self._restarts(container):
            container.start_again(moment)
        if container.start_at_ms is not None and container.start_at_ms <= moment.ms:
            container.start(moment)

    def _restarts(self, container: RunningContainer) -> bool:
        if container.plan.role == "sidecar":
            return True
        if container.exit_code == 0:
            return container.plan.role == "app" and self._restart == "Always"
        return self._restart != "Never"


def _is_done(container: RunningContainer) -> bool:
    """Whether it has ended and is not restarted."""
    return container.record.state == "ended" and container.start_at_ms is None

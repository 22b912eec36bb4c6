"""From old and new object to what happened: the state is brought up to date, and what follows is noted.

This is the only place that knows which change of which kind may admit a workload (S-4.6, 4.7). The engine works off
what is noted: queues to be woken, objects to be reconciled, queues whose expiry timer has to be set again.

Promises: the state after a change is that of a state loaded from the new objects, but for what a restart may forget
(S-3.11); a change that fails half way has changed nothing; one that no decision depends on costs one comparison.

Not here: what the change of one kind does (``updates``).
"""

from __future__ import annotations

from collections import deque
from typing import Any

from makeway.api.objects.meta import KubernetesObject
from makeway.controllers.contract import WORKLOAD, Ref, is_of
from makeway.core.state import State
from makeway.runtime.objects import OWNED, ObjectCache
from makeway.runtime.set_aside import Probe, SetAside
from makeway.runtime.updates.configuration import QueueConfiguration
from makeway.runtime.updates.context import CONFIGURING, UpdateContext
from makeway.runtime.updates.places import WorkloadPlaces
from makeway.runtime.updates.reading import ObjectReader
from makeway.runtime.updates.surroundings import Surroundings
from makeway.runtime.updates.workloads import WorkloadUpdates


class StateUpdater:
    """``probe``: called before an object is lowered, to test what happens when that fails."""

    def __init__(self, state: State, set_aside: SetAside | None = None, probe: Probe | None = None) -> None:
        self.context = UpdateContext(state, SetAside(deque()) if set_aside is None else set_aside)
        self.follow_ups = self.context.follow_ups
        reader = ObjectReader(self.context, probe)
        self.places = WorkloadPlaces(self.context)
        self.workloads = WorkloadUpdates(self.context, reader, self.places)
        self._surroundings = Surroundings(self.context, reader, self.workloads)
        self._configuration = QueueConfiguration(self.context, reader)

    def follow(self, objects: ObjectCache) -> None:
        """These are the objects whose changes are reported here."""
        self.context.objects = objects

    def changed(self, ref: Ref, before: Any, after: Any) -> None:
        """What is expected of an object has changed."""
        if before is after:
            return
        if before is not None and after is not None and before.metadata.uid != after.metadata.uid:
            self.changed(ref, before, None)
            before = None
        if is_of(ref, WORKLOAD):
            self.workloads.changed(ref, before, after)
        elif ref.kind in CONFIGURING:
            self._configuration.changed(ref, before, after)
        elif ref.kind == "LocalQueue":
            self._surroundings.local_queue(ref, after)
        elif ref.kind == "Namespace":
            self._surroundings.namespace(ref, after)
        elif ref.kind == "LimitRange":
            self._surroundings.limit_range(ref)
        elif ref.kind == "RuntimeClass":
            self._surroundings.runtime_class(ref, after)

    def stored(self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        """A newer object is stored: it and the objects concerned are reconciled."""
        objects, enqueue = self.context.objects, self.follow_ups.enqueue
        enqueue(ref)
        for value in (before, after):
            if value is None:
                continue
            for reference in value.metadata.owner_references:
                owner = Ref.named(reference.kind, value.metadata.namespace, reference.name)
                enqueue(owner)
                if ref.kind == "Pod" and objects.get(owner) is None:  # the Workload of that Job waits for its pods
                    for workload in objects.owned(reference.uid, WORKLOAD):
                        enqueue(Ref.of(workload))
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            for kind in OWNED:  # they may have waited for their owner to go
                for owned in objects.owned(before.metadata.uid, kind):
                    enqueue(Ref.of(owned))

    def configure(self) -> None:
        """Take in all changes of queues, cohorts, flavors and checks at once."""
        self._configuration.configure()

    def try_again(self, ref: Ref) -> None:
        """Handle an object anew that was set aside, as if it were new."""
        self.follow_ups.enqueue(ref)
        if ref.kind in CONFIGURING:
            self._configuration.read_again(ref)
        elif is_of(ref, WORKLOAD):
            self.workloads.try_again(ref)

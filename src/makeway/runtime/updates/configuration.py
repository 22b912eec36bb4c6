"""Queues, cohorts, flavors and checks: their changes are gathered, and applied all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from makeway.api.objects.meta import KubernetesObject
from makeway.api.objects.queueing import AdmissionCheck, ClusterQueue, Cohort, ResourceFlavor
from makeway.controllers.contract import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    KindName,
    Ref,
    workload_ref,
)
from makeway.core.lowering import cohort_of, flavor_of, inactive_reasons, queue_of
from makeway.core.model import FlavorName, QueueName
from makeway.core.queueing import waking
from makeway.runtime.updates.context import LOWERING, UpdateContext
from makeway.runtime.updates.reading import ObjectReader

Configuring = ClusterQueue | Cohort | ResourceFlavor | AdmissionCheck
ALSO_SHOWN: tuple[KindName, ...] = (LOCAL_QUEUE, RESOURCE_FLAVOR, ADMISSION_CHECK, COHORT)


class QueueConfiguration:
    def __init__(self, context: UpdateContext, reader: ObjectReader) -> None:
        self._context = context
        self._reader = reader
        self._changed: dict[Ref, None] = {}

    def changed(self, ref: Ref, before: Configuring | None, after: Configuring | None) -> None:
        """Heed a change of the spec of an object; of an AdmissionCheck the status counts too."""
        is_same = (
            before is not None
            and after is not None
            and before.spec == after.spec
            and _is_leaving(before) == _is_leaving(after)
        )
        if ref.kind == "AdmissionCheck" or not is_same:
            self.read_again(ref)

    def read_again(self, ref: Ref) -> None:
        self._changed[ref] = None

    def configure(self) -> None:
        """Apply all changes of the configuration at once."""
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        state, follow_ups = self._context.state, self._context.follow_ups
        follow_ups.forget_queues()
        was_active = {name for name in state.queues if state.is_active(name)}
        trees_before = {name: state.tree_of(name) for name in state.queues}
        changed |= dict.fromkeys(self._read())
        self._wake(changed, trees_before)
        is_active = {name for name in state.queues if state.is_active(name)}
        follow_ups.wake(is_active - was_active)
        self._look_at_all()
        self._look_at_stopped(changed, is_active ^ was_active)

    def _read(self) -> list[Ref]:
        """Read all objects anew; return those that can be read again, or no longer, although they did not change."""
        reader, set_aside = self._reader, self._context.set_aside
        unread = set_aside.of(LOWERING)
        flavors = reader.all(RESOURCE_FLAVOR, flavor_of)
        queues = reader.all(CLUSTER_QUEUE, lambda queue: queue_of(queue, inactive_reasons(queue, self._find)))
        self._context.state.configure(queues, reader.all(COHORT, cohort_of), flavors)
        return sorted(unread ^ set_aside.of(LOWERING))

    def _wake(self, changed: Iterable[Ref], trees_before: Mapping[QueueName, list[QueueName]]) -> None:
        """Wake queues that may gain from a change, and those that are in another tree now."""
        follow_ups = self._context.follow_ups
        for ref in self._one_of_each_tree(changed):
            woken = set(self._woken_by(ref, trees_before))
            follow_ups.wake(woken)
            follow_ups.reworded |= woken
        for tree in {id(tree): tree for tree in trees_before.values()}.values():
            after = self._context.state.tree_of(tree[0]) if tree else []
            if after != tree:
                follow_ups.reworded.update(tree, after)

    def _look_at_all(self) -> None:
        """Reconcile all queues, and the objects that they refer to."""
        follow_ups = self._context.follow_ups
        for name in sorted(self._context.state.queues):
            follow_ups.held.add(name)
            follow_ups.enqueue(Ref(CLUSTER_QUEUE, "", name))
        for kind in ALSO_SHOWN:
            for value in self._context.objects.all(kind):
                follow_ups.enqueue(Ref.of(value))

    def _one_of_each_tree(self, changed: Iterable[Ref]) -> list[Ref]:
        """All changed objects, but of the Cohorts of a tree only the first: all of them would wake the same queues."""
        found: dict[object, Ref] = {}
        for ref in changed:
            node = self._context.state.tree.cohorts.get(ref.name) if ref.kind == "Cohort" else None
            found.setdefault(ref if node is None else node.root, ref)
        return list(found.values())

    def _find(self, kind: str, name: str) -> KubernetesObject | None:
        return self._context.objects.get(Ref.named(kind, "", name))

    def _woken_by(self, ref: Ref, trees_before: Mapping[QueueName, list[QueueName]]) -> Iterable[QueueName]:
        state = self._context.state
        if ref.kind == "ClusterQueue":
            name = QueueName(ref.name)
            return self._rounds_end_in({*waking.after_queue_change(state, name), *trees_before.get(name, ())})
        if ref.kind == "Cohort":
            return self._rounds_end_in(set(waking.after_cohort_change(state, ref.name)))
        if ref.kind == "ResourceFlavor":
            return waking.after_flavor_change(state, FlavorName(ref.name))
        return [name for name, queue in state.queues.items() if any(check == ref.name for check, _ in queue.checks)]

    def _rounds_end_in(self, queues: set[QueueName]) -> set[QueueName]:
        state = self._context.state
        for queue in queues:
            state.rounds.end_in(state.tree_of(queue) or [queue])
        return queues

    def _look_at_stopped(self, changed: Iterable[Ref], switched: Iterable[QueueName]) -> None:
        """Reconcile workloads of a queue that changed: it may be stopped, started, or list other checks.

        ``switched`` have become active or inactive, be it because of a flavor, a check or a cohort.
        """
        queues = {QueueName(ref.name) for ref in changed if ref.kind == "ClusterQueue"}.union(switched)
        for (namespace, name), queue in sorted(self._reader.queue_of.items()):
            if queue in queues:
                for workload in self._context.objects.in_local_queue(namespace, name):
                    self._context.follow_ups.enqueue(Ref.of(workload))
        for queue in sorted(queues):
            for key in sorted(self._context.state.holders.of_queue.get(queue, ())):
                self._context.follow_ups.enqueue(workload_ref(key))


def _is_leaving(value: KubernetesObject) -> bool:
    return value.metadata.deletion_timestamp is not None

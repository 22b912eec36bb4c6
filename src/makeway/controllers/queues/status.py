"""What queues show: counts, usage, whether they are active; and which may be deleted (api 2.7, 2.8, 4, 7).

A status follows the state, so it is as true as the state is. It is written when it differs, its figures at most once in
``INTERVAL_MS`` per object: changes in between are shown together. Whether a queue is active shows at once.

Flavors and resources that are held, but that their queue no longer declares, are shown after the declared ones: their
nominal quota is zero, so all of it is over-use (P19).

Not here: why a ClusterQueue is inactive (``core.lowering``, because the scheduler uses it too), shares (fair sharing),
whether an AdmissionCheck is active (its own controller says so). A Cohort shows nothing but its share. The caller
reconciles objects that depend on a changed queue, cohort, flavor or check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from makeway.api.conditions import find, set_condition
from makeway.api.names import RESOURCE_IN_USE
from makeway.api.objects.meta import Condition, KubernetesObject
from makeway.api.objects.queueing import (
    AdmissionCheck,
    ClusterQueue,
    ClusterQueueStatus,
    Cohort,
    CohortStatus,
    FairSharingStatus,
    FlavorUsage,
    LocalQueue,
    LocalQueueFlavorUsage,
    LocalQueueResourceUsage,
    LocalQueueStatus,
    ResourceFlavor,
    ResourceUsage,
)
from makeway.api.quantity import Quantity, Time
from makeway.controllers.contract import CLUSTER_QUEUE, NOTHING, Action, Change, Edit, Object, Outcome, Ref, View
from makeway.core.lowering import Reason, inactive_reasons
from makeway.core.model import DAWN, FR, Millis, QueueName, ResourceName
from makeway.core.quota.figures import UsageFigure, figures_of, local_totals, share_of, waiting_in
from makeway.core.quota.tree import QuotaNode

INTERVAL_MS = 1000
ROWS_MAX = 64  # flavors in a status, and resources in a flavor
READY = "Ready"

T = TypeVar("T")
F = TypeVar("F", FlavorUsage, LocalQueueFlavorUsage)
R = TypeVar("R", ResourceUsage, LocalQueueResourceUsage)
Q = TypeVar("Q", ClusterQueue, LocalQueue)
QueueFigures = ClusterQueueStatus | LocalQueueStatus
replace = msgspec.structs.replace


# --- whether a queue is active ---------------------------------------------------------------------------------------


def _reasons_of_cluster_queue(queue: ClusterQueue, view: View, *, in_cycle: bool) -> tuple[Reason, ...]:
    return inactive_reasons(queue, lambda kind, name: view.get(Ref.named(kind, "", name)), in_cycle=in_cycle)


def reasons_of_local_queue(queue: LocalQueue, view: View, *, in_cycle: bool = False) -> tuple[Reason, ...]:
    """Why a LocalQueue admits no workloads (api 14.3); ``in_cycle`` is about its ClusterQueue."""
    reasons = []
    if queue.spec.is_stopped:
        reasons.append(Reason("Stopped", f"its stopPolicy is {queue.spec.stop_policy}"))
    name = queue.spec.cluster_queue
    behind = view.get(Ref(CLUSTER_QUEUE, "", name))
    if behind is None:
        reasons.append(Reason("ClusterQueueDoesNotExist", f"ClusterQueue {name} not found"))
    elif _reasons_of_cluster_queue(behind, view, in_cycle=in_cycle):
        reasons.append(Reason("ClusterQueueIsInactive", f"ClusterQueue {name} is inactive"))
    return tuple(reasons)


def _conditions(stored: ClusterQueue | LocalQueue) -> tuple[Condition, ...]:
    return () if stored.status is None else stored.status.conditions


# --- edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Keep an object while it is in use. One that is being deleted accepts no finalizer any more."""

    def __call__(self, stored: Object) -> Object | None:
        meta = stored.metadata
        if meta.deletion_timestamp is not None:
            return None
        if RESOURCE_IN_USE in meta.finalizers:
            return stored
        return replace(stored, metadata=replace(meta, finalizers=(*meta.finalizers, RESOURCE_IN_USE)))


@dataclass(frozen=True, slots=True)
class DropFinalizer:
    """Remove our finalizer; finalizers of others stay."""

    def __call__(self, stored: Object) -> Object:
        kept = tuple(each for each in stored.metadata.finalizers if each != RESOURCE_IN_USE)
        return replace(stored, metadata=replace(stored.metadata, finalizers=kept))


@dataclass(frozen=True, slots=True)
class ShowStatus:
    """Bring a queue's figures and its Active condition up to date; other conditions are left alone.

    So are shares of a LocalQueue, which are not ours.
    """

    figures: QueueFigures
    reasons: tuple[Reason, ...]
    generation: int  # of the object that was judged
    at: Millis

    def __call__(self, stored: Q) -> Q:
        before = type(self.figures)() if stored.status is None else stored.status
        shown = replace(self.figures, conditions=self.conditions(stored))
        if isinstance(shown, LocalQueueStatus):
            shown = replace(shown, fair_sharing=before.fair_sharing)
        return replace(stored, status=shown)

    def conditions(self, stored: ClusterQueue | LocalQueue) -> tuple[Condition, ...]:
        words = "; ".join(each.words for each in self.reasons)
        return set_condition(
            _conditions(stored),
            type="Active",
            status="False" if self.reasons else "True",
            reason=self.reasons[0].name if self.reasons else READY,
            message=f"No workload is admitted: {words}" if self.reasons else "Workloads can be admitted",
            now=Time.of_millis(self.at),
            observed_generation=self.generation or None,
        )


@dataclass(frozen=True, slots=True)
class ShowShare:
    """Bring the share of a Cohort up to date; None: there is none to show."""

    share: FairSharingStatus | None

    def __call__(self, stored: Cohort) -> Cohort:
        before = CohortStatus() if stored.status is None else stored.status
        return replace(stored, status=replace(before, fair_sharing=self.share))


# --- the controller --------------------------------------------------------------------------------------------------


class QueueStatus:
    kinds = frozenset({"ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "AdmissionCheck"})

    def __init__(self, interval_ms: int = INTERVAL_MS) -> None:
        self._interval_ms = interval_ms  # the least time between two writes of an object's figures
        self._next: dict[Ref, Millis] = {}  # the earliest next write of its figures
        self._behind: set[Ref] = set()  # their figures differ, and wait for that time
        self.counts = 0  # how often figures were counted, for tests

    def react(self, ref: Ref, view: View, now: Millis) -> Outcome:
        stored = view.get(ref)
        if stored is None:
            self._next.pop(ref, None)
            self._behind.discard(ref)
            return NOTHING
        match stored:
            case ClusterQueue():
                name = QueueName(ref.name)
                held = _kept_while(lambda: bool(view.state.holders.of_queue.get(name)), stored)
                return held or self._show(ref, stored, view, now, _cluster_queue)
            case LocalQueue():
                return self._show(ref, stored, view, now, _local_queue)
            case Cohort():
                return self._show_share(ref, stored, view, now)
            case ResourceFlavor():
                return _kept_while(lambda: _names_flavor(view, ref.name), stored) or NOTHING
            case AdmissionCheck():
                return _kept_while(lambda: _names_check(view, ref.name), stored) or NOTHING
        return NOTHING

    def _show(self, ref: Ref, stored: Q, view: View, now: Millis, count: Callable[[Q, View], QueueFigures]) -> Outcome:
        """Write the status if it differs and its time has come; one that is known to be behind is not counted again."""
        not_before = self._next.get(ref, DAWN)
        if now < not_before and ref in self._behind and _is_plainly_active(stored, view):
            return Outcome(again_at=not_before)
        reasons = _reasons(stored, view)
        before = _blank(stored) if stored.status is None else stored.status
        unchanged = ShowStatus(before, reasons, stored.metadata.generation, now)
        is_news = unchanged.conditions(stored) is not before.conditions
        too_soon = now < not_before and not is_news
        if too_soon and ref in self._behind:
            return Outcome(again_at=not_before)
        self.counts += 1
        edit = ShowStatus(count(stored, view), reasons, stored.metadata.generation, now)
        self._behind.discard(ref)
        if edit(stored).status == stored.status:
            return NOTHING
        if too_soon:
            self._behind.add(ref)
            return Outcome(again_at=not_before)
        self._next[ref] = Millis(now + self._interval_ms)
        return _write(edit, stored)

    def _show_share(self, ref: Ref, stored: Cohort, view: View, now: Millis) -> Outcome:
        """A Cohort shows nothing else, so it is written only where shares count, or counted once."""
        node, not_before = view.state.tree.cohorts.get(ref.name), self._next.get(ref, DAWN)
        shown = None if node is None else _share(view, node)
        before = None if stored.status is None else stored.status.fair_sharing
        if shown == before:
            return NOTHING
        if now < not_before:
            return Outcome(again_at=not_before)
        self._next[ref] = Millis(now + self._interval_ms)
        return _write(ShowShare(shown), stored)


def _share(view: View, node: QuotaNode) -> FairSharingStatus | None:
    found = share_of(view.state, node)
    return None if found is None else FairSharingStatus(weighted_share=found.status)


def _write(edit: Edit[Object], stored: Object, *, status: bool = True) -> Outcome:
    return Outcome(actions=(Action(Change(Ref.of(stored), edit, status=status, uid=stored.metadata.uid)),))


def _kept_while(is_used: Callable[[], bool], stored: KubernetesObject) -> Outcome | None:
    """Add our finalizer where it is missing, and remove it when the object is being deleted and not used."""
    is_kept = RESOURCE_IN_USE in stored.metadata.finalizers
    if stored.metadata.deletion_timestamp is None:
        return None if is_kept else _write(AddFinalizer(), stored, status=False)
    return _write(DropFinalizer(), stored, status=False) if is_kept and not is_used() else None


def _names_flavor(view: View, name: str) -> bool:
    return any(
        flavor.name == name
        for queue in view.all(CLUSTER_QUEUE)
        for group in queue.spec.resource_groups
        for flavor in group.flavors
    )


def _names_check(view: View, name: str) -> bool:
    strategies = (queue.spec.admission_checks_strategy for queue in view.all(CLUSTER_QUEUE))
    return any(rule.name == name for each in strategies if each is not None for rule in each.admission_checks)


def _reasons(stored: ClusterQueue | LocalQueue, view: View) -> tuple[Reason, ...]:
    if isinstance(stored, LocalQueue):
        in_cycle = _is_in_cycle(view, stored.spec.cluster_queue)
        return reasons_of_local_queue(stored, view, in_cycle=in_cycle)
    return _reasons_of_cluster_queue(stored, view, in_cycle=_is_in_cycle(view, stored.metadata.name))


def _is_plainly_active(stored: ClusterQueue | LocalQueue, view: View) -> bool:
    """Whether the status says Active and nothing speaks against it: the usual case needs no search."""
    found = None if stored.status is None else find(stored.status.conditions, "Active")
    if found is None or found.status != "True" or found.observed_generation != stored.metadata.generation:
        return False
    queue = stored.spec.cluster_queue if isinstance(stored, LocalQueue) else stored.metadata.name
    return view.state.is_active(QueueName(queue)) and not stored.spec.is_stopped


def _is_in_cycle(view: View, queue: str) -> bool:
    node = view.state.tree.queues.get(queue)
    return node is not None and node.in_cycle


# --- figures as a status shows them ----------------------------------------------------------------------------------


def _blank(stored: ClusterQueue | LocalQueue) -> QueueFigures:
    return ClusterQueueStatus() if isinstance(stored, ClusterQueue) else LocalQueueStatus()


def _cluster_queue(stored: ClusterQueue, view: View) -> ClusterQueueStatus:
    name = QueueName(stored.metadata.name)
    if name not in view.state.tree.queues:  # the state will learn of it; until then there is nothing to say
        return stored.status or ClusterQueueStatus()
    figures = figures_of(view.state, name)
    return ClusterQueueStatus(
        flavors_reservation=_flavors(figures.reservation, FlavorUsage, _resource),
        flavors_usage=_flavors(figures.usage, FlavorUsage, _resource),
        pending_workloads=waiting_in(view.state, name).total,
        reserving_workloads=figures.reserving,
        admitted_workloads=figures.admitted,
        fair_sharing=_share(view, view.state.tree.queues[name]),
    )


def _local_queue(stored: LocalQueue, view: View) -> LocalQueueStatus:
    queue, local = QueueName(stored.spec.cluster_queue), (stored.metadata.namespace, stored.metadata.name)
    figures = local_totals(view.state, queue, local)
    return LocalQueueStatus(
        pending_workloads=figures.waiting,
        reserving_workloads=figures.reserving,
        admitted_workloads=figures.admitted,
        flavors_reservation=_flavors(figures.reservation, LocalQueueFlavorUsage, _local_resource),
        flavors_usage=_flavors(figures.usage, LocalQueueFlavorUsage, _local_resource),
    )


def _resource(name: ResourceName, figure: UsageFigure) -> ResourceUsage:
    total, borrowed = (Quantity.of_units(amount, name) for amount in (figure.total, figure.borrowed))
    return ResourceUsage(name=name, total=total, borrowed=borrowed)


def _local_resource(name: ResourceName, total: int) -> LocalQueueResourceUsage:
    return LocalQueueResourceUsage(name=name, total=Quantity.of_units(total, name))


def _flavors(table: Mapping[FR, T], kind: Callable[..., F], row: Callable[[ResourceName, T], R]) -> tuple[F, ...]:
    """The table by flavor; a resource that was declared later joins the others of its flavor."""
    by_flavor: dict[str, list[R]] = {}
    for (flavor, resource), each in table.items():
        by_flavor.setdefault(flavor, []).append(row(resource, each))
    flavors = [kind(name=name, resources=_at_most(rows, _is_used)) for name, rows in by_flavor.items()]
    return _at_most(flavors, lambda flavor: any(map(_is_used, flavor.resources)))


def _is_used(row: ResourceUsage | LocalQueueResourceUsage) -> bool:
    return bool(row.total.nano)


def _at_most(items: list[T], is_used: Callable[[T], bool]) -> tuple[T, ...]:
    """As many as a status may hold, in order; if there are more, those that are not in use are dropped first."""
    if len(items) <= ROWS_MAX:
        return tuple(items)
    kept = sorted(range(len(items)), key=lambda index: (not is_used(items[index]), index))[:ROWS_MAX]
    return tuple(items[index] for index in sorted(kept))

"""Everything that is kept up to date change by change, counted anew from the stored objects and compared.

A second path on purpose. It reads ``status.admission`` and the specs, sums by the formulas (S-1.8, 2.4, 2.5, 2.9, 3.5,
3.6, 12.18), and uses nothing that status and metrics are made from. Two things only are shared: with the metrics how
an amount is shown and a reason is read, with lowering what a pod asks for. What objects alone do not tell, such as
which workloads are parked, is not judged.

To be called at rest: while writes are under way the state is ahead of the objects. The metrics must be fresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import inf, isnan
from typing import NamedTuple

from makeway.api.names import ADMISSION_GATED_BY, DEFAULT_NAMESPACE
from makeway.api.objects.meta import Condition, KubernetesObject, Wire
from makeway.api.objects.queueing import ClusterQueue, Cohort, FairSharing, LocalQueue, ResourceGroup
from makeway.api.objects.workload import Workload, WorkloadStatus
from makeway.core.amounts import MOST, UNLIMITED, add, subtract
from makeway.core.lowering import LoweringContext
from makeway.core.model import FR, FlavorName, LocalName, QueueName, ResourceName
from makeway.core.policy import Gates
from makeway.core.quota.figures import waiting_in
from makeway.core.state import State
from makeway.runtime.metrics.exposition import Counter, Labels, Number
from makeway.runtime.metrics.queue_gauges import shown
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.metrics.workload_gauges import unadmitted_because
from makeway.runtime.recount.demand import asked_by, classes_of, context
from makeway.runtime.recount.shares import share_of

Amounts = dict[FR, int]
STATUSES = ("active", "inadmissible")


class Mismatch(NamedTuple):
    """Two numbers that should be equal."""

    where: str  # "state", or the name of a metric
    what: str  # usage, quota, reserving, admitted, pending; of a metric the kind of its value
    subject: tuple[str, ...]  # queue or cohort, flavor, resource; of a metric all its labels
    counted: Number  # from the objects
    found: Number

    def __str__(self) -> str:
        return f"{self.where}: {self.what} of {'/'.join(self.subject)} is {self.found}, the objects say {self.counted}"


def recount(objects: Iterable[Wire], state: State, metrics: MetricsRegistry | None = None) -> list[Mismatch]:
    """All differences between the objects and what is kept of them; empty where there are none."""
    stored = list(objects)
    counted = _count(stored, state.policy.gates)
    found = _state_differences(counted, state)
    if metrics is None:
        return found
    shares = _share_differences(counted, metrics) if state.policy.fair_sharing else []
    pending = _pending_differences(counted, metrics, context(stored, state.policy))
    return [*found, *_metric_differences(counted, metrics), *pending, *shares]


class HeldByQueue(NamedTuple):
    """What one queue has given to Workloads, by what their statuses say."""

    reserving: int = 0
    admitted: int = 0
    amounts: Mapping[FR, int] = {}


def held_by(objects: Iterable[Wire], gates: Gates) -> dict[str, HeldByQueue]:
    """By queue, from objects alone: for checks that see a server from outside and not its state."""
    queues = _count(list(objects), gates).queues
    return {
        name: HeldByQueue(len(each.reserving), len(each.admitted), each.reservation) for name, each in queues.items()
    }


# --- counting --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tally:
    """Counts of one queue. A workload is counted under the name of its family, if any, so that a family counts once."""

    reservation: Amounts = field(default_factory=dict)
    usage: Amounts = field(default_factory=dict)
    reserving: set[str] = field(default_factory=set)
    admitted: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    waiting: list[Workload] = field(default_factory=list)  # all of them, each Option of a family too

    def take(self, name: str, amounts: Amounts, *, admitted: bool) -> None:
        self.reserving.add(name)
        _count_to(self.reservation, amounts)
        if admitted:
            self.admitted.add(name)
            _count_to(self.usage, amounts)


@dataclass(slots=True)
class _NodeQuota:
    """Of one queue or cohort: what it declares, and what follows from that."""

    parent: str
    nominal: Amounts = field(default_factory=dict)
    borrowing: Amounts = field(default_factory=dict)
    lending: Amounts = field(default_factory=dict)
    subtree: Amounts = field(default_factory=dict)
    local: Amounts = field(default_factory=dict)
    usage: Amounts = field(default_factory=dict)
    weight: Fraction = Fraction(1)
    is_stopped: bool = False  # a queue that admits nothing, as far as its object says so
    in_cycle: bool = False  # a cohort that is its own ancestor, or one below such
    reservations: Amounts = field(default_factory=dict)  # of a cohort: what all queues below it hold
    admitted: int = 0  # likewise: how many workloads are admitted there


@dataclass(slots=True)
class _Counted:
    queues: dict[str, _Tally] = field(default_factory=dict)
    locals: dict[LocalName, _Tally] = field(default_factory=dict)
    quotas: dict[str, _NodeQuota] = field(default_factory=dict)  # of ClusterQueues that exist
    cohorts: dict[str, _NodeQuota] = field(default_factory=dict)
    behind: dict[LocalName, LocalQueue] = field(default_factory=dict)
    said: dict[str, dict[Labels, Number]] = field(default_factory=dict)  # by metric: counts of conditions of Workloads


def _count(objects: list[Wire], gates: Gates) -> _Counted:
    counted = _Counted()
    for each in objects:
        if isinstance(each, LocalQueue):
            counted.behind[_place(each)] = each
            counted.locals[_place(each)] = _Tally()
        elif isinstance(each, ClusterQueue):
            counted.queues[each.metadata.name] = _Tally()
            spec = each.spec
            quota = counted.quotas[each.metadata.name] = _quota(
                spec.cohort_name, spec.resource_groups, spec.fair_sharing
            )
            quota.is_stopped = spec.is_stopped or each.metadata.deletion_timestamp is not None
        elif isinstance(each, Cohort):
            above = each.spec.parent_name
            counted.cohorts[each.metadata.name] = _quota(above, each.spec.resource_groups, each.spec.fair_sharing)
    workloads = [each for each in objects if isinstance(each, Workload)]
    by_uid = {each.metadata.uid: each for each in workloads}
    for each in workloads:
        _count_workload(counted, each, by_uid, gates)
    with_quota = {name for tally in counted.queues.values() for name in tally.reserving}
    for tally in (*counted.queues.values(), *counted.locals.values()):
        tally.pending -= with_quota
    for name, quota in counted.quotas.items():
        quota.usage = counted.queues[name].reservation
    _sum_cohorts(counted)
    _sum_subtrees(counted)
    return counted


def _count_workload(counted: _Counted, each: Workload, by_uid: Mapping[str, Workload], gates: Gates) -> None:
    status = each.status or WorkloadStatus()
    place = (_place(each)[0], each.spec.queue_name)
    local = counted.behind.get(place)
    parent_uid, name = _parent_uid(each), _counted_as(each)
    if status.admission is not None and _is_accounted(each):
        tallies = [counted.queues.setdefault(status.admission.cluster_queue, _Tally())]
        tallies += [counted.locals[place]] if place in counted.locals else []
        amounts = _held(each, reclaims=gates.reclaimable_pods)
        for tally in tallies:
            tally.take(name, amounts, admitted=_is(each, "Admitted"))
    elif local is not None and not local.spec.is_stopped and local.spec.cluster_queue:
        parent = None if parent_uid is None else by_uid.get(parent_uid)
        if _is_queueable(each, parent, heeds_gates=gates.admission_gated_by):
            queue = counted.queues.setdefault(local.spec.cluster_queue, _Tally())
            queue.pending.add(name)
            queue.waiting.append(each)
            counted.locals[place].pending.add(name)
    behind = "" if local is None else local.spec.cluster_queue
    _note_said(counted, each, behind if status.admission is None else status.admission.cluster_queue)


def _note_said(counted: _Counted, each: Workload, queue: str) -> None:
    if _mode(each) == "ResourceFlavorOption":
        return
    local = (each.spec.queue_name, _place(each)[0])
    has_queue, has_local = queue in counted.quotas, local[::-1] in counted.behind

    def one(metric: str, *labels: str, if_named: bool) -> None:
        if if_named:
            table = counted.said.setdefault(metric, {})
            table[labels] = table.get(labels, 0) + 1

    if _is(each, "Finished"):
        one("kueue_finished_workloads", queue, if_named=has_queue)
        one("kueue_local_queue_finished_workloads", *local, if_named=has_local)
        return
    for option in (each.status or WorkloadStatus()).options:
        one("makeway_options", queue, option.status, if_named=has_queue)
    if not _is(each, "Admitted") and each.metadata.deletion_timestamp is None:
        why = unadmitted_because(each)
        one("kueue_unadmitted_workloads", queue, *why, if_named=bool(queue))
        one("kueue_local_queue_unadmitted_workloads", *local, queue, *why, if_named=bool(queue) and has_local)


def _is_accounted(each: Workload) -> bool:
    """Whether its usage counts: it has a reservation and has not ended (S-3.6)."""
    alive = each.spec.active or _is(each, "Admitted")
    return alive and _is(each, "QuotaReserved") and not _is(each, "Finished") and _mode(each) != "Parent"


def _is_queueable(each: Workload, parent: Workload | None, *, heeds_gates: bool) -> bool:
    """Whether it may wait in a queue (S-3.5); for an Option the gates and the hold of its Parent count."""
    if _mode(each) == "Parent" or _is(each, "QuotaReserved") or not _may_wait(each):
        return False
    if heeds_gates and (parent or each).metadata.annotations.get(ADMISSION_GATED_BY, "").strip():
        return False
    return parent is None or (_may_wait(parent) and not _is(parent, "Requeued", "False"))


def _may_wait(each: Workload) -> bool:
    on_hold = any(c.type == "QuotaReserved" and c.status == "False" and c.reason == "OnHold" for c in _conditions(each))
    if each.metadata.deletion_timestamp is not None:
        return False
    return each.spec.active and not on_hold and not _is(each, "Finished") and not _is(each, "WaitingForReplacementPods")


def _held(each: Workload, *, reclaims: bool) -> Amounts:
    """The amounts that it holds: its assignment, less what it has given back (S-1.8)."""
    status = each.status or WorkloadStatus()
    returned = {pod.name: pod.count for pod in status.reclaimable_pods} if reclaims else {}
    sizes = {pod_set.name: pod_set.count for pod_set in each.spec.pod_sets}
    found: Amounts = {}
    for part in status.admission.pod_set_assignments if status.admission is not None else ():
        whole = sizes.get(part.name, 0)
        size = max(0, whole - returned.get(part.name, 0))
        given = whole if part.count is None else part.count
        for resource, flavor in part.flavors.items():
            quantity = part.resource_usage.get(resource)
            amount = 0 if quantity is None else min(MOST, quantity.in_units(resource))
            if size < given:
                amount = amount // given * size
            _add_to(found, {(FlavorName(flavor), ResourceName(resource)): amount})
    return found


# --- quota -----------------------------------------------------------------------------------------------------------


def _quota(parent: str, groups: Iterable[ResourceGroup], sharing: FairSharing | None) -> _NodeQuota:
    quota = _NodeQuota(parent)
    if sharing is not None:
        quota.weight = Fraction(sharing.weight.nano, 10**9)
    for group in groups:
        for flavor in group.flavors:
            for each in flavor.resources:
                fr = FlavorName(flavor.name), ResourceName(each.name)
                for table, quantity in (
                    (quota.nominal, each.nominal_quota),
                    (quota.borrowing, each.borrowing_limit),
                    (quota.lending, each.lending_limit),
                ):
                    if quantity is not None:
                        table[fr] = min(UNLIMITED, quantity.in_units(each.name))
    return quota


def _sum_cohorts(counted: _Counted) -> None:
    """From the leaves up (S-2.4, 2.5, 2.9). A cohort that is its own ancestor has no parent, so that sums end."""
    cohorts = counted.cohorts
    for named in [quota.parent for quota in (*counted.quotas.values(), *cohorts.values()) if quota.parent]:
        cohorts.setdefault(named, _NodeQuota(""))
    for ring in _rings(cohorts):
        for name in ring:
            cohorts[name] = _NodeQuota("", *_declared(cohorts[name]), weight=cohorts[name].weight, in_cycle=True)
    depths: dict[str, int] = {}
    for name in cohorts:
        way = [name]
        while way[-1] not in depths and cohorts[way[-1]].parent:
            way.append(cohorts[way[-1]].parent)
        depths.setdefault(way[-1], 0)
        for over, each in pairwise(reversed(way)):
            depths[each] = depths[over] + 1
            cohorts[each].in_cycle = cohorts[over].in_cycle
    ordered = [cohorts[name] for name in sorted(cohorts, key=lambda name: (-depths[name], name))]
    for quota in (*counted.quotas.values(), *ordered):
        _add_to(quota.subtree, quota.nominal)
        for fr, limit in quota.lending.items():
            quota.local[fr] = max(0, subtract(quota.subtree.get(fr, 0), limit))
        if quota.parent:
            above = cohorts[quota.parent]
            shown_quota = {fr: subtract(each, quota.local.get(fr, 0)) for fr, each in quota.subtree.items()}
            _add_to(above.subtree, shown_quota)
            kept = {fr: each if quota.local.get(fr, 0) >= UNLIMITED else min(each, quota.local.get(fr, 0))
                    for fr, each in quota.usage.items()}  # fmt: skip
            _count_to(above.usage, {fr: each - kept[fr] for fr, each in quota.usage.items()})


def _sum_subtrees(counted: _Counted) -> None:
    """What cohorts show of all queues below them, whatever these keep to themselves."""
    for name, quota in counted.quotas.items():
        above = [quota.parent, *_ancestors(counted.cohorts, quota.parent)] if quota.parent else []
        for cohort in above:
            _count_to(counted.cohorts[cohort].reservations, quota.usage)
            counted.cohorts[cohort].admitted += len(counted.queues[name].admitted)


def _declared(quota: _NodeQuota) -> tuple[Amounts, Amounts, Amounts]:
    return quota.nominal, quota.borrowing, quota.lending


def _rings(cohorts: Mapping[str, _NodeQuota]) -> list[list[str]]:
    """Cohorts that are their own ancestors, each ring once."""
    found: list[list[str]] = []
    seen: dict[str, str] = {}  # by name, from where it was first reached
    for start in cohorts:
        way: list[str] = []
        name = start
        while name and name not in seen:
            seen[name] = start
            way.append(name)
            name = cohorts[name].parent
        if name and seen[name] == start:
            found.append(way[way.index(name) :])
    return found


def _ancestors(cohorts: Mapping[str, _NodeQuota], name: str) -> list[str]:
    """Its parent, the parent of that one, and so on; there are no rings any more."""
    found: list[str] = []
    above = cohorts[name].parent
    while above:
        found.append(above)
        above = cohorts[above].parent
    return found


# --- comparing -------------------------------------------------------------------------------------------------------


def _state_differences(counted: _Counted, state: State) -> list[Mismatch]:
    held: dict[str, Amounts] = {}
    reserving: dict[str, set[str]] = {}
    admitted: dict[str, set[str]] = {}
    for queue, members in state.holders.of_queue.items():
        for each in members.values():
            name = each.key if each.family is None else each.family
            _count_to(held.setdefault(queue, {}), each.usage or {})
            reserving.setdefault(queue, set()).add(name)
            if each.admitted:
                admitted.setdefault(queue, set()).add(name)
    tallies = counted.queues
    charged = {name: node.usage for name, node in state.tree.queues.items()}
    return [
        *_compared("state", "usage held", _flat({n: t.reservation for n, t in tallies.items()}), _flat(held)),
        *_compared("state", "usage", _flat({n: q.usage for n, q in counted.quotas.items()}), _flat(charged)),
        *_compared("state", "cohort usage", _flat({n: q.usage for n, q in counted.cohorts.items()}),
                   _flat({name: node.usage for name, node in state.tree.cohorts.items()})),
        *_compared("state", "cohort quota", _flat({n: q.subtree for n, q in counted.cohorts.items()}),
                   _flat({name: node.subtree for name, node in state.tree.cohorts.items()})),
        *_compared("state", "reserving", _sizes({n: t.reserving for n, t in tallies.items()}), _sizes(reserving)),
        *_compared("state", "admitted", _sizes({n: t.admitted for n, t in tallies.items()}), _sizes(admitted)),
        *_compared("state", "pending", _sizes({n: t.pending for n, t in tallies.items()}),
                   {(queue,): waiting_in(state, QueueName(queue)).total for queue in state.pending.lists}),
    ]  # fmt: skip


def _metric_differences(counted: _Counted, metrics: MetricsRegistry) -> list[Mismatch]:
    expected = _count_gauges(counted) | _cohort_gauges(counted)
    if metrics.queue_resources:
        expected |= _resource_gauges(counted)
    expected |= {name: counted.said.get(name, {}) for name in _SAID}
    found = []
    for name in sorted(expected):
        family = metrics.registry.families[name]
        if not isinstance(family, Counter) or (name.startswith("kueue_local_queue_") and not metrics.local_queues):
            continue
        values = dict(family.values)
        if name.endswith("pending_workloads"):  # parked workloads are not marked in the objects
            values = {}
            for labels, value in family.values.items():
                values[labels[:-1]] = values.get(labels[:-1], 0) + value
        found += _compared(name, "value", expected[name], values)
    return found


def _share_differences(counted: _Counted, metrics: MetricsRegistry) -> list[Mismatch]:
    """Infinite shares are shown as NaN, which equals nothing, so they are compared as infinite."""
    expected: dict[str, dict[Labels, Number]] = {
        "kueue_cluster_queue_weighted_share": {
            (name, quota.parent): share_of(quota, counted.cohorts) for name, quota in counted.quotas.items()
        },
        "kueue_cohort_weighted_share": {
            (name,): share_of(quota, counted.cohorts) for name, quota in counted.cohorts.items()
        },
    }
    found = []
    for name, shares in expected.items():
        family = metrics.registry.families[name]
        assert isinstance(family, Counter), "a gauge"
        values = {labels: inf if isnan(value) else value for labels, value in family.values.items()}
        found += _compared(name, "value", shares, values)
    return found


_SAID = (
    "kueue_finished_workloads", "kueue_local_queue_finished_workloads", "kueue_unadmitted_workloads",
    "kueue_local_queue_unadmitted_workloads", "makeway_options",
)  # fmt: skip


def _count_gauges(counted: _Counted) -> dict[str, dict[Labels, Number]]:
    queues = {name: counted.queues[name] for name in counted.quotas}
    locals_ = {(name, namespace): tally for (namespace, name), tally in counted.locals.items()}
    return {
        "kueue_pending_workloads": {(name,): len(tally.pending) for name, tally in queues.items()},
        "kueue_reserving_active_workloads": {(name,): len(tally.reserving) for name, tally in queues.items()},
        "kueue_admitted_active_workloads": {(name,): len(tally.admitted) for name, tally in queues.items()},
        "kueue_local_queue_pending_workloads": {name: len(tally.pending) for name, tally in locals_.items()},
        "kueue_local_queue_reserving_active_workloads": {name: len(tally.reserving) for name, tally in locals_.items()},
        "kueue_local_queue_admitted_active_workloads": {name: len(tally.admitted) for name, tally in locals_.items()},
    }


def _resource_gauges(counted: _Counted) -> dict[str, dict[Labels, Number]]:
    quotas, tallies = counted.quotas, counted.queues

    def by_queue(tables: Mapping[str, Amounts]) -> dict[Labels, Number]:
        return _shown({(quotas[name].parent, name): table for name, table in tables.items()})

    def limits(tables: Mapping[str, Amounts]) -> dict[Labels, Number]:
        return by_queue({n: {fr: tables[n].get(fr, UNLIMITED) for fr in q.nominal} for n, q in quotas.items()})

    locals_ = {(name, namespace): tally for (namespace, name), tally in counted.locals.items()}
    return {
        "kueue_cluster_queue_nominal_quota": by_queue({n: q.nominal for n, q in quotas.items()}),
        "kueue_cluster_queue_borrowing_limit": limits({n: q.borrowing for n, q in quotas.items()}),
        "kueue_cluster_queue_lending_limit": limits({n: q.lending for n, q in quotas.items()}),
        "kueue_cluster_queue_resource_reservation": by_queue({n: tallies[n].reservation for n in quotas}),
        "kueue_cluster_queue_resource_usage": by_queue({n: tallies[n].usage for n in quotas}),
        "kueue_local_queue_resource_reservation": _shown({n: t.reservation for n, t in locals_.items()}),
        "kueue_local_queue_resource_usage": _shown({n: t.usage for n, t in locals_.items()}),
    }


def _cohort_gauges(counted: _Counted) -> dict[str, dict[Labels, Number]]:
    sound = {name: quota for name, quota in counted.cohorts.items() if not quota.in_cycle}

    tops: dict[str, str] = {}
    for each in sound:
        way = [each]
        while way[-1] not in tops and sound[way[-1]].parent:
            way.append(sound[way[-1]].parent)
        tops.update(dict.fromkeys(way, tops.get(way[-1], way[-1])))

    return {
        "kueue_cohort_subtree_quota": _shown({(n,): _above_zero(q.subtree) for n, q in sound.items()}),
        "kueue_cohort_subtree_resource_reservations": _shown(
            {(n,): _above_zero(q.reservations) for n, q in sound.items()}
        ),
        "kueue_cohort_subtree_admitted_active_workloads": {(n,): q.admitted for n, q in sound.items()},
        "kueue_cohort_info": {(n, q.parent, tops[n]): 1 for n, q in sound.items()},
        "kueue_cluster_queue_info": {(n, q.parent, tops.get(q.parent, "")): 1 for n, q in counted.quotas.items()},
    }


def _above_zero(amounts: Amounts) -> Amounts:
    return {fr: amount for fr, amount in amounts.items() if amount > 0}


def _pending_differences(counted: _Counted, metrics: MetricsRegistry, context: LoweringContext) -> list[Mismatch]:
    """Pending workloads of each queue: their requests, the number of classes, and that stopped queues have none active.

    Members of a class may be active, parked or both, so that the two counts only bound the number of classes.
    """
    expected: dict[Labels, Number] = {}
    found: list[Mismatch] = []
    for name, quota in counted.quotas.items():
        tally = counted.queues[name]
        by_name = {_counted_as(each): each for each in sorted(tally.waiting, key=_place, reverse=True)}
        asked = asked_by(
            [by_name[member] for member in sorted(tally.pending)], context, {fr[1] for fr in quota.nominal}
        )
        expected |= {(name, resource): shown(amount, resource) for resource, amount in asked.items()}
        active, parked = (_value(metrics, "kueue_pending_scheduling_hashes", name, s) for s in STATUSES)
        classes = len(classes_of(tally.waiting, context)) if context.policy.gates.scheduling_equivalence_hashing else 0
        if not max(active, parked) <= classes <= active + parked:
            found.append(Mismatch("kueue_pending_scheduling_hashes", "classes", (name,), classes, active + parked))
        for metric in ("kueue_pending_workloads", "kueue_pending_scheduling_hashes") if quota.is_stopped else ():
            found += _compared(metric, "active", {}, {(name,): _value(metrics, metric, name, "active")})
    if metrics.queue_resources:
        family = metrics.registry.families["kueue_cluster_queue_resource_pending"]
        assert isinstance(family, Counter), "a gauge"
        found += _compared(family.name, "value", expected, family.values)
    return found


def _value(metrics: MetricsRegistry, name: str, *labels: str) -> Number:
    family = metrics.registry.families[name]
    assert isinstance(family, Counter), "a gauge"
    return family.values.get(labels, 0)


def _compared(
    where: str, what: str, counted: Mapping[Labels, Number], found: Mapping[Labels, Number]
) -> list[Mismatch]:
    """A figure that is missing counts as zero."""
    return [
        Mismatch(where, what, subject, counted.get(subject, 0), found.get(subject, 0))
        for subject in sorted({*counted, *found})
        if counted.get(subject, 0) != found.get(subject, 0)
    ]


def _flat(tables: Mapping[str, Mapping[FR, int]]) -> dict[Labels, Number]:
    return {(name, *fr): amount for name, table in tables.items() for fr, amount in table.items()}


def _shown(tables: Mapping[Labels, Mapping[FR, int]]) -> dict[Labels, Number]:
    return {(*name, *fr): shown(amount, fr[1]) for name, table in tables.items() for fr, amount in table.items()}


def _sizes(groups: Mapping[str, set[str]]) -> dict[Labels, Number]:
    return {(name,): len(group) for name, group in groups.items()}


def _count_to(total: Amounts, more: Mapping[FR, int]) -> None:
    """Usage is summed up exactly, quota is not: enough of it is unlimited."""
    for fr, amount in more.items():
        total[fr] = total.get(fr, 0) + amount


def _add_to(total: Amounts, more: Mapping[FR, int]) -> None:
    for fr, amount in more.items():
        total[fr] = add(total.get(fr, 0), amount)


def _parent_uid(each: Workload) -> str | None:
    return next((o.uid for o in each.metadata.owner_references if o.controller and o.kind == "Workload"), None)


def _counted_as(each: Workload) -> str:
    parent_uid = _parent_uid(each)
    return "/".join(_place(each)) if parent_uid is None else f"family {parent_uid}"


def _place(each: KubernetesObject) -> LocalName:
    return each.metadata.namespace or DEFAULT_NAMESPACE, each.metadata.name


def _mode(each: Workload) -> str:
    return "Default" if each.spec.workload_mode is None else each.spec.workload_mode.type


def _conditions(each: Workload) -> tuple[Condition, ...]:
    return () if each.status is None else each.status.conditions


def _is(each: Workload, type: str, status: str = "True") -> bool:
    return any(condition.type == type and condition.status == status for condition in _conditions(each))

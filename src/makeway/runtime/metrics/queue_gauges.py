"""Gauges of what the state holds: pending and admitted workloads, quota, usage, shares and the hierarchy of queues.

They are brought up to date just before they are read: figures of a queue where it was touched since, those of the
whole forest from the figures of its queues. Between two reads a touched queue costs an entry in a set.

Amounts are shown as users write them: cores and bytes, ``+Inf`` where there is no limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, nan

from makeway.api.conditions import find
from makeway.api.names import DEFAULT_NAMESPACE
from makeway.controllers.contract import LOCAL_QUEUE as LOCAL_QUEUE_KIND
from makeway.controllers.contract import View
from makeway.core.amounts import UNLIMITED, add
from makeway.core.model import FR, LocalName, QueueName
from makeway.core.quota.figures import (
    LocalFigures,
    PendingCounts,
    equivalence_classes,
    figures_by_local_queue,
    figures_of,
    no_figures,
    pending_requests,
    share_of,
    subtree_counts,
    subtree_reservations,
    waiting_in,
)
from makeway.core.quota.tree import QuotaNode, QuotaTree, downward
from makeway.core.state import State
from makeway.runtime.metrics.exposition import Gauge, Labels, Number, Registry
from makeway.runtime.metrics.families import CLUSTER_QUEUE, COHORT, FLAVOR_RESOURCE, HIERARCHY, LOCAL_QUEUE, Pair

QUEUE_STATES = ("pending", "active", "terminating")


def shown(amount: int, resource: str) -> Number:
    """An amount of the model in the unit that users write."""
    if amount >= UNLIMITED:
        return inf
    return amount / 1000 if resource == "cpu" else amount


class QueueFamilies:
    """The gauges of queues and cohorts, in the order in which they are printed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._make_gauges()
        self._make_quota_gauges()
        self._make_cohort_gauges()

    def _make_gauges(self) -> None:
        make = self._registry.gauge
        self.pending: Pair[Gauge] = Pair(make, "pending_workloads", "Workloads without quota in the queue", "status")
        self.classes = make(
            "kueue_pending_scheduling_hashes",
            "Scheduling equivalence classes among the pending workloads: all members of one get the same verdict",
            *CLUSTER_QUEUE, "status",
        )  # fmt: skip
        self.reserving_now: Pair[Gauge] = Pair(
            make, "reserving_active_workloads", "Workloads that have a quota reservation"
        )
        self.admitted_now: Pair[Gauge] = Pair(make, "admitted_active_workloads", "Workloads that are admitted")
        self.status = make(
            "kueue_cluster_queue_status", "1 for the status that the ClusterQueue has, 0 for the others",
            *CLUSTER_QUEUE, "status",
        )  # fmt: skip
        self.local_status = make(
            "kueue_local_queue_status", "1 for the status of the LocalQueue's condition Active, 0 for the others",
            *LOCAL_QUEUE, "active",
        )  # fmt: skip
        self.queue_share = make(
            "kueue_cluster_queue_weighted_share", "Weighted share of a ClusterQueue; NaN where it is infinite",
            *CLUSTER_QUEUE, *COHORT,
        )  # fmt: skip

    def _make_quota_gauges(self) -> None:
        def of_queue(name: str, words: str) -> Gauge:
            labels = (*COHORT, *CLUSTER_QUEUE, *FLAVOR_RESOURCE)
            return self._registry.gauge(f"kueue_cluster_queue_{name}", words, *labels)

        def of_local(name: str, words: str) -> Gauge:
            return self._registry.gauge(f"kueue_local_queue_{name}", words, *LOCAL_QUEUE, *FLAVOR_RESOURCE)

        self.nominal = of_queue("nominal_quota", "Nominal quota of a ClusterQueue")
        self.borrowing = of_queue("borrowing_limit", "The most that a ClusterQueue may borrow; +Inf without a limit")
        self.lending = of_queue("lending_limit", "The most that a ClusterQueue may lend; +Inf without a limit")
        held, used = "Quota reserved by the workloads of a", "Quota used by the admitted workloads of a"
        self.reservation = of_queue("resource_reservation", f"{held} ClusterQueue")
        self.usage = of_queue("resource_usage", f"{used} ClusterQueue")
        self.pending_resources = self._registry.gauge(
            "kueue_cluster_queue_resource_pending", "What the pending workloads of a ClusterQueue ask for together",
            *CLUSTER_QUEUE, "resource",
        )  # fmt: skip
        self.local_reservation = of_local("resource_reservation", f"{held} LocalQueue")
        self.local_usage = of_local("resource_usage", f"{used} LocalQueue")

    def _make_cohort_gauges(self) -> None:
        make = self._registry.gauge
        self.cohort_share = make(
            "kueue_cohort_weighted_share", "Weighted share of a Cohort; NaN where it is infinite", *COHORT
        )
        self.subtree_quota = make(
            "kueue_cohort_subtree_quota",
            "Quota of a Cohort and of all below it, without what a lending limit keeps back; no series for 0",
            *COHORT, *FLAVOR_RESOURCE,
        )  # fmt: skip
        self.subtree_reservations = make(
            "kueue_cohort_subtree_resource_reservations",
            "Quota reserved by all workloads of the ClusterQueues below a Cohort; no series for 0",
            *COHORT, *FLAVOR_RESOURCE,
        )  # fmt: skip
        self.subtree_admitted_now = make(
            "kueue_cohort_subtree_admitted_active_workloads",
            "Workloads that are admitted in the ClusterQueues below a Cohort", *COHORT,
        )  # fmt: skip
        self.cohort_info = make(
            "kueue_cohort_info", "Always 1; the labels say where a Cohort is in the hierarchy", *COHORT, *HIERARCHY
        )
        self.queue_info = make(
            "kueue_cluster_queue_info", "Always 1; the labels say where a ClusterQueue is in the hierarchy",
            *CLUSTER_QUEUE, *HIERARCHY,
        )  # fmt: skip


class QueueGauges:
    def __init__(self, registry: Registry, *, queue_resources: bool, local_queues: bool) -> None:
        self._families = QueueFamilies(registry)
        self._queue_resources = queue_resources
        self._local_queues = local_queues
        self._touched: set[QueueName] = set()
        self._touched_locals: set[LocalName] = set()
        self._is_forest_touched = False
        self._admitted: dict[QueueName, int] = {}
        self._locals: dict[LocalName, dict[QueueName, LocalFigures]] = {}
        self._locals_of: dict[QueueName, tuple[LocalName, ...]] = {}

    def touch(self, queues: Iterable[QueueName]) -> None:
        """Something about these queues has changed: their workloads, their quota, whether they exist."""
        self._touched.update(queues)

    def touch_local(self, local: LocalName) -> None:
        """A LocalQueue has come or gone, or leads elsewhere."""
        self._touched_locals.add(local)

    def touch_forest(self) -> None:
        """A ClusterQueue or Cohort has changed, come or gone."""
        self._is_forest_touched = True

    def show(self, view: View) -> dict[LocalName, QueueName]:
        """Bring all of them up to date; the LocalQueues that exist, and where each leads."""
        touched, self._touched = sorted(self._touched), set()
        is_forest_touched, self._is_forest_touched = bool(touched) or self._is_forest_touched, False
        behind = self._show_local_status(view)
        for queue in touched:
            self._show_queue(view.state, queue)
        if self._local_queues:
            self._show_locals(view.state, touched, behind)
        if is_forest_touched:
            self._show_forest(view.state)
        if is_forest_touched and view.state.policy.fair_sharing:
            self._show_shares(view.state)
        return behind

    # --- ClusterQueues ---

    def _show_queue(self, state: State, queue: QueueName) -> None:
        made = self._families
        node, configured = state.tree.queues.get(queue), state.queues.get(queue)
        if node is None or configured is None:
            self._admitted.pop(queue, None)
            for gauge in (
                made.pending.queue, made.classes, made.reserving_now.queue, made.admitted_now.queue, made.status,
                made.nominal, made.borrowing, made.lending, made.reservation, made.usage, made.pending_resources,
            ):  # fmt: skip
                gauge.set_group(queue, {})
            return
        figures = figures_of(state, queue)
        self._admitted[queue] = figures.admitted
        made.pending.queue.set_group(queue, _by_status(waiting_in(state, queue), queue))
        if state.policy.gates.scheduling_equivalence_hashing:
            made.classes.set_group(queue, _by_status(equivalence_classes(state, queue), queue))
        made.reserving_now.queue.set_group(queue, {(queue,): figures.reserving})
        made.admitted_now.queue.set_group(queue, {(queue,): figures.admitted})
        is_leaving = configured.inactive_because == "Terminating"
        current = "active" if state.is_active(queue) else "terminating" if is_leaving else "pending"
        made.status.set_group(queue, {(queue, each): int(each == current) for each in QUEUE_STATES})
        if self._queue_resources:
            self._show_quota(node)
            asked = pending_requests(state, queue)
            made.pending_resources.set_group(queue, {(queue, name): shown(n, name) for name, n in asked.items()})
            for gauge, table in ((made.reservation, figures.reservation), (made.usage, figures.usage)):
                gauge.set_group(queue, _rows(_owner(node), {fr: figure.total for fr, figure in table.items()}))

    def _show_quota(self, node: QuotaNode) -> None:
        made, owner = self._families, _owner(node)
        made.nominal.set_group(node.name, _rows(owner, node.nominal))
        for gauge, limits in ((made.borrowing, node.borrowing), (made.lending, node.lending)):
            gauge.set_group(node.name, _rows(owner, {fr: limits.get(fr, UNLIMITED) for fr in node.nominal}))

    # --- LocalQueues ---

    def _show_local_status(self, view: View) -> dict[LocalName, QueueName]:
        behind: dict[LocalName, QueueName] = {}
        statuses: dict[Labels, Number] = {}
        for each in view.all(LOCAL_QUEUE_KIND):
            namespace, name = each.metadata.namespace or DEFAULT_NAMESPACE, each.metadata.name
            behind[namespace, name] = QueueName(each.spec.cluster_queue)
            active = find(() if each.status is None else each.status.conditions, "Active")
            says = "Unknown" if active is None else active.status
            statuses.update({(name, namespace, word): int(word == says) for word in ("True", "False", "Unknown")})
        self._families.local_status.set_group("all", statuses if self._local_queues else {})
        return behind

    def _show_locals(self, state: State, touched: list[QueueName], behind: Mapping[LocalName, QueueName]) -> None:
        """Figures of one LocalQueue add up over the queues in which its workloads hold quota or wait."""
        leading_to: dict[QueueName, list[LocalName]] = {}
        for local, queue in behind.items() if touched else ():
            leading_to.setdefault(queue, []).append(local)
        stale = self._touched_locals
        self._touched_locals = set()
        for queue in touched:
            stale.update(self._gather_locals(state, queue, leading_to.get(queue, ())))
        for local in stale:
            whole = self._locals.get(local, {})
            self._show_local(local, list(whole.values()) if local in behind else [])
            if not whole:
                self._locals.pop(local, None)

    def _gather_locals(self, state: State, queue: QueueName, there: Iterable[LocalName]) -> set[LocalName]:
        """Note what each LocalQueue has in this queue; return all that have or had something."""
        node = state.tree.queues.get(queue)
        idle = no_figures(() if node is None else node.nominal)
        parts = {**dict.fromkeys(there, idle), **figures_by_local_queue(state, queue)}
        parts = {name: part for name, part in parts.items() if name[1]}
        before = self._locals_of.pop(queue, ())
        if parts:
            self._locals_of[queue] = tuple(parts)
        for local in before:
            self._locals[local].pop(queue, None)
        for local, part in parts.items():
            self._locals.setdefault(local, {})[queue] = part
        return {*before, *parts}

    def _show_local(self, local: LocalName, parts: list[LocalFigures]) -> None:
        made, owner = self._families, (local[1], local[0])
        waiting = PendingCounts(sum(e.waiting.active for e in parts), sum(e.waiting.inadmissible for e in parts))
        made.pending.local.set_group(local, _by_status(waiting, *owner) if parts else {})
        counts = sum(each.reserving for each in parts), sum(each.admitted for each in parts)
        for pair, count in zip((made.reserving_now, made.admitted_now), counts, strict=True):
            pair.local.set_group(local, {owner: count} if parts else {})
        if self._queue_resources:
            made.local_reservation.set_group(local, _rows(owner, _sum(each.reservation for each in parts)))
            made.local_usage.set_group(local, _rows(owner, _sum(each.usage for each in parts)))

    # --- the forest ---

    def _show_forest(self, state: State) -> None:
        """Cohorts that are only named count like others; one that is its own ancestor, or below such, has no sums."""
        made, tree = self._families, state.tree
        reservations, admitted, tops = subtree_reservations(tree), subtree_counts(tree, self._admitted), _tops(tree)
        quota: dict[Labels, Number] = {}
        use: dict[Labels, Number] = {}
        info: dict[Labels, Number] = {}
        for node in _sound(tree.cohorts):
            quota.update(_rows((node.name,), {fr: amount for fr, amount in node.subtree.items() if amount > 0}))
            held = {fr: amount for fr, amount in reservations[node.name].items() if amount > 0}
            use.update(_rows((node.name,), held))
            info[node.name, _owner(node)[0], tops[node]] = 1
        made.subtree_quota.set_group("all", quota)
        made.subtree_reservations.set_group("all", use)
        made.subtree_admitted_now.set_group("all", {(n.name,): admitted[n.name] for n in _sound(tree.cohorts)})
        made.cohort_info.set_group("all", info)
        made.queue_info.set_group("all", {(n.name, _owner(n)[0], tops[n]): 1 for n in tree.queues.values()})

    def _show_shares(self, state: State) -> None:
        made, tree = self._families, state.tree
        made.queue_share.set_group("all", {(n.name, _owner(n)[0]): _share(state, n) for n in tree.queues.values()})
        made.cohort_share.set_group("all", {(name,): _share(state, node) for name, node in tree.cohorts.items()})


def _sound(cohorts: Mapping[str, QuotaNode]) -> list[QuotaNode]:
    return [node for node in cohorts.values() if not node.in_cycle]


def _tops(tree: QuotaTree) -> dict[QuotaNode, str]:
    """The name of the top cohort of each node; "" of a queue without a cohort, and where a cycle has no top."""
    found: dict[QuotaNode, str] = {}
    for node in downward(tree.roots()):  # parents come first
        own = "" if node.is_queue or node.in_cycle else node.name
        found[node] = own if node.parent is None else found[node.parent]
    return found


def _share(state: State, node: QuotaNode) -> Number:
    found = share_of(state, node)
    number, scale = (0, 1) if found is None else found.fraction()
    return number / scale if scale else nan


def _owner(node: QuotaNode) -> Labels:
    return (node.parent.name if node.parent is not None else "", node.name)


def _rows(owner: Labels, table: Mapping[FR, int]) -> dict[Labels, Number]:
    return {(*owner, flavor, resource): shown(amount, resource) for (flavor, resource), amount in table.items()}


def _by_status(waiting: PendingCounts, *owner: str) -> dict[Labels, Number]:
    return {(*owner, "active"): waiting.active, (*owner, "inadmissible"): waiting.inadmissible}


def _sum(tables: Iterable[Mapping[FR, int]]) -> dict[FR, int]:
    total: dict[FR, int] = {}
    for table in tables:
        for fr, amount in table.items():
            total[fr] = add(total.get(fr, 0), amount)
    return total

"""Quota and its use, from the status of ClusterQueues: sums, and how much is lent.

Amounts are integers in the units of ``Quantity.in_units``. *Used* is what workloads hold that are admitted or have
quota reserved. *Borrowed* is what a queue uses beyond its own quota. *Lent* is how much of a queue's own quota others
use **at least**: no status says which of several lenders lends, so only the part counts that the others together could
not have lent. For a cohort, lent is all that is borrowed within it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from makeway.api.objects.queueing import ClusterQueue, Cohort, FlavorUsage, ResourceGroup

FlavorResource = tuple[str, str]


@dataclass(frozen=True, slots=True)
class QuotaFigure:
    """The figures of one flavor-resource."""

    nominal: int = 0
    used: int = 0
    borrowed: int = 0
    lent: int = 0
    lendable: int = 0  # of the unused part

    @property
    def free(self) -> int:
        return max(0, self.nominal - self.used - self.lent)

    def plus(self, other: QuotaFigure) -> QuotaFigure:
        return QuotaFigure(
            self.nominal + other.nominal, self.used + other.used, self.borrowed + other.borrowed,
            self.lent + other.lent, self.lendable + other.lendable,
        )  # fmt: skip


Figures = Mapping[FlavorResource, QuotaFigure]


@dataclass(frozen=True, slots=True)
class QueueFigures:
    name: str
    cohort: str
    waiting: int
    admitted: int
    trouble: str  # why it is not active; "" if it is
    figures: Figures


@dataclass(slots=True)
class CohortFigures:
    """A cohort with all below it; the one without a name holds the queues without a cohort."""

    name: str
    parent: str = ""
    own: dict[FlavorResource, QuotaFigure] = field(default_factory=dict)  # quota of the cohort itself
    queues: list[QueueFigures] = field(default_factory=list)
    groups: list[CohortFigures] = field(default_factory=list)
    depth: int = 0  # the number of cohorts above it
    waiting: int = 0  # the sums over all below it, from ``sum_up``
    count: int = 0  # of queues
    total: dict[FlavorResource, QuotaFigure] = field(default_factory=dict)

    @property
    def all_queues(self) -> list[QueueFigures]:
        return [queue for group in self.below() for queue in group.queues]

    def figures(self) -> dict[FlavorResource, QuotaFigure]:
        """The sums over all below it; what is borrowed within it is lent."""
        return {fr: replace(each, lent=each.borrowed) for fr, each in self.total.items()}

    def below(self) -> Iterator[CohortFigures]:
        """Yield itself and all below it, parents first; the depth is up to users."""
        left = [self]
        while left:
            group = left.pop()
            yield group
            left.extend(reversed(group.groups))

    def sum_up(self) -> None:
        """Compute the sums of itself and of all below it, from the present queues."""
        groups = list(self.below())
        for group in groups:
            for each in group.groups:
                each.depth = group.depth + 1
        for group in reversed(groups):
            group.waiting = sum(q.waiting for q in group.queues) + sum(each.waiting for each in group.groups)
            group.count = len(group.queues) + sum(each.count for each in group.groups)
            group.total = {}
            for part in (group.own, *(q.figures for q in group.queues), *(each.total for each in group.groups)):
                for fr, figure in part.items():
                    group.total[fr] = group.total.get(fr, QuotaFigure()).plus(figure)


def grouped(queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort]) -> list[CohortFigures]:
    """Return the trees, by name; queues without a cohort come last, in a group without a name."""
    groups = {
        cohort.metadata.name: CohortFigures(cohort.metadata.name, cohort.spec.parent_name, _own(cohort))
        for cohort in cohorts
    }
    for queue in sorted(queues, key=lambda each: each.metadata.name):
        found = _queue(queue)
        groups.setdefault(found.cohort, CohortFigures(found.cohort)).queues.append(found)
    for name in [group.parent for group in groups.values()]:
        if name:
            groups.setdefault(name, CohortFigures(name))
    rounds = _rounds(groups)
    top = {name for name, each in groups.items() if not each.parent or name in rounds}
    for name in sorted(groups.keys() - top):
        groups[groups[name].parent].groups.append(groups[name])
    roots = [groups[name] for name in top]
    for root in roots:
        root.sum_up()
        _count_lent(root)
        root.sum_up()
    return sorted(roots, key=lambda each: (not each.name, each.name))


def _rounds(groups: Mapping[str, CohortFigures]) -> set[str]:
    """Return the cohorts whose parents form a cycle, or lead into one: each stands alone."""
    found: dict[str, bool] = {}
    for start in groups:
        way: dict[str, None] = {}
        name = start
        while name and name not in found and name not in way:
            way[name] = None
            name = groups[name].parent
        found.update(dict.fromkeys(way, bool(name) and found.get(name, True)))
    return {name for name, goes_round in found.items() if goes_round}


def _quotas(groups: Iterable[ResourceGroup]) -> Iterable[tuple[FlavorResource, int, int]]:
    """For each flavor-resource, the nominal quota and how much of it may be lent."""
    for group in groups:
        for flavor in group.flavors:
            for resource in flavor.resources:
                nominal = resource.nominal_quota.in_units(resource.name)
                limit = nominal if resource.lending_limit is None else resource.lending_limit.in_units(resource.name)
                yield (flavor.name, resource.name), nominal, min(limit, nominal)


def _own(cohort: Cohort) -> dict[FlavorResource, QuotaFigure]:
    return {fr: QuotaFigure(nominal=n, lendable=n) for fr, n, _ in _quotas(cohort.spec.resource_groups)}


def _queue(queue: ClusterQueue) -> QueueFigures:
    status = queue.status
    held = _held(status.flavors_reservation) if status is not None else {}
    figures: dict[FlavorResource, QuotaFigure] = {}
    for fr, nominal, most in _quotas(queue.spec.resource_groups):
        used, borrowed = held.pop(fr, (0, 0))
        figures[fr] = QuotaFigure(nominal, used, borrowed, lendable=max(0, min(most, nominal - used)))
    for fr, (used, borrowed) in held.items():  # a flavor or resource without quota in the spec
        figures[fr] = QuotaFigure(0, used, borrowed)
    conditions = status.conditions if status is not None else ()
    inactive = next(
        (condition for condition in conditions if condition.type == "Active" and condition.status != "True"), None
    )
    return QueueFigures(
        name=queue.metadata.name,
        cohort=queue.spec.cohort_name,
        waiting=status.pending_workloads if status is not None else 0,
        admitted=status.admitted_workloads if status is not None else 0,
        trouble=inactive.reason if inactive is not None else "",
        figures=figures,
    )


def _held(usage: Iterable[FlavorUsage]) -> dict[FlavorResource, tuple[int, int]]:
    return {
        (flavor.name, resource.name): (
            resource.total.in_units(resource.name),
            resource.borrowed.in_units(resource.name),
        )
        for flavor in usage
        for resource in flavor.resources
    }


def _count_lent(root: CohortFigures) -> None:
    """Count what each queue of a tree lends at least: what is borrowed there and no other queue could have lent."""
    if not root.name:
        return
    totals = root.figures()
    for group in root.below():
        for i, queue in enumerate(group.queues):
            lent = {
                fr: max(0, totals[fr].borrowed - (totals[fr].lendable - each.lendable)) if not each.borrowed else 0
                for fr, each in queue.figures.items()
            }
            counted = {fr: replace(each, lent=min(lent[fr], each.lendable)) for fr, each in queue.figures.items()}
            group.queues[i] = replace(queue, figures=counted)

"""Who uses how much of whose quota, as the status of ClusterQueues tells it: sums, and what is lent.

Amounts are integers in the units of ``Quantity.in_units``. *Used* is what workloads hold, admitted or about to be.
*Borrowed* is what a queue uses beyond its own quota. *Lent* is how much of a queue's own quota others use **at least**:
which of several lenders lends is nowhere written, so of a queue only that is counted which the others together could
not have lent. Of a cohort, lent is all that is borrowed within it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from makeway.api.objects.queueing import ClusterQueue, Cohort, FlavorUsage, ResourceGroup

FlavorResource = tuple[str, str]


@dataclass(frozen=True, slots=True)
class QuotaFigure:
    """Of one flavor-resource."""

    nominal: int = 0
    used: int = 0
    borrowed: int = 0
    lent: int = 0
    lendable: int = 0  # of what is not used

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
    trouble: str  # why it is not active; "" where it is
    figures: Figures


@dataclass(slots=True)
class CohortFigures:
    """A cohort with all below it; the one without a name holds the queues that are in none."""

    name: str
    parent: str = ""
    own: dict[FlavorResource, QuotaFigure] = field(default_factory=dict)  # quota of the cohort itself
    queues: list[QueueFigures] = field(default_factory=list)
    groups: list[CohortFigures] = field(default_factory=list)
    depth: int = 0  # how many cohorts are above it
    waiting: int = 0  # the sums over all below it, as ``sum_up`` finds them
    count: int = 0  # of queues
    total: dict[FlavorResource, QuotaFigure] = field(default_factory=dict)

    @property
    def all_queues(self) -> list[QueueFigures]:
        return [each for group in self.below() for each in group.queues]

    def figures(self) -> dict[FlavorResource, QuotaFigure]:
        """The sums over all below it; what is borrowed within it is what is lent."""
        return {fr: replace(each, lent=each.borrowed) for fr, each in self.total.items()}

    def below(self) -> Iterator[CohortFigures]:
        """Itself and all below it, each before its own; as deep as users made it."""
        left = [self]
        while left:
            group = left.pop()
            yield group
            left.extend(reversed(group.groups))

    def sum_up(self) -> None:
        """Make the sums of itself and of all below it, of the queues that are there now."""
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
    """The trees, by name; queues without a cohort come last, in a group without a name."""
    groups = {
        each.metadata.name: CohortFigures(each.metadata.name, each.spec.parent_name, _own(each)) for each in cohorts
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
    """Those whose parents form a cycle, or lead into one: each stands alone."""
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
    """Of each flavor-resource the nominal quota and how much of it may be lent."""
    for group in groups:
        for flavor in group.flavors:
            for each in flavor.resources:
                nominal = each.nominal_quota.in_units(each.name)
                limit = nominal if each.lending_limit is None else each.lending_limit.in_units(each.name)
                yield (flavor.name, each.name), nominal, min(limit, nominal)


def _own(cohort: Cohort) -> dict[FlavorResource, QuotaFigure]:
    return {fr: QuotaFigure(nominal=n, lendable=n) for fr, n, _ in _quotas(cohort.spec.resource_groups)}


def _queue(queue: ClusterQueue) -> QueueFigures:
    status = queue.status
    held = _held(status.flavors_reservation) if status is not None else {}
    figures: dict[FlavorResource, QuotaFigure] = {}
    for fr, nominal, most in _quotas(queue.spec.resource_groups):
        used, borrowed = held.pop(fr, (0, 0))
        figures[fr] = QuotaFigure(nominal, used, borrowed, lendable=max(0, min(most, nominal - used)))
    for fr, (used, borrowed) in held.items():  # of a flavor or resource that it no longer has
        figures[fr] = QuotaFigure(0, used, borrowed)
    conditions = status.conditions if status is not None else ()
    inactive = next((each for each in conditions if each.type == "Active" and each.status != "True"), None)
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
        (flavor.name, each.name): (each.total.in_units(each.name), each.borrowed.in_units(each.name))
        for flavor in usage
        for each in flavor.resources
    }


def _count_lent(root: CohortFigures) -> None:
    """What each queue of a tree lends at least: what is borrowed there and nobody else could have lent."""
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

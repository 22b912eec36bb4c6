"""Possible victims in the order in which they would leave (S-7.6, 8.1-8.5), read only as far as necessary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from makeway.core.model import FR, Millis, Queue, QueueName, Usage, Workload
from makeway.core.preemption.eligibility import Equals
from makeway.core.queue_policies import BELOW_ALL
from makeway.core.quota.holders import Holders
from makeway.core.quota.tree import QuotaNode, QuotaTree


@dataclass(frozen=True, slots=True)
class Lenders:
    """Queues of the cohort whose workloads may be reclaimed, each with the cohort it was found under."""

    advantaged: dict[QueueName, QuotaNode]  # some subtree of ours, without them, could hold the whole request
    others: dict[QueueName, QuotaNode]


class Candidate(NamedTuple):
    workload: Workload
    under: QuotaNode | None = None  # the common ancestor; None: a workload of the own queue
    advantaged: bool = False


def find_lenders(
    tree: QuotaTree, node: QuotaNode, need: tuple[FR, ...], request: Usage, is_active: Callable[[QueueName], bool]
) -> Lenders:
    """Queues that borrow what ``node`` needs, from the nearest cohort up (S-8.2, 8.3); inactive queues are left out."""
    advantaged: dict[QueueName, QuotaNode] = {}
    others: dict[QueueName, QuotaNode] = {}
    has_advantage = not any(tree.borrows(node, fr, amount) for fr, amount in request.items())
    rest, below = request, node
    for cohort in node.ancestors():
        into = advantaged if has_advantage else others
        for queue in _borrowing_queues(tree, cohort, need, below):
            if is_active(QueueName(queue.name)):
                into[QueueName(queue.name)] = cohort
        if cohort.parent is None:
            break
        rest = {fr: max(0, amount - tree.local_available(below, fr)) for fr, amount in rest.items()}
        fits_here = not any(tree.borrows(cohort, fr, amount) for fr, amount in rest.items())
        has_advantage = has_advantage or fits_here
        below = cohort
    return Lenders(advantaged, others)


def _borrowing_queues(
    tree: QuotaTree, cohort: QuotaNode, need: tuple[FR, ...], besides: QuotaNode
) -> Iterator[QuotaNode]:
    left = [iter(cohort.children)]  # of each cohort on the way down
    while left:
        child = next(left[-1], None)
        if child is None:
            left.pop()
        elif child is besides or tree.within_nominal(child, need):
            continue
        elif child.is_queue:
            yield child
        else:
            left.append(iter(child.children))


class Candidates:
    """All candidates of one search; each ``read`` is a new pass."""

    def __init__(
        self, incoming: Workload, queue: Queue, holders: Holders, need: tuple[FR, ...], lenders: Lenders,
        equals: Equals, *, excluded: frozenset[str] = frozenset(),
        stuck_before: Millis | None = None,
    ) -> None:  # fmt: skip
        self._incoming = incoming
        self._queue = queue
        self._holders = holders
        self._need = need
        self._lenders = lenders
        self._equals = equals
        self._excluded = excluded
        self._stuck_before = stuck_before  # victims that should have left by then do not count any more (S-10.13)
        self._own_below = queue.within.below(incoming.priority, equals=equals.by_age)  # the priorities below which
        self._below = queue.reclaim.below(incoming.priority)  # workloads of the own queue, and of others, may leave

    def read(self) -> Iterator[Candidate]:
        for evicted in (True, False):
            for workload in self._of_cohort(self._lenders.advantaged, evicted):
                yield Candidate(workload, self._lenders.advantaged[workload.queue], advantaged=True)
            for workload in self._of_cohort(self._lenders.others, evicted):
                yield Candidate(workload, self._lenders.others[workload.queue])
            for workload in self._of_own_queue(evicted):
                yield Candidate(workload)

    def are_there(self, *, advantaged: bool) -> bool:
        """Whether the cohort has candidates of this kind: a queue that borrows may have none.

        Reads candidates only where the sums cannot tell.
        """
        queues = self._lenders.advantaged if advantaged else self._lenders.others
        may_all = self._incoming.family is None and not self._excluded
        below = self._below
        if may_all and any(self._holders.has_some_upto(each, self._need, below, evicted=False) for each in queues):
            return True
        return any(next(self._of_cohort(queues, evicted), None) is not None for evicted in (False, True))

    def of_queue(self, queue: QueueName) -> Iterator[Workload]:
        """The candidates of one queue."""
        for evicted in (True, False):
            if queue == self._queue.name:
                yield from self._of_own_queue(evicted)
            elif queue in self._lenders.others:
                yield from self._of_cohort({queue: self._lenders.others[queue]}, evicted)

    def _of_cohort(self, queues: dict[QueueName, QuotaNode], evicted: bool) -> Iterator[Workload]:
        if not queues:
            return iter(())
        return filter(self._may, self._holders.upto(queues, self._need, self._below, evicted=evicted))

    def _of_own_queue(self, evicted: bool) -> Iterator[Workload]:
        incoming, holders, own = self._incoming, self._holders, self._queue.name
        if self._own_below == BELOW_ALL:
            return
        yield from filter(self._may, holders.upto((own,), self._need, incoming.priority, evicted=evicted))
        if not (self._queue.within.takes_equals and self._equals.by_age):
            return
        expired_before = self._equals.expired_before
        since = Millis(-(2**62)) if expired_before is None else expired_before
        if expired_before is not None:
            had_their_time = holders.expired(own, self._need, incoming.priority, expired_before, evicted=evicted)
            yield from filter(self._may, had_their_time)
        queued = self._queue.within.equals_queued(incoming.queued_at)
        yield from filter(self._may, holders.equals(own, self._need, incoming.priority, queued, since, evicted=evicted))

    def _may(self, workload: Workload) -> bool:
        if workload.key in self._excluded:
            return False
        if self._stuck_before is not None and workload.evicted:
            by = workload.leaves_by()
            if by is not None and by <= self._stuck_before:
                return False
        return self._incoming.family is None or workload.family != self._incoming.family

    def freed_at_most(self, fr: FR, *, while_borrowing: bool = False) -> tuple[int, int]:
        """The most ``fr`` that candidates could free: in the own queue, and in the cohort. Reads no candidate.

        ``while_borrowing`` leaves out those that would not leave for a borrower (S-8.4).
        """
        queue, below = self._queue, self._below
        own = 0 if self._own_below == BELOW_ALL else self._holders.freed_at_most(queue.name, fr, self._own_below)
        lenders = self._lenders
        if not lenders.advantaged and not lenders.others:
            return own, 0
        limit = min(below, queue.borrow.below(self._incoming.priority, queue.threshold)) if while_borrowing else below
        others = sum(self._holders.freed_at_most(queue, fr, below) for queue in lenders.advantaged)
        return own, others + sum(self._holders.freed_at_most(queue, fr, limit) for queue in lenders.others)

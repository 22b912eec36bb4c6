"""Which queue loses a workload next where shares decide: the richest, found from the root down (S-9.7).

In each cohort the side with the highest share comes next, a child cohort before a queue that has as much. Of queues
with equal shares it is the one whose first candidate would leave first. Sides that do not borrow are out for good,
except those that lead to the newcomer. So are queues without candidates and cohorts with nothing left.

Nothing is added during a search, so shares only fall. A side's share is computed again only when the side has come to
the front and something below it has left since; candidates are compared only where shares are equal. Every answer is
followed by ``lost`` or ``drop``, or by one candidate less, so the queues come to an end (P22).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from makeway.core.amounts import MOST
from makeway.core.model import Workload
from makeway.core.quota.shares import Share, is_borrowing, share
from makeway.core.quota.tree import QuotaNode, QuotaTree

First = Callable[[QuotaNode], Workload | None]  # the next candidate of a queue


class _Rich:
    """A side and its share when last computed. The richest side is the least, so that it comes first in a heap."""

    __slots__ = ("node", "share")

    def __init__(self, node: QuotaNode, share: Share) -> None:
        self.node = node
        self.share = share

    def __lt__(self, other: _Rich) -> bool:
        if other.share < self.share:
            return True
        if self.share < other.share:
            return False
        return (self.node.is_queue, self.node.name) < (other.node.is_queue, other.node.name)


class Richest:
    def __init__(self, tree: QuotaTree, own: QuotaNode, first: First, *, alone: bool = False) -> None:
        """``alone``: only the newcomer's own queue has candidates, so shares are not needed."""
        self._tree = tree
        self._root = own if alone else own.root
        self._own = own
        self._first = first
        self._leads_home = {own, *own.ancestors()}
        self._heaps: dict[QuotaNode, list[_Rich]] = {}  # of cohorts that were looked into
        self._dropped: set[QuotaNode] = set()
        self._changed: set[QuotaNode] = set()  # something below them has left since their last share
        self.looks = 0  # how often the search entered a cohort; tests count it

    def next(self) -> QuotaNode | None:
        """The next queue to lose a workload; None: no queue is left."""
        at = root = self._root
        while root not in self._dropped:
            if at.is_queue:
                if at is not root or self._first(at) is not None:
                    return at
                self._dropped.add(at)
                continue
            below = self._richest(at)
            if below is None:
                self._dropped.add(at)
                below = at if at is root else at.parent  # nothing above has changed, so the way there is the same
                assert below is not None, "the root is above all"
            at = below
        return None

    def drop(self, queue: QuotaNode) -> None:
        """The queue is out for good."""
        self._dropped.add(queue)

    def lost(self, queue: QuotaNode) -> None:
        """A workload of the queue has left."""
        self._changed.update((queue, *queue.ancestors()))

    # --- inside ---

    def _richest(self, cohort: QuotaNode) -> QuotaNode | None:
        self.looks += 1
        heap = self._heaps.get(cohort)
        if heap is None:
            heap = self._heaps[cohort] = [_Rich(side, share(self._tree, side)) for side in cohort.children]
            self._changed.difference_update(cohort.children)
            heapify(heap)
        ties: list[_Rich] = []
        while heap and not (ties and ties[0].share != heap[0].share):
            rich = heappop(heap)
            if rich.node in self._changed:
                self._changed.discard(rich.node)
                heappush(heap, _Rich(rich.node, share(self._tree, rich.node)))
            elif self._is_out(rich.node):
                self._dropped.add(rich.node)
            else:
                ties.append(rich)
                if not rich.node.is_queue:
                    break  # it goes before queues that have as much
        for side in ties:
            heappush(heap, side)
        if not ties or not ties[-1].node.is_queue:
            return ties[-1].node if ties else None
        return ties[0].node if len(ties) == 1 else min((side.node for side in ties), key=self._leaves_first)

    def _is_out(self, node: QuotaNode) -> bool:
        if node in self._dropped:
            return True
        if node not in self._leads_home and not is_borrowing(self._tree, node):
            return True
        return node.is_queue and self._first(node) is None

    def _leaves_first(self, queue: QuotaNode) -> tuple[bool, bool, int, int, str, str]:
        """The place of its first candidate in the order of S-7.6."""
        each = self._first(queue)
        assert each is not None, "a queue without candidates is out"
        at = MOST if each.reserved_at is None else each.reserved_at
        return not each.evicted, queue is self._own, each.priority, -at, each.uid, each.key


def sides(own: QuotaNode, other: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
    """The two children of the queues' lowest common cohort, on the way to each of them."""
    below = {parent: node for node in (own, *own.ancestors()) if (parent := node.parent) is not None}
    theirs = other
    while theirs.parent is not None and theirs.parent not in below:
        theirs = theirs.parent
    assert theirs.parent is not None, "two queues of one tree have a cohort in common"
    return below[theirs.parent], theirs

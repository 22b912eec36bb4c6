"""The order of entries where shares decide: the one whose side would be the poorest goes next (S-9.4).

In every cohort the entries of its queues compete with the winners of its child cohorts by what their own side would
have with them: a side that would not borrow goes first, then the lower share, the higher priority, the earlier time,
the name of the queue. The winner of the root is taken. Then all compete again, because what it took counts.

A pick changes usage on few paths only, and does not change what another side would have. So each node remembers its
best entry, and after a pick only the nodes on those paths are computed anew: O(depth · log n), see ``tree.shares``.

Not here: what an entry takes (``entries``), and the order without fair sharing (``cycle.order``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from makeway.core.model import Usage, Workload, invariant
from makeway.core.quota.shares import Share, borrows_of, seen_at, share
from makeway.core.quota.tree import QuotaNode
from makeway.core.state import State
from makeway.core.trace import Rule, Step

T = TypeVar("T")
Key = tuple[bool, bool, Share, int, int, str]
DECIDED_BY = (
    Rule.ORDER_PREEMPTOR, Rule.ORDER_WITHIN_NOMINAL, Rule.ORDER_LOWER_SHARE, Rule.ORDER_PRIORITY, Rule.ORDER_EARLIER,
    Rule.ORDER_NAME,
)  # fmt: skip
PRIORITY, TIME = DECIDED_BY.index(Rule.ORDER_PRIORITY), DECIDED_BY.index(Rule.ORDER_EARLIER)

Counted = Callable[[QuotaNode], AbstractContextManager[None]]  # the tree of this root as it counts for the order


@dataclass(frozen=True, slots=True)
class Contestant(Generic[T]):
    """An entry that competes: at most one of each queue."""

    workload: Workload
    node: QuotaNode  # its queue
    usage: Usage  # what it would use
    item: T

    @property
    def asked(self) -> list[Any]:
        return [fr for fr, amount in self.usage.items() if amount]


class _Side:
    """A node below which entries still compete."""

    __slots__ = ("above", "best", "computed_in", "depth", "heap", "node", "seen", "stamp")

    def __init__(self, node: QuotaNode, above: _Side | None) -> None:
        self.node = node
        self.above = above
        self.depth: int = 0 if above is None else above.depth + 1
        self.best: Contestant[Any] | None = None
        self.heap: list[tuple[Key, int, _Side]] = []  # of a cohort: its sides; an item with an old stamp is void
        self.stamp = 0
        self.seen: Usage = {}  # what reaches the node of what its best entry would use
        self.computed_in = 0  # the number of the last common computation of sides

    def front(self) -> tuple[Key, int, _Side] | None:
        heap = self.heap
        while heap and heap[0][1] != heap[0][2].stamp:
            heappop(heap)
        return heap[0] if heap else None


class Tournament(Generic[T]):
    """All entries of a cycle. ``pick`` the next, let it take what it takes, ``refresh`` the queues that it changed."""

    def __init__(self, state: State, contestants: Iterable[Contestant[T]], counted: Counted) -> None:
        self._state = state
        self._counted = counted
        self._sides: dict[QuotaNode, _Side] = {}
        self._left: dict[str, Contestant[T]] = {}
        for contestant in contestants:
            invariant(contestant.node.name not in self._left, "two entries of queue {}", contestant.node.name)
            self._left[contestant.node.name] = contestant
            self._side(contestant.node).best = contestant
        self._names = sorted(self._left, reverse=True)  # the next is the last
        self._picked: QuotaNode | None = None  # the queue of the last pick, until ``refresh`` has updated it
        self._computations = 0  # how often sides were computed together
        self._recompute(self._sides.values())

    def pick(self) -> tuple[T, Step] | None:
        """The next entry, and why it comes before the others; None: none is left. ``refresh`` before the next pick.

        Trees do not compete with each other: the next entry is of the tree with the first remaining queue by name.
        """
        invariant(self._picked is None, "what the last one took is not counted yet")
        while self._names and self._names[-1] not in self._left:
            self._names.pop()
        if not self._names:
            return None
        root = self._sides[self._left[self._names[-1]].node.root]
        winner = root.best
        assert winner is not None, "somebody of the tree is left"
        step = self._why(root, winner)
        del self._left[winner.node.name]
        self._sides[winner.node].best = None
        self._picked = winner.node
        return winner.item, step

    def refresh(self, queues: Iterable[QuotaNode]) -> None:
        """After a pick: usage of these queues, and of the picked one, may have changed."""
        touched: dict[QuotaNode, _Side] = {}
        picked = [] if self._picked is None else [self._picked]
        self._picked = None
        for queue in (*picked, *queues):
            for node in (queue, *queue.ancestors()):
                if node in self._sides:
                    touched[node] = self._sides[node]
        self._recompute(touched.values())

    # --- inside ---

    def _side(self, node: QuotaNode) -> _Side:
        missing: list[QuotaNode] = []
        at: QuotaNode | None = node
        while at is not None and at not in self._sides:
            missing.append(at)
            at = at.parent
        above = None if at is None else self._sides[at]
        for each in reversed(missing):
            above = self._sides[each] = _Side(each, above)
        return self._sides[node]

    def _recompute(self, sides: Iterable[_Side]) -> None:
        """Compute the best of these sides, and what they would have with it, from the bottom up."""
        by_root: dict[QuotaNode, list[_Side]] = {}
        for side in sides:
            by_root.setdefault(side.node.root, []).append(side)
        for root, members in by_root.items():
            self._computations += 1
            with self._counted(root):
                for side in sorted(members, key=lambda each: -each.depth):
                    self._ask(side)

    def _ask(self, side: _Side) -> None:
        side.stamp += 1
        front = None if side.node.is_queue else side.front()
        if not side.node.is_queue:
            side.best = None if front is None else front[2].best
        if side.best is not None and side.above is not None:
            side.seen = self._seen(side, side.best, None if front is None else front[2])
            side.computed_in = self._computations
            heappush(side.above.heap, (self._key(side.node, side.best, side.seen), side.stamp, side))

    def _seen(self, side: _Side, best: Contestant[Any], below: _Side | None) -> Usage:
        """What reaches a side of what its best entry would use; one step from the side below, where that is known."""
        if below is None or below.computed_in != self._computations:
            return seen_at(self._state.tree, side.node, best.node, best.usage)
        return seen_at(self._state.tree, side.node, below.node, below.seen)

    def _key(self, node: QuotaNode, contestant: Contestant[Any], more: Usage) -> Key:
        state, workload, gates = self._state, contestant.workload, self._state.policy.gates
        first = gates.prioritize_preemptor_workloads and workload in state.preemptors
        borrows = gates.fair_sharing_prioritize_non_borrowing and borrows_of(node, contestant.asked, more)
        priority = -workload.priority if gates.priority_sorting_within_cohort else 0
        return (
            not first, borrows, share(state.tree, node, more), priority, workload.queued_at, contestant.node.name
        )  # fmt: skip

    def _why(self, root: _Side, winner: Contestant[Any]) -> Step:
        """What decided, at the topmost place where another entry competed."""
        at = root
        while not at.node.is_queue:
            front = at.front()
            assert front is not None, "its best came from one of its sides"
            key, side = front[0], front[2]
            heappop(at.heap)  # it is computed again after this pick
            rival = at.front()
            if rival is not None:
                return _decided(winner.workload, key, rival[0], rival[2].best)
            at = side
        return Step(Rule.ORDER_ALONE, (winner.workload.key,))


def _decided(winner: Workload, key: Key, other: Key, rival: Contestant[Any] | None) -> Step:
    assert rival is not None, "a side with a fresh stamp has a best"
    which = next(i for i, (mine, theirs) in enumerate(zip(key, other, strict=True)) if mine != theirs)
    numbers: tuple[int, ...] = (*key[2].fraction(), *other[2].fraction())
    if which == PRIORITY:
        numbers = (*numbers, winner.priority, rival.workload.priority)
    elif which == TIME:
        numbers = (*numbers, rival.workload.queued_at - winner.queued_at)
    return Step(DECIDED_BY[which], (winner.key, rival.workload.key), numbers)

"""Choose the victims for a workload without fair sharing (S-8).

Two attempts at most: one that may end up borrowing, one that may not. Each takes candidates, least important first,
until the newcomer fits, then offers all but the last their place back, most important first. What is left is
irreducible: spare any one victim and the newcomer no longer fits.

Promises: looks at no candidate more than it needs, and at none when all together would not do; leaves no mark on the
state (all happens in a trial); equal inputs give equal victims and equal steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from makeway.core.amounts import add
from makeway.core.model import FR, Millis, Queue, Usage, Workload
from makeway.core.preemption.candidates import Candidate, Candidates, Lenders, find_lenders
from makeway.core.preemption.eligibility import (
    Equals,
    Ground,
    Reason,
    equals_by_time,
    only_without_borrowing,
    own_queue_ground,
)
from makeway.core.preemption.rounds import Round
from makeway.core.queueing.turn_waits import Turn
from makeway.core.quota.tree import QuotaNode, QuotaTree
from makeway.core.state import State
from makeway.core.trace import Rule, Step


@dataclass(frozen=True, slots=True)
class Target:
    workload: Workload
    reason: Reason
    step: Step


@dataclass(frozen=True, slots=True)
class Victims:
    targets: tuple[Target, ...] = ()  # in the order in which they were taken
    steps: tuple[Step, ...] = ()  # why there are no targets
    round: Round = ""  # what displacing them would count as (S-19.3)
    spared: frozenset[str] = frozenset()  # left out, because they would make a round too many
    turn: Turn | None = None  # equals were left out, because it is not its turn (S-7.14)


def find_victims(
    state: State, incoming: Workload, need: tuple[FR, ...], request: Usage, now: Millis,
    *, excluded: frozenset[str] = frozenset(), equals: Equals | None = None,
) -> Victims:  # fmt: skip
    """The victims to evict so that ``request`` fits; ``need`` are the flavor-resources that lack room (S-7.2).

    ``equals`` says which of its own queue may be displaced; None: those that the rules name, turns left aside.
    ``excluded`` may not be, whatever the policies say.
    """
    queue, node = state.queues[incoming.queue], state.tree.queues[incoming.queue]
    if equals is None:
        equals = equals_by_time(queue, now, time_based=state.policy.gates.time_based_same_priority_preemption)
    request = {fr: amount for fr, amount in request.items() if amount}  # no victims are needed for nothing
    lenders = Lenders({}, {})
    if node.parent is not None and queue.reclaim.preempts:
        lenders = find_lenders(state.tree, node, need, request, state.is_active)
    stuck_before = Millis(now - state.policy.claim_timeout_ms) if state.policy.gates.preemption_claims else None
    candidates = Candidates(
        incoming, queue, state.holders, need, lenders, equals,
        excluded=excluded, stuck_before=stuck_before,
    )  # fmt: skip
    search = _ClassicalSearch(state.tree, node, queue, incoming, need, request, candidates)
    for may_borrow in _attempts(search, lenders):
        if search.is_hopeless(may_borrow=may_borrow):
            continue
        with state.trial():
            taken = search.attempt(may_borrow=may_borrow)
        if taken:
            return Victims(tuple(_target(each, incoming, queue, state.tree, need, equals, now) for each in taken))
    return Victims((), (search.why_not(),))


def _attempts(search: _ClassicalSearch, lenders: Lenders) -> tuple[bool, ...]:
    """With or without borrowing, in which order (S-8.6). Candidates for reclaim are only read where it matters."""
    if not lenders.advantaged and not lenders.others:
        return (True,)
    if search.queue.borrow.preempts:
        return (True, False)
    if not search.is_below_nominal():
        return (True,)
    if search.is_hopeless(may_borrow=True) or search.is_hopeless(may_borrow=False):
        return (True, False)  # one of them at most is made
    if search.candidates.are_there(advantaged=True):
        return (True, False)
    return (False, True) if search.candidates.are_there(advantaged=False) else (True,)


class _ClassicalSearch:
    def __init__(
        self, tree: QuotaTree, node: QuotaNode, queue: Queue, incoming: Workload, need: tuple[FR, ...], request: Usage,
        candidates: Candidates,
    ) -> None:  # fmt: skip
        self._tree = tree
        self._node = node
        self.queue = queue
        self._incoming = incoming
        self._need = need
        self._request = request
        self.candidates = candidates
        self._below_borrower = queue.borrow.below(incoming.priority, queue.threshold)  # victims of a borrower

    def is_below_nominal(self) -> bool:
        return all(self._node.usage.get(fr, 0) < self._node.nominal.get(fr, 0) for fr in self._need)

    def is_hopeless(self, *, may_borrow: bool) -> bool:
        """Whether even all candidates together would not free enough; uses the sums, reads no candidate."""
        for fr, amount in self._request.items():
            own, others = self.candidates.freed_at_most(fr, while_borrowing=may_borrow)
            if amount > self._tree.available(self._node, fr) + own + others:
                return True
            if not may_borrow and add(self._node.usage.get(fr, 0) - own, amount) > self._node.subtree.get(fr, 0):
                return True
        return False

    def why_not(self) -> Step:
        for fr, amount in self._request.items():
            missing = amount - max(0, self._tree.available(self._node, fr))
            freed = sum(self.candidates.freed_at_most(fr))
            if missing > freed:
                return Step(Rule.NOT_EVEN_ALL, (self._incoming.key, *fr), (missing, freed))
        return Step(Rule.NO_TARGETS, (self._incoming.key,))

    def attempt(self, *, may_borrow: bool) -> list[Candidate]:
        """Take candidates until it fits, then give back (S-8.7, 8.8); none if it never fits. Runs inside a trial."""
        taken: list[Candidate] = []
        for candidate in self.candidates.read():
            node = self._node if candidate.under is None else self._tree.queues[candidate.workload.queue]
            if candidate.under is not None and self._is_barred(candidate, node, candidate.under, may_borrow):
                continue
            self._tree.release_all(node, candidate.workload.usage or {})
            taken.append(candidate)
            if self._fits(may_borrow):
                return self._give_back(taken, may_borrow)
        return []

    def _is_barred(self, candidate: Candidate, node: QuotaNode, under: QuotaNode, may_borrow: bool) -> bool:
        if may_borrow and not candidate.advantaged and candidate.workload.priority >= self._below_borrower:
            return True
        at: QuotaNode | None = node
        while at is not None and at is not under:
            if self._tree.within_nominal(at, self._need):
                return True
            at = at.parent
        return False

    def _fits(self, may_borrow: bool) -> bool:
        for fr, amount in self._request.items():
            if not may_borrow and self._tree.borrows(self._node, fr, amount):
                return False
            if amount > self._tree.available(self._node, fr):
                return False
        return True

    def _give_back(self, taken: list[Candidate], may_borrow: bool) -> list[Candidate]:
        victims = [taken[-1]]  # it did not fit without this one
        for candidate in reversed(taken[:-1]):
            node = self._node if candidate.under is None else self._tree.queues[candidate.workload.queue]
            self._tree.charge_all(node, candidate.workload.usage or {})
            if not self._fits(may_borrow):
                self._tree.release_all(node, candidate.workload.usage or {})
                victims.append(candidate)
        return victims[::-1]


def _target(
    candidate: Candidate, incoming: Workload, queue: Queue, tree: QuotaTree, need: tuple[FR, ...],
    equals: Equals, now: Millis,
) -> Target:  # fmt: skip
    running = candidate.workload
    if candidate.under is None:
        ground = own_queue_ground(incoming, running, queue.within, equals.expired_before, now)
    elif candidate.advantaged or only_without_borrowing(queue, incoming, running):
        node = tree.queues[running.queue]
        above = max(node.usage.get(fr, 0) - node.subtree.get(fr, 0) for fr in need)
        ground = Ground("InCohortReclamation", Step(Rule.RECLAIM, (running.key,), (above,)))
    else:
        step = Step(Rule.RECLAIM_WHILE_BORROWING, (running.key,), (running.priority, incoming.priority))
        ground = Ground("InCohortReclaimWhileBorrowing", step)
    return Target(running, ground.reason, ground.step)

"""Choose the victims for a workload where shares decide (S-9.6 to 9.10).

The newcomer is charged to its own queue from the start. Then the richest queue loses candidates until the newcomer
fits. In its own queue they leave by priority and age as always. Elsewhere one leaves because the newcomer stays within
its own quota, or because its side would not be the richer one afterwards; ``fairSharing.preemptionStrategies`` names
one of two tests for that, or both, one after the other. All victims but the last are offered their place back.

Claims of other queues that are not redeemed yet come before candidates: they pass to a poorer side, and no workload
has to leave for that (S-9.14).

Promises: looks at no candidate more than it needs, and at none when all together would not do; leaves no mark on the
state (all happens in a trial); equal inputs give equal victims and equal steps; with the gate on, every victim would
be one even if only those before it left (``revalidate``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from makeway.core.model import FR, Millis, Queue, QueueName, Usage, Workload
from makeway.core.policy import FairStrategy
from makeway.core.preemption.candidates import Candidates, Lenders
from makeway.core.preemption.classical import Target, Victims
from makeway.core.preemption.eligibility import Equals, equals_by_time, own_queue_ground
from makeway.core.preemption.revalidate import Decided, Taken, gives_back
from makeway.core.preemption.richest import Richest, sides
from makeway.core.quota.holders import Size, size_of
from makeway.core.quota.shares import NO_SHARE, Share, is_borrowing, share
from makeway.core.quota.tree import QuotaNode
from makeway.core.state import State
from makeway.core.trace import Rule, Step

RULES: dict[FairStrategy, Rule] = {
    "LessThanOrEqualToFinalShare": Rule.FAIR_FINAL_SHARE,
    "LessThanInitialShare": Rule.FAIR_INITIAL_SHARE,
}


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
    stuck_before = Millis(now - state.policy.claim_timeout_ms) if state.policy.gates.preemption_claims else None
    borrowers = _borrowers(state, queue, node, need)
    claims = _Claims(state, incoming, need, excluded)
    candidates = Candidates(
        incoming, queue, state.holders, need, Lenders({}, borrowers), equals,
        excluded=excluded | claims.keys, stuck_before=stuck_before,
    )  # fmt: skip
    hopeless = None if claims.keys else _not_even_all(state, node, incoming, request, candidates)
    if hopeless is not None:
        return Victims((), (hopeless,))

    def of_queue(name: QueueName) -> Iterator[Workload]:
        return chain(claims.of_queue(name), candidates.of_queue(name))

    with state.trial():
        alone = not borrowers and not claims.keys
        search = _FairSearch(state, node, need, request, Pool(of_queue), claims.keys, alone=alone)
        taken = search.run()
        if not taken:
            return Victims((), (search.why_not(incoming),))
    return Victims(tuple(_target(each, incoming, queue, equals, now) for each in taken))


def _borrowers(state: State, queue: Queue, node: QuotaNode, need: tuple[FR, ...]) -> dict[QueueName, QuotaNode]:
    """Other queues of the tree that use more than their own of what is needed; inactive ones are left out (S-9.6).

    So are those below a cohort that does not borrow: it would never be their turn (S-9.7).
    """
    if node.parent is None or not queue.reclaim.preempts:
        return {}
    borrowers: dict[QueueName, QuotaNode] = {}
    leads_home = {node, *node.ancestors()}
    cohorts = [node.root]
    while cohorts:
        for child in cohorts.pop().children:
            if not child.is_queue:
                if child in leads_home or is_borrowing(state.tree, child):
                    cohorts.append(child)
            elif child is not node and not state.tree.within_nominal(child, need):
                name = QueueName(child.name)
                if state.is_active(name):
                    borrowers[name] = child
    return borrowers


def _not_even_all(
    state: State, node: QuotaNode, incoming: Workload, request: Usage, candidates: Candidates
) -> Step | None:
    """Why even all candidates together would not free enough, if so; uses the sums, reads no candidate."""
    for fr, amount in request.items():
        free, freed = state.tree.available(node, fr), sum(candidates.freed_at_most(fr))
        if amount > free + freed:
            return Step(Rule.NOT_EVEN_ALL, (incoming.key, *fr), (amount - max(0, free), freed))
    return None


class _Claims:
    """Claimants of other queues whose claims may pass to the newcomer (S-9.14).

    An unredeemed claim is a place in the order of admission, which goes by shares, so the policies do not protect its
    claimant. They do protect its victims: only a newcomer that could displace them itself inherits them.
    """

    def __init__(self, state: State, incoming: Workload, need: tuple[FR, ...], excluded: frozenset[str]) -> None:
        self._state = state
        self._incoming = incoming
        self._queue = state.queues[incoming.queue]
        self._need = need
        self._excluded = excluded
        self._passing = dict(self._found()) if state.claims.foreseen and self._queue.reclaim.preempts else {}
        self.keys = frozenset(each.key for members in self._passing.values() for each in members)

    def of_queue(self, name: QueueName) -> Iterator[Workload]:
        return iter(self._passing.get(name, ()))

    def _found(self) -> Iterator[tuple[QueueName, list[Workload]]]:
        """By queue: the lowest priority first, then the newest claim."""
        state, queues = self._state, self._state.tree.queues
        own = queues[self._incoming.queue]
        for name, members in state.claims.of_queue.items():
            node = queues.get(name)
            if not members or node is None or node is own or node.root is not own.root:
                continue
            claimants = (state.holders.find(name, key) for key in members)
            passing = [each for each in claimants if each is not None and self._may_pass(each)]
            yield name, sorted(passing, key=lambda w: (w.priority, -members[w.key].claim.issued_at, w.uid, w.key))

    def _may_pass(self, claimant: Workload) -> bool:
        victims = self._state.claims.foreseen.get(claimant.key, ())
        if not victims or claimant.key in self._excluded or not any(fr in (claimant.usage or {}) for fr in self._need):
            return False
        if claimant.family is not None and claimant.family == self._incoming.family:
            return False
        return self._state.rounds.of(claimant).may_pass_on and all(self._could_displace(each) for each in victims)

    def _could_displace(self, victim: Workload) -> bool:
        """Whether priority allows it; turns among equals of one queue do not matter for a claim."""
        policy = self._queue.within if victim.queue == self._incoming.queue else self._queue.reclaim
        return victim.priority < policy.below(self._incoming.priority)


class Pool:
    """The candidates of every queue, each read only as far as necessary."""

    def __init__(self, of_queue: Callable[[QueueName], Iterator[Workload]]) -> None:
        self._of_queue = of_queue
        self._streams: dict[QuotaNode, Iterator[Workload]] = {}
        self._firsts: dict[QuotaNode, Workload | None] = {}

    def first(self, queue: QuotaNode) -> Workload | None:
        if queue not in self._firsts:
            self._streams[queue] = self._of_queue(QueueName(queue.name))
            self._firsts[queue] = next(self._streams[queue], None)
        return self._firsts[queue]

    def advance(self, queue: QuotaNode) -> None:
        """The first candidate of a queue is taken or set aside."""
        self._firsts[queue] = next(self._streams[queue], None)


class _FairSearch:
    """One search, inside a trial in which the newcomer is charged to its own queue."""

    def __init__(
        self, state: State, own: QuotaNode, need: tuple[FR, ...], request: Usage, pool: Pool, claims: frozenset[str], *,
        alone: bool,
    ) -> None:  # fmt: skip
        self._tree = state.tree
        self._holders = state.holders
        self._alone = alone  # only the own queue has candidates
        self._own = own
        self._request = request
        self._pool = pool
        self._claims = claims  # these candidates hold nothing yet
        self._strategies = state.policy.fair_strategies
        self._revalidates = state.policy.gates.preemption_revalidate_targets
        self._before: dict[QuotaNode, Share] = {  # on the way up from the own queue, without the newcomer
            each: share(self._tree, each) for each in (() if alone else (own, *own.ancestors()))
        }
        self._tree.charge_all(own, request)
        gate = state.policy.gates.fair_sharing_preempt_within_nominal
        self._within = gate and self._tree.within_nominal(own, need)
        self._taken: list[Taken] = []
        self._aside: dict[QuotaNode, Workload] = {}  # the first of each queue that the first strategy refused
        self._refused: tuple[str, Share, Share, Share] | None = None  # the richest side of which no candidate passed

    def run(self) -> list[Taken]:
        if self._by_first_strategy() or (len(self._strategies) > 1 and self._by_second_strategy()):
            return gives_back(self._tree, self._taken, self._fits, revalidates=self._revalidates)
        return []

    def why_not(self, incoming: Workload) -> Step:
        if self._refused is None:
            return Step(Rule.NO_TARGETS, (incoming.key,))
        name, *shares = self._refused
        return Step(Rule.NOT_BY_SHARES, (incoming.key, name), tuple(n for each in shares for n in each.fraction()))

    def _fits(self) -> bool:
        """Whether the newcomer fits; it is charged already, so nothing may be missing (S-9.6)."""
        return all(self._tree.available(self._own, fr) >= 0 for fr in self._request)

    def _by_first_strategy(self) -> bool:
        """Take from the richest queue while the first strategy allows it (S-9.8)."""
        order = Richest(self._tree, self._own, self._pool.first, alone=self._alone)
        while (queue := order.next()) is not None:
            if queue is self._own or self._within:
                self._take_first(queue)
            elif not self._take_by_share(queue):
                order.drop(queue)
                continue
            order.lost(queue)
            if self._fits():
                return True
        return False

    def _by_second_strategy(self) -> bool:
        """Try the candidates that the first strategy refused, at most one of each queue (S-9.9)."""
        order = Richest(self._tree, self._own, self._aside.get)
        while (queue := order.next()) is not None:
            mine, theirs = sides(self._own, queue)
            new, old = share(self._tree, mine), share(self._tree, theirs)
            if new < old:
                self._leave(self._aside[queue], queue, Decided(Rule.FAIR_INITIAL_SHARE, mine, theirs, new, old))
                order.lost(queue)
                if self._fits():
                    return True
            order.drop(queue)
        return False

    def _take_first(self, queue: QuotaNode) -> None:
        """Take the first candidate without a test of shares: own queue, or the newcomer stays within its own quota."""
        first = self._pool.first(queue)
        assert first is not None, "the richest queue has candidates"
        self._pool.advance(queue)
        if queue is self._own:
            self._leave(first, queue, None)
            return
        mine, theirs = sides(self._own, queue)
        new, old = share(self._tree, mine), share(self._tree, theirs)
        self._leave(first, queue, Decided(Rule.FAIR_WITHIN_NOMINAL, mine, theirs, new, old))

    def _take_by_share(self, queue: QuotaNode) -> bool:
        """Take the first candidate that passes, and set those before it aside; whether there was one (S-9.8.3).

        A candidate that uses as much as one that failed fails, too; when all of the queue do, the search of it ends.
        """
        mine, theirs = sides(self._own, queue)
        rule = RULES[self._strategies[0]]
        test = Decided(rule, mine, theirs, share(self._tree, mine), share(self._tree, theirs))
        if self._take_claim(queue, test._replace(rule=Rule.FAIR_CLAIM)):
            return True
        sizes, failed = self._holders.sizes[QueueName(queue.name)], set[Size]()
        while test.may_pass() and len(failed) < len(sizes) and (each := self._pool.first(queue)) is not None:
            self._pool.advance(queue)
            if size_of(each) not in failed:
                if test.passes(self._leave(each, queue, test)):
                    return True
                self._taken.pop()
                self._tree.charge_all(queue, each.usage or {})
                failed.add(size_of(each))
            self._aside.setdefault(queue, each)
        first = self._pool.first(queue)
        if first is not None:
            self._aside.setdefault(queue, first)
        if self._refused is None:
            self._refused = (theirs.name, self._before[mine], test.new, test.old)
        return False

    def _take_claim(self, queue: QuotaNode, test: Decided) -> bool:
        """Whether the first claim of a queue passes (S-9.14); if not, all its claims are candidates no more."""
        while (each := self._pool.first(queue)) is not None and each.key in self._claims:
            self._pool.advance(queue)
            if test.may_pass():
                self._leave(each, queue, test)
                return True
        return False

    def _leave(self, victim: Workload, queue: QuotaNode, ground: Decided | None) -> Share:
        """Take a victim out; returns the share of its side without it."""
        self._tree.release_all(queue, victim.usage or {})
        if ground is None:
            self._taken.append(Taken(victim, queue))
            return NO_SHARE
        after = share(self._tree, ground.theirs)
        self._taken.append(Taken(victim, queue, ground, self._before[ground.mine], after))
        return after


def _target(victim: Taken, incoming: Workload, queue: Queue, equals: Equals, now: Millis) -> Target:
    running, ground = victim.workload, victim.ground
    if ground is None:
        own_ground = own_queue_ground(incoming, running, queue.within, equals.expired_before, now)
        return Target(running, own_ground.reason, own_ground.step)
    shares = (victim.before, ground.new, ground.old, victim.after)
    step = Step(
        ground.rule, (running.key, ground.mine.name, ground.theirs.name),
        tuple(number for each in shares for number in each.fraction()),
    )  # fmt: skip
    within = ground.rule is Rule.FAIR_WITHIN_NOMINAL
    return Target(running, "InCohortReclamation" if within else "InCohortFairSharing", step)

"""What would happen: cycles carried out in memory, one after the other, while time stands still.

Between two cycles the victims of the first leave and wait again, and the trees that lost usage are woken. Nothing else
happens. So a plan shows where the rules lead while no workload arrives, ends or changes.

Promises: the same decisions as the live system makes on the same state (``core.cycle.cycle`` makes them); every loop
ends; equal states give equal plans. The state given is used up: it is the state after the last cycle.

Not here: where the state comes from (``core.lowering``), and how a plan is shown (``cli.offline.plan``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

from makeway.core.cycle.cycle import Plan, Verdict, carry_out, decide, departed, heads, reason_kept
from makeway.core.cycle.nomination import find_assignment
from makeway.core.messages import back_off_message, pending_message, pending_reason
from makeway.core.model import FR, FlavorName, Millis, QueueName, ResourceName, Workload, WorkloadKey
from makeway.core.preemption import claims
from makeway.core.preemption.eligibility import Reason
from makeway.core.queueing.pending import Shape, WaitingList, may_queue, place, shape
from makeway.core.quota.figures import NodeShare, all_shares
from makeway.core.state import State
from makeway.core.trace import Rule, Step

CYCLES_MAX = 100  # a plan that was given no number of cycles ends here at the latest
HOLDERS_MAX = 5  # so many are named; the largest first
NOT_EVALUATED = "PendingEvaluation"


class Holder(NamedTuple):
    workload: WorkloadKey
    amount: int


class Need(NamedTuple):
    """What a podSet lacks in one flavor; amounts in the smallest unit of the resource, as found in its cycle."""

    pod_set: str
    resource: ResourceName
    flavor: FlavorName  # "": the queue has no quota for the resource in any
    needed: int  # beside what earlier podSets of the workload take of it
    free: int
    missing: int
    most: int  # the queue's maximum with no other usage; if that is less than needed, waiting is in vain
    holders: tuple[Holder, ...] = ()  # the largest users of it in the tree


class PlannedEviction(NamedTuple):
    """A workload that must make way."""

    workload: Workload
    by: Workload
    reason: Reason
    step: Step  # why it may be displaced


@dataclass(frozen=True, slots=True, kw_only=True)
class StillWaiting:
    """A workload without quota at the end of a cycle, with the last that was found out about it."""

    workload: WorkloadKey
    queue: QueueName  # "": it is in no queue
    reason: str
    message: str
    parked: bool  # out of the queue: only a change that may matter brings it back
    other: WorkloadKey | None = None  # the workload that the message names
    needs: tuple[Need, ...] = ()
    by_shares: Step | None = None  # why no workload leaves for it, where shares say so


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCycle:
    plan: Plan
    shares: tuple[NodeShare, ...] = ()  # as the cycle found them; none without fair sharing
    preempted: tuple[PlannedEviction, ...]  # in the order in which they were chosen
    pending: tuple[StillWaiting, ...]  # by queue; first those in the queue, in order, then the parked ones

    @property
    def changes(self) -> bool:
        """Whether quota was given or taken, or will be when the victims have left."""
        return bool(self.plan.admitted or self.preempted)


@dataclass(frozen=True, slots=True)
class PlannedCycles:
    cycles: tuple[PlannedCycle, ...]
    settled: bool  # False: the limit was hit, and another cycle would have found something to do
    shares: tuple[NodeShare, ...] = ()  # at the end


def plan_cycles(state: State, now: Millis, *, cycles: int | None = None) -> PlannedCycles:
    """Carry out ``cycles`` cycles; without a number, as many as change something, at most ``CYCLES_MAX``.

    There is always a first cycle, so that waiting workloads get a message. Without a number, final cycles that only
    repeat earlier messages are left out.
    """
    planning = _Planning(state, now)
    done: list[PlannedCycle] = []
    last = 1  # the cycles after it only repeat earlier messages
    settled = False
    for _ in range(CYCLES_MAX if cycles is None else cycles):
        cycle = planning.step()
        settled = planning.repeats or not heads(state)
        if cycles is None and planning.repeats:
            break
        done.append(cycle)
        if planning.tells_news or cycles is not None:
            last = len(done)
        if cycles is None and settled:
            break
    return PlannedCycles(tuple(done[:last]), settled, all_shares(state))


_Users = dict[tuple[bool, str, FR], tuple[Holder, ...]]  # root of a tree, flavor-resource -> its largest users


class _Why(NamedTuple):
    reason: str
    message: str
    other: WorkloadKey | None = None
    needs: tuple[Need, ...] = ()
    by_shares: Step | None = None


class _Planning:
    """One plan in the making. It remembers the last message of each workload, and what idle cycles looked like."""

    def __init__(self, state: State, now: Millis) -> None:
        self._state = state
        self._now = now
        self._told: dict[WorkloadKey, _Why] = {}
        self._idle: list[object] = []  # the outcomes of cycles since the last that changed something
        self.repeats = False  # the last cycle had the outcome of an earlier one, so all that follow will, too
        self.tells_news = True  # the last cycle changed something, or had a new message for a workload

    def step(self) -> PlannedCycle:
        state = self._state
        for claimant in claims.overdue(state, self._now):
            claims.end(state, claimant.key, claims.EXPIRED, self._now)
        resumed = {head.key for head in heads(state) if state.scans.tried(head)}
        shares = all_shares(state)
        plan = decide(state, self._now)
        carry_out(state, plan)
        users: _Users = {}
        told_before = dict(self._told)
        for verdict in plan.verdicts:
            key = verdict.workload.key
            if verdict.status == "admitted":
                self._told.pop(key, None)
                continue
            steps = self._all_steps(verdict.workload) if _saw_little(verdict, resumed) else verdict.assignment.steps
            lacking = tuple(_needs(state, verdict.workload.queue, steps, users))
            by_shares = next((step for step in verdict.steps if step.rule is Rule.NOT_BY_SHARES), None)
            self._told[key] = _Why(pending_reason(verdict), pending_message(verdict), None, lacking, by_shares)
        leaving = tuple(
            PlannedEviction(target.workload, verdict.workload, target.reason, target.step)
            for verdict in plan.verdicts
            for target in verdict.targets
        )
        cycle = PlannedCycle(plan=plan, shares=shares, preempted=leaving, pending=tuple(self._waiting()))
        self._compare(cycle)
        self.tells_news = cycle.changes or self._told != told_before
        self._depart(leaving)
        return cycle

    def _all_steps(self, workload: Workload) -> list[Step]:
        """The steps of a search over all flavors; a workload that lost its room, or went on with a scan, lacks them."""
        return find_assignment(self._state, workload, self._now, tried={})[0].steps

    def _compare(self, cycle: PlannedCycle) -> None:
        """Compare outcomes: the parity profile judges some heads in every cycle, so heads do not tell the end."""
        if cycle.changes:
            self._idle.clear()
            self.repeats = False
            return
        outcome = [(v.workload.key, v.status, v.requeue, v.assignment.tried) for v in cycle.plan.verdicts]
        left = (outcome, self._state.pending.contents())
        self.repeats = left in self._idle
        if not self.repeats:
            self._idle.append(left)

    def _depart(self, leaving: tuple[PlannedEviction, ...]) -> None:
        """Victims leave and wait again, then all trees that lost usage are woken (S-3.7, S-4.6)."""
        state = self._state
        for each in sorted(leaving, key=lambda each: each.workload.key):
            self._release(each.workload, reason_kept(each), each.by.key)
        on_the_way = [
            (victim, known.key)
            for known in state.claims.within(sorted(state.claims.of_queue))
            for victim in claims.still_charged(state, known.claim)
        ]
        for victim, by in on_the_way:  # asked to leave before the plan began; two claims may count on one victim
            if victim.key in state.holders.by_key:
                self._release(victim, "", by)
        for queue in sorted({*(each.workload.queue for each in leaving), *(victim.queue for victim, _ in on_the_way)}):
            state.wake(queue, self._now)

    def _release(self, victim: Workload, reason: str, by: WorkloadKey) -> None:
        state = self._state
        state.release(victim, self._now)
        state.push(departed(state, victim, reason, self._now, self._now), self._now)
        self._told[victim.key] = _Why(NOT_EVALUATED, f"Preempted by {by}, waits to be looked at again", by)

    # --- waiting workloads ---

    def _waiting(self) -> Iterator[StillWaiting]:
        for queue in sorted(self._state.pending.lists):
            waiting_list = self._state.pending.lists[queue]
            in_order = self._state.pending.in_order(queue)
            for position, key in enumerate(in_order):
                told = self._told.get(key) or self._not_evaluated(queue, in_order[0], position)
                yield _as_waiting(key, queue, told, parked=False)
            alike: dict[Shape, WorkloadKey] | None = None
            for workload in sorted(waiting_list.parked.values(), key=place):
                known = self._told.get(workload.key)
                if known is None:
                    alike = self._judged_shapes(waiting_list) if alike is None else alike
                    known = self._parked_unseen(workload, alike)
                yield _as_waiting(workload.key, queue, known, parked=True)

    def _not_evaluated(self, queue: QueueName, first: WorkloadKey, position: int) -> _Why:
        if queue in self._state.queues and not self._state.is_active(queue):
            because = self._state.queues[queue].inactive_because or "its cohorts form a cycle"
            return _Why(NOT_EVALUATED, f"ClusterQueue {queue} is inactive: {because}")
        if position == 0:
            return _Why(NOT_EVALUATED, "Waits to be looked at")
        others = f" and {position - 1} more" if position > 1 else ""
        return _Why(NOT_EVALUATED, f"Waits behind {first}{others} in ClusterQueue {queue}", first)

    def _judged_shapes(self, waiting_list: WaitingList) -> dict[Shape, WorkloadKey]:
        judged = [workload for workload in waiting_list.parked.values() if workload.key in self._told]
        return {shape(workload): workload.key for workload in sorted(judged, key=place, reverse=True)}

    def _parked_unseen(self, workload: Workload, alike: dict[Shape, WorkloadKey]) -> _Why:
        if not may_queue(workload, self._now):
            return _Why(NOT_EVALUATED, back_off_message(workload, self._now))
        like = alike.get(shape(workload))
        if like is None:
            return _Why(NOT_EVALUATED, "Waits to be looked at")
        message = f"Asks for the same as {like}: {self._told[like].message}"
        return _Why(NOT_EVALUATED, message, like, self._told[like].needs)


def _saw_little(verdict: Verdict, resumed: set[WorkloadKey]) -> bool:
    was_judged = verdict.requeue not in ("Generic", "NamespaceMismatch", "PendingPreemption")
    return was_judged and (verdict.status == "skipped" or verdict.workload.key in resumed)


def _as_waiting(key: WorkloadKey, queue: QueueName, told: _Why, *, parked: bool) -> StillWaiting:
    return StillWaiting(
        workload=key, queue=queue, reason=told.reason, message=told.message, parked=parked, other=told.other,
        needs=told.needs, by_shares=told.by_shares,
    )  # fmt: skip


# --- what it would take -----------------------------------------------------------------------------------------------


def needs(state: State, verdict: Verdict) -> list[Need]:
    """What a refused workload lacks, as data: flavor by flavor in the order in which they were tried."""
    return list(_needs(state, verdict.workload.queue, verdict.assignment.steps, {}))


def _needs(state: State, queue: QueueName, steps: Iterable[Step], users: _Users) -> Iterator[Need]:
    """``users`` is a cache by tree: the next workload that lacks the same reuses it."""
    for step in steps:
        if step.rule is Rule.NOT_COVERED:
            pod_set, resource = step.subjects
            yield Need(pod_set, ResourceName(resource), FlavorName(""), step.numbers[0], 0, step.numbers[0], 0)
        elif step.rule in (Rule.SHORT, Rule.EXCEEDS_MAX):
            pod_set, resource, flavor = step.subjects
            fr, node = (FlavorName(flavor), ResourceName(resource)), state.tree.queues[queue]
            tree = (node.root.is_queue, node.root.name, fr)
            if tree not in users:
                users[tree] = _largest_users(state, queue, fr)
            needed, free = step.numbers[0], step.numbers[1]
            if step.rule is Rule.EXCEEDS_MAX:
                needed, free = needed + step.numbers[1], max(0, state.tree.available(node, fr))
            most = state.tree.potential(node, fr)
            yield Need(pod_set, fr[1], fr[0], needed, free, needed - free, most, users[tree])


def _largest_users(state: State, queue: QueueName, fr: FR) -> tuple[Holder, ...]:
    users = (
        Holder(each.key, amount)
        for name in state.tree_of(queue)
        for each in state.holders.of_queue.get(name, {}).values()
        if (amount := (each.usage or {}).get(fr, 0)) > 0
    )
    return tuple(nsmallest(HOLDERS_MAX, users, key=lambda holder: (-holder.amount, holder.workload)))

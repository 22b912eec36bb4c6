"""A plan put into the state: the one place where a cycle's decisions take effect (S-5.8 to 5.14, S-10.1).

Each status of a verdict has a handler. Last, workloads become due because of what the cycle itself changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from makeway.core.cycle.entries import order, stays_reserved
from makeway.core.cycle.holds import Holds
from makeway.core.cycle.nomination import Entry
from makeway.core.cycle.verdicts import Plan, Status, Verdict
from makeway.core.model import Millis, PodSetUse, QueueName, Workload, WorkloadKey, stored
from makeway.core.preemption import claims
from makeway.core.preemption.departures import mark_evicted
from makeway.core.preemption.turns import own_turn
from makeway.core.queueing.pending import SHAPE_MOVING, HeadReservation, HeadReturn, Trigger
from makeway.core.queueing.waking import after_admission
from makeway.core.state import State


def carry_out(state: State, plan: Plan) -> None:
    """Put a plan into the state: admitted workloads hold quota, victims are marked, the others wait again."""
    if plan.verdicts or plan.passed:  # without heads there was none (S-5.1)
        state.scans.next_cycle()
    for head in plan.passed:
        larger = not state.prefilter.has_choice(head.queue)
        state.pending.pass_over(head, plan.now, binds_larger=larger, turn=own_turn(state, head, plan.now))
    if not plan.verdicts and not plan.ended:
        return
    kept_before = state.pending.reservations.by_queue()
    redeemed = [each.workload.queue for each in plan.admitted if state.claims.find(each.workload.key) is not None]
    for verdict in plan.verdicts:
        if verdict.claim is not None:
            verdict = replace(verdict, workload=verdict.workload.but(claim=verdict.claim))
        state.pending.reservations.end_in(verdict.workload.queue)
        wakes = state.pending.pop(verdict.workload)
        _HANDLERS[verdict.status](state, verdict, plan.now, wakes)
    for ended in plan.ended:
        claims.end(state, ended.workload.key, ended.why, plan.now)
    for queue in redeemed:
        state.wake_after_release(state.tree_of(queue), plan.now)
    _settle_due(state, plan, kept_before)


# --- a handler for each status; ``wakes`` counts how often its queue had been woken when the head was taken out -------


def _admit(state: State, verdict: Verdict, now: Millis, wakes: int) -> None:
    """An admitted workload holds quota."""
    state.hold(admitted(verdict, now, may_run=is_admitted(state, verdict)))


def _preempt(state: State, verdict: Verdict, now: Millis, wakes: int) -> None:
    """The victims of a workload are asked to leave. The claims that it takes and its round are counted."""
    workload = verdict.workload
    for target in verdict.targets:
        if not target.workload.evicted:
            state.rounds.evicted(target.workload, workload)
        mark_evicted(state, target.workload, now, target.reason)
    _put_claim(state, verdict)
    for key in verdict.took:
        taken = state.claims.find(key)
        claimant = None if taken is None else state.pending.find(taken.queue, key)
        if claimant is not None:
            state.rounds.evicted(claimant, workload)
            if taken is not None and key in verdict.took_by_share:
                state.rounds.passed_on(claimant, taken.round)
    state.rounds.add(workload, verdict.round, stored(now))
    _requeue(state, verdict, now, wakes)
    _await_turn(state, verdict, now)


def _migrate(state: State, verdict: Verdict, now: Millis, wakes: int) -> None:
    """The sibling that an Option replaces is asked to leave (S-12.7.1)."""
    if verdict.replaces is not None:
        mark_evicted(state, verdict.replaces, now)
    _put_claim(state, verdict)
    _requeue(state, verdict, now, wakes)
    _await_turn(state, verdict, now)


def _wait(state: State, verdict: Verdict, now: Millis, wakes: int) -> None:
    """A workload waits for what its verdict says. What it is entitled to, or has reserved, is kept for it."""
    workload = verdict.workload
    _put_claim(state, verdict)
    if verdict.spared and state.rounds.of(workload).is_exhausted:
        state.rounds.barred(workload)
    _requeue(state, verdict, now, wakes)
    _await_turn(state, verdict, now)
    if verdict.entitled:
        state.pending.entitlements.entitle(workload, verdict.assignment.usage)
    if verdict.reserved and stays_reserved(state, workload.queue):
        place = order(state, Entry(workload, verdict.assignment))
        reservation = HeadReservation(place, verdict.reserved, verdict.assignment.usage)
        state.pending.reservations.keep(workload, reservation)


def _skip(state: State, verdict: Verdict, now: Millis, wakes: int) -> None:
    """A workload that was skipped is a head again in the next cycle, unless what it needs is kept free for others."""
    _requeue(state, verdict, now, wakes)
    _await_turn(state, verdict, now)


_HANDLERS: dict[Status, Callable[[State, Verdict, Millis, int], None]] = {
    "admitted": _admit, "preempting": _preempt, "migrating": _migrate, "waiting": _wait, "skipped": _skip,
}  # fmt: skip


# --- what they have in common -----------------------------------------------------------------------------------------


def _put_claim(state: State, verdict: Verdict) -> None:
    """The claim of a workload comes into force, unless it is the one that already is."""
    known = state.claims.find(verdict.workload.key)
    if verdict.claim is not None and (known is None or known.claim is not verdict.claim):
        preempts = bool(verdict.targets or verdict.took)
        state.claim(verdict.workload, verdict.claim, preempts=preempts, round=verdict.round)


def _requeue(state: State, verdict: Verdict, now: Millis, wakes: int) -> None:
    """A workload waits again. Its next search goes on with the flavors where this one ended."""
    workload, requeue = verdict.workload, verdict.requeue
    assert requeue is not None, "only an admitted workload does not wait"
    if verdict.keeps_its_flavors:
        state.scans.forget(workload)
        has_untried = False
    else:
        has_untried = state.scans.remember(workload, verdict.assignment.tried, verdict.assignment.ended)
    if requeue == "PendingPreemption":
        state.preemptors.mark(workload)
    how = HeadReturn(
        requeue,
        woken=state.pending.list_of(workload.queue).wakes != wakes,
        has_untried=has_untried,
        binds_shape=state.policy.gates.scheduling_equivalence_hashing and not verdict.is_workload_specific,
        binds_larger=_binds_larger(state, verdict),
        held_back=verdict.held_back,
        blocked=verdict.waits_for_pods,
    )
    state.pending.requeue(workload, how, now)


def _await_turn(state: State, verdict: Verdict, now: Millis) -> None:
    """A workload that waits for its turn is due again when that comes (S-7.14)."""
    workload = verdict.workload
    turn = verdict.turn if verdict.requeue in SHAPE_MOVING else None
    if turn is None and state.claims.find(workload.key) is None:  # from then on it may have other victims
        turn = own_turn(state, workload, now)
    if turn is not None:
        shared = state.propagates_refusals and not verdict.spared and not verdict.is_victim
        state.pending.list_of(workload.queue).turns.wait(workload, turn, shared=shared)


def _binds_larger(state: State, verdict: Verdict) -> bool:
    """Whether the verdict also holds for those behind the workload in its queue that ask for as much or more.

    It does not where there is a choice of flavors, or where something is reserved for the workload: another one might
    get a flavor that this one was not offered, or reserve something itself.
    """
    if verdict.workload.family is not None or verdict.reserved or not state.propagates_refusals:
        return False
    return not state.prefilter.has_choice(verdict.workload.queue)


def _settle_due(
    state: State, plan: Plan, kept_before: Mapping[QueueName, Mapping[WorkloadKey, HeadReservation]]
) -> None:
    """Workloads become due because of what the cycle changed (S-4.6.8, 4.6.9, 5.1)."""
    state.pending.reservations.end_behind_heads()
    for verdict in plan.admitted:  # a workload that was just admitted may be a victim
        state.pending.due(sorted(after_admission(state, verdict.workload.queue)))
        state.pending.end_turns_behind_others(state.tree_of(verdict.workload.queue))
    kept = state.pending.reservations.by_queue()
    just_lost = frozenset(verdict.workload.key for verdict in plan.verdicts if verdict.held_back)
    for queue in sorted({*kept_before, *kept}):
        if kept_before.get(queue) != kept.get(queue):
            state.pending.free_again(state.tree_of(queue), just_lost)
    _settle_holds(state, plan, just_lost)


def _settle_holds(state: State, plan: Plan, just_lost: frozenset[WorkloadKey]) -> None:
    """A workload that lost to held quota is due when that quota has changed since (S-5.14, 5.1)."""
    lost = [verdict for verdict in plan.verdicts if verdict.lost_to]
    if not plan.held_before and not lost and not state.pending.entitlements.firsts():
        return
    with state.trial():
        queues = sorted({name for verdict in plan.verdicts for name in state.tree_of(verdict.workload.queue)})
        claims.foresee(state, claims.survey(state, plan.now, queues).in_force, plan.now)
        held = Holds(state).in_force({})
    for queue in sorted({*plan.held_before, *held}):
        if plan.held_before.get(queue) != held.get(queue):
            state.pending.free_again(state.tree_of(queue), just_lost)
    for verdict in lost:
        tree = state.tree_of(verdict.workload.queue)
        if any(verdict.lost_to.get(queue) != held.get(queue) for queue in tree):
            state.pending.happen(Trigger.FREE, verdict.workload)


def admitted(verdict: Verdict, now: Millis, *, may_run: bool | None = None) -> Workload:
    """The workload as it is once it has what the verdict gives it; ``may_run``: whether it is then Admitted, too."""
    return verdict.workload.but(
        usage=dict(verdict.assignment.usage),
        uses=tuple(
            PodSetUse(
                name=part.name,
                count=part.count,
                flavors={r: c.flavor for r, c in part.choices.items()},
                amounts={r: part.requests[r] for r in part.choices},
            )
            for part in verdict.assignment.pod_sets
        ),
        reserved_at=stored(now),
        evicted=False,
        evicted_at=None,
        preempted=False,
        displaced_at=None,
        admitted=verdict.workload.admitted if may_run is None else may_run,
        claim=None,
        queued_at=verdict.workload.queued_at if verdict.workload.created_at is None else verdict.workload.created_at,
    )


def is_admitted(state: State, verdict: Verdict) -> bool:
    """Whether a workload may run at once: all checks of its flavors are Ready (S-5.7.14)."""
    checks = state.queues[verdict.workload.queue].checks_for(flavor for flavor, _ in verdict.assignment.usage)
    return verdict.status == "admitted" and verdict.workload.has_passed(checks)

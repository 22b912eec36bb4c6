"""One scheduling cycle: heads and state in, a plan out (S-5). It decides; it writes nothing.

Every head is judged on the state as it is, then the entries are taken in order, each seeing what those before it
took and whom they asked to leave. Where claims are in force, claimants whose victims are gone come first, and all
others are judged on the state as it will be (``claims``); an admission must fit the state as it is, too.
The state is left as it was found; ``carry_out`` applies a plan to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from makeway.core.cycle.entries import EntryProcessor, reservation, stays_reserved
from makeway.core.cycle.holds import Holds
from makeway.core.cycle.ledger import Ledger
from makeway.core.cycle.nomination import Entry, nominate
from makeway.core.cycle.redeeming import Redeeming
from makeway.core.cycle.tournament import Contestant, Tournament
from makeway.core.cycle.verdicts import Plan, Status, Verdict, refused_at_once
from makeway.core.model import Millis, PodSetUse, QueueName, Workload, WorkloadKey, stored
from makeway.core.preemption import claims
from makeway.core.preemption.turns import own_turn
from makeway.core.queueing.pending import SHAPE_MOVING, HeadReservation, HeadReturn, Trigger
from makeway.core.queueing.waking import after_admission
from makeway.core.state import State

__all__ = [
    "Heads", "Plan", "Status", "Verdict", "admitted", "carry_out", "decide", "departed", "heads", "is_admitted",
    "mark_evicted", "order", "reason_kept", "reservation",
]  # fmt: skip


BY_TIME = "InClusterQueueTimeBased"


class Heads(NamedTuple):
    """Whom the next cycle looks at (S-4.2)."""

    ready: list[Workload]  # claimants whose victims are gone
    others: list[Workload]  # one per active queue

    @classmethod
    def of(cls, state: State) -> Heads:
        ready = claims.ready(state) if state.claims else []
        return cls(ready, _heads_beside(state, ready))


def heads(state: State) -> list[Workload]:
    """Whom the next cycle looks at: claimants whose victims are gone, and one workload per active queue (S-4.2)."""
    found = Heads.of(state)
    return [*found.ready, *found.others]


def _heads_beside(state: State, ready: list[Workload]) -> list[Workload]:
    """One workload per active queue, those first that were not refused since the last change; no claimant."""
    parity = state.policy.is_parity
    found = []
    for name in state.pending.in_use():
        if not state.is_active(name) and (parity or name in state.queues):
            continue  # where no such queue exists we say so to its workloads (S-5.3.3); the recorded system does not
        claimants = state.claims.of_queue.get(name, {})
        head = state.pending.head(
            name, due_only=not parity, sticky_blocks=not state.policy.gates.preemption_claims, but=claimants
        )
        if head is not None and not (claimants and _stands_back(state, head, ready)):
            found.append(head)
    return found


def _stands_back(state: State, head: Workload, ready: list[Workload]) -> bool:
    """Whether a sibling goes before it: one that is an entry itself, or a more preferred one that claims (S-12.7.3)."""
    if head.family is None:
        return False
    claimants = (state.pending.find(head.queue, key) for key in state.claims.of_queue[head.queue])
    better = (each for each in claimants if each is not None and each.option_rank < head.option_rank)
    return head.family in {each.family for each in (*ready, *better)}


def decide(state: State, now: Millis, of: Heads | None = None, *, passing: bool = False) -> Plan:
    """The plan of the next cycle; ``of`` its heads, where somebody has asked for them already.

    ``passing``: a head that was refused before and is certainly refused again is passed over, and not told the same.
    """
    ready, others = Heads.of(state) if of is None else of
    passing = passing and state.propagates_refusals
    if not state.claims:
        return _decide_as_it_is(state, now, others, passing=passing)
    trees = {name for head in (*ready, *others) for name in (head.queue, *state.tree_of(head.queue))}
    known = claims.survey(state, now, sorted(trees))
    waits = state.waits_for_pods
    with state.trial():
        redeeming = Redeeming(state, now, known.standing, frozenset(each.uid for each in ready), waits=waits)
        first = redeeming.verdicts()
        claims.foresee(state, redeeming.left, now)
        ledger = Ledger(state, redeeming.left)
        passed, others = _parted(state, now, others, ledger) if passing else ((), others)
        verdicts = _take_all(state, now, others, EntryProcessor(state, now, ledger, waits=redeeming.waits))
    return Plan(now, (*first, *verdicts), (*known.ended, *ledger.ended()), passed, ledger.held_before)


def _decide_as_it_is(state: State, now: Millis, heads: list[Workload], *, passing: bool) -> Plan:
    """Where nobody claims anything, the state will be as it is: that is known without a trial."""
    ledger = Ledger(state, ())
    passed, heads = _parted(state, now, heads, ledger) if passing else ((), heads)
    if not heads:
        return Plan(now, (), (), passed, ledger.held_before)
    with state.trial():
        verdicts = _take_all(state, now, heads, EntryProcessor(state, now, ledger, waits=state.waits_for_pods))
    return Plan(now, tuple(verdicts), tuple(ledger.ended()), passed, ledger.held_before)


def _parted(
    state: State, now: Millis, heads: list[Workload], ledger: Ledger
) -> tuple[tuple[Workload, ...], list[Workload]]:
    """Heads that are passed over, and those that become entries."""
    passed: list[Workload] = []
    others: list[Workload] = []
    for head in heads:
        certainly_refused = state.prefilter.certainly_refused(head, now) and not ledger.protected_claimants(head)
        (passed if certainly_refused else others).append(head)
    return tuple(passed), others


def _take_all(state: State, now: Millis, heads: list[Workload], processor: EntryProcessor) -> list[Verdict]:
    entries = [nominate(state, head, now, processor.ledger.protected_claimants) for head in heads]
    refused = [refused_at_once(entry) for entry in entries if entry.refused is not None]
    turns: list[_Turn] = [entry for entry in entries if entry.refused is None]
    for queue, standing in state.pending.reservations.by_queue().items():
        refused_head = state.pending.first(queue)
        if refused_head in standing and not state.pending.list_of(queue).is_due(refused_head, blocks=False):
            turns.append(_Kept(queue, refused_head, standing[refused_head]))
    in_turn = _take_by_shares if state.policy.fair_sharing else _take_in_order
    return [*in_turn(state, turns, processor), *refused]


class _Kept(NamedTuple):
    """A turn that only keeps quota free for a refused head (S-5.13)."""

    queue: QueueName
    head: WorkloadKey
    standing: HeadReservation


_Turn = Entry | _Kept


def _take_in_order(state: State, turns: list[_Turn], processor: EntryProcessor) -> Iterator[Verdict]:
    """All turns are put in order before the first is taken (S-5.6)."""
    for turn in sorted(turns, key=lambda turn: order(state, turn) if isinstance(turn, Entry) else turn.standing.order):
        if isinstance(turn, Entry):
            yield processor.take(turn)
        else:
            processor.ledger.keep_free(turn.queue, turn.standing.amounts, turn.head)


def _take_by_shares(state: State, turns: list[_Turn], processor: EntryProcessor) -> Iterator[Verdict]:
    """Each turn is chosen by shares that count what those before it took (S-9.4)."""
    nodes = state.tree.queues
    contestants: list[Contestant[_Turn]] = []
    for turn in turns:
        if isinstance(turn, Entry):
            contestants.append(Contestant(turn.workload, nodes[turn.workload.queue], turn.assignment.usage, turn))
        else:
            head = state.pending.list_of(turn.queue).members[turn.head]
            contestants.append(Contestant(head, nodes[turn.queue], turn.standing.asked, turn))
    tournament: Tournament[_Turn] = Tournament(state, contestants, processor.ledger.as_ordered)
    while (picked := tournament.pick()) is not None:
        turn, why = picked
        if isinstance(turn, Entry):
            verdict = processor.take(turn)
            yield replace(verdict, steps=(*verdict.steps, why))
        else:
            processor.ledger.keep_free(turn.queue, turn.standing.amounts, turn.head)
        tournament.refresh(nodes[queue] for queue in processor.ledger.left_since())


def order(state: State, entry: Entry) -> tuple[Any, ...]:
    """In which order entries are taken (S-5.6); the name of the queue breaks the last tie."""
    workload, gates = entry.workload, state.policy.gates
    first = gates.prioritize_preemptor_workloads and workload in state.preemptors
    priority = -workload.priority if gates.priority_sorting_within_cohort else 0
    return (
        workload.usage is None, not first, entry.assignment.level, priority, workload.queued_at, workload.queue,
        workload.option_rank, workload.uid,
    )  # fmt: skip


# --- applying a plan --------------------------------------------------------------------------------------------------


def carry_out(state: State, plan: Plan) -> None:
    """Put a plan into the state: who was admitted holds quota, victims are marked, the others wait again."""
    if plan.verdicts or plan.passed:  # without heads there was none (S-5.1)
        state.scans.next_cycle()
    for each in plan.passed:
        larger = not state.prefilter.has_choice(each.queue)
        state.pending.pass_over(each, plan.now, binds_larger=larger, turn=own_turn(state, each, plan.now))
    if not plan.verdicts and not plan.ended:
        return
    kept_before = state.pending.reservations.by_queue()
    redeemed: list[QueueName] = []
    for verdict in plan.verdicts:
        workload = replace(verdict.workload, claim=verdict.claim) if verdict.claim else verdict.workload
        state.pending.reservations.end_in(workload.queue)
        woken_before = state.pending.pop(workload)
        if verdict.status == "admitted":
            if state.claims.find(workload.key) is not None:
                redeemed.append(workload.queue)
            state.hold(admitted(verdict, plan.now, may_run=is_admitted(state, verdict)))
            continue
        _displace(state, verdict, plan.now)
        has_untried = False
        if verdict.waits_for_pods or verdict.requeue in ("PendingPreemption", "PendingMigration", "PreemptionGated"):
            state.scans.forget(workload)  # of one that waits for pods: the flavor it found is not lost
        else:
            has_untried = state.scans.remember(workload, verdict.assignment.tried, verdict.assignment.ended)
        if verdict.requeue == "PendingPreemption":
            state.preemptors.mark(workload)
        assert verdict.requeue is not None
        waiting_list = state.pending.list_of(workload.queue)
        how = HeadReturn(
            verdict.requeue,
            woken=waiting_list.wakes != woken_before,
            has_untried=has_untried,
            binds_shape=state.policy.gates.scheduling_equivalence_hashing and not verdict.is_workload_specific,
            binds_larger=_binds_larger(state, verdict),
            held_back=verdict.held_back,
            blocked=verdict.waits_for_pods,
        )
        state.pending.requeue(workload, how, plan.now)
        turn = verdict.turn if verdict.requeue in SHAPE_MOVING else None
        if turn is None and state.claims.find(workload.key) is None:  # from then on it may have other victims
            turn = own_turn(state, workload, plan.now)
        if turn is not None:
            shared = state.propagates_refusals and not verdict.spared and not verdict.is_victim
            waiting_list.turns.wait(workload, turn, shared=shared)
        if verdict.entitled:
            state.pending.entitlements.entitle(workload, verdict.assignment.usage)
        if verdict.reserved and stays_reserved(state, workload.queue):
            place = order(state, Entry(workload, verdict.assignment))
            state.pending.reservations.keep(
                workload, HeadReservation(place, verdict.reserved, verdict.assignment.usage)
            )
    for ended in plan.ended:
        claims.end(state, ended.workload.key, ended.why, plan.now)
    for queue in redeemed:
        state.wake_after_release(state.tree_of(queue), plan.now)
    _settle_due(state, plan, kept_before)


def _binds_larger(state: State, verdict: Verdict) -> bool:
    """Whether nobody behind it in its line who asks for as much or more can fare better.

    Where flavors are to be chosen from, or something is reserved for it, they might: by the one flavor it was not
    shown, or by what they reserve in turn.
    """
    if verdict.workload.family is not None or verdict.reserved or not state.propagates_refusals:
        return False
    return not state.prefilter.has_choice(verdict.workload.queue)


def _displace(state: State, verdict: Verdict, now: Millis) -> None:
    """Its claim is in force, whom it displaces is asked to leave, and the round is counted."""
    workload = verdict.workload
    for target in verdict.targets:
        if not target.workload.evicted:
            state.rounds.evicted(target.workload, workload)
        mark_evicted(state, target.workload, now, target.reason)
    if verdict.replaces is not None:
        mark_evicted(state, verdict.replaces, now)
    known = state.claims.find(workload.key)
    if verdict.claim is not None and (known is None or known.claim is not verdict.claim):
        preempts = bool(verdict.targets or verdict.took)
        state.claim(workload, verdict.claim, preempts=preempts, round=verdict.round)
    for key in verdict.took:
        taken = state.claims.find(key)
        claimant = None if taken is None else state.pending.find(taken.queue, key)
        if claimant is not None:
            state.rounds.evicted(claimant, workload)
            if taken is not None and key in verdict.took_by_share:
                state.rounds.passed_on(claimant, taken.round)
    state.rounds.add(workload, verdict.round, stored(now))
    if verdict.spared and state.rounds.of(workload).is_exhausted:
        state.rounds.barred(workload)


def _settle_due(
    state: State, plan: Plan, kept_before: Mapping[QueueName, Mapping[WorkloadKey, HeadReservation]]
) -> None:
    """What the cycle itself makes worth another look (S-4.6.8, 4.6.9, 5.1)."""
    state.pending.reservations.end_behind_heads()
    for verdict in plan.admitted:  # somebody new may be a victim now
        state.pending.due(sorted(after_admission(state, verdict.workload.queue)))
        state.pending.end_turns_behind_others(state.tree_of(verdict.workload.queue))
    kept = state.pending.reservations.by_queue()
    just_lost = frozenset(verdict.workload.key for verdict in plan.verdicts if verdict.held_back)
    for queue in sorted({*kept_before, *kept}):
        if kept_before.get(queue) != kept.get(queue):
            state.pending.free_again(state.tree_of(queue), just_lost)
    _settle_holds(state, plan, just_lost)


def _settle_holds(state: State, plan: Plan, just_lost: frozenset[WorkloadKey]) -> None:
    """Who lost to what is held is due when that has changed since (S-5.14, 5.1)."""
    lost = [verdict for verdict in plan.verdicts if verdict.lost_to]
    if not plan.held_before and not lost and not state.pending.entitlements.firsts():
        return
    with state.trial():
        queues = sorted({name for verdict in plan.verdicts for name in state.tree_of(verdict.workload.queue)})
        claims.foresee(state, claims.survey(state, plan.now, queues).standing, plan.now)
        held = Holds(state).in_force({})
    for queue in sorted({*plan.held_before, *held}):
        if plan.held_before.get(queue) != held.get(queue):
            state.pending.free_again(state.tree_of(queue), just_lost)
    for verdict in lost:
        tree = state.tree_of(verdict.workload.queue)
        if any(verdict.lost_to.get(queue) != held.get(queue) for queue in tree):
            state.pending.happen(Trigger.FREE, verdict.workload)


def admitted(verdict: Verdict, now: Millis, *, may_run: bool | None = None) -> Workload:
    """The workload as it is once it has what the verdict gives it; ``may_run``: and whether it is Admitted with it."""
    return replace(
        verdict.workload,
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
    """Whether it may run at once: its flavors ask for no check that is not Ready (S-5.7.14)."""
    checks = state.queues[verdict.workload.queue].checks_for(flavor for flavor, _ in verdict.assignment.usage)
    return verdict.status == "admitted" and verdict.workload.has_passed(checks)


def departed(state: State, workload: Workload, reason: str, evicted_at: Millis, now: Millis) -> Workload:
    """A victim once it has left, ``now``: it waits again, behind those whom its time was for (S-4.3)."""
    by_time = reason == BY_TIME
    at = Millis(stored(evicted_at) + 1) if _moves_back(state, reason) else workload.queued_at
    ran = workload.ran_seconds
    counts = state.policy.counts_time_run
    if counts and workload.admitted and workload.family is None:
        ran += max(0, stored(now) - stored(workload.held_since(now))) // 1000
    return replace(
        workload, usage=None, uses=(), reserved_at=None, evicted=False, evicted_at=None, admitted=False, queued_at=at,
        displaced_at=stored(evicted_at) if by_time else workload.displaced_at, ran_seconds=ran,
    )  # fmt: skip


def _moves_back(state: State, reason: str) -> bool:
    """Whether a victim for this reason queues behind those who wait (S-4.3)."""
    while_borrowing = reason == "InCohortReclaimWhileBorrowing"
    return reason == BY_TIME or (while_borrowing and not state.policy.gates.priority_sorting_within_cohort)


class Leaving(Protocol):
    """A victim and the reason it was chosen for."""

    @property
    def workload(self) -> Workload: ...

    @property
    def reason(self) -> str: ...


def reason_kept(leaving: Leaving) -> str:
    """The reason that the victim's condition carries: who was asked to leave before keeps the earlier one (S-10.1)."""
    return "" if leaving.workload.evicted else leaving.reason


def mark_evicted(state: State, workload: Workload, now: Millis, reason: str = "") -> None:
    """It was asked to leave; its quota counts until it has left, its place in the queue is that of one who waits."""
    held = state.holders.find(workload.queue, workload.key)
    if held is not None and not held.evicted:
        at = stored(now)
        leaving = replace(
            held, evicted=True, evicted_at=at, preempted=reason not in ("", BY_TIME),
            displaced_at=at if reason == BY_TIME else None,
            queued_at=Millis(at + 1) if _moves_back(state, reason) else held.queued_at,
        )  # fmt: skip
        state.holders.remove(held)
        state.holders.add(leaving)
        state.note_leaving(leaving)

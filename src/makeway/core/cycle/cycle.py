"""One scheduling cycle: heads and state in, a plan out (S-5). It decides; it writes nothing.

Every head is judged on the state as it is. Then the entries are processed in order: each sees what earlier entries
took, and which workloads they asked to leave. Where claims are in force, claimants whose victims are gone come first.
All other heads are then judged on the state as it will be (``claims``), but an admission must also fit the state as it
is. The cycle leaves the state unchanged; ``applying`` puts its plan into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from makeway.core.cycle.applying import admitted, carry_out, is_admitted
from makeway.core.cycle.entries import EntryProcessor, order, reservation
from makeway.core.cycle.ledger import Ledger
from makeway.core.cycle.nomination import Entry, nominate
from makeway.core.cycle.redeeming import Redeeming
from makeway.core.cycle.tournament import Contestant, Tournament
from makeway.core.cycle.verdicts import Plan, Status, Verdict, refused_at_once
from makeway.core.model import Millis, QueueName, Workload, WorkloadKey
from makeway.core.preemption import claims
from makeway.core.preemption.departures import departed, mark_evicted, reason_kept
from makeway.core.queueing.pending import HeadReservation
from makeway.core.state import State

__all__ = [
    "Heads", "Plan", "Status", "Verdict", "admitted", "carry_out", "decide", "departed", "heads", "is_admitted",
    "mark_evicted", "order", "reason_kept", "reservation",
]  # fmt: skip


class Heads(NamedTuple):
    """The workloads that the next cycle evaluates (S-4.2)."""

    ready: list[Workload]  # claimants whose victims are gone
    others: list[Workload]  # one per active queue

    @classmethod
    def of(cls, state: State) -> Heads:
        ready = claims.ready(state) if state.claims else []
        return cls(ready, _heads_beside(state, ready))


def heads(state: State) -> list[Workload]:
    """The workloads that the next cycle evaluates: claimants whose victims are gone, one per active queue (S-4.2)."""
    next_heads = Heads.of(state)
    return [*next_heads.ready, *next_heads.others]


def _heads_beside(state: State, ready: list[Workload]) -> list[Workload]:
    """One workload per active queue, no claimants; those that were not refused since the last change come first."""
    parity = state.policy.is_parity
    others = []
    for name in state.pending.in_use():
        if not state.is_active(name) and (parity or name in state.queues):
            continue  # workloads of a missing queue are told so (S-5.3.3); the recorded system tells them nothing
        claimants = state.claims.of_queue.get(name, {})
        head = state.pending.head(
            name, due_only=not parity, sticky_blocks=not state.policy.gates.preemption_claims, but=claimants
        )
        if head is not None and not (claimants and _yields(state, head, ready)):
            others.append(head)
    return others


def _yields(state: State, head: Workload, ready: list[Workload]) -> bool:
    """Whether a sibling comes before it: an entry itself, or a more preferred one that claims (S-12.7.3)."""
    if head.family is None:
        return False
    claimants = (state.pending.find(head.queue, key) for key in state.claims.of_queue[head.queue])
    better = (claimant for claimant in claimants if claimant is not None and claimant.option_rank < head.option_rank)
    return head.family in {claimant.family for claimant in (*ready, *better)}


def decide(state: State, now: Millis, of: Heads | None = None, *, passing: bool = False) -> Plan:
    """The plan of the next cycle. ``of``: its heads, where the caller has them already.

    ``passing``: a head that was refused before, and is certainly refused again, is skipped and keeps its last status.
    """
    ready, others = Heads.of(state) if of is None else of
    passing = passing and state.propagates_refusals
    if not state.claims:
        return _decide_as_it_is(state, now, others, passing=passing)
    trees = {name for head in (*ready, *others) for name in (head.queue, *state.tree_of(head.queue))}
    known = claims.survey(state, now, sorted(trees))
    waits = state.waits_for_pods
    with state.trial():
        redeeming = Redeeming(state, now, known.in_force, frozenset(each.uid for each in ready), waits=waits)
        first = redeeming.verdicts()
        claims.foresee(state, redeeming.left, now)
        ledger = Ledger(state, redeeming.left)
        passed, others = _parted(state, now, others, ledger) if passing else ((), others)
        verdicts = _take_all(state, now, others, EntryProcessor(state, now, ledger, waits=redeeming.waits))
    return Plan(now, (*first, *verdicts), (*known.ended, *ledger.ended()), passed, ledger.held_before)


def _decide_as_it_is(state: State, now: Millis, heads: list[Workload], *, passing: bool) -> Plan:
    """The plan where there are no claims: the state as it will be is the state as it is, so no trial is needed."""
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
    """The heads that are skipped, and those that become entries."""
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
    for queue, reservations in state.pending.reservations.by_queue().items():
        refused_head = state.pending.first(queue)
        if refused_head in reservations and not state.pending.list_of(queue).is_due(refused_head, blocks=False):
            turns.append(_Kept(queue, refused_head, reservations[refused_head]))
    in_turn = _take_by_shares if state.policy.fair_sharing else _take_in_order
    return [*in_turn(state, turns, processor), *refused]


class _Kept(NamedTuple):
    """A turn that only keeps quota free for a refused head (S-5.13)."""

    queue: QueueName
    head: WorkloadKey
    reservation: HeadReservation


_Turn = Entry | _Kept


def _take_in_order(state: State, turns: list[_Turn], processor: EntryProcessor) -> Iterator[Verdict]:
    """Process the turns in one order, fixed before the first of them (S-5.6)."""
    for turn in sorted(
        turns, key=lambda turn: order(state, turn) if isinstance(turn, Entry) else turn.reservation.order
    ):
        if isinstance(turn, Entry):
            yield processor.take(turn)
        else:
            processor.ledger.keep_free(turn.queue, turn.reservation.amounts, turn.head)


def _take_by_shares(state: State, turns: list[_Turn], processor: EntryProcessor) -> Iterator[Verdict]:
    """Process the turns by shares; each choice counts what earlier turns took (S-9.4)."""
    nodes = state.tree.queues
    contestants: list[Contestant[_Turn]] = []
    for turn in turns:
        if isinstance(turn, Entry):
            contestants.append(Contestant(turn.workload, nodes[turn.workload.queue], turn.assignment.usage, turn))
        else:
            head = state.pending.list_of(turn.queue).members[turn.head]
            contestants.append(Contestant(head, nodes[turn.queue], turn.reservation.asked, turn))
    tournament: Tournament[_Turn] = Tournament(state, contestants, processor.ledger.as_ordered)
    while (picked := tournament.pick()) is not None:
        turn, why = picked
        if isinstance(turn, Entry):
            verdict = processor.take(turn)
            yield replace(verdict, steps=(*verdict.steps, why))
        else:
            processor.ledger.keep_free(turn.queue, turn.reservation.amounts, turn.head)
        tournament.refresh(nodes[queue] for queue in processor.ledger.left_since())

"""One scheduling cycle: heads and state in, a plan out (S-5). It decides; it writes nothing.

Every head is judged on the state as it is, then the entries are taken in order, each seeing what those before it
took and whom they asked to leave. The state is left as it was found; ``carry_out`` applies a plan to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from makeway.core.amounts import subtract
from makeway.core.flavors import Assignment, Mode
from makeway.core.model import FR, Millis, PodSetUse, QueueName, Usage, Workload, WorkloadKey, stored
from makeway.core.nomination import Entry, find_assignment, nominate
from makeway.core.pending import Requeue, Standing
from makeway.core.preemption.classical import Target
from makeway.core.state import State
from makeway.core.trace import Rule, Step
from makeway.core.waking import after_admission

Status = Literal["admitted", "preempting", "migrating", "waiting", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the cycle decided about one head, and why."""

    workload: Workload
    status: Status
    assignment: Assignment
    mode: str  # NoFit, Preempt, DeferredFit, Fit
    requeue: Requeue | None = None  # None: it got quota
    targets: tuple[Target, ...] = ()
    replaces: Workload | None = None  # of an Option that migrates: the sibling that leaves for it (S-12.7.1)
    steps: tuple[Step, ...] = ()
    skipped_preemption: bool = False
    held_back: bool = False  # it lost only to what is kept free for others (S-5.1)
    reserved: Mapping[FR, int] = field(default_factory=dict)  # kept free for it although nobody can leave (S-5.8)
    recomputed: Literal["", "new_targets", "deferred_fit", "skipped"] = ""


@dataclass(frozen=True, slots=True)
class Plan:
    now: Millis
    verdicts: tuple[Verdict, ...]  # in the order in which the entries were taken

    @property
    def admitted(self) -> list[Verdict]:
        return [each for each in self.verdicts if each.status == "admitted"]


def heads(state: State) -> list[Workload]:
    """One workload per active queue, those first that were not refused since the last change (S-4.2)."""
    parity = state.policy.profile == "parity"
    found = []
    for name in sorted(state.pending.lines):
        if not state.is_active(name) and (parity or name in state.queues):
            continue  # where no such queue exists we say so to its workloads (S-5.3.3); the recorded system does not
        head = state.pending.head(name, due_only=not parity, sticky_blocks=not state.policy.gates.preemption_claims)
        if head is not None:
            found.append(head)
    return found


def decide(state: State, now: Millis) -> Plan:
    """The plan of the next cycle."""
    entries = [nominate(state, head, now) for head in heads(state)]
    refused = [_refused(each) for each in entries if each.refused is not None]
    turns: list[tuple[tuple[Any, ...], Entry | tuple[QueueName, Mapping[FR, int]]]] = [
        (order(state, each), each) for each in entries if each.refused is None
    ]
    for queue, standing in state.pending.standing().items():
        refused_head = state.pending.first(queue)
        if refused_head in standing and refused_head in state.pending.line(queue).refused:
            turns.append((standing[refused_head].order, (queue, standing[refused_head].amounts)))
    turns.sort(key=lambda turn: turn[0])
    with state.trial():
        taking = _Taking(state, now)
        verdicts = []
        for _, turn in turns:
            if isinstance(turn, Entry):
                verdicts.append(taking.take(turn))
            else:
                taking.keep_free(*turn)
    return Plan(now, (*verdicts, *refused))


def order(state: State, entry: Entry) -> tuple[Any, ...]:
    """In which order entries are taken (S-5.6); the name of the queue breaks the last tie."""
    workload, gates = entry.workload, state.policy.gates
    first = gates.prioritize_preemptor_workloads and state.is_preemptor(workload)
    priority = -workload.priority if gates.priority_sorting_within_cohort else 0
    return (
        workload.usage is None, not first, entry.assignment.level, priority, workload.queued_at, workload.queue,
        workload.option_rank, workload.uid,
    )  # fmt: skip


def _refused(entry: Entry) -> Verdict:
    return Verdict(
        workload=entry.workload, status="waiting", assignment=entry.assignment, mode="NoFit", requeue=entry.refused,
        steps=entry.steps,
    )  # fmt: skip


class _Taking:
    """The entries of one cycle, one after the other, inside a trial in which chosen victims are gone already."""

    def __init__(self, state: State, now: Millis) -> None:
        self._state = state
        self._now = now
        self._chosen: dict[WorkloadKey, Workload] = {}
        self._leaving: dict[QueueName, dict[FR, int]] = {}  # what chosen victims still use, per queue
        self._kept: list[tuple[QueueName, Mapping[FR, int], bool]] = []  # reservations, and whether they stay

    def keep_free(self, queue: QueueName, amounts: Mapping[FR, int], *, stays: bool = True) -> None:
        """Nobody after this takes what is reserved for a head that must wait (S-5.8, 5.13)."""
        self._state.tree.charge_all(self._state.tree.queues[queue], amounts)
        self._kept.append((queue, amounts, stays))

    def take(self, entry: Entry) -> Verdict:
        """Rules 5.7.2 to 5.7.14, in their order."""
        recomputed: Literal["", "new_targets", "deferred_fit", "skipped"] = ""
        gates = self._state.policy.gates
        if gates.recompute_assignment_upon_preemption_targets_overlap and self._overlaps(entry):
            self._recompute(entry)
            recomputed = "deferred_fit" if entry.deferred else "new_targets" if entry.targets else "skipped"
        verdict = self._judge(entry)
        return replace(verdict, recomputed=recomputed)

    def _overlaps(self, entry: Entry) -> bool:
        return any(target.workload.key in self._chosen for target in entry.targets)

    def _recompute(self, entry: Entry) -> None:
        """Search again as if all earlier victims were gone, on the flavors that were chosen before (S-5.7.3)."""
        only = {
            (part.index, resource): choice.flavor
            for part in entry.assignment.pod_sets
            for resource, choice in part.choices.items()
        }
        excluded = frozenset(self._chosen)
        assignment, victims = find_assignment(
            self._state, entry.workload, self._now, tried={}, only=only, excluded=excluded, replaces=entry.replaces
        )
        entry.assignment, entry.targets, entry.steps = assignment, victims.targets, victims.steps
        entry.deferred = assignment.mode is Mode.FIT

    def _judge(self, entry: Entry) -> Verdict:
        state, workload, assignment = self._state, entry.workload, entry.assignment
        if assignment.mode is Mode.NO_FIT:
            return _wait(entry, "NoFit", *assignment.steps)
        preempts = assignment.mode is not Mode.FIT
        if preempts and not entry.targets:
            reserved = self._reserve(entry)
            kept = [Step(Rule.RESERVED, (workload.key, *fr), (amount,)) for fr, amount in reserved.items()]
            verdict = _wait(entry, "PreemptionNoCandidates", *assignment.steps, *entry.steps, *kept)
            return replace(verdict, reserved=reserved)
        if preempts and workload.gated:
            return _wait(entry, "PreemptionGated", Step(Rule.GATED, (workload.key,)))
        if entry.deferred:
            self._charge(entry)
            return _wait(entry, "PendingPreemption", Step(Rule.DEFERRED, (workload.key,)))
        if self._overlaps(entry):
            return _skip(entry, Rule.OVERLAP)
        if not self._fits_without(entry):
            held_back = state.policy.profile != "parity" and self._lost_to_what_is_kept(entry)
            return replace(_skip(entry, Rule.LOST), held_back=held_back)
        claims = state.policy.gates.preemption_claims
        if claims and not preempts and entry.replaces is None and not self._fits_as_it_is(entry):
            self._charge(entry)
            entry.deferred = True
            return _wait(entry, "PendingPreemption", Step(Rule.DEFERRED, (workload.key,)))
        self._choose(entry)
        self._charge(entry)
        if not preempts and state.waits_for_pods:
            return _wait(entry, "FailedAfterNomination", Step(Rule.PODS_NOT_READY, (workload.key,)))
        return _go(entry)

    def _fits_without(self, entry: Entry) -> bool:
        """Whether it fits with all victims, earlier ones and its own, gone (S-5.7.2)."""
        tree = self._state.tree
        node = tree.queues[entry.workload.queue]
        leaving = [*(target.workload for target in entry.targets), *([entry.replaces] if entry.replaces else [])]
        if not leaving:
            return tree.fits(node, entry.assignment.usage)
        with self._state.trial():
            for each in leaving:
                tree.release_all(tree.queues[each.queue], each.usage or {})
            return tree.fits(node, entry.assignment.usage)

    def _fits_as_it_is(self, entry: Entry) -> bool:
        """Whether it fits beside all those who were asked to leave in this cycle (S-5.7.9a)."""
        tree = self._state.tree
        node = tree.queues[entry.workload.queue]
        related = set(self._state.tree_of(entry.workload.queue))
        still_there = [each for each in self._chosen.values() if each.queue in related]
        if not still_there:
            return True
        with self._state.trial():
            for each in still_there:
                tree.charge_all(tree.queues[each.queue], each.usage or {})
            return tree.fits(node, entry.assignment.usage)

    def _choose(self, entry: Entry) -> None:
        tree = self._state.tree
        leaving = [target.workload for target in entry.targets]
        if entry.replaces is not None and not leaving:
            leaving.append(entry.replaces)
        for victim in leaving:
            self._chosen[victim.key] = victim
            tree.release_all(tree.queues[victim.queue], victim.usage or {})
            used = self._leaving.setdefault(victim.queue, {})
            for fr, amount in (victim.usage or {}).items():
                used[fr] = used.get(fr, 0) + amount

    def _charge(self, entry: Entry) -> None:
        if entry.workload.usage is None:
            tree = self._state.tree
            tree.charge_all(tree.queues[entry.workload.queue], entry.assignment.usage)

    def _reserve(self, entry: Entry) -> dict[FR, int]:
        """Keep room for a head that must wait although nobody can be asked to leave (S-5.8)."""
        queue = self._state.queues[entry.workload.queue]
        if queue.reclaim == "Any":
            return {}
        leaving = self._leaving.get(queue.name, {})
        amounts = {fr: amount for fr, amount in reservation(self._state, entry, leaving).items() if amount}
        self.keep_free(queue.name, amounts, stays=stays_reserved(self._state, queue.name))
        return amounts

    def _lost_to_what_is_kept(self, entry: Entry) -> bool:
        """Whether it would fit but for reservations that stay in force (S-5.1)."""
        tree = self._state.tree
        if not any(stays for _, _, stays in self._kept):
            return False
        with self._state.trial():
            for staying in (False, True):
                for queue, amounts, stays in self._kept:
                    if stays is staying:
                        tree.release_all(tree.queues[queue], amounts)
                if self._fits_without(entry):
                    return staying
        return False


def stays_reserved(state: State, queue: QueueName) -> bool:
    """Whether what is reserved for a refused head outlives the cycle: that of a strict queue that does not lend."""
    lends = state.policy.profile == "parity" or state.policy.strict_fifo_lends
    return state.pending.line(queue).strict and not lends


def reservation(state: State, entry: Entry, leaving: Usage) -> dict[FR, int]:
    """What an entry keeps from those after it: all it takes if it fits, else up to its own quota or limit (S-5.8).

    ``leaving`` is what victims of the cycle, gone already in ``state``, still use in the entry's queue.
    """
    if entry.assignment.mode is Mode.FIT:
        return dict(entry.assignment.usage)
    node = state.tree.queues[entry.workload.queue]
    nominal_only = state.policy.gates.preemption_claims or entry.assignment.level == 0
    amounts: dict[FR, int] = {}
    for fr, asked in entry.assignment.usage.items():
        used = node.usage.get(fr, 0) + leaving.get(fr, 0)
        limit = node.borrowing.get(fr)
        if nominal_only:
            amounts[fr] = max(0, min(asked, subtract(node.nominal.get(fr, 0), used)))
        elif limit is None:
            amounts[fr] = asked
        else:
            amounts[fr] = max(0, min(asked, subtract(node.nominal.get(fr, 0) + limit, used)))
    return amounts


def _go(entry: Entry) -> Verdict:
    """There is room, or will be once those whom it displaces have left."""
    workload, assignment = entry.workload, entry.assignment
    if assignment.mode is not Mode.FIT:
        return Verdict(
            workload=workload, status="preempting", assignment=assignment, mode="Preempt",
            requeue="PendingPreemption", targets=entry.targets, steps=tuple(t.step for t in entry.targets),
        )  # fmt: skip
    if entry.replaces is not None:
        return Verdict(
            workload=workload, status="migrating", assignment=assignment, mode="Fit", requeue="PendingMigration",
            replaces=entry.replaces, steps=(Step(Rule.MIGRATES, (workload.key,)),),
        )  # fmt: skip
    return Verdict(
        workload=workload, status="admitted", assignment=assignment, mode="Fit", steps=tuple(assignment.steps)
    )


def _wait(entry: Entry, requeue: Requeue, *steps: Step) -> Verdict:
    mode = "DeferredFit" if entry.deferred else entry.assignment.mode.public
    return Verdict(
        workload=entry.workload, status="waiting", assignment=entry.assignment, mode=mode, requeue=requeue, steps=steps
    )


def _skip(entry: Entry, rule: Rule) -> Verdict:
    preempts = entry.assignment.mode is not Mode.FIT
    return Verdict(
        workload=entry.workload, status="skipped", assignment=entry.assignment, mode=entry.assignment.mode.public,
        requeue="FailedAfterNomination", steps=(Step(rule, (entry.workload.key,)),), skipped_preemption=preempts,
    )  # fmt: skip


# --- applying a plan --------------------------------------------------------------------------------------------------


def carry_out(state: State, plan: Plan) -> None:
    """Put a plan into the state: who was admitted holds quota, victims are marked, the others wait again."""
    state.next_cycle()
    kept_before = state.pending.standing()
    for verdict in plan.verdicts:
        workload = verdict.workload
        woken_before = state.pending.pop(workload)
        if verdict.status == "admitted":
            state.hold(replace(admitted(verdict, plan.now), admitted=is_admitted(state, verdict)))
            continue
        for target in verdict.targets:
            mark_evicted(state, target.workload)
        if verdict.replaces is not None:
            mark_evicted(state, verdict.replaces)
        has_untried = False
        if verdict.requeue in ("PendingPreemption", "PendingMigration", "PreemptionGated"):
            state.forget_progress(workload)
        else:
            has_untried = state.remember(workload, verdict.assignment.tried)
        if verdict.requeue == "PendingPreemption":
            state.mark_preemptor(workload)
        assert verdict.requeue is not None
        state.pending.requeue(
            workload, verdict.requeue, plan.now,
            woken=state.pending.line(workload.queue).wakes.get("count", 0) != woken_before,
            has_untried=has_untried,
            shapes_count=state.policy.gates.scheduling_equivalence_hashing,
        )  # fmt: skip
        if verdict.held_back:
            state.pending.hold_back(workload)
        if verdict.reserved and stays_reserved(state, workload.queue):
            place = order(state, Entry(workload, verdict.assignment))
            state.pending.keep_free(workload, Standing(place, verdict.reserved))
    _settle_due(state, plan, kept_before)


def _settle_due(state: State, plan: Plan, kept_before: Mapping[QueueName, Mapping[WorkloadKey, Standing]]) -> None:
    """What the cycle itself makes worth another look (S-4.6.8, 5.1)."""
    state.pending.end_standing()
    for verdict in plan.admitted:  # somebody new may be a victim now
        state.pending.due(sorted(after_admission(state, verdict.workload.queue)))
    kept = state.pending.standing()
    just_lost = frozenset(verdict.workload.key for verdict in plan.verdicts if verdict.held_back)
    for queue in sorted({*kept_before, *kept}):
        if kept_before.get(queue) != kept.get(queue):
            state.pending.free_again(state.tree_of(queue), just_lost)


def admitted(verdict: Verdict, now: Millis) -> Workload:
    """The workload as it is once it has what the verdict gives it."""
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
    )


def is_admitted(state: State, verdict: Verdict) -> bool:
    """Whether it may run at once: its flavors ask for no check that is not Ready (S-5.7.14)."""
    checks = state.queues[verdict.workload.queue].checks_for(flavor for flavor, _ in verdict.assignment.usage)
    return verdict.status == "admitted" and verdict.workload.has_passed(checks)


def departed(state: State, workload: Workload, reason: str, evicted_at: Millis) -> Workload:
    """A victim once it has left: it waits again, behind those whom its time was for (S-4.3)."""
    moves_back = reason == "InClusterQueueTimeBased" or (
        reason == "InCohortReclaimWhileBorrowing" and not state.policy.gates.priority_sorting_within_cohort
    )
    at = Millis(stored(evicted_at) + 1) if moves_back else workload.queued_at
    return replace(workload, usage=None, uses=(), reserved_at=None, evicted=False, admitted=False, queued_at=at)


def reason_kept(target: Target) -> str:
    """The reason that the victim's condition carries: who was asked to leave before keeps the earlier one (S-10.1)."""
    return "" if target.workload.evicted else target.reason


def mark_evicted(state: State, workload: Workload) -> None:
    """It was asked to leave; its quota counts until it has left."""
    held = state.holders.find(workload.queue, workload.key)
    if held is not None and not held.evicted:
        state.holders.remove(held)
        state.holders.add(replace(held, evicted=True))

"""The entries of a cycle, one after the other. Each sees what earlier ones took, and their victims as leaving (S-5.7).

Rules are asked in order, and the first that has an answer decides. So a rule may rely on all before it having had
none. All of it happens inside the trial of the cycle; the ``ledger`` knows what was taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from makeway.core.amounts import subtract
from makeway.core.cycle.flavors import Assignment, Mode
from makeway.core.cycle.holds import is_entitled
from makeway.core.cycle.ledger import Ledger, ends_with_the_cycle, is_kept
from makeway.core.cycle.nomination import Entry, find_assignment, round_of
from makeway.core.cycle.verdicts import Verdict, go, skip, wait
from makeway.core.model import DAWN, FR, Claim, Millis, QueueName, Usage, Workload
from makeway.core.preemption import claims
from makeway.core.preemption.classical import Victims
from makeway.core.state import State
from makeway.core.trace import Rule, Step


class EntryProcessor:
    """Processes the entries of one cycle.

    ``waits``: nothing is admitted until pods are ready; the first admission of the cycle may begin that (S-5.7.12).
    Where claims are in force, chosen victims count as gone in the trial, and claimants hold what they claim.
    """

    def __init__(self, state: State, now: Millis, ledger: Ledger, *, waits: bool) -> None:
        self._state = state
        self._now = now
        self._waits = waits
        self._by_claim = state.policy.gates.preemption_claims
        self._searches_again = self._by_claim and not state.policy.is_parity
        self.ledger = ledger

    def take(self, entry: Entry) -> Verdict:
        """Apply rules 5.7.2 to 5.7.14 in order."""
        recomputed: Literal["", "new_targets", "deferred_fit", "skipped"] = ""
        gates, ledger = self._state.policy.gates, self.ledger
        if gates.recompute_assignment_upon_preemption_targets_overlap and ledger.overlaps(entry):
            self._recompute(entry)
            recomputed = "deferred_fit" if entry.deferred else "new_targets" if entry.targets else "skipped"
        ledger.holds.decide(entry.workload, None)  # whether it is entitled to lent quota is decided anew
        verdict = self._judge(entry)
        if verdict.entitled:
            ledger.holds.decide(entry.workload, entry.assignment.usage)
        return replace(verdict, recomputed=recomputed) if recomputed else verdict

    def _judge(self, entry: Entry) -> Verdict:
        for rule in self._RULES:
            verdict = rule(self, entry)
            if verdict is not None:
                return verdict
        return self._grant(entry)

    # --- the rules in their order -------------------------------------------------------------------------------------

    def _fits_nowhere(self, entry: Entry) -> Verdict | None:
        """No flavor has room for it, even if others leave (S-5.7.4)."""
        if entry.assignment.mode is not Mode.NO_FIT:
            return None
        steps = (*entry.assignment.steps, *entry.steps)
        return wait(entry, "NoFit", *steps, spared=entry.spared, turn=entry.turn)

    def _may_displace_none(self, entry: Entry) -> Verdict | None:
        """It fits only if others leave, but it may displace none of them: room is kept for it (S-5.7.5, 5.8)."""
        if entry.targets or not entry.assignment.preempts:
            return None
        workload = entry.workload
        entitled = is_entitled(self._state, entry, self.ledger.reserved_in(workload.queue))
        reserved = self._reserve(entry)
        kept = [Step(Rule.RESERVED, (workload.key, *fr), (amount,)) for fr, amount in reserved.items()]
        steps = (*entry.assignment.steps, *entry.steps, *kept)
        return wait(
            entry, "PreemptionNoCandidates", *steps, reserved=reserved, spared=entry.spared, turn=entry.turn,
            entitled=entitled,
        )  # fmt: skip

    def _is_gated(self, entry: Entry) -> Verdict | None:
        """It has to displace others, and its preemption gate is closed (S-5.7.6)."""
        if not entry.workload.gated or not entry.assignment.preempts:
            return None
        return wait(entry, "PreemptionGated", Step(Rule.GATED, (entry.workload.key,)))

    def _overlaps(self, entry: Entry) -> Verdict | None:
        """An earlier entry displaces one of its victims (S-5.7.8)."""
        return skip(entry, Rule.OVERLAP) if self.ledger.overlaps(entry) else None

    def _lost_its_room(self, entry: Entry) -> Verdict | None:
        """Another entry has taken its room, or the room is kept for others: it is due when that changes (S-5.1)."""
        ledger = self.ledger
        if ledger.fits_beside(entry) or self._search_again(entry):
            return None
        verdict = skip(entry, Rule.LOST)
        if self._state.policy.is_parity or not ledger.fits_beside(entry, but_for=is_kept, holds=False):
            return verdict
        if ledger.fits_beside(entry, but_for=ends_with_the_cycle):
            return verdict
        lost_to, owners = ledger.lost_to(entry.workload)
        step = Step(Rule.HELD_BACK, (entry.workload.key, *owners))
        return replace(verdict, held_back=True, steps=(*verdict.steps, step), lost_to=lost_to)

    def _fits_later(self, entry: Entry) -> Verdict | None:
        """Its search found that it fits once the victims of earlier entries are gone (S-5.7.9)."""
        return self._defer(entry) if entry.deferred else None

    def _fits_once_victims_left(self, entry: Entry) -> Verdict | None:
        """It fits the tree as it will be, but not yet as it is (S-5.7.9a)."""
        if (
            not self._by_claim
            or entry.assignment.preempts
            or entry.replaces is not None
            or self.ledger.fits_as_it_is(entry)
        ):
            return None
        return self._defer(entry)

    _RULES: tuple[Callable[[EntryProcessor, Entry], Verdict | None], ...] = (
        _fits_nowhere, _may_displace_none, _is_gated, _overlaps, _lost_its_room, _fits_later, _fits_once_victims_left,
    )  # fmt: skip

    def _grant(self, entry: Entry) -> Verdict:
        """There is room for it, if necessary once its victims have left (S-5.7.10 to 5.7.14)."""
        state, workload, ledger = self._state, entry.workload, self.ledger
        if entry.round:  # the round is judged as if the victims of earlier entries had left as well
            entry.round = round_of(state, workload, entry.assignment.usage, entry.targets)
        claim = (
            self._claim(entry) if self._by_claim and (entry.assignment.preempts or entry.replaces is not None) else None
        )
        ledger.displace(entry)
        ledger.charge(entry, claim)
        if not entry.assignment.preempts and self._waits:
            return wait(entry, "FailedAfterNomination", Step(Rule.PODS_NOT_READY, (workload.key,)))
        verdict = go(entry)
        if claim is None and not entry.targets:
            self._waits = verdict.status == "admitted" and state.blocks_others(workload)
            return verdict
        took = [target for target in entry.targets if target.workload.key in ledger.claimants]
        return replace(
            verdict, claim=claim,
            targets=tuple(target for target in entry.targets if target.workload.key not in ledger.claimants),
            took=tuple(target.workload.key for target in took),
            took_by_share=tuple(target.workload.key for target in took if target.reason == "InCohortFairSharing"),
        )  # fmt: skip

    # --- searching again ----------------------------------------------------------------------------------------------

    def _search(self, entry: Entry) -> tuple[Assignment, Victims]:
        """Search again on the flavors that were chosen before, as if all earlier victims were gone (S-5.7.3)."""
        only = {
            (part.index, resource): choice.flavor
            for part in entry.assignment.pod_sets
            for resource, choice in part.choices.items()
        }
        chosen = self.ledger.chosen()
        return find_assignment(
            self._state, entry.workload, self._now, tried={}, only=only,
            barred=lambda workload: self.ledger.protected_claimants(workload) | chosen, replaces=entry.replaces,
        )  # fmt: skip

    def _recompute(self, entry: Entry) -> None:
        assignment, victims = self._search(entry)
        entry.renew(assignment, victims)
        entry.deferred = assignment.mode is Mode.FIT

    def _search_again(self, entry: Entry) -> bool:
        """Whether it finds victims although room is reserved, claimed or held since its first search (S-5.15).

        The first attempt leaves holds out, for they do not bind an entry within its own quota. One whose gate is closed
        may displace no workload, and waits for what is kept to change.
        """
        if not self._searches_again or not self.ledger.fits_beside(entry, but_for=is_kept, holds=False):
            return False
        if self._is_helped_by(entry, *self._search(entry)):
            return True
        with self._state.trial():
            if not self.ledger.charge_holds(entry.workload.queue):
                return False
            found = self._search(entry)
        return self._is_helped_by(entry, *found)

    def _is_helped_by(self, entry: Entry, assignment: Assignment, victims: Victims) -> bool:
        """Whether a later search makes room for the entry; its result then replaces the first one."""
        again = replace(entry, assignment=assignment, targets=victims.targets, deferred=False)
        is_answer = assignment.mode is Mode.FIT or bool(victims.targets and not entry.workload.gated)
        if not is_answer or self.ledger.overlaps(again) or not self.ledger.fits_beside(again):
            return False
        entry.renew(assignment, victims)
        entry.deferred = False
        return True

    # --- what an entry gets -------------------------------------------------------------------------------------------

    def _defer(self, entry: Entry) -> Verdict:
        """The entry waits until the workloads of its tree that others asked to leave hold no quota any more."""
        claim = None
        if self._by_claim:
            victims = self.ledger.leaving(entry)
            until = claims.deadline(self._state, victims, self._now)
            claim = claims.new_claim(entry.assignment, [(each.key, each.uid) for each in victims], self._now, until)
        entry.deferred = True
        self.ledger.charge(entry, claim)
        return wait(entry, "PendingPreemption", Step(Rule.DEFERRED, (entry.workload.key,)), claim=claim)

    def _claim(self, entry: Entry) -> Claim:
        """A claim on the victims of the entry, and on those of the claims that it takes."""
        claimants = self.ledger.claimants
        leaving = [victim for victim in entry.leaving if victim.key not in claimants]
        taken = [claimants[victim.key] for victim in entry.leaving if victim.key in claimants]
        inherited = [victim for claimant in taken for victim in claimant.victims]  # one that left may be back by right
        victims = [(victim.key, victim.uid) for victim in (*leaving, *inherited)]
        latest = DAWN if victims else max((claimant.claim.expires_at for claimant in taken), default=self._now)
        until = claims.deadline(self._state, (*leaving, *inherited), self._now, at_least=latest)
        return claims.new_claim(entry.assignment, victims, self._now, until)

    def _reserve(self, entry: Entry) -> dict[FR, int]:
        """Keep room for a head that must wait although it may displace no workload (S-5.8)."""
        queue = self._state.queues[entry.workload.queue]
        if queue.reclaim.takes_any and not reserves_anyway(self._state, entry.workload):
            return {}
        freed = self.ledger.freed_in(queue.name)
        amounts = {fr: amount for fr, amount in reservation(self._state, entry, freed).items() if amount}
        owner = entry.workload.key if stays_reserved(self._state, queue.name) else ""
        self.ledger.keep_free(queue.name, amounts, owner)
        return amounts


def order(state: State, entry: Entry) -> tuple[Any, ...]:
    """The sort key of an entry (S-5.6); the name of the queue breaks the last tie."""
    workload, gates = entry.workload, state.policy.gates
    first = gates.prioritize_preemptor_workloads and workload in state.preemptors
    priority = -workload.priority if gates.priority_sorting_within_cohort else 0
    return (
        workload.usage is None, not first, entry.assignment.level, priority, workload.queued_at, workload.queue,
        workload.option_rank, workload.uid,
    )  # fmt: skip


def reserves_anyway(state: State, workload: Workload) -> bool:
    """Whether it also keeps room that it could reclaim later: recorded of workloads that wait for victims (0028)."""
    policy = state.policy
    is_meant = policy.is_parity and policy.gates.prioritize_preemptor_workloads
    return is_meant and state.preemptors.is_last(workload)


def stays_reserved(state: State, queue: QueueName) -> bool:
    """Whether what is reserved for a refused head outlives the cycle: it does in a strict queue that does not lend."""
    return state.pending.list_of(queue).strict and not state.policy.lends_what_is_reserved


def reservation(state: State, entry: Entry, leaving: Usage) -> dict[FR, int]:
    """What an entry keeps from later entries: all it takes if it fits, else up to its own quota or limit (S-5.8).

    ``leaving``: what victims of the cycle, already gone in ``state``, still use in the entry's queue.
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

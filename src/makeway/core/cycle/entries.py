"""The entries of a cycle, one after the other: each sees what those before it took and whom they asked to leave.

First those who redeem a claim, on the tree as it is; then the heads, on the tree as it will be (S-19.1, S-5.7).
All of it happens inside a trial of the cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Literal, NamedTuple

from makeway.core.amounts import subtract
from makeway.core.cycle.flavors import Assignment, Mode
from makeway.core.cycle.holds import Holds, is_entitled
from makeway.core.cycle.nomination import Entry, find_assignment, round_of
from makeway.core.cycle.options import running_sibling
from makeway.core.cycle.verdicts import Verdict, go, skip, wait
from makeway.core.model import DAWN, FR, Claim, Millis, QueueName, Uid, Usage, Workload, WorkloadKey
from makeway.core.preemption import claims
from makeway.core.preemption.claims import Claimant, EndedClaim
from makeway.core.preemption.classical import Victims
from makeway.core.quota.tree import QuotaNode
from makeway.core.state import State
from makeway.core.trace import Rule, Step


class Redeeming:
    """Claimants whose victims are gone: each gets what it claims as soon as that fits the tree as it is (S-19.1.2).

    Together with all other claims it fits the tree as it will be, or it would have ended. Runs inside a trial.
    """

    def __init__(
        self, state: State, now: Millis, standing: tuple[Claimant, ...], ready: frozenset[Uid], *, waits: bool
    ) -> None:  # fmt: skip
        self._state = state
        self._now = now
        self._ready = ready
        self._standing = standing
        self.left: list[Claimant] = []  # whose claims stay in force
        self.waits = waits  # nothing more is admitted until pods are ready (S-5.7.12)

    def verdicts(self) -> list[Verdict]:
        found = []
        levels = self._levels()
        for each in self._standing:  # oldest first
            if each.workload.uid not in self._ready:
                self.left.append(each)
                continue
            verdict = self._judge(each, levels[each.workload.key])
            found.append(verdict)
            if verdict.replaces is not None and verdict.claim is not None:
                self.left.append(replace(each, claim=verdict.claim, victims=(verdict.replaces,)))
            elif verdict.status != "admitted":
                self.left.append(each)
        return found

    def _levels(self) -> dict[WorkloadKey, int]:
        """How far each of them borrows in the tree as it will be, without its own claim and with all others."""
        state, tree, found = self._state, self._state.tree, {}
        if not self._ready:
            return {}
        with state.trial():
            claims.credit(state, self._standing)
            for each in self._standing:
                tree.charge_all(tree.queues[each.workload.queue], each.assignment.usage)
            for each in self._standing:
                if each.workload.uid in self._ready:
                    node, usage = tree.queues[each.workload.queue], each.assignment.usage
                    tree.release_all(node, usage)
                    levels = [tree.lowest_subtree(node, fr, amount)[0] for fr, amount in usage.items()]
                    found[each.workload.key] = max(levels, default=0)
                    tree.charge_all(node, usage)
        return found

    def _judge(self, each: Claimant, level: int) -> Verdict:
        tree, workload, assignment = self._state.tree, each.workload, each.assignment
        node = tree.queues[workload.queue]
        entry = Entry(workload, replace(assignment, level=level))
        sibling = running_sibling(self._state, workload)
        if sibling is not None:
            return self._migrate(replace(entry, replaces=sibling), each)
        if not tree.fits(node, assignment.usage):
            return self._waits_on(entry, each)
        if self.waits:
            return wait(entry, "FailedAfterNomination", Step(Rule.PODS_NOT_READY, (workload.key,)), claim=each.claim)
        tree.charge_all(node, assignment.usage)
        self.waits = self._state.blocks_others(workload)
        return replace(go(entry), steps=(Step(Rule.CLAIMED, (workload.key,)),))

    def _migrate(self, entry: Entry, each: Claimant) -> Verdict:
        """An Option that displaced others: its sibling leaves only now, for a claim of its own (S-12.7.1)."""
        tree, sibling = self._state.tree, entry.replaces
        assert sibling is not None
        with self._state.trial():
            tree.release_all(tree.queues[sibling.queue], sibling.usage or {})
            fits = tree.fits(tree.queues[entry.workload.queue], entry.assignment.usage)
        if not fits or sibling.evicted:
            return self._waits_on(entry, each)
        until = claims.deadline(self._state, [sibling], self._now)
        claim = claims.new_claim(entry.assignment, [(sibling.key, sibling.uid)], self._now, until)
        return replace(go(entry), claim=claim)

    def _waits_on(self, entry: Entry, each: Claimant) -> Verdict:
        """Its claim stays as it is: never extended."""
        entry.deferred = True
        return wait(entry, "PendingPreemption", Step(Rule.DEFERRED, (entry.workload.key,)), claim=each.claim)


class Kept(NamedTuple):
    """What an entry of the cycle keeps from those after it."""

    queue: QueueName
    amounts: Mapping[FR, int]
    owner: str  # for whom, if it outlives the cycle
    is_claimed: bool = False  # otherwise reserved


def is_kept(_: Kept) -> bool:
    return True


def ends_with_the_cycle(kept: Kept) -> bool:
    return not kept.owner


class EntryProcessor:
    """The entries of one cycle, one after the other, inside a trial in which chosen victims are gone already.

    ``claimants`` are those whose claims are in force: in the trial they hold what they claim. ``waits``: nothing is
    admitted until pods are ready; the first admission of the cycle may begin that (S-5.7.12).
    """

    def __init__(self, state: State, now: Millis, claimants: list[Claimant], *, waits: bool) -> None:
        self._state = state
        self._now = now
        self._waits = waits
        self._claimants = {each.workload.key: each for each in claimants}
        self._out_of_reach: dict[Uid, set[str]] = {}  # victim -> claimants
        self._asked: dict[QuotaNode, dict[WorkloadKey, Workload]] = {}  # root -> who was asked to leave and still holds
        self._promised: dict[
            QuotaNode, dict[WorkloadKey, tuple[QuotaNode, Usage]]
        ] = {}  # root -> what claims hold, and where
        for each in claimants:
            self._promise(each.workload, each.assignment.usage)
            for _, uid in each.claim.victims:
                self._out_of_reach.setdefault(uid, set()).add(each.workload.key)
        for victim in claims.credited(claimants).values():
            self._ask(victim)
        self._taken: dict[WorkloadKey, Workload] = {}  # claimants whose claims are taken, by whom
        self._chosen: dict[WorkloadKey, Workload] = {}
        self._leaving: dict[QueueName, dict[FR, int]] = {}  # what chosen victims still use, per queue
        self._kept: list[Kept] = []
        self._reserved: dict[QueueName, dict[FR, int]] = {}  # of these, what is not claimed, by queue
        self._holds = Holds(state)
        self.held_before = self._holds.in_force({})  # as the cycle found it
        self._migrating: list[Workload] = []
        self._left_since: dict[QueueName, None] = {}  # queues of those who were chosen since somebody asked

    def protected_claimants(self, workload: Workload) -> frozenset[str]:
        """Claimants whose claims it may not take, being one of their victims (S-19.1.3)."""
        return frozenset(self._out_of_reach.get(workload.uid, ()))

    def _root(self, workload: Workload) -> QuotaNode:
        return self._state.tree.queues[workload.queue].root

    def _promise(self, workload: Workload, usage: Usage) -> None:
        node = self._state.tree.queues[workload.queue]
        self._promised.setdefault(node.root, {})[workload.key] = (node, usage)

    def _ask(self, victim: Workload) -> None:
        self._asked.setdefault(self._root(victim), {})[victim.key] = victim

    def ended(self) -> list[EndedClaim]:
        """Claims that ended because of what others got."""
        found = [
            EndedClaim(self._claimants[key].workload, claims.TAKEN.format(by.key)) for key, by in self._taken.items()
        ]
        for better in self._migrating:
            found += [
                EndedClaim(each.workload, claims.SIBLING)
                for key, each in self._claimants.items()
                if each.workload.family == better.family
                and each.workload.option_rank > better.option_rank
                and key not in self._taken
            ]
        return found

    def left_since(self) -> list[QueueName]:
        """Queues whose victims were chosen since this was last asked."""
        found, self._left_since = list(self._left_since), {}
        return found

    @contextmanager
    def as_ordered(self, root: QuotaNode) -> Iterator[None]:
        """The tree as it counts for the order by shares: as it will be, or with the cycle's victims still in it.

        The latter without claims: the recorded system takes victims off for the fit alone (S-5.7.10).
        """
        victims = [] if self._state.policy.gates.preemption_claims else list(self._chosen.values())
        tree = self._state.tree
        with self._state.trial() if victims else nullcontext():
            for each in victims:
                if tree.queues[each.queue].root is root:
                    tree.charge_all(tree.queues[each.queue], each.usage or {})
            yield

    def keep_free(self, queue: QueueName, amounts: Mapping[FR, int], owner: str) -> None:
        """Nobody after this takes what is reserved for a head that must wait (S-5.8, 5.13); "": for this cycle."""
        self._state.tree.charge_all(self._state.tree.queues[queue], amounts)
        self._kept.append(Kept(queue, amounts, owner))
        _add_to(self._reserved, queue, amounts)

    def take(self, entry: Entry) -> Verdict:
        """Rules 5.7.2 to 5.7.14, in their order."""
        recomputed: Literal["", "new_targets", "deferred_fit", "skipped"] = ""
        gates = self._state.policy.gates
        if gates.recompute_assignment_upon_preemption_targets_overlap and self._overlaps(entry):
            self._recompute(entry)
            recomputed = "deferred_fit" if entry.deferred else "new_targets" if entry.targets else "skipped"
        self._holds.decide(entry.workload, None)  # what it was entitled to is found out anew
        verdict = self._judge(entry)
        if verdict.entitled:
            self._holds.decide(entry.workload, entry.assignment.usage)
        return replace(verdict, recomputed=recomputed) if recomputed else verdict

    def _overlaps(self, entry: Entry) -> bool:
        return any(target.workload.key in self._chosen for target in entry.targets)

    def _search(self, entry: Entry) -> tuple[Assignment, Victims]:
        """Once more, as if all earlier victims were gone, on the flavors that were chosen before (S-5.7.3)."""
        only = {
            (part.index, resource): choice.flavor
            for part in entry.assignment.pod_sets
            for resource, choice in part.choices.items()
        }
        chosen = frozenset(self._chosen)
        return find_assignment(
            self._state, entry.workload, self._now, tried={}, only=only,
            barred=lambda each: self.protected_claimants(each) | chosen, replaces=entry.replaces,
        )  # fmt: skip

    def _recompute(self, entry: Entry) -> None:
        assignment, victims = self._search(entry)
        self._renew(entry, assignment, victims)
        entry.deferred = assignment.mode is Mode.FIT

    def _renew(self, entry: Entry, assignment: Assignment, victims: Victims) -> None:
        """A later search takes the place of the first."""
        assignment.ended_before = entry.assignment.ended
        entry.assignment, entry.targets, entry.steps = assignment, victims.targets, victims.steps
        entry.round, entry.spared = victims.round, entry.spared or bool(victims.spared)
        entry.turn = victims.turn

    def _judge(self, entry: Entry) -> Verdict:
        state, workload = self._state, entry.workload
        refused = self._refuse(entry)
        if refused is not None:
            return refused
        if self._overlaps(entry):
            return skip(entry, Rule.OVERLAP)
        if not self._fits_beside(entry) and not self._search_again(entry):
            return self._lose(entry)
        if entry.deferred:
            return self._defer(entry)
        preempts = entry.assignment.mode is not Mode.FIT
        by_claim = state.policy.gates.preemption_claims
        if by_claim and not preempts and entry.replaces is None and not self._fits_as_it_is(entry):
            return self._defer(entry)
        if entry.round:  # it counts as what it is once those have left, too, whom earlier entries asked to
            entry.round = round_of(state, workload, entry.assignment.usage, entry.targets)
        claim = self._claim(entry) if by_claim and (preempts or entry.replaces is not None) else None
        self._choose(entry)
        self._charge(entry, claim)
        if not preempts and self._waits:
            return wait(entry, "FailedAfterNomination", Step(Rule.PODS_NOT_READY, (workload.key,)))
        if claim is None and not entry.targets:
            verdict = go(entry)
            self._waits = verdict.status == "admitted" and state.blocks_others(workload)
            return verdict
        took = tuple(target.workload.key for target in entry.targets if target.workload.key in self._claimants)
        evicted = tuple(target for target in entry.targets if target.workload.key not in took)
        by_share = {target.workload.key for target in entry.targets if target.reason == "InCohortFairSharing"}
        took_by_share = tuple(key for key in took if key in by_share)
        return replace(go(entry), claim=claim, took=took, took_by_share=took_by_share, targets=evicted)

    def _refuse(self, entry: Entry) -> Verdict | None:
        """Rules 5.7.4 to 5.7.6: it fits nowhere, may ask nobody to leave, or may not ask yet."""
        workload, assignment = entry.workload, entry.assignment
        if assignment.mode is Mode.NO_FIT:
            steps = (*assignment.steps, *entry.steps)
            return wait(entry, "NoFit", *steps, spared=entry.spared, turn=entry.turn)
        if assignment.mode is Mode.FIT:
            return None
        if not entry.targets:
            entitled = is_entitled(self._state, entry, self._reserved.get(workload.queue, {}))
            reserved = self._reserve(entry)
            kept = [Step(Rule.RESERVED, (workload.key, *fr), (amount,)) for fr, amount in reserved.items()]
            steps = (*assignment.steps, *entry.steps, *kept)
            return wait(
                entry, "PreemptionNoCandidates", *steps, reserved=reserved, spared=entry.spared, turn=entry.turn,
                entitled=entitled,
            )  # fmt: skip
        return wait(entry, "PreemptionGated", Step(Rule.GATED, (workload.key,))) if workload.gated else None

    def _search_again(self, entry: Entry) -> bool:
        """Whether it finds others to displace beside what is reserved, claimed or held since its search (S-5.15).

        First as if nothing were held: it may end within its own quota, where holds do not bind it. One whose gate is
        closed may displace nobody, and waits for what is kept to change.
        """
        state = self._state
        if state.policy.profile == "parity" or not state.policy.gates.preemption_claims:
            return False
        if not self._fits_beside(entry, but_for=is_kept, holds=False):
            return False
        for holds in (False, True):
            with state.trial():
                if holds and not self._holds.charge(state.tree.queues[entry.workload.queue], self._reserved):
                    return False
                assignment, victims = self._search(entry)
            again = replace(entry, assignment=assignment, targets=victims.targets, deferred=False)
            is_answer = assignment.mode is Mode.FIT or bool(victims.targets and not entry.workload.gated)
            if is_answer and not self._overlaps(again) and self._fits_beside(again):
                self._renew(entry, assignment, victims)
                entry.deferred = False
                return True
        return False

    def _lose(self, entry: Entry) -> Verdict:
        """Another has taken its room, or it is kept for others: then it is due when that changes (S-5.1)."""
        verdict = skip(entry, Rule.LOST)
        if self._state.policy.profile == "parity" or not self._fits_beside(entry, but_for=is_kept, holds=False):
            return verdict
        if self._fits_beside(entry, but_for=ends_with_the_cycle):
            return verdict
        tree, root = self._state.tree, self._root(entry.workload)
        lost_to = self._holds.in_force(self._reserved)
        keys = [hold.key for queue, hold in lost_to.items() if tree.queues[queue].root is root]
        owners = dict.fromkeys((*(kept.owner for kept in self._kept if kept.owner), *keys))
        step = Step(Rule.HELD_BACK, (entry.workload.key, *owners))
        return replace(verdict, held_back=True, steps=(*verdict.steps, step), lost_to=lost_to)

    def _defer(self, entry: Entry) -> Verdict:
        """It waits until those have left who were asked to by others: all of its tree that still hold quota."""
        claim = None
        if self._state.policy.gates.preemption_claims:
            victims = self._still_there(entry)
            until = claims.deadline(self._state, victims, self._now)
            claim = claims.new_claim(entry.assignment, [(each.key, each.uid) for each in victims], self._now, until)
        entry.deferred = True
        self._charge(entry, claim)
        return wait(entry, "PendingPreemption", Step(Rule.DEFERRED, (entry.workload.key,)), claim=claim)

    def _claim(self, entry: Entry) -> Claim:
        """On its targets, and on the victims of the claims it takes."""
        leaving = [target.workload for target in entry.targets if target.workload.key not in self._claimants]
        if entry.replaces is not None and not entry.targets:
            leaving.append(entry.replaces)
        taken = [self._claimants[t.workload.key] for t in entry.targets if t.workload.key in self._claimants]
        inherited = [victim for each in taken for victim in each.victims]  # who has left by now may be back by right
        victims = [(each.key, each.uid) for each in (*leaving, *inherited)]
        latest = DAWN if victims else max((each.claim.expires_at for each in taken), default=self._now)
        until = claims.deadline(self._state, (*leaving, *inherited), self._now, at_least=latest)
        return claims.new_claim(entry.assignment, victims, self._now, until)

    def _still_there(self, entry: Entry) -> list[Workload]:
        """Who was asked to leave in the entry's tree, in this cycle or before, and still holds quota."""
        return list(self._asked.get(self._root(entry.workload), {}).values())

    def _fits_beside(self, entry: Entry, *, but_for: Callable[[Kept], bool] | None = None, holds: bool = True) -> bool:
        """Whether it fits with all victims, earlier ones and its own, gone (S-5.7.2).

        Also ``but_for`` some of what is kept free or claimed in this cycle, and beside what is held, unless that is
        left aside. One that is deferred was found to fit, so it is only asked about what is held.
        """
        tree = self._state.tree
        node, usage = tree.queues[entry.workload.queue], entry.assignment.usage
        if but_for is None and not entry.targets and entry.replaces is None and not self._holds:
            return entry.deferred or tree.fits(node, usage)  # the usual case, told without a trial
        with self._state.trial():
            self._let_leave(entry)
            reserved = self._reserved if but_for is None else self._take_off(but_for)
            if not entry.deferred and not tree.fits(node, usage):
                return False
            borrowed = [fr for fr, amount in usage.items() if amount and tree.borrows(node, fr, amount)]
            if not holds or not borrowed or not self._holds.charge(node, reserved):
                return True
            return all(usage[fr] <= max(0, tree.available(node, fr)) for fr in borrowed)

    def _take_off(self, but_for: Callable[[Kept], bool]) -> dict[QueueName, dict[FR, int]]:
        """In a trial: without some of what is kept; returns what is still reserved, by queue."""
        reserved: dict[QueueName, dict[FR, int]] = {}
        for kept in self._kept:
            if but_for(kept):
                self._state.tree.release_all(self._state.tree.queues[kept.queue], kept.amounts)
            elif not kept.is_claimed:
                _add_to(reserved, kept.queue, kept.amounts)
        return reserved

    def _let_leave(self, entry: Entry) -> None:
        """In a trial: those are gone whom it displaces, or takes over from."""
        tree = self._state.tree
        for each in [*(target.workload for target in entry.targets), *([entry.replaces] if entry.replaces else [])]:
            tree.release_all(tree.queues[each.queue], each.usage or {})

    def _fits_as_it_is(self, entry: Entry) -> bool:
        """Whether it fits beside all those who were asked to leave (S-5.7.9a).

        What is claimed or reserved is left aside: it is not in use yet, and that it will find room was asked before.
        """
        tree = self._state.tree
        node = tree.queues[entry.workload.queue]
        still_there = self._still_there(entry)
        if not still_there:
            return True
        with self._state.trial():
            for each in still_there:
                tree.charge_all(tree.queues[each.queue], each.usage or {})
            for where, usage in self._promised.get(node.root, {}).values():
                tree.release_all(where, usage)
            for kept in self._kept:
                if not kept.is_claimed and tree.queues[kept.queue].root is node.root:
                    tree.release_all(tree.queues[kept.queue], kept.amounts)
            return tree.fits(node, entry.assignment.usage)

    def _choose(self, entry: Entry) -> None:
        tree = self._state.tree
        leaving = [target.workload for target in entry.targets]
        if entry.replaces is not None and not leaving:
            leaving.append(entry.replaces)
        for victim in leaving:
            self._chosen[victim.key] = victim
            self._left_since[victim.queue] = None
            tree.release_all(tree.queues[victim.queue], victim.usage or {})
            if victim.key in self._claimants:
                self._taken[victim.key] = entry.workload
                self._state.claims.drop(victim.key)  # in the trial: from here on it waits like others
                del self._promised[self._root(victim)][victim.key]
                continue
            self._ask(victim)
            used = self._leaving.setdefault(victim.queue, {})
            for fr, amount in (victim.usage or {}).items():
                used[fr] = used.get(fr, 0) + amount

    def _charge(self, entry: Entry, claim: Claim | None = None) -> None:
        if entry.workload.usage is None:
            tree = self._state.tree
            tree.charge_all(tree.queues[entry.workload.queue], entry.assignment.usage)
            if claim is not None:
                usage, owner = entry.assignment.usage, entry.workload.key
                self._kept.append(Kept(entry.workload.queue, usage, owner, is_claimed=True))
                self._promise(entry.workload, entry.assignment.usage)
        if claim is not None and entry.replaces is not None:
            self._migrating.append(entry.workload)

    def _reserve(self, entry: Entry) -> dict[FR, int]:
        """Keep room for a head that must wait although nobody can be asked to leave (S-5.8)."""
        queue = self._state.queues[entry.workload.queue]
        if queue.reclaim == "Any" and not reserves_anyway(self._state, entry.workload):
            return {}
        leaving = self._leaving.get(queue.name, {})
        amounts = {fr: amount for fr, amount in reservation(self._state, entry, leaving).items() if amount}
        owner = entry.workload.key if stays_reserved(self._state, queue.name) else ""
        self.keep_free(queue.name, amounts, owner)
        return amounts


def _add_to(table: dict[QueueName, dict[FR, int]], queue: QueueName, amounts: Mapping[FR, int]) -> None:
    known = table.setdefault(queue, {})
    for fr, amount in amounts.items():
        known[fr] = known.get(fr, 0) + amount


def reserves_anyway(state: State, workload: Workload) -> bool:
    """Whether it keeps room free also where it could reclaim it later: recorded of who waits for victims (0028)."""
    policy = state.policy
    is_meant = policy.profile == "parity" and policy.gates.prioritize_preemptor_workloads
    return is_meant and state.preemptors.is_last(workload)


def stays_reserved(state: State, queue: QueueName) -> bool:
    """Whether what is reserved for a refused head outlives the cycle: that of a strict queue that does not lend."""
    lends = state.policy.profile == "parity" or state.policy.strict_fifo_lends
    return state.pending.list_of(queue).strict and not lends


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

"""Claims that are redeemed: the first entries of a cycle, judged on the tree as it is (S-19.1)."""

from __future__ import annotations

from dataclasses import replace

from makeway.core.cycle.nomination import Entry
from makeway.core.cycle.options import running_sibling
from makeway.core.cycle.verdicts import Verdict, go, wait
from makeway.core.model import Millis, Uid, WorkloadKey
from makeway.core.preemption import claims
from makeway.core.preemption.claims import Claimant
from makeway.core.state import State
from makeway.core.trace import Rule, Step


class Redeeming:
    """Claimants whose victims are gone: each gets what it claims as soon as that fits the tree as it is (S-19.1.2).

    It fits the tree as it will be together with all other claims, or it would have ended. Runs inside a trial.
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
        """How far each claimant borrows in the tree as it will be, with all claims but its own."""
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
        """A claimant that is an Option: its sibling leaves only now, for a claim of its own (S-12.7.1)."""
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
        """The claim stays as it is: it is never extended."""
        entry.deferred = True
        return wait(entry, "PendingPreemption", Step(Rule.DEFERRED, (entry.workload.key,)), claim=each.claim)

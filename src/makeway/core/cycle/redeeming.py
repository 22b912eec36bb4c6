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
        self, state: State, now: Millis, claimants: tuple[Claimant, ...], ready: frozenset[Uid], *, waits: bool
    ) -> None:  # fmt: skip
        self._state = state
        self._now = now
        self._ready = ready
        self._claimants = claimants
        self.left: list[Claimant] = []  # whose claims stay in force
        self.waits = waits  # nothing more is admitted until pods are ready (S-5.7.12)

    def verdicts(self) -> list[Verdict]:
        verdicts = []
        levels = self._levels()
        for claimant in self._claimants:  # oldest first
            if claimant.workload.uid not in self._ready:
                self.left.append(claimant)
                continue
            verdict = self._judge(claimant, levels[claimant.workload.key])
            verdicts.append(verdict)
            if verdict.replaces is not None and verdict.claim is not None:
                self.left.append(replace(claimant, claim=verdict.claim, victims=(verdict.replaces,)))
            elif verdict.status != "admitted":
                self.left.append(claimant)
        return verdicts

    def _levels(self) -> dict[WorkloadKey, int]:
        """How far each claimant borrows in the tree as it will be, with all claims but its own."""
        state, tree, levels_of = self._state, self._state.tree, {}
        if not self._ready:
            return {}
        with state.trial():
            claims.credit(state, self._claimants)
            for claimant in self._claimants:
                tree.charge_all(tree.queues[claimant.workload.queue], claimant.assignment.usage)
            for claimant in self._claimants:
                if claimant.workload.uid in self._ready:
                    node, usage = tree.queues[claimant.workload.queue], claimant.assignment.usage
                    tree.release_all(node, usage)
                    levels = [tree.lowest_subtree(node, fr, amount)[0] for fr, amount in usage.items()]
                    levels_of[claimant.workload.key] = max(levels, default=0)
                    tree.charge_all(node, usage)
        return levels_of

    def _judge(self, claimant: Claimant, level: int) -> Verdict:
        tree, workload, assignment = self._state.tree, claimant.workload, claimant.assignment
        node = tree.queues[workload.queue]
        entry = Entry(workload, replace(assignment, level=level))
        sibling = running_sibling(self._state, workload)
        if sibling is not None:
            return self._migrate(replace(entry, replaces=sibling), claimant)
        if not tree.fits(node, assignment.usage):
            return self._waits_on(entry, claimant)
        if self.waits:
            return wait(
                entry, "FailedAfterNomination", Step(Rule.PODS_NOT_READY, (workload.key,)), claim=claimant.claim
            )
        tree.charge_all(node, assignment.usage)
        self.waits = self._state.blocks_others(workload)
        return replace(go(entry), steps=(Step(Rule.CLAIMED, (workload.key,)),))

    def _migrate(self, entry: Entry, claimant: Claimant) -> Verdict:
        """A claimant that is an Option: its sibling leaves only now, for a claim of its own (S-12.7.1)."""
        tree, sibling = self._state.tree, entry.replaces
        assert sibling is not None
        with self._state.trial():
            tree.release_all(tree.queues[sibling.queue], sibling.usage or {})
            fits = tree.fits(tree.queues[entry.workload.queue], entry.assignment.usage)
        if not fits or sibling.evicted:
            return self._waits_on(entry, claimant)
        until = claims.deadline(self._state, [sibling], self._now)
        claim = claims.new_claim(entry.assignment, [(sibling.key, sibling.uid)], self._now, until)
        return replace(go(entry), claim=claim)

    def _waits_on(self, entry: Entry, claimant: Claimant) -> Verdict:
        """The claim stays as it is: it is never extended."""
        entry.deferred = True
        return wait(entry, "PendingPreemption", Step(Rule.DEFERRED, (entry.workload.key,)), claim=claimant.claim)

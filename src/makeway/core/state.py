"""All the scheduler knows, kept up to date in place. There is no other copy: a what-if is a ``trial``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from makeway.core.cycle.flavors import AT_END, Scan, Tried
from makeway.core.model import (
    Claim,
    Flavor,
    FlavorName,
    Millis,
    Queue,
    QueueName,
    Workload,
    WorkloadKey,
    selects,
)
from makeway.core.policy import Policy
from makeway.core.preemption.claims import Claims
from makeway.core.preemption.rounds import Round, Rounds
from makeway.core.queueing.pending import Pending, Shape, shape
from makeway.core.queueing.prefilter import NOTHING, Prefilter
from makeway.core.queueing.waiting_list import Least
from makeway.core.quota.holders import Holders
from makeway.core.quota.tree import QuotaSpec, QuotaTree
from makeway.core.undo import UndoLog


@dataclass(frozen=True, slots=True)
class FlavorProgress:
    """How far a workload's flavor scan came, and when (S-6.8)."""

    tried: Tried
    shape: Shape
    cycle: int
    generation: int
    ended: frozenset[Scan]  # that have reached the end of their list since ``wakes``
    wakes: int


class State:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._log = UndoLog()
        self.tree = QuotaTree(self._log)
        self.blocks_admission = policy.pods_ready is not None and policy.pods_ready.block_admission
        self.holders = Holders(self._log, counts_unready=self.blocks_admission)
        self.claims = Claims(self._log)
        self.rounds = Rounds(self._log, policy.rounds_end_after_ms)
        self.pending = Pending(self._log, lambda workload: self.unclaim(workload.key), lambda: self.waits_for_pods)
        self.prefilter = Prefilter(self)
        self.queues: dict[QueueName, Queue] = {}
        self.flavors: dict[FlavorName, Flavor] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}  # labels by name
        self.propagates_refusals = policy.profile != "parity" and policy.gates.scheduling_equivalence_hashing
        if policy.fair_sharing:  # who asks for more may fare better there, and a full queue take from others (0041)
            self.propagates_refusals = False
        self._progress: dict[WorkloadKey, FlavorProgress] = {}
        self._preemptors: dict[WorkloadKey, None] = {}  # requeued with preemptions pending, no quota since (S-5.6.2)
        self._last_preemptors: dict[QueueName, WorkloadKey] = {}  # of each queue, the newest of them
        self._generations: dict[QueueName, int] = {}  # S-3.8
        self._cycles: dict[str, int] = {}
        self._trees: dict[QueueName, list[QueueName]] = {}  # as found since the last configuration

    def trial(self) -> AbstractContextManager[None]:
        """Whatever is done to any part of the state inside is undone on exit; trials nest."""
        return self._log.trial()

    def attempt(self) -> AbstractContextManager[None]:
        """What is done to the state inside stays, unless an error ends it: then nothing of it was done."""
        return self._log.attempt()

    # --- configuration ---

    def configure(
        self, queues: Iterable[tuple[Queue, QuotaSpec]], cohorts: Iterable[QuotaSpec], flavors: Iterable[Flavor]
    ) -> None:
        """Queues, cohorts and flavors as they are from now on; who holds or waits stays."""
        pairs = list(queues)
        self._trees.clear()
        self.prefilter.forget_queues()
        self.queues = {queue.name: queue for queue, _ in pairs}
        self.flavors = {flavor.name: flavor for flavor in flavors}
        known = set(self.tree.queues)
        inactive = frozenset(queue.name for queue, _ in pairs if not queue.active)
        self.tree.configure([spec for _, spec in pairs], cohorts, inactive)
        for name in [each for each in self.queues if each not in known]:  # it may have had holders before it went
            for holder in self.holders.of_queue.get(name, {}).values():
                self.tree.charge_all(self.tree.queues[name], holder.usage or {})
        for queue, _ in pairs:
            line = self.pending.list_of(queue.name)
            line.strict = queue.strict
            line.verdicts.by_age = queue.within == "LowerOrNewerEqualPriority" and self.policy.profile != "parity"
            self._generations[queue.name] = self._generations.get(queue.name, 0) + 1

    def is_active(self, name: QueueName) -> bool:
        queue = self.queues.get(name)
        return queue is not None and queue.active and not self.tree.queues[name].in_cycle

    # --- who holds quota ---

    @property
    def waits_for_pods(self) -> bool:
        """Whether nothing is admitted now: ``blockAdmission``, and pods of a workload with quota are not ready.

        A reservation counts from the moment it is decided: its checks may pass at any time, and then its pods start
        (S-5.7.12, decision 0073).
        """
        return bool(self.holders.unready)

    def blocks_others(self, workload: Workload) -> bool:
        """Whether an admission of this workload keeps all others from theirs until its pods are ready."""
        return self.blocks_admission and not workload.pods_ready

    def hold(self, workload: Workload) -> None:
        """Account for a workload that has quota (S-3.6); it no longer waits."""
        self._end_standing(workload)
        self.unclaim(workload.key, workload.reserved_at)
        self.pending.forget(workload)
        self.rounds.know(workload)
        self.rounds.held(workload, self._root_name(workload.queue))
        self.note_leaving(workload)
        self._log.drop(self._progress, workload.key)
        self._log.drop(self._preemptors, workload.key)
        self.holders.add(workload)
        node = self.tree.queues.get(workload.queue)
        if node is not None:
            self.tree.charge_all(node, workload.usage or {})

    def release(self, workload: Workload, now: Millis | None = None) -> None:
        """It holds quota no more, since ``now``; None: that is only supposed, in a trial."""
        self.holders.remove(workload)
        if now is not None and workload.displaced_at is not None:
            self.rounds.end_for(workload)  # it had its time: that is no quarrel (S-19.3.2)
        self.rounds.released(workload, now)
        if now is not None:
            self.rounds.left(workload, now)
        node = self.tree.queues.get(workload.queue)
        if node is not None:
            self.tree.release_all(node, workload.usage or {})
        self._log.put(self._generations, workload.queue, self._generations.get(workload.queue, 0) + 1)

    def note_leaving(self, workload: Workload) -> None:
        """A holder may have been asked to leave for another: then its tree is not at peace (S-19.3.2)."""
        if workload.evicted and workload.preempted:
            self.rounds.leaves(workload, self._root_name(workload.queue))

    # --- who waits ---

    def push(self, workload: Workload, now: Millis) -> None:
        """It arrives, or changed in a way that makes it worth another look; a claim that it carries is in force."""
        known = self.claims.find(workload.key)
        claim = workload.claim if self.policy.gates.preemption_claims else None
        is_the_same = (
            known is not None
            and claim is not None
            and (known.uid, known.queue, known.claim.issued_at) == (workload.uid, workload.queue, claim.issued_at)
        )
        self.rounds.know(workload)
        if known is not None and not is_the_same:
            self.unclaim(workload.key, now)
        if claim is not None and not is_the_same:
            self.claim(workload, claim, preempts=not workload.gated)
        self._end_standing(workload)
        self.pending.push(workload, now, shapes_count=self.policy.gates.scheduling_equivalence_hashing)
        if claim is not None:
            self._stick_again(workload.queue)
        if known is not None and not is_the_same:
            self.wake(known.queue, now)

    def claim(self, workload: Workload, claim: Claim, *, preempts: bool, round: Round = "") -> None:
        """A claim is in force from now on (S-19.1); who stood behind its workload for a turn is due (S-4.6.9)."""
        self.unclaim(workload.key, claim.issued_at)
        tree = self._root_name(workload.queue)
        victims = [self.holders.by_key.get(key) for key, _ in claim.victims]
        by_time = bool(victims) and all(each is not None and each.displaced_at is not None for each in victims)
        if not by_time:
            self.rounds.disturb(tree, claim.issued_at)
        self.claims.put(workload, claim, preempts=preempts, disturbs=None if by_time else tree, round=round)
        self.pending.list_of(workload.queue).turns.end_behind(workload.key)

    def unclaim(self, key: WorkloadKey, at: Millis | None = None) -> None:
        """The claim of this workload, if it has one, is over since ``at``; None: nobody knows since when."""
        known = self.claims.find(key)
        if known is None:
            return
        self.claims.drop(key)
        if known.disturbs is not None:
            self.rounds.calm(known.disturbs, known.claim.issued_at if at is None else at)

    def _root_name(self, queue: QueueName) -> str:
        node = self.tree.queues.get(queue)
        if node is None or node.in_cycle or node.root.is_queue:
            return f"ClusterQueue {queue}"
        return f"Cohort {node.root.name}"

    def _stick_again(self, queue: QueueName) -> None:
        """Of all claimants the last one comes first in its line: stickiness is not stored, claims are (S-3.11)."""
        last = max(self.claims.of_queue[queue].values(), key=lambda known: (known.claim.issued_at, known.uid))
        waiting = self.pending.find(queue, last.key)
        if waiting is not None:
            self.pending.list_of(queue).stick(last.key)

    def forget(self, workload: Workload, now: Millis) -> None:
        """It is gone or may not wait any more; if it had a claim, its tree is woken."""
        had_claim = self.claims.find(workload.key) is not None
        self.unclaim(workload.key, now)
        self._end_standing(workload)
        self.pending.forget(workload)
        self.forget_progress(workload)
        if had_claim:
            self.wake(workload.queue, now)

    def _end_standing(self, workload: Workload) -> None:
        """What was kept free for it is so no more: who lost to that is due (S-5.1)."""
        line = self.pending.list_of(workload.queue)
        if workload.key in line.reservations or workload.key in line.entitled:
            self.pending.free_again(self.tree_of(workload.queue), frozenset())

    def tree_of(self, queue: QueueName) -> list[QueueName]:
        """All queues that share quota with this one, itself included; below a cycle there is no tree (S-2.3)."""
        found = self._trees.get(queue)
        if found is None:
            found = self._tree_of(queue)
            for each in found:
                self._trees[each] = found
        return found

    def _tree_of(self, queue: QueueName) -> list[QueueName]:
        node = self.tree.queues.get(queue)
        if node is None or node.in_cycle:
            return []
        found: list[QueueName] = []
        open_nodes = [node.root]
        while open_nodes:
            each = open_nodes.pop()
            if each.is_queue:
                found.append(QueueName(each.name))
            open_nodes.extend(each.children)
        return sorted(found)

    def wake(self, queue: QueueName, now: Millis) -> list[WorkloadKey]:
        """Something changed that may let somebody of this queue's tree in (S-4.6)."""
        return self.pending.wake(self.tree_of(queue), now, self.namespace_matches)

    def wake_after_release(self, queues: Iterable[QueueName], now: Millis) -> None:
        """Somebody left, or leaves no more: those return for whom that can make a difference (S-4.5.3, 4.6)."""
        is_hopeless: Callable[[QueueName, Least], bool] | None = None
        if self.propagates_refusals:
            promised = self.prefilter.promised()

            def is_hopeless(name: QueueName, least: Least) -> bool:
                node = self.tree.queues.get(name)
                known = NOTHING if node is None else promised.get(node.root, NOTHING)
                return self.prefilter.is_short(name, least.priority, least.amounts, known)

        self.pending.wake(queues, now, self.namespace_matches, lists_returned=False, is_hopeless=is_hopeless)

    def namespace_matches(self, workload: Workload) -> bool:
        queue = self.queues.get(workload.queue)
        if queue is None or queue.namespaces is None:
            return False
        labels = self.namespaces.get(workload.namespace)
        return labels is not None and (not queue.namespaces or selects(queue.namespaces, labels))

    # --- scan progress ---

    @property
    def cycle(self) -> int:
        """How many cycles were carried out: the number of the last one."""
        return self._cycles.get("count", 0)

    def next_cycle(self) -> None:
        self._log.put(self._cycles, "count", self.cycle + 1)

    def tried(self, workload: Workload) -> Tried:
        """Where its flavor scan goes on, unless what it found has become old (S-6.8)."""
        known = self._progress.get(workload.key)
        if known is None or known.shape != shape(workload):
            return {}
        has_changed = known.generation != self._generations.get(workload.queue, 0)
        return {} if has_changed and known.cycle < self.cycle else known.tried

    def remember(self, workload: Workload, tried: Tried, ended: frozenset[Scan] = frozenset()) -> bool:
        """Note where its scans stopped; returns whether flavors are left to try (S-6.8).

        ``ended``: scans that came to their end and are not in ``tried`` as such.
        """
        unfinished = {scan for scan, index in tried.items() if index != AT_END}
        ended |= tried.keys() - unfinished
        wakes = self.pending.list_of(workload.queue).wakes
        before = self._progress.get(workload.key)
        if before is not None and before.wakes == wakes:
            ended |= before.ended
        generation = self._generations.get(workload.queue, 0)
        progress = FlavorProgress(tried, shape(workload), self.cycle, generation, ended, wakes)
        self._log.put(self._progress, workload.key, progress)
        if self.policy.gates.preemption_claims:
            return bool(unfinished - ended)  # two scans out of phase must not keep it from being parked
        return bool(unfinished)

    def forget_progress(self, workload: Workload) -> None:
        self._log.drop(self._progress, workload.key)

    def mark_preemptor(self, workload: Workload) -> None:
        self._log.put(self._preemptors, workload.key, None)
        self._log.put(self._last_preemptors, workload.queue, workload.key)

    def is_preemptor(self, workload: Workload) -> bool:
        return workload.key in self._preemptors

    def is_last_preemptor(self, workload: Workload) -> bool:
        """Whether nobody of its queue has become one since."""
        return self.is_preemptor(workload) and self._last_preemptors.get(workload.queue) == workload.key

    # --- rounds ---

    def rounds_end_for(self, workload: Workload) -> None:
        """Its spec, effective priority or reclaimable pods changed (S-19.3.2)."""
        self.rounds.end_for(workload)

    def rounds_end_in(self, queue: QueueName) -> None:
        """Quota, policy or weight changed in the tree of ``queue``."""
        self.rounds.end_in(self.tree_of(queue) or [queue])

    def rounds_end_after(self, workload: Workload) -> None:
        """It finished or was deleted: those whom it evicted last, or whose claim it took, begin anew."""
        self.rounds.end_after(workload)
        self.rounds.forget(workload)

    def fingerprint(self) -> object:
        """Equal before and after every trial."""
        return (
            self.tree.contents(), self.holders.contents(), self.pending.contents(),
            dict(sorted(self._progress.items())), sorted(self._preemptors),
            dict(sorted(self._last_preemptors.items())), dict(sorted(self._generations.items())),
            self.cycle, self.claims.contents(), self.rounds.contents(),
        )  # fmt: skip

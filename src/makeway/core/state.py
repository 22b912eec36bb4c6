"""All that the scheduler knows, updated in place. There is no other copy: a what-if is a ``trial``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

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
from makeway.core.preemption.preemptors import Preemptors
from makeway.core.preemption.rounds import Round, Rounds
from makeway.core.queueing.pending import Pending
from makeway.core.queueing.prefilter import NOTHING, Prefilter
from makeway.core.queueing.waiting_list import Least
from makeway.core.quota.holders import Holders
from makeway.core.quota.tree import QuotaSpec, QuotaTree
from makeway.core.scans import FlavorScans
from makeway.core.undo import UndoLog


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
        self.scans = FlavorScans(self._log, self)
        self.preemptors = Preemptors(self._log)
        self.queues: dict[QueueName, Queue] = {}
        self.flavors: dict[FlavorName, Flavor] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}  # labels by name
        self.propagates_refusals = not policy.is_parity and policy.gates.scheduling_equivalence_hashing
        if policy.fair_sharing:  # one that asks for more may fare better, and a full queue take from others (0041)
            self.propagates_refusals = False

    def trial(self) -> AbstractContextManager[None]:
        """All changes of the state inside are undone on exit; trials nest."""
        return self._log.trial()

    def attempt(self) -> AbstractContextManager[None]:
        """Changes of the state inside stay, unless an error ends the block: then all of them are undone."""
        return self._log.attempt()

    # --- configuration ---

    def configure(
        self, queues: Iterable[tuple[Queue, QuotaSpec]], cohorts: Iterable[QuotaSpec], flavors: Iterable[Flavor]
    ) -> None:
        """Set queues, cohorts and flavors; workloads that hold quota or wait stay."""
        pairs = list(queues)
        self.prefilter.forget_queues()
        self.queues = {queue.name: queue for queue, _ in pairs}
        self.flavors = {flavor.name: flavor for flavor in flavors}
        known = set(self.tree.queues)
        inactive = frozenset(queue.name for queue, _ in pairs if not queue.active)
        self.tree.configure([spec for _, spec in pairs], cohorts, inactive)
        for name in [each for each in self.queues if each not in known]:  # it may have had holders before its deletion
            for holder in self.holders.of_queue.get(name, {}).values():
                self.tree.charge_all(self.tree.queues[name], holder.usage or {})
        for queue, _ in pairs:
            waiting_list = self.pending.list_of(queue.name)
            waiting_list.strict = queue.strict
            waiting_list.verdicts.by_age = queue.within.favours_age and not self.policy.is_parity
            self.scans.next_generation(queue.name)

    def is_active(self, name: QueueName) -> bool:
        queue = self.queues.get(name)
        return queue is not None and queue.active and not self.tree.queues[name].in_cycle

    # --- holders of quota ---

    @property
    def waits_for_pods(self) -> bool:
        """Whether nothing is admitted now: ``blockAdmission``, and pods of a workload with quota are not ready.

        A reservation counts as soon as it is decided: its checks may pass at any time, and then its pods start
        (S-5.7.12, decision 0073).
        """
        return bool(self.holders.unready)

    def blocks_others(self, workload: Workload) -> bool:
        """Whether an admission of this workload keeps all others from theirs until its pods are ready."""
        return self.blocks_admission and not workload.pods_ready

    def hold(self, workload: Workload) -> None:
        """Account for a workload that has quota (S-3.6); it no longer waits."""
        self._free_what_is_kept_for(workload)
        self.unclaim(workload.key, workload.reserved_at)
        self.pending.forget(workload)
        self.rounds.know(workload)
        self.rounds.held(workload, self.tree.root_name(workload.queue))
        self.note_leaving(workload)
        self.scans.forget(workload)
        self.preemptors.forget(workload)
        self.holders.add(workload)
        node = self.tree.queues.get(workload.queue)
        if node is not None:
            self.tree.charge_all(node, workload.usage or {})

    def release(self, workload: Workload, now: Millis | None = None) -> None:
        """A workload holds no quota any more, since ``now``; None: that is only supposed, in a trial."""
        self.holders.remove(workload)
        if now is not None and workload.displaced_at is not None:
            self.rounds.end_for(workload)  # its time was up: that is no quarrel (S-19.3.2)
        self.rounds.released(workload, now)
        node = self.tree.queues.get(workload.queue)
        if node is not None:
            self.tree.release_all(node, workload.usage or {})
        self.scans.next_generation(workload.queue)

    def note_leaving(self, workload: Workload) -> None:
        """A holder may have been asked to leave for another: then its tree is not at peace (S-19.3.2)."""
        if workload.evicted and workload.preempted:
            self.rounds.leaves(workload, self.tree.root_name(workload.queue))

    # --- waiting workloads ---

    def push(self, workload: Workload, now: Millis) -> None:
        """A workload arrives, or changed so that it is evaluated again; a claim that it carries is in force.

        A claim in force stays if the workload carries the same one; if it carries another or none, it ends.
        """
        carried = workload.claim if self.policy.gates.preemption_claims else None
        in_force = self.claims.find(workload.key)
        is_the_same = in_force is not None and carried is not None and in_force.is_of(workload, carried)
        ended = None if is_the_same else in_force
        self.rounds.know(workload)
        if ended is not None:
            self.unclaim(workload.key, now)
        if carried is not None and not is_the_same:
            self.claim(workload, carried, preempts=not workload.gated)
        self._free_what_is_kept_for(workload)
        self.pending.push(workload, now, shapes_count=self.policy.gates.scheduling_equivalence_hashing)
        last = None if carried is None else self.claims.last_of(workload.queue)
        if last is not None and self.pending.find(workload.queue, last) is not None:
            self.pending.list_of(workload.queue).stick(last)  # this is not stored, claims are (S-3.11)
        if ended is not None:
            self.wake(ended.queue, now)

    def claim(self, workload: Workload, claim: Claim, *, preempts: bool, round: Round = "") -> None:
        """A claim is in force from now on (S-19.1); workloads that waited for its workload's turn are due (S-4.6.9)."""
        self.unclaim(workload.key, claim.issued_at)
        tree = self.tree.root_name(workload.queue)
        victims = [self.holders.by_key.get(key) for key, _ in claim.victims]
        by_time = bool(victims) and all(each is not None and each.displaced_at is not None for each in victims)
        if not by_time:
            self.rounds.disturb(tree, claim.issued_at)
        self.claims.put(workload, claim, preempts=preempts, disturbs=None if by_time else tree, round=round)
        self.pending.list_of(workload.queue).turns.end_behind(workload.key)

    def unclaim(self, key: WorkloadKey, at: Millis | None = None) -> None:
        """The claim of this workload, if any, is over since ``at``; None: since when is not known."""
        known = self.claims.find(key)
        if known is None:
            return
        self.claims.drop(key)
        if known.disturbs is not None:
            self.rounds.peace.calm(known.disturbs, known.claim.issued_at if at is None else at)

    def forget(self, workload: Workload, now: Millis) -> None:
        """A workload is gone or may not wait any more; if it had a claim, its tree is woken."""
        had_claim = self.claims.find(workload.key) is not None
        self.unclaim(workload.key, now)
        self._free_what_is_kept_for(workload)
        self.pending.forget(workload)
        self.scans.forget(workload)
        if had_claim:
            self.wake(workload.queue, now)

    def _free_what_is_kept_for(self, workload: Workload) -> None:
        """Quota is no longer kept free for this workload: workloads that lost to it are due (S-5.1)."""
        waiting_list = self.pending.list_of(workload.queue)
        if workload.key in waiting_list.reservations or workload.key in waiting_list.entitled:
            self.pending.free_again(self.tree_of(workload.queue), frozenset())

    def tree_of(self, queue: QueueName) -> list[QueueName]:
        """All queues that share quota with this one, itself included; below a cycle there is no tree (S-2.3)."""
        return self.tree.queues_sharing_with(queue)

    def wake(self, queue: QueueName, now: Millis) -> list[WorkloadKey]:
        """A change may let a workload of this queue's tree in (S-4.6)."""
        return self.pending.wake(self.tree_of(queue), now, self.namespace_matches)

    def wake_after_release(self, queues: Iterable[QueueName], now: Millis) -> None:
        """A workload left, or stays after all: those workloads return that may fare better now (S-4.5.3, 4.6)."""
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

    def fingerprint(self) -> object:
        """The contents, equal before and after every trial."""
        return (
            self.tree.contents(), self.holders.contents(), self.pending.contents(), self.scans.contents(),
            self.preemptors.contents(), self.claims.contents(), self.rounds.contents(),
        )  # fmt: skip

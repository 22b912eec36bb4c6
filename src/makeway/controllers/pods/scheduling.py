"""Pods and gangs that wait get their nodes, and lower ones make way for them where that is what it takes (S-15).

A change of an object only brings the cluster up to date (``cluster``). Decisions are made when the controller is called
for the queue, after all changes that came with it. The most important item goes first; of equal ones a gang that is
partly placed, then the earlier one. Each decision is one cycle of ``core.placement.cycle``, and its result is written:

- A placement without evictions is bound, all pods of a gang at once. If a write fails, the rest of the gang goes before
  its equals; if it finds no place for a while, the placed part is released (decision 0058).
- A placement with victims is nominated first. Victims are told and deleted once a nomination is stored, so that no pod
  leaves for a promise that a restart would forget. A unit goes as a whole, even after a restart in between.
- A gang with leaving members is placed if that makes enough of it without them (decision 0063).
- An item without a place gets a message, and is tried again after a change that could help it (``hints``), or after
  five minutes without one. A place that is found only then was missed before, and is counted.

Promises: a call costs what has changed, not what runs or waits; equal objects give equal decisions.

Not here: what is decided (``core.placement``), which item is next (``queue``), what an item is (``items``), the writes
(``writes``, ``edits``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from makeway.controllers.contract import (
    GANG_WORKLOAD,
    NOTHING,
    Action,
    Outcome,
    PlacementAttempt,
    Placing,
    Ref,
    Trouble,
    View,
    is_of,
)
from makeway.controllers.pods.changes import ClusterChanges
from makeway.controllers.pods.cluster import WORKLOADS, PodCluster
from makeway.controllers.pods.edits import NOT_WHOLE, PREEMPTED, Promise, said
from makeway.controllers.pods.gang_status import FOR_MEMBERS, FOR_PODS, FOR_VICTIMS, UNSCHEDULABLE, GangBoard, Said
from makeway.controllers.pods.hints import could_help, heeds_others
from makeway.controllers.pods.items import (
    group_of,
    is_stranded,
    item_of,
    min_count,
    name_of,
    pods_on_nodes,
    priority_of,
    rank_of,
    shape_of,
    waiting_pods,
)
from makeway.controllers.pods.messages import RecentlyTold, told_waiting
from makeway.controllers.pods.queue import PodQueue
from makeway.controllers.pods.records import attempt_of, placing_of, released
from makeway.controllers.pods.writes import PlacementWrites, ref_of
from makeway.core.model import Millis
from makeway.core.placement.cycle import CycleAnswer, cycle
from makeway.core.placement.model import ForGroup, Pod, PodKey, Preemptor
from makeway.core.placement.preemption.decision import ONGOING
from makeway.core.trace import Rule

QUEUE = Ref.named("PodQueue", "", "")  # no object: the controller is called with it when an item is ready
DECISIONS_PER_LOOK = 20
STRANDED_MS = 30_000  # how long a partly placed gang may look for a place for the rest


@dataclass(frozen=True, slots=True)
class Stranded:
    """Only a part of a gang is placed, less than must be; the rest has had no place since then."""

    since: Millis


@dataclass(frozen=True, slots=True)
class ItemTurn:
    """An item that is decided, with its waiting pods, and the means to write its decision."""

    item: Preemptor
    pods: list[Pod]
    decision: str
    writes: PlacementWrites
    view: View
    now: Millis


class PodScheduling:
    def __init__(self) -> None:
        self._cluster = PodCluster()
        self._queue = PodQueue()
        self._unanswered: set[PodKey] = set()  # pods with a write that is not answered
        self._states: dict[Preemptor, Promise | Stranded] = {}  # of items that others leave for, and of stranded ones
        self._set_aside: dict[PodKey, Exception] = {}  # pods for which no place can be sought, and why
        self._attempts: list[PlacementAttempt] = []  # of this call
        self._placings: list[Placing] = []  # of this call
        self._told = RecentlyTold()
        self._board = GangBoard()
        self.decisions = 0  # cycles, for tests and figures
        self.missed = 0  # placements that no noticed change had prompted

    @property
    def kinds(self) -> frozenset[str]:
        stored = ("Pod", "Node", "Namespace", "PodDisruptionBudget", "PriorityClass", "Job", *WORKLOADS)
        return frozenset({*stored, QUEUE.kind})

    def react(self, ref: Ref, view: View, now: Millis) -> Outcome:
        cluster = self._cluster
        cluster.begin(view, now)
        if ref == QUEUE:
            return self._schedule(view, now)
        cluster.see(ref, view, now)
        actions: tuple[Action, ...] = ()
        if ref.kind == "Pod":
            key = (ref.namespace, ref.name)
            self._answered(key)
            mates = cluster.leaving.half_evicted(cluster.state, key)
            writes = PlacementWrites(cluster, self._unanswered, view, now)
            actions = tuple(writes.evict(mates, PREEMPTED, "The gang that it is part of makes way"))
        shown = NOTHING
        if is_of(ref, GANG_WORKLOAD):
            cluster.stale_gangs.pop((ref.namespace, ref.name), None)
            shown = self._board.react(ref, cluster, view, now)
        troubles = (*cluster.reader.take_troubles(), *self._still_set_aside(ref))
        return Outcome((*actions, *shown.actions), shown.again_at, self._enqueued(), troubles=troubles)

    def _still_set_aside(self, ref: Ref) -> list[Trouble]:
        """A pod that is reconciled is tried again; it stays in trouble until that went well."""
        error = self._set_aside.get((ref.namespace, ref.name)) if ref.kind == "Pod" else None
        return [] if error is None else [Trouble(ref, error)]

    def _enqueued(self) -> tuple[Ref, ...]:
        """Other objects to reconcile: Workloads whose status may have to change, and the queue."""
        cluster = self._cluster
        stale, cluster.stale_gangs = cluster.stale_gangs, {}
        gangs = tuple(Ref(GANG_WORKLOAD, *key) for key in stale)
        return (*gangs, QUEUE) if cluster.changed_items or cluster.changes or self._queue.has_ready else gangs

    def _answered(self, key: PodKey) -> None:
        """A write of this pod may be answered, so its item may be decided."""
        cluster = self._cluster
        pod = cluster.state.pods.get(key)
        if pod is None or pod.node is not None:
            self._told.forget(key)
            self._set_aside.pop(key, None)
        elif key in self._set_aside:
            cluster.mark_changed(pod)
        if key not in self._unanswered:
            return
        self._unanswered.discard(key)
        if pod is not None and pod.node is None and item_of(cluster.state, pod) not in self._queue:
            cluster.mark_changed(pod)  # it was next while the write was under way

    # --- the queue ---

    def _schedule(self, view: View, now: Millis) -> Outcome:
        actions: list[Action] = []
        troubles: list[Trouble] = []
        for _ in range(DECISIONS_PER_LOOK):
            self._take_in_changes(now)
            item = self._queue.take(now)
            if item is None:
                break
            try:
                actions += self._decide(item, view, now)
            except Exception as error:
                troubles += self._put_aside(item, error, view, now)
            else:
                for pod in waiting_pods(self._cluster.state, item) if self._set_aside else ():
                    self._set_aside.pop(pod.key, None)
        self._take_in_changes(now)
        attempts, self._attempts = tuple(self._attempts), []
        placings, self._placings = tuple(self._placings), []
        return Outcome(
            tuple(actions), self._queue.next_at(), self._enqueued(), attempts=attempts, placings=placings,
            at_latest=self._queue.net_at(), troubles=(*self._cluster.reader.take_troubles(), *troubles),
        )  # fmt: skip

    def _put_aside(self, item: Preemptor, error: Exception, view: View, now: Millis) -> list[Trouble]:
        """The place of this item cannot be decided: it waits until it changes, and the other items go on.

        Nothing of a half-made decision is written, so all pods are read as stored, except those with a write under way.
        """
        cluster = self._cluster
        pods = waiting_pods(cluster.state, item)
        self._break_promise(item)
        self._queue.remove(item)
        for key in sorted(cluster.state.pods.keys() - self._unanswered):
            cluster.see(ref_of(key), view, now)
        cluster.changed_items.pop(item, None)
        self._set_aside |= {pod.key: error for pod in pods}
        return [Trouble(ref_of(pod.key), error) for pod in pods]

    def _take_in_changes(self, now: Millis) -> None:
        """Items that have changed become ready, as do refused items that a change could help."""
        cluster, queue = self._cluster, self._queue
        state = cluster.state
        while cluster.changed_items:
            item = next(iter(cluster.changed_items))
            del cluster.changed_items[item]
            pods = waiting_pods(state, item)
            if pods:
                queue.put(item, rank_of(state, item, pods))
            else:
                queue.remove(item)
                self._placings.append(Placing(name_of(item), "gone"))
                self._enter(item, None)
        changes, cluster.changes = cluster.changes, ClusterChanges()
        if changes:
            for shape, item in queue.refused(heeding=changes.are_arrivals_only):
                if could_help(state, item, waiting_pods(state, item), priority_of(state, item), changes):
                    queue.wake(shape, now)

    # --- the state of an item between its turns ---

    def _enter(self, item: Preemptor, state: Promise | Stranded | None) -> None:
        """From here on the item preempts, is stranded, or (None) waits like most; an earlier promise is broken."""
        before = self._states.pop(item, None)
        if isinstance(before, Promise):
            before.holds = False
        if state is not None:
            self._states[item] = state

    def _break_promise(self, item: Preemptor) -> None:
        if isinstance(self._states.get(item), Promise):
            self._enter(item, None)

    # --- one decision ---

    def _decide(self, item: Preemptor, view: View, now: Millis) -> list[Action]:
        cluster = self._cluster
        pods = waiting_pods(cluster.state, item)
        if not pods or any(pod.key in self._unanswered for pod in pods):
            return []  # it is gone, or comes again when its writes are answered
        self.decisions += 1
        decision = f"nodes/{self.decisions}"
        turn = ItemTurn(
            item, pods, decision, PlacementWrites(cluster, self._unanswered, view, now, decision), view, now
        )  # fmt: skip
        answer = self._answer(turn)
        if answer is None:
            return self._await_members(turn)
        is_unprompted = self._queue.is_unprompted(item)
        self._attempts.append(attempt_of(cluster.state, item, answer, is_unprompted=is_unprompted))
        self.missed += self._attempts[-1].is_missed
        self._placings.append(placing_of(item, answer, decision, view.get(ref_of(pods[0].key))))
        if answer.bound:
            return self._bind(turn, answer)
        if answer.actuated:
            return self._preempt(turn, answer)
        return self._refuse(turn, answer)

    def _answer(self, turn: ItemTurn) -> CycleAnswer | None:
        """The result of one cycle; None: the item has to wait for leaving members.

        A gang that makes way as a whole does so before any of it returns. If members leave for other reasons, the rest
        is placed if that makes enough of it without them. No pod is evicted for it: leaving members free their room.
        """
        state, item = self._cluster.state, turn.item
        pod_by_pod = not turn.view.policy.gates.workload_aware_preemption
        leaving = self._cluster.leaving.of(item) if isinstance(item, ForGroup) else {}
        if not isinstance(item, ForGroup) or not leaving:
            return cycle(state, item, pod_by_pod=pod_by_pod)
        group = group_of(state, item)
        if group is not None and group.whole and any(leaving.values()):
            return None
        with state.trial():
            name = (item.namespace, item.member.workload)
            needing_more = state.gangs.workloads[name].needing_more(item.member.group, len(leaving))
            state.set_workload(name, needing_more)  # leaving members do not count
            answer = cycle(state, item, pod_by_pod=pod_by_pod)
        return answer if answer.bound or answer.reason == ONGOING else None

    def _await_members(self, turn: ItemTurn) -> list[Action]:
        """The item waits for pods of its gang that are leaving."""
        item, state = turn.item, self._cluster.state
        self._break_promise(item)
        self._queue.refuse(item, rank_of(state, item, turn.pods), ("leaving", item), turn.now, counts=False)
        message = "It waits for pods of its gang that leave."
        self._show(turn, FOR_MEMBERS, message)
        return list(turn.writes.tell(turn.pods, {}, message).values())

    def _bind(self, turn: ItemTurn, answer: CycleAnswer) -> list[Action]:
        item = turn.item
        self._enter(item, None)
        actions = [action for key, node in answer.bound.items() for action in turn.writes.bind(key, node)]
        self._queue.placed(item)
        rest = [pod for pod in turn.pods if pod.key not in answer.bound]
        if rest:  # enough of the gang is placed; the rest may preempt in a cycle of its own (G6)
            self._queue.put(item, rank_of(self._cluster.state, item, rest))
        return actions

    def _preempt(self, turn: ItemTurn, answer: CycleAnswer) -> list[Action]:
        """The victims leave once a nomination that promises their room is stored, and while that promise holds."""
        state, item, writes = self._cluster.state, turn.item, turn.writes
        left = {state.pods[key].node for key in answer.actuated}
        promise = Promise()
        self._enter(item, promise)
        count = len(answer.actuated)
        message = f"It waits for {count} {'pod that makes' if count == 1 else 'pods that make'} way."
        self._show(turn, FOR_VICTIMS, message)
        by = name_of(item)
        victims = tuple(writes.evict(answer.actuated, PREEMPTED, f"Preempted by {by}", promise=promise, by=by))
        told = writes.tell(turn.pods, answer.nominated, message, again=True)
        keeper = next((key for key in told if answer.nominated.get(key) in left), next(iter(told)))
        promise.is_there = _is_stored(state.pods[keeper], turn.view)
        told[keeper] = replace(told[keeper], then=victims, because=answer.why if victims else ())
        actions = list(told.values())
        for key in answer.cleared:
            loser = state.pods[key]
            self._break_promise(item_of(state, loser))
            self._cluster.mark_changed(loser)  # it may have a place beside the other, or elsewhere
            actions += writes.clear_nomination(key)
        waiting = waiting_pods(state, item)
        rank, shape = rank_of(state, item, turn.pods), shape_of(state, item, waiting)
        self._queue.refuse(item, rank, shape, turn.now, counts=False, heeds=True)
        return actions

    def _refuse(self, turn: ItemTurn, answer: CycleAnswer) -> list[Action]:
        state, item = self._cluster.state, turn.item
        is_preempting = answer.reason == ONGOING
        if not is_preempting:
            self._break_promise(item)
        actions: list[Action] = []
        promised = {pod.key: pod.nominated for pod in turn.pods if pod.nominated is not None}
        if not self._queue.is_unprompted(item) or answer.nominated != promised:  # else there is no news
            words = self._words(turn, answer)
            is_short = any(step.rule == Rule.PLACE_TOO_FEW for step in answer.why)
            reason = FOR_VICTIMS if is_preempting else FOR_PODS if is_short else UNSCHEDULABLE
            self._show(turn, reason, words[turn.pods[0].key])
            actions = list(turn.writes.tell(turn.pods, answer.nominated, words).values())
        waiting = waiting_pods(state, item)
        shape, heeds = shape_of(state, item, waiting), heeds_others(state, item, waiting)
        rank = rank_of(state, item, turn.pods)
        self._queue.refuse(item, rank, shape, turn.now, counts=not is_preempting, heeds=heeds)
        before = self._states.get(item)
        if is_preempting or not is_stranded(state, item, turn.pods):
            if isinstance(before, Stranded):
                self._enter(item, None)
            return actions
        since = before.since if isinstance(before, Stranded) else turn.now
        if turn.now >= since + STRANDED_MS:
            return [*actions, *self._release(turn)]
        self._enter(item, Stranded(since))
        self._queue.wake_at(shape, Millis(since + STRANDED_MS))
        return actions

    def _release(self, turn: ItemTurn) -> list[Action]:
        """The placed pods of a stranded gang leave their nodes."""
        self._enter(turn.item, None)
        standing = [pod.key for pod in pods_on_nodes(self._cluster.state, turn.item)]
        self._placings.append(released(self._placings[-1], standing))  # that one has the reason
        return list(turn.writes.evict(standing, NOT_WHOLE, "Only a part of its gang has a place"))

    # --- messages ---

    def _words(self, turn: ItemTurn, answer: CycleAnswer) -> Mapping[PodKey, str]:
        """The message of each pod: the same as before if only other pods hold what it lacks."""
        state, item, pods = self._cluster.state, turn.item, turn.pods
        standing = len(pods_on_nodes(state, item))
        fresh = told_waiting(state, self._cluster.unready, pods, standing, min_count(state, item), answer)
        before = {key: said(stored) for key in fresh if (stored := turn.view.get(ref_of(key))) is not None}
        return {key: self._told.renewed(key, before.get(key, ""), words, turn.now) for key, words in fresh.items()}

    def _show(self, turn: ItemTurn, reason: str, message: str) -> None:
        """Let the Workload of these pods show why they wait."""
        pod = turn.pods[0]
        if pod.member is not None:
            self._board.say((pod.key[0], pod.member.workload), turn.item, Said(reason, message))
            self._cluster.mark_stale(pod)


def _is_stored(pod: Pod, view: View) -> Callable[[], bool]:
    """A check, for later, that a pod still exists and is not another one of its name."""

    def is_stored() -> bool:
        stored = view.get(ref_of(pod.key))
        return stored is not None and stored.metadata.uid == pod.uid

    return is_stored

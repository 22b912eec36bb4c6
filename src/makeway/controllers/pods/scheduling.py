"""Pods and gangs that wait get their nodes, and lower ones make way for them where that is what it takes (S-15).

News of an object only brings the cluster up to date (``cluster``). Decisions are made in a look of their own, at
the queue, after all news that came with it: the most important first, among equals a gang of which a part stands
already, then the earlier. Each decision is one cycle of ``core.placement.cycle``, and what it says is written:

- A placement without evictions is bound. All pods of a gang are bound in one look; where a write fails, the rest of
  the gang goes before its equals, and if it finds no place for a while, what stands of it is released (decision 0058).
- A placement with victims is nominated first. They are told and deleted once a nomination is stored, so that nobody
  leaves for a promise that a restart would forget. A unit goes as a whole, also if we were gone in between.
- A gang of which members leave is placed if that makes enough of it without them (decision 0063).
- Who has no place is told why, and is tried again when something changes that could help it (``news``); and after
  five minutes without that, whatever happened. What is found only then was missed before, and is counted.

Promises: a look costs what has changed, not what runs or waits; equal objects give equal decisions.

Not here: what is decided (``core.placement``), who waits in which order (``queue``), edits (``edits``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.pods import PodSpec
from makeway.api.validation.placement import in_one_line
from makeway.controllers.contract import (
    GANG_WORKLOAD,
    NOTHING,
    Action,
    Change,
    Delete,
    Note,
    Outcome,
    PlacementAttempt,
    Placing,
    Ref,
    Trouble,
    View,
)
from makeway.controllers.pods.cluster import WORKLOADS, PodCluster
from makeway.controllers.pods.edits import NOT_WHOLE, PREEMPTED, Bind, Disrupt, Promise, TellWhyNoNode, said, whose
from makeway.controllers.pods.gang_status import FOR_MEMBERS, FOR_PODS, FOR_VICTIMS, UNSCHEDULABLE, GangBoard, Said
from makeway.controllers.pods.messages import RecentlyTold, told_waiting
from makeway.controllers.pods.news import News, could_help, heeds_others, labels_of, look_of
from makeway.controllers.pods.queue import PodQueue, Rank, Shape
from makeway.core.model import Millis
from makeway.core.placement.cycle import CycleAnswer, cycle
from makeway.core.placement.filters import are_some_kept_away, has_relations
from makeway.core.placement.model import ForGroup, ForPod, Pod, PodKey, Preemptor
from makeway.core.placement.preemption.decision import ONGOING
from makeway.core.trace import Rule

QUEUE = Ref("PodQueue", "", "")  # no object: whoever decides is looked at under this name
DECISIONS_PER_LOOK = 20
STRANDED_MS = 30_000  # so long a gang of which only a part stands may look for a place for the rest


class PodScheduling:
    def __init__(self) -> None:
        self._cluster = PodCluster()
        self._queue = PodQueue()
        self._writing: set[PodKey] = set()  # pods of which a write was asked for and is not answered
        self._stranded: dict[Preemptor, Millis] = {}  # gangs of which only a part stands, since when
        self._attempts: list[PlacementAttempt] = []  # of this look
        self._placings: list[Placing] = []  # of this look
        self._decision = ""  # the id that the writes of the decision of the moment carry
        self._told = RecentlyTold()
        self._promises: dict[Preemptor, Promise] = {}  # of those for whom others leave
        self._given_up: dict[PodKey, Exception] = {}  # pods for whom no place can be sought, and why
        self._board = GangBoard()
        self.decisions = 0  # cycles, for tests and figures
        self.missed = 0  # places that nothing we noticed had brought

    @property
    def kinds(self) -> frozenset[str]:
        stored = ("Pod", "Node", "Namespace", "PodDisruptionBudget", "PriorityClass", "Job", *WORKLOADS)
        return frozenset({*stored, QUEUE.kind})

    def react(self, whom: Ref, view: View, now: Millis) -> Outcome:
        cluster = self._cluster
        cluster.begin(view, now)
        if whom == QUEUE:
            return self._schedule(view, now)
        cluster.see(whom, view, now)
        self._decision = ""
        actions: tuple[Action, ...] = ()
        if whom.kind == "Pod":
            key = (whom.namespace, whom.name)
            self._answered(key)
            message = "The gang that it is part of makes way"
            actions = tuple(self._evict(cluster.half_evicted(key), PREEMPTED, message, view, now))
        shown = NOTHING
        if whom.kind == GANG_WORKLOAD:
            cluster.remustered.pop((whom.namespace, whom.name), None)
            shown = self._board.look(whom, cluster, view, now)
        troubles = (*cluster.take_troubles(), *self._still_given_up(whom))
        return Outcome((*actions, *shown.actions), shown.again_at, self._looks(), troubles=troubles)

    def _still_given_up(self, whom: Ref) -> list[Trouble]:
        """Whoever is looked at is tried again; until that went well it is in trouble."""
        key = (whom.namespace, whom.name)
        error = self._given_up.get(key) if whom.kind == "Pod" else None
        return [] if error is None else [Trouble(whom, error)]

    def _looks(self) -> tuple[Ref, ...]:
        """Who else is to be looked at: Workloads that may show something else, and the queue."""
        remustered, self._cluster.remustered = self._cluster.remustered, {}
        gangs = tuple(Ref(GANG_WORKLOAD, *key) for key in remustered)
        return (*gangs, QUEUE) if self._has_news else gangs

    @property
    def _has_news(self) -> bool:
        return bool(self._cluster.touched or self._cluster.news or self._queue.is_due)

    def _answered(self, key: PodKey) -> None:
        pod = self._cluster.state.pods.get(key)
        if pod is None or pod.node is not None:
            self._told.forget(key)
            self._given_up.pop(key, None)
        elif key in self._given_up:
            self._cluster.touched[self._cluster.item_of(pod)] = None
        if key not in self._writing:
            return
        self._writing.discard(key)
        if pod is not None and pod.node is None and (item := self._cluster.item_of(pod)) not in self._queue:
            self._cluster.touched[item] = None  # its turn came while the write was under way

    # --- whose turn it is ---

    def _schedule(self, view: View, now: Millis) -> Outcome:
        actions: list[Action] = []
        troubles: list[Trouble] = []
        for _ in range(DECISIONS_PER_LOOK):
            self._take_in(now)
            item = self._queue.take(now)
            if item is None:
                break
            try:
                actions += self._decide(item, view, now)
            except Exception as error:
                troubles += self._give_up(item, error, view, now)
            else:
                for pod in self._cluster.members(item) if self._given_up else ():
                    self._given_up.pop(pod.key, None)
        self._take_in(now)
        attempts, self._attempts = tuple(self._attempts), []
        placings, self._placings = tuple(self._placings), []
        return Outcome(
            tuple(actions), self._queue.next_at(), self._looks(), attempts=attempts, placings=placings,
            at_latest=self._queue.net_at(), troubles=(*self._cluster.take_troubles(), *troubles),
        )  # fmt: skip

    def _give_up(self, item: Preemptor, error: Exception, view: View, now: Millis) -> list[Trouble]:
        """Nobody can say where this item goes: it waits until it changes, and the others have their turn.

        Of what was decided half way nothing is written, so all pods are what is stored of them, but for those of which
        a write is under way.
        """
        members = self._cluster.members(item)
        self._break_promise(item)
        self._queue.remove(item)
        for key in sorted(self._cluster.state.pods.keys() - self._writing):
            self._cluster.see(_ref(key), view, now)
        self._cluster.touched.pop(item, None)
        self._given_up |= {pod.key: error for pod in members}
        return [Trouble(_ref(pod.key), error) for pod in members]

    def _take_in(self, now: Millis) -> None:
        cluster, queue = self._cluster, self._queue
        while cluster.touched:
            item = next(iter(cluster.touched))
            del cluster.touched[item]
            members = cluster.members(item)
            if members:
                queue.put(item, self._rank(item, members))
            else:
                queue.remove(item)
                self._placings.append(Placing(_name_of(item), "gone"))
                self._stranded.pop(item, None)
                self._break_promise(item)
        news, cluster.news = cluster.news, News()
        if news:
            for shape, item in queue.refused(heeding=news.is_of_arrivals):
                if could_help(cluster.state, item, cluster.members(item), self._priority(item), news):
                    queue.wake(shape, now)

    def _priority(self, item: Preemptor) -> int:
        workload = self._cluster.workload(item)
        if workload is not None:
            return workload.priority
        return self._cluster.state.pods[item.key].priority if isinstance(item, ForPod) else 0

    def _rank(self, item: Preemptor, members: Sequence[Pod]) -> Rank:
        stands = bool(self._cluster.running(item))
        arrived = min(pod.arrived for pod in members)
        if isinstance(item, ForPod):
            return -self._priority(item), 1, arrived, *item.key, ""
        member = item.member
        names = (item.namespace, member.workload, f"{member.group}/{member.replica}")
        return -self._priority(item), 0 if stands else 1, arrived, *names

    def _shape(self, item: Preemptor, members: Sequence[Pod]) -> Shape:
        """What placement looks at, and nothing else."""
        cluster = self._cluster
        apart = are_some_kept_away(cluster.state) or any(map(has_relations, members))
        kinds = Counter(
            (*look_of(pod), pod.nominated, pod.policy, *(labels_of(pod) if apart else ())) for pod in members
        )
        workload = cluster.workload(item)
        policy = None if workload is None else workload.policy
        if isinstance(item, ForPod):
            is_lost = workload is None and any(pod.member is not None for pod in members)
            return self._priority(item), policy, is_lost, frozenset(kinds.items())
        alone = item if apart or cluster.running(item) else None
        return self._priority(item), policy, alone, self._least(item), frozenset(kinds.items())

    def _least(self, item: Preemptor) -> int:
        """How many pods of a gang must stand."""
        if isinstance(item, ForPod):
            return 1
        group = self._cluster.state.groups[(item.namespace, item.member.workload, item.member.group)]
        return group.min_count or 1

    # --- one decision ---

    def _decide(self, item: Preemptor, view: View, now: Millis) -> list[Action]:
        members = self._cluster.members(item)
        if not members or any(pod.key in self._writing for pod in members):
            return []  # it is no more, or comes again when its writes are answered
        self.decisions += 1
        self._decision = f"nodes/{self.decisions}"
        answer = self._sought(item, view)
        if answer is None:
            self._break_promise(item)
            self._queue.refuse(item, self._rank(item, members), ("leaving", item), now, counts=False)
            message = "It waits for pods of its gang that leave."
            self._say(item, members, FOR_MEMBERS, message)
            return self._tell(members, {}, message, view, now)
        self._attempts.append(self._attempt(item, answer))
        self.missed += self._attempts[-1].is_missed
        self._placings.append(self._placing(item, answer, members, view))
        if answer.bound:
            self._stranded.pop(item, None)
            return self._bind(item, answer, members, view, now)
        if answer.actuated:
            self._stranded.pop(item, None)
            return self._preempt(item, answer, members, view, now)
        return self._refuse(item, answer, members, view, now)

    def _sought(self, item: Preemptor, view: View) -> CycleAnswer | None:
        """What one cycle says; None: it has to wait for members that leave.

        A gang that makes way as a whole does so before any of it comes again. Where members leave for other reasons the
        rest is placed if that makes enough of it without them, and nobody is evicted: their room will be free.
        """
        cluster, pod_by_pod = self._cluster, not view.policy.gates.workload_aware_preemption
        leaving = cluster.leaving.get((item.namespace, item.member), {}) if isinstance(item, ForGroup) else {}
        if not isinstance(item, ForGroup) or not leaving:
            return cycle(cluster.state, item, pod_by_pod=pod_by_pod)
        key = (item.namespace, item.member.workload, item.member.group)
        if cluster.state.groups[key].whole and any(leaving.values()):
            return None
        with cluster.state.trial():
            cluster.need_more(key, len(leaving))
            answer = cycle(cluster.state, item, pod_by_pod=pod_by_pod)
        return answer if answer.bound or answer.reason == ONGOING else None

    def _attempt(self, item: Preemptor, answer: CycleAnswer) -> PlacementAttempt:
        pods = self._cluster.state.pods
        units = {pod.member or pod.key for key in answer.actuated if (pod := pods[key])}
        return PlacementAttempt(
            is_gang=isinstance(item, ForGroup),
            result="scheduled" if answer.bound else "unschedulable",
            has_searched=not answer.bound and answer.reason is None,
            victims=len(answer.actuated),
            disrupted=len(units),
            violations=answer.violations,
            is_missed=self._queue.is_unasked(item) and bool(answer.bound or answer.actuated),
        )

    def _placing(self, item: Preemptor, answer: CycleAnswer, members: Sequence[Pod], view: View) -> Placing:
        stored = view.get(_ref(members[0].key))
        workload = None if stored is None else whose(stored)
        victims = tuple("/".join(key) for key in answer.actuated)
        if answer.bound or victims:
            what: Literal["placed", "displacing"] = "placed" if answer.bound else "displacing"
            return Placing(_name_of(item), what, workload, self._decision, "", victims, answer.why)
        reason = answer.reason or "unschedulable"
        return Placing(_name_of(item), "unplaced", workload, self._decision, reason, steps=answer.why)

    def _bind(
        self, item: Preemptor, answer: CycleAnswer, members: Sequence[Pod], view: View, now: Millis
    ) -> list[Action]:
        actions = []
        self._break_promise(item)
        for key, node in answer.bound.items():
            self._cluster.bound(key, node, now)
            words = f"Successfully assigned {'/'.join(key)} to {node}"
            notes = (Note(_ref(key), "Normal", "Scheduled", words), *_ignored(key, view))
            actions += self._change(key, Bind(node), view, *notes, status=False)
        self._queue.placed(item)
        rest = [pod for pod in members if pod.key not in answer.bound]
        if rest:  # enough of the gang stand; what is left may preempt in a cycle of its own (G6)
            self._queue.put(item, self._rank(item, rest))
        return actions

    def _preempt(
        self, item: Preemptor, answer: CycleAnswer, members: Sequence[Pod], view: View, now: Millis
    ) -> list[Action]:
        cluster = self._cluster
        where = {node for key in answer.actuated if (node := cluster.state.pods[key].node) is not None}
        lesser = [
            key for key in sorted(cluster.state.nominated)
            if (pod := cluster.state.pods[key]).nominated in where
            and cluster.state.priority_of(pod) < self._priority(item)
        ]  # fmt: skip
        by = _name_of(item)
        count = len(answer.actuated)
        message = f"It waits for {count} {'pod that makes' if count == 1 else 'pods that make'} way."
        self._break_promise(item)
        self._say(item, members, FOR_VICTIMS, message)
        promise = self._promises[item] = Promise()
        victims = tuple(self._evict(answer.actuated, PREEMPTED, f"Preempted by {by}", view, now, promise, by))
        told = self._tell(members, answer.nominated, message, view, now, again=True)
        first = next((i for i, action in enumerate(told) if _nominates(action, where)), 0)
        keeper = cluster.state.pods[(told[first].write.ref.namespace, told[first].write.ref.name)]
        promise.is_there = lambda: _is_stored(keeper, view)
        actions = []
        for i, action in enumerate(told):
            then = victims if i == first else ()
            actions.append(Action(action.write, then, action.notes, answer.why if then else (), self._decision))
        for key in lesser:
            loser = cluster.item_of(cluster.state.pods[key])
            self._break_promise(loser)
            cluster.nominated(key, None)
            cluster.touched[loser] = None  # it may have a place beside the other, or elsewhere
            actions += self._change(key, TellWhyNoNode(None, "", now), view)
        rank, shape = self._rank(item, members), self._shape(item, cluster.members(item))
        self._queue.refuse(item, rank, shape, now, counts=False, heeds=True)
        return actions

    def _refuse(
        self, item: Preemptor, answer: CycleAnswer, members: Sequence[Pod], view: View, now: Millis
    ) -> list[Action]:
        is_leaving_awaited = answer.reason == ONGOING
        if not is_leaving_awaited:
            self._break_promise(item)
        actions: list[Action] = []
        promised = {pod.key: pod.nominated for pod in members if pod.nominated is not None}
        if not self._queue.is_unasked(item) or answer.nominated != promised:  # else nobody learns anything new
            words = self._words(item, answer, members, view, now)
            is_short = any(step.rule == Rule.PLACE_TOO_FEW for step in answer.why)
            reason = FOR_VICTIMS if is_leaving_awaited else FOR_PODS if is_short else UNSCHEDULABLE
            self._say(item, members, reason, words[members[0].key])
            actions = self._tell(members, answer.nominated, words, view, now)
        waiting = self._cluster.members(item)
        shape, heeds = self._shape(item, waiting), heeds_others(self._cluster.state, item, waiting)
        self._queue.refuse(item, self._rank(item, members), shape, now, counts=not is_leaving_awaited, heeds=heeds)
        if not is_leaving_awaited and self._is_stranded(item, members):
            since = self._stranded.setdefault(item, now)
            if now >= since + STRANDED_MS:
                del self._stranded[item]
                standing = [pod.key for pod in self._cluster.running(item)]
                why = "Only a part of its gang has a place"
                self._placings.append(self._released(item, standing))
                return [*actions, *self._evict(standing, NOT_WHOLE, why, view, now)]
            self._queue.wake_at(shape, Millis(since + STRANDED_MS))
        else:
            self._stranded.pop(item, None)
        return actions

    def _released(self, item: Preemptor, standing: Sequence[PodKey]) -> Placing:
        last = self._placings[-1]  # why the rest has no place was said just now
        pods = tuple("/".join(key) for key in standing)
        return Placing(_name_of(item), "released", last.workload, self._decision, NOT_WHOLE, pods)

    def _is_stranded(self, item: Preemptor, members: Sequence[Pod]) -> bool:
        """Whether a part of a gang stands, less than must, without hope for the rest.

        Where its pods may be evicted one by one that is a state it may be in. Then only a gang counts whose waiting
        pods were there before the others were bound: it never stood as a whole.
        """
        standing = self._cluster.running(item)
        least = self._least(item)
        if not isinstance(item, ForGroup) or not standing or not len(standing) < least <= len(standing) + len(members):
            return False
        if self._cluster.state.groups[(item.namespace, item.member.workload, item.member.group)].whole:
            return True
        latest = max(pod.start for pod in standing)
        return all(pod.arrived <= latest for pod in members)

    # --- writes ---

    def _words(
        self, item: Preemptor, answer: CycleAnswer, members: Sequence[Pod], view: View, now: Millis
    ) -> Mapping[PodKey, str]:
        cluster, least = self._cluster, self._least(item)
        fresh = told_waiting(cluster.state, cluster.unready, members, len(cluster.running(item)), least, answer)
        before = {key: said(stored) for key in fresh if (stored := view.get(_ref(key))) is not None}
        return {key: self._told.renewed(key, before.get(key, ""), words, now) for key, words in fresh.items()}

    def _tell(
        self,
        members: Sequence[Pod],
        nominated: Mapping[PodKey, str],
        words: str | Mapping[PodKey, str],
        view: View,
        now: Millis,
        *,
        again: bool = False,
    ) -> list[Action]:
        """Why they wait, one by one or all alike, and the nodes they are promised. ``again``: tell also who knows."""
        actions: list[Action] = []
        for pod in members:
            node = nominated.get(pod.key)
            if pod.nominated != node:
                self._cluster.nominated(pod.key, node)
            stored = view.get(_ref(pod.key))
            message = words if isinstance(words, str) else words[pod.key]
            edit = TellWhyNoNode(message, node or "", now)
            if stored is None or (not again and edit(stored) in (stored, None)):
                continue
            is_news = said(stored) != message
            notes = (Note(_ref(pod.key), "Warning", "FailedScheduling", message),) if is_news else ()
            actions += self._change(pod.key, edit, view, *notes)
        return actions

    def _say(self, item: Preemptor, members: Sequence[Pod], reason: str, message: str) -> None:
        """Let the Workload of these pods show why they wait."""
        member = members[0].member
        if member is not None:
            self._board.say((members[0].key[0], member.workload), item, Said(reason, message))
            self._cluster.remuster(members[0])

    def _break_promise(self, item: Preemptor) -> None:
        promise = self._promises.pop(item, None)
        if promise is not None:
            promise.holds = False

    def _evict(
        self, keys: Iterable[PodKey], reason: str, message: str, view: View, now: Millis,
        promise: Promise | None = None, by: str = "",
    ) -> Iterator[Action]:  # fmt: skip
        for key in list(keys):
            self._cluster.evicted(key, for_others=reason == PREEMPTED)
            ref, stored = _ref(key), view.get(_ref(key))
            if stored is None:
                continue
            uid = stored.metadata.uid
            change = Change(ref, Disrupt(reason, message, now, promise, by), uid=uid)
            is_leaving = stored.metadata.deletion_timestamp is not None
            note = Note(ref, "Normal", "Preempted" if reason == PREEMPTED else reason, message)
            then = () if is_leaving else (Action(Delete(ref, uid), decision=self._decision),)
            yield Action(change, then, (note,), decision=self._decision)

    def _change(
        self, key: PodKey, edit: Bind | TellWhyNoNode, view: View, *notes: Note, status: bool = True
    ) -> list[Action]:
        stored = view.get(_ref(key))
        if stored is None:
            return []
        self._writing.add(key)
        change = Change(_ref(key), edit, status=status, uid=stored.metadata.uid)
        return [Action(change, notes=notes, decision=self._decision)]


def _ref(key: PodKey) -> Ref:
    return Ref("Pod", *key)


def _ignored(key: PodKey, view: View) -> Iterator[Note]:
    """What the pod asked for and had no say in where it went."""
    stored = view.get(_ref(key))
    words = "" if stored is None else in_one_line(read(stored.spec, PodSpec))
    if words:
        yield Note(_ref(key), "Warning", "NotHeeded", words)


def _is_stored(pod: Pod, view: View) -> bool:
    found = view.get(_ref(pod.key))
    return found is not None and found.metadata.uid == pod.uid


def _name_of(item: Preemptor) -> str:
    if isinstance(item, ForPod):
        return f"pod {'/'.join(item.key)}"
    member = item.member
    return f"gang {'/'.join(filter(None, (item.namespace, member.workload, member.group, member.replica)))}"


def _nominates(action: Action, nodes: set[str]) -> bool:
    write = action.write
    return isinstance(write, Change) and isinstance(write.edit, TellWhyNoNode) and write.edit.nominated in nodes

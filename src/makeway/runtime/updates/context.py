"""What the parts of the state's updates share, and what the engine has to do after a change."""

from __future__ import annotations

from collections.abc import Iterable

from makeway.api.objects.workload import Workload as WireWorkload
from makeway.controllers.contract import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, Ref
from makeway.core.model import LocalName, Millis, QueueName, Workload, WorkloadKey
from makeway.core.state import State
from makeway.runtime.objects import ObjectCache
from makeway.runtime.set_aside import SetAside

CONFIGURING = ("ClusterQueue", "Cohort", "ResourceFlavor", "AdmissionCheck")
LOWERING, STATE, CYCLE = "lowering", "state", "cycle"  # the parts that may give up on an object here


class FollowUps:
    """What the engine has still to do because of changes; it empties each of these afterwards."""

    __slots__ = (
        "_queues_of", "_state", "backoffs", "enqueued", "figures", "held", "queued", "released", "reworded", "unread",
        "woken",
    )  # fmt: skip

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues_of: dict[tuple[QueueName, LocalName], tuple[Ref, ...]] = {}  # where a workload counts
        self.enqueued: dict[Ref, None] = {}  # objects to be reconciled
        self.woken: set[QueueName] = set()
        self.released: set[QueueName] = set()  # woken because a workload left, and for nothing else
        self.held: set[QueueName] = set()  # their holders have changed: the expiry timer is to be set again
        self.backoffs: dict[WorkloadKey, Millis | None] = {}  # workloads that back off, and until when
        self.figures: dict[Ref, None] = {}  # queues whose figures have changed
        self.queued: dict[Ref[WireWorkload], None] = {}  # Workloads that joined a queue although they did not change
        self.reworded: set[QueueName] = set()  # queues in which all waiting workloads may need another status
        self.unread: dict[Ref[WireWorkload], None] = {}  # Workloads that would wait if they could be read; they say so

    def enqueue(self, ref: Ref) -> None:
        self.enqueued.setdefault(ref)

    def wake(self, queues: Iterable[QueueName]) -> None:
        self.woken.update(queues)

    def note_held(self, workload: Workload) -> None:
        """A workload has come to hold quota or wait in its queue, or has left it."""
        self.held.add(workload.queue)
        self.note_figures(workload)
        node = self._state.tree.queues.get(workload.queue) if self._state.policy.fair_sharing else None
        for cohort in () if node is None else node.ancestors():  # their shares change with the queue
            self.figures[Ref(COHORT, "", cohort.name)] = None

    def note_figures(self, workload: Workload) -> None:
        where = (workload.queue, workload.local)
        refs = self._queues_of.get(where)
        if refs is None:
            local = (Ref(LOCAL_QUEUE, *workload.local),) if workload.local_queue else ()
            refs = self._queues_of[where] = (Ref(CLUSTER_QUEUE, "", workload.queue), *local)
        for ref in refs:
            self.figures[ref] = None

    def forget_queues(self) -> None:
        """Some queues may be gone."""
        self._queues_of.clear()


class UpdateContext:
    __slots__ = ("follow_ups", "now", "objects", "set_aside", "state")

    def __init__(self, state: State, set_aside: SetAside) -> None:
        self.state = state
        self.set_aside = set_aside
        self.follow_ups = FollowUps(state)
        self.now = Millis(0)  # of the step that is running
        self.objects: ObjectCache  # set by the owner of both

    def handled(self, ref: Ref, *parts: str) -> None:
        """These parts have no trouble with an object, or none any more."""
        if self.set_aside:
            for part in parts:
                self.set_aside.handled(ref, part)

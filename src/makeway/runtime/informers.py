"""Lists and watches: what a Store holds becomes what is known of it.

An informer lists a kind once and then follows its watch. A watch that fell behind (Expired) or broke is replaced by a
new list, and what that list lacks is gone. Events may come late, twice or out of order: the newest revision wins.

An object whose bytes cannot be read is skipped and set aside (0081): its last known state still counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from makeway.api.objects.meta import KubernetesObject
from makeway.api.versions import Kind, find_kind
from makeway.controllers.contract import Ref
from makeway.controllers.jobs.kinds.registry import JOB_KINDS
from makeway.core.model import Millis
from makeway.runtime.objects import ObjectCache
from makeway.runtime.ports import Expired, NotFound, Retryable, Store, Stored, Watch, WatchEvent
from makeway.runtime.workqueue import BACKOFF_MAX_MS, backoff_ms

EVENTS_PER_POLL = 1000
INFORMERS = "informers"  # the part that gives up on an object that cannot be read at all
PAGE = 5000

QUEUEING = "kueue.x-k8s.io/v1beta2"
WATCHED: tuple[tuple[str, str], ...] = (  # kinds that others refer to come first
    ("v1", "Namespace"), ("v1", "LimitRange"), ("node.k8s.io/v1", "RuntimeClass"),
    ("scheduling.k8s.io/v1", "PriorityClass"), (QUEUEING, "WorkloadPriorityClass"), (QUEUEING, "ResourceFlavor"),
    (QUEUEING, "AdmissionCheck"), (QUEUEING, "Cohort"), (QUEUEING, "ClusterQueue"), (QUEUEING, "LocalQueue"),
    (QUEUEING, "Workload"), ("batch/v1", "Job"),
)  # fmt: skip

ON_NODES: tuple[tuple[str, str], ...] = (
    ("v1", "Node"), ("v1", "Pod"), ("policy/v1", "PodDisruptionBudget"), ("scheduling.k8s.io/v1alpha1", "Workload"),
)  # fmt: skip


def watched_kinds(*, on_nodes: bool = False, frameworks: Iterable[str] = ()) -> list[Kind]:
    """``on_nodes``: with the kinds that matter only where pods run; ``frameworks``: with these kinds of jobs."""
    wanted = (*WATCHED[:-1], *ON_NODES, WATCHED[-1]) if on_nodes else WATCHED
    found = [find_kind(api_version, name) for api_version, name in wanted]
    jobs = [kind.resource for kind in JOB_KINDS.values() if kind.framework in frameworks]
    return [*(kind for kind in found if kind is not None), *(kind for kind in jobs if kind not in found)]


def ref_of(each: Stored) -> Ref:
    return Ref(Ref.kind_of(each.kind), each.namespace, each.name)


def finder(store: Store) -> Callable[[Ref], KubernetesObject | None]:
    """Reads one object of a kind that is watched, for questions asked before an informer has seen it."""
    kinds = {Ref.kind_of(kind): kind for kind in watched_kinds()}

    def find(ref: Ref) -> KubernetesObject | None:
        kind = kinds.get(ref.kind)  # a kind of job that the store does not have owns nothing there
        try:
            return None if kind is None else store.get(kind, ref.namespace, ref.name).value()
        except NotFound:
            return None

    return find


class Informer:
    """One kind of one Store."""

    def __init__(self, store: Store, kind: Kind, objects: ObjectCache) -> None:
        self._store = store
        self._kind = kind
        self._objects = objects
        self._watch: Watch | None = None
        self._failures = 0
        self._not_before = Millis(0)
        self._seen = -1  # the revision of the last event, once the kind is listed
        self.lists = 0  # how many times it had to list

    def has_seen_all(self) -> bool:
        """Whether the Store knows that nothing of the kind happened since the last event."""
        return self._seen >= 0 and self._store.latest(self._kind) == self._seen

    def poll(self, now: Millis) -> int:
        """Take in what happened; return how many events there were. A Store that fails is asked again later."""
        if self._is_waiting(now):
            return 0
        try:
            if self._watch is None:
                return self._list()
            events = self._watch.poll(EVENTS_PER_POLL)
        except Expired:
            self._watch, self._seen = None, -1
            return self.poll(now) if self._failures < 1 else self._fail(now)
        except Retryable:
            return self._fail(now)
        self._failures = 0
        for event in events:
            self._take(event)
        if events:
            self._seen = int(events[-1].resource_version)
        return len(events)

    def next_at(self) -> Millis | None:
        return self._not_before if self._failures else None

    def _is_waiting(self, now: Millis) -> bool:
        """Whether it failed a short while ago. A clock that was set back since does not prolong the wait."""
        return self._failures > 0 and self._not_before - BACKOFF_MAX_MS <= now < self._not_before

    def _fail(self, now: Millis) -> int:
        self._failures += 1
        self._not_before = Millis(now + backoff_ms(self._failures))
        return 0

    def _list(self) -> int:
        latest = self._store.latest(self._kind)
        token, count, version = "", 0, ""
        known = {Ref.of(value) for value in self._objects.all(Ref.kind_of(self._kind))}
        while True:
            page = self._store.list(self._kind, limit=PAGE, token=token)
            version = page.resource_version
            for each in page.items:
                known.discard(ref_of(each))
                count += self._see(each)
            token = page.token
            if not token:
                break
        for ref in sorted(known):  # it was deleted, and no watch reported that
            count += self._objects.see_gone(ref, int(version))
        self._watch = self._store.watch(self._kind, version)
        self._failures = 0
        self._seen = -1 if latest is None else latest
        self.lists += 1
        return count

    def _take(self, event: WatchEvent) -> None:
        if event.object is None:
            return
        if event.type == "DELETED":
            ref = ref_of(event.object)
            self._objects.see_gone(ref, int(event.resource_version))
            self._objects.gave_up(ref, INFORMERS, None)
        else:
            self._see(event.object)

    def _see(self, each: Stored) -> bool:
        ref = ref_of(each)
        if each.revision <= self._objects.revision(ref):  # the echo of a write of our own is not even decoded
            return False
        try:
            value = each.value()
        except Exception as error:
            self._objects.gave_up(ref, INFORMERS, error)
            return False
        return self._objects.see(ref, value, each.revision)


class Informers:
    """All kinds that the controllers read."""

    def __init__(self, store: Store, objects: ObjectCache, kinds: Iterable[Kind] | None = None) -> None:
        self._all = [Informer(store, kind, objects) for kind in (watched_kinds() if kinds is None else kinds)]

    def poll(self, now: Millis) -> int:
        count = 0
        for each in self._all:
            if not each.has_seen_all():
                count += each.poll(now)
        return count

    def next_at(self) -> Millis | None:
        times = [at for each in self._all if (at := each.next_at()) is not None]
        return min(times) if times else None

    @property
    def lists(self) -> int:
        return sum(each.lists for each in self._all)

    @property
    def are_complete(self) -> bool:
        """Whether every kind has been listed once."""
        return all(each.lists for each in self._all)

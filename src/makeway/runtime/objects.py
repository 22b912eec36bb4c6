"""What is known of the stored objects, and what they will be once the writes under way are stored.

Two layers. *Stored*: each object at the newest revision that was seen, from a list, a watch or the answer to a write.
Older revisions are dropped, so that the same event may come twice, late or out of order. *Expected*: the stored object
with the edits of writes that are not answered yet. The scheduler's state follows this layer, so that nothing is given
away twice while a write is under way. When a write fails its edit is taken out again, and the state follows.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from makeway.api.conditions import is_true
from makeway.api.objects.meta import KubernetesObject
from makeway.api.objects.workload import Workload
from makeway.controllers.contract import POD, WORKLOAD, Edit, KindName, Object, Ref

TOMBSTONES_MAX = 10_000  # removed objects whose last revision is remembered: late events about them are dropped

LAST_NAME = "\x7f"  # names are ASCII: it comes after all of them
OWNED: tuple[KindName, ...] = (WORKLOAD, POD)  # kinds that are looked up by their owner

EDITS = "executor"  # the part that gives up where an edit fails

# the object, its state before (None: it was not there), and after (None: gone)
Told = Callable[[Ref, KubernetesObject | None, KubernetesObject | None], None]
GaveUp = Callable[[Ref, str, Exception | None], None]  # the object, the part that gave up, and why; None: it is gone


def raises(ref: Ref, part: str, error: Exception | None) -> None:
    """Sets no object aside."""
    if error is not None:
        raise error


class ObjectCache:
    """``on_stored`` is called with every newer stored object, ``on_expected`` with every change of what is expected.

    ``gave_up`` is called with objects that cannot be read, or edited.
    """

    def __init__(self, on_stored: Told, on_expected: Told, gave_up: GaveUp = raises) -> None:
        self.gave_up = gave_up
        self._on_stored = on_stored
        self._on_expected = on_expected
        self._stored: dict[Ref, Any] = {}  # of the type that the kind of the Ref says
        self._revisions: dict[Ref, int] = {}
        self._gone: dict[Ref, int] = {}  # oldest first
        self._edits: dict[Ref, dict[int, Edit[Any]]] = {}  # of writes under way, by number, in order
        self._expected: dict[Ref, Any] = {}  # the same; only where there are edits
        # the input and the result of an edit, so that it is made once
        self._made: dict[int, tuple[KubernetesObject, KubernetesObject | None]] = {}
        self._names: dict[str, list[tuple[str, str]]] = {}  # by kind, sorted
        self._owned: dict[tuple[str, str], dict[Ref, None]] = {}  # kind, uid of a controller -> its Workloads or Pods
        self._queued: dict[tuple[str, str], dict[Ref, None]] = {}  # LocalQueue -> its Workloads that have not finished

    # --- reading ---

    def get(self, ref: Ref[Object]) -> Object | None:
        found: Object | None = self._stored.get(ref)
        return found

    def expected(self, ref: Ref[Object]) -> Object | None:
        found: Object | None = self._expected[ref] if ref in self._expected else self._stored.get(ref)
        return found

    def revision(self, ref: Ref) -> int:
        return self._revisions.get(ref, 0)

    def all(self, kind: KindName[Object]) -> Iterator[Object]:
        for namespace, name in list(self._names.get(kind, ())):
            yield self._stored[Ref(kind, namespace, name)]

    def in_namespace(self, kind: KindName[Object], namespace: str) -> list[Object]:
        """All objects of a kind in a namespace, by name; other namespaces cost nothing."""
        names = self._names.get(kind, [])
        first, last = (bisect_left(names, (namespace, bound)) for bound in ("", LAST_NAME))
        return [self._stored[Ref(kind, *each)] for each in names[first:last]]

    def count(self, kind: str) -> int:
        return len(self._names.get(kind, ()))

    def owned(self, uid: str, kind: KindName[Object]) -> list[Object]:
        return [self._stored[ref] for ref in sorted(self._owned.get((kind, uid), ()))]

    def in_local_queue(self, namespace: str, name: str) -> list[Workload]:
        return [self._stored[ref] for ref in sorted(self._queued.get((namespace, name), ()))]

    # --- what is stored ---

    def see(self, ref: Ref[Object], value: Object, revision: int, *, settles: int = 0) -> bool:
        """An object as it is at ``revision``; return whether that is news. ``settles``: the write that made it so."""
        if settles and ref in self._edits:
            self._edits[ref].pop(settles, None)
            self._made.pop(settles, None)
        if revision <= self._revisions.get(ref, 0) or revision <= self._gone.get(ref, 0):
            if settles and ref in self._edits:
                self._expect(ref, self._expected.get(ref))
            return False
        before = self._stored.get(ref)
        if before is None:
            insort(self._names.setdefault(ref.kind, []), (ref.namespace, ref.name))
        self._index(ref, before, value)
        self._stored[ref] = value
        self._revisions[ref] = revision
        self._changed(ref, before, value)
        return True

    def see_gone(self, ref: Ref, revision: int) -> bool:
        """An object is gone, at ``revision``; return whether that is news."""
        if revision < self._revisions.get(ref, 0) or ref not in self._stored:
            self._bury(ref, max(revision, self._gone.get(ref, 0)))
            return False
        before = self._stored.pop(ref)
        del self._revisions[ref]
        names = self._names[ref.kind]
        del names[bisect_left(names, (ref.namespace, ref.name))]
        self._index(ref, before, None)
        self._bury(ref, revision)
        self._changed(ref, before, None)
        return True

    def _bury(self, ref: Ref, revision: int) -> None:
        self._gone.pop(ref, None)
        self._gone[ref] = revision
        if len(self._gone) > TOMBSTONES_MAX:
            del self._gone[next(iter(self._gone))]

    def _changed(self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        if ref not in self._edits:
            self._on_expected(ref, before, after)
        else:
            self._expect(ref, self._expected.get(ref))
        self._on_stored(ref, before, after)

    # --- what is expected ---

    def assume(self, ref: Ref[Object], number: int, edit: Edit[Object], *, quietly: bool = False) -> None:
        """A write is under way. ``quietly``: the state has its effect already."""
        before = self.expected(ref)
        self._edits.setdefault(ref, {})[number] = edit
        self._expect(ref, before, quietly=quietly)

    def settle(self, ref: Ref, number: int) -> None:
        """A write is answered: its effect is in the stored object by now, or will never be."""
        edits = self._edits.get(ref, {})
        if number not in edits:
            return
        before = self.expected(ref)
        del edits[number]
        self._made.pop(number, None)
        self._expect(ref, before)

    def edited(self, number: int, edit: Edit[Any], value: KubernetesObject) -> KubernetesObject | None:
        """What the edit of an assumed write makes of ``value``."""
        known = self._made.get(number)
        if known is None or known[0] is not value:
            known = self._made[number] = (value, edit(value))
        return known[1]

    def _applied(self, ref: Ref, number: int, edit: Edit[Any], value: KubernetesObject) -> KubernetesObject | None:
        try:
            return self.edited(number, edit, value)
        except Exception as error:
            self.gave_up(ref, EDITS, error)
            return None

    def _expect(self, ref: Ref, before: KubernetesObject | None, *, quietly: bool = False) -> None:
        value = self._stored.get(ref)
        edits = self._edits[ref]
        for number, edit in edits.items():
            edited = None if value is None else self._applied(ref, number, edit, value)
            value = value if edited is None else edited  # an edit that no longer applies will fail when it is written
        if edits:
            self._expected[ref] = value
        else:
            del self._edits[ref]
            self._expected.pop(ref, None)
        if not quietly:
            self._on_expected(ref, before, value)

    # --- owners and queues ---

    def _index(self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        if ref.kind not in OWNED:
            return
        if isinstance(before, Workload) and isinstance(after, Workload) and _belongs_alike(before, after):
            return
        for uid in _controllers(before):
            _forget(self._owned, (ref.kind, uid), ref)
        for uid in _controllers(after):
            self._owned.setdefault((ref.kind, uid), {})[ref] = None
        if isinstance(before, Workload):
            _forget(self._queued, (ref.namespace, before.spec.queue_name), ref)
        if isinstance(after, Workload) and not _has_finished(after):
            self._queued.setdefault((ref.namespace, after.spec.queue_name), {})[ref] = None


def _belongs_alike(before: Workload, after: Workload) -> bool:
    """Whether two states of a Workload have the same owners and LocalQueue, and neither or both have finished."""
    return (
        before.spec.queue_name == after.spec.queue_name
        and before.metadata.owner_references == after.metadata.owner_references
        and _has_finished(before) == _has_finished(after)
    )


def _controllers(value: KubernetesObject | None) -> Iterable[str]:
    return () if value is None else (owner.uid for owner in value.metadata.owner_references if owner.controller)


def _has_finished(workload: Workload) -> bool:
    return workload.status is not None and is_true(workload.status.conditions, "Finished")


def _forget(table: dict[tuple[str, str], dict[Ref, None]], key: tuple[str, str], ref: Ref) -> None:
    members = table.get(key, {})
    members.pop(ref, None)
    if not members:
        table.pop(key, None)

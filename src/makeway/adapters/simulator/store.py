"""A Store in memory, true to the real API: what a Kubernetes API server would answer, without one.

It keeps the newest state of every object, and a *history* of the last writes: each revision is one ``Change`` with the
state before and after. Watches are places in that history, and the later pages of a list are the newest state with
the changes since undone; so neither holds a copy, and both end in Expired once the history is cut.

Time comes from ``clock``, uids and name suffixes from ``names``: equal calls give equal objects, byte for byte.

Promises: the Store conformance suite; a call that raises has changed nothing; a call costs what it touches, never
the size of the store, but for ``list``.

Kinder than an API server in one thing: what only the server may set is not refused in a body but passed over. Not
here: who collects what lost its owner (``garbage``), deletion of all that is in a namespace, server-side apply,
faults (``faults`` puts them around any Store). One thread at a time.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

from makeway.api import codec
from makeway.api.documents import Tree
from makeway.api.objects.meta import ObjectMeta, OwnerReference, Wire
from makeway.api.problems import Problem, has_errors
from makeway.api.quantity import Time
from makeway.api.structure import Mode
from makeway.api.validation import Surroundings, validate, validate_update
from makeway.api.versions import Kind, find_kind
from makeway.core.model import Millis, Selector, selects, stored
from makeway.runtime.ports import (
    AlreadyExists,
    Body,
    Clock,
    Conflict,
    Event,
    EventType,
    Expired,
    Forbidden,
    Invalid,
    Names,
    NotFound,
    Page,
    Propagation,
    Stored,
    Unavailable,
    merged,
)

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
NAME_TRIES_MAX = 8
GENERATED_PREFIX_MAX = 58  # the API server cuts a generateName here, to leave room for the suffix
POD_GRACE_SECONDS = 30
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # those of Kubernetes: no words, no look-alikes
_GROUPLESS = "v1"

KindKey = tuple[str, str]  # group, name
Place = tuple[str, str]  # namespace, name


class SeededNames:
    """The same uids and suffixes for the same seed, in the same order."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._count = 0

    def uid(self) -> str:
        digits = self._next().hex()
        return "-".join((digits[:8], digits[8:12], f"4{digits[13:16]}", f"a{digits[17:20]}", digits[20:32]))

    def suffix(self) -> str:
        return "".join(_LETTERS[byte % len(_LETTERS)] for byte in self._next()[:5])

    def _next(self) -> bytes:
        self._count += 1
        return hashlib.sha256(f"{self._seed}/{self._count}".encode()).digest()


# --- history ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """One revision. ``after`` is the last state, at this revision, where the object was removed."""

    type: EventType
    before: Stored | None
    after: Stored


class History:
    """The last changes, one for each revision; at least ``keep`` of them once there were so many, at most twice."""

    def __init__(self, keep: int) -> None:
        self.revision = 0
        self._keep = keep
        self._forgotten = 0  # the newest revision that is no longer here
        self._changes: list[Change] = []

    def add(self, change: Change) -> None:
        self._changes.append(change)
        self.revision += 1
        if len(self._changes) > 2 * self._keep:
            self.cut(self._keep)

    def cut(self, keep: int) -> None:
        """Forget all but the last ``keep`` changes."""
        drop = max(0, len(self._changes) - keep)
        del self._changes[:drop]
        self._forgotten += drop

    def after(self, revision: int) -> Iterator[Change]:
        self.check(revision)
        changes, first = self._changes, revision - self._forgotten
        return (changes[i] for i in range(first, len(changes)))

    def check(self, revision: int) -> None:
        if revision < self._forgotten:
            raise Expired(f"too old resource version: {revision} ({self._forgotten})")
        if revision > self.revision:
            raise Unavailable(f"too large resource version: {revision}, current: {self.revision}", Millis(1000))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which objects of a kind are looked at."""

    key: KindKey
    namespace: str | None
    labels: Selector

    def takes(self, each: Stored | None) -> bool:
        if each is None or (self.namespace and each.namespace != self.namespace):
            return False
        return not self.labels or selects(self.labels, each.labels)

    def event(self, change: Change) -> Event | None:
        """What a change looks like to someone who sees only these objects."""
        after = change.after
        if _key(after.kind) != self.key:
            return None
        was = self.takes(change.before)
        if change.type != "DELETED" and self.takes(after):
            return Event("MODIFIED" if was else "ADDED", after.resource_version, after)
        if not was or change.before is None:
            return None
        return Event("DELETED", after.resource_version, _restamped(change.before, after.resource_version))


class MemoryWatch:
    """A place in the history. It holds nothing else, so that a watch that nobody polls costs nothing."""

    def __init__(self, history: History, chosen: Filter, place: int, first: Sequence[Stored], bookmarks: bool) -> None:
        self._history = history
        self._filter = chosen
        self._place = place
        self._told = place - 1 if first else place  # a bookmark ends the state that a watch without ``since`` begins with
        self._first = [Event("ADDED", each.resource_version, each) for each in reversed(first)]
        self._bookmarks = bookmarks
        self._closed = False

    def poll(self, limit: int = 1000) -> Sequence[Event]:
        if self._closed:
            return ()
        events: list[Event] = []
        changes = self._history.after(self._place)
        while self._first and len(events) < limit:
            events.append(self._first.pop())
        while len(events) < limit:
            change = next(changes, None)
            if change is None:
                self._mark(events)
                break
            self._place = change.after.revision
            event = self._filter.event(change)
            if event is not None:
                events.append(event)
                self._told = self._place
        return events

    def _mark(self, events: list[Event]) -> None:
        if self._bookmarks and self._told < self._place:
            events.append(Event("BOOKMARK", str(self._place), None))
            self._told = self._place

    def close(self) -> None:
        self._closed = True


# --- the store -------------------------------------------------------------------------------------------------------


class MemoryStore:
    """See ``runtime.ports.Store``. What only this one has: ``load``, ``collect`` and ``compact``.

    ``history``: how many revisions a watch or a list may fall behind before it expires. ``collects``: whether what
    lost its owner goes within the same call, or waits for ``collect``. ``careful``: whether our own writes (structs
    and patches) are held against limits and rules too; trees always are. ``mode``: what becomes of unknown fields.
    """

    def __init__(
        self, clock: Clock, names: Names | None = None, *, history: int = 10_000, collects: bool = True,
        careful: bool = True, needs_namespaces: bool = False, mode: Mode = "Strict",
        around: Surroundings | None = None,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._names: Names = names or SeededNames()
        self._collects = collects
        self._careful = careful
        self._needs_namespaces = needs_namespaces
        self._mode: Mode = mode
        self._around = around or Surroundings()
        self._history = History(history)
        self._objects: dict[KindKey, dict[Place, Stored]] = {}
        self._by_uid: dict[str, Stored] = {}
        self._dependents: dict[str, dict[str, None]] = {}  # uid of an owner -> uids of what it owns
        self._suspects: dict[str, None] = {}  # uids that the collector has to look at, in order
        self._pages: tuple[KindKey, int, Sequence[Stored]] = (("", ""), -1, ())  # the list that was read last

    @property
    def resource_version(self) -> str:
        return str(self._history.revision)

    def compact(self, keep: int = 0) -> None:
        """Forget all but the last ``keep`` changes, as an API server does from time to time."""
        self._history.cut(keep)

    # --- reading ---

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        found = self._objects.get(_key(kind), {}).get((namespace, name))
        if found is None:
            raise NotFound(f"{_told(kind, name)} not found")
        return found

    def list(
        self, kind: Kind, namespace: str | None = None, *, labels: Selector = (), limit: int = 0, token: str = ""
    ) -> Page:
        revision, last = _read_token(kind, token) if token else (self._history.revision, None)
        chosen = Filter(_key(kind), namespace, labels)
        items = [each for each in self._at(_key(kind), revision) if chosen.takes(each)]
        if last is not None:
            items = [each for each in items if (each.namespace, each.name) > last]
        page = tuple(items[:limit] if limit else items)
        rest = len(items) - len(page)
        return Page(page, str(revision), _token(revision, page[-1]) if rest else "", rest)

    def watch(
        self, kind: Kind, since: str = "", *, namespace: str | None = None, labels: Selector = (),
        bookmarks: bool = False,
    ) -> MemoryWatch:  # fmt: skip
        chosen = Filter(_key(kind), namespace, labels)
        if since in ("", "0"):
            now = self._history.revision
            first = [each for each in self._at(chosen.key, now) if chosen.takes(each)]
            return MemoryWatch(self._history, chosen, now, first, bookmarks)
        if not (since.isascii() and since.isdigit()):
            raise Invalid([Problem("resourceVersion", f"{since!r} is not a resource version")])
        self._history.check(int(since))
        return MemoryWatch(self._history, chosen, int(since), (), bookmarks)

    def _at(self, key: KindKey, revision: int) -> Sequence[Stored]:
        """All objects of a kind as they were at ``revision``, by namespace and name."""
        changes = self._history.after(revision)
        if self._pages[:2] != (key, revision):
            objects: dict[Place, Stored | None] = dict(self._objects.get(key, {}))
            earlier: dict[Place, Stored | None] = {}
            for change in changes:
                if _key(change.after.kind) == key:
                    earlier.setdefault((change.after.namespace, change.after.name), change.before)
            objects.update(earlier)
            there = [(place, each) for place, each in objects.items() if each is not None]
            self._pages = (key, revision, [each for _, each in sorted(there, key=lambda pair: pair[0])])
        return self._pages[2]

    # --- writing ---

    def create(self, body: Body) -> Stored:
        kind, value, problems = self._read(_without_status(body))
        meta = _meta(value)
        if meta.resource_version:
            problems.append(Problem("metadata.resourceVersion", "must not be set on what is to be created"))
        if kind.namespaced and not meta.namespace:
            problems.append(Problem("metadata.namespace", "required", "name a namespace", cause="Required"))
        if self._judges(body):
            problems += validate(value, self._around)
        _refuse(problems)
        namespace = meta.namespace if kind.namespaced else ""
        self._check_namespace(namespace)
        meta = replace(
            meta, name=meta.name or self._made_name(kind, namespace, meta.generate_name), namespace=namespace,
            generation=1, creation_timestamp=self._now(), deletion_timestamp=None, deletion_grace_period_seconds=None,
        )  # fmt: skip
        if (namespace, meta.name) in self._objects.get(_key(kind), {}):
            raise AlreadyExists(f"{_told(kind, meta.name)} already exists")
        created = self._commit(kind, replace(value, metadata=replace(meta, uid=self._names.uid())), None)
        self._suspect_orphan(created)
        return self._settled(created)

    def load(self, bodies: Iterable[Body]) -> None:
        """Put objects in as they are, with their status, uid and creationTimestamp where they have them.

        For the beginning of a simulation, from files or from the state of another store. Objects whose owners are not
        there stay. Raises Invalid and AlreadyExists at the first that is not taken; those before it are in.
        """
        for body in bodies:
            kind, value, problems = self._read(body)
            meta = _meta(value)
            _refuse(problems + validate(value, self._around) if self._judges(body) else problems)
            name = meta.name or self._made_name(kind, meta.namespace, meta.generate_name)
            if (meta.namespace, name) in self._objects.get(_key(kind), {}) or meta.uid in self._by_uid:
                raise AlreadyExists(f"{_told(kind, name)} already exists")
            meta = replace(
                meta, name=name, uid=meta.uid or self._names.uid(), generation=meta.generation or 1,
                creation_timestamp=meta.creation_timestamp or self._now(),
            )  # fmt: skip
            self._commit(kind, replace(value, metadata=meta), None)

    def update(self, body: Body) -> Stored:
        kind, value, problems = self._read(_without_status(body))
        old = self._present(kind, _meta(value))
        if kind.has_status:
            value = replace(value, status=old.value().status)
        return self._settled(self._change(old, value, problems, judge=self._judges(body)))

    def update_status(self, body: Body) -> Stored:
        tree = codec.to_tree(body) if isinstance(body, Wire) else dict(body)
        kind = _served(tree)
        if not kind.has_status:
            raise Invalid([Problem("status", f"{kind.plural} have no status of their own", cause="NotSupported")])
        old = self._present(kind, _named(tree))
        if isinstance(body, Wire) and not self._careful:
            value, problems = replace(old.value(), status=getattr(body, "status", None)), []
        else:
            version = tree["apiVersion"].rpartition("/")[2]
            _, value, problems = self._read({**old.tree(version), "status": tree.get("status")})
        return self._settled(self._change(old, value, problems, judge=self._judges(body)))

    def patch(
        self, kind: Kind, namespace: str, name: str, change: Mapping[str, Tree], *, status: bool = False
    ) -> Stored:
        old = self.get(kind, namespace, name)
        version = str(change.get("apiVersion") or kind.api_version).rpartition("/")[2]
        if version not in kind.versions:
            raise Invalid([Problem("apiVersion", f"{kind.name} is not served as {version}", cause="NotSupported")])
        before = old.tree(version)
        tree = merged(before, change)
        if _identity(tree) != _identity(before):
            raise Invalid([Problem("metadata.name", "a patch cannot change what the object is")])
        body = tree if self._careful else _decoded(kind, version, tree)
        return self.update_status(body) if status else self.update(body)

    def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "",
        propagation: Propagation | None = None, grace: int | None = None,
    ) -> Stored:  # fmt: skip
        old = self.get(kind, namespace, name)
        _check_present(old, uid, resource_version)
        return self._settled(self._delete(old, propagation, grace))

    # --- steps of a write ---

    def _judges(self, body: Body) -> bool:
        return self._careful or not isinstance(body, Wire)

    def _read(self, body: Body) -> tuple[Kind, Any, list[Problem]]:
        """The kind and value of a body, and what its shape says against it; Invalid where there is no value."""
        if isinstance(body, Wire) and not self._careful:
            return _served({"apiVersion": getattr(body, "api_version", ""), "kind": getattr(body, "kind", "")}), body, []
        reading = codec.read(codec.to_tree(body) if isinstance(body, Wire) else dict(body), self._mode)
        if reading.kind is None or reading.value is None:
            raise Invalid(reading.problems)
        return reading.kind, reading.value, reading.problems

    def _check_namespace(self, namespace: str) -> None:
        if not namespace or not self._needs_namespaces:
            return
        found = self._objects.get(("", "Namespace"), {}).get(("", namespace))
        if found is None:
            raise NotFound(f'namespaces "{namespace}" not found')
        if found.deleting:
            raise Forbidden(f"unable to create new content in namespace {namespace} because it is being terminated")

    def _made_name(self, kind: Kind, namespace: str, prefix: str) -> str:
        taken = self._objects.get(_key(kind), {})
        for _ in range(NAME_TRIES_MAX):
            name = f"{prefix[:GENERATED_PREFIX_MAX]}{self._names.suffix()}"
            if (namespace, name) not in taken:
                return name
        raise AlreadyExists(f"{_told(kind, name)} already exists, the server was not able to generate a unique name")

    def _present(self, kind: Kind, meta: ObjectMeta) -> Stored:
        """What a body speaks of, if that is what is there."""
        if not meta.name:
            raise Invalid([Problem("metadata.name", "required", cause="Required")])
        old = self.get(kind, meta.namespace if kind.namespaced else "", meta.name)
        _check_present(old, meta.uid, meta.resource_version)
        return old

    def _change(self, old: Stored, value: Any, problems: Sequence[Problem] = (), *, judge: bool = False) -> Stored:
        """Put ``value`` in the place of ``old``; what only the store may set is taken from ``old``."""
        before = old.value()
        given = before.metadata
        meta = replace(
            _meta(value), namespace=given.namespace, uid=given.uid, resource_version=given.resource_version,
            generation=given.generation, creation_timestamp=given.creation_timestamp,
            deletion_timestamp=given.deletion_timestamp,
            deletion_grace_period_seconds=given.deletion_grace_period_seconds,
        )  # fmt: skip
        value = replace(value, metadata=_cleaned(meta))
        found = [*problems, *_late_finalizers(old, meta), *(validate_update(before, value, self._around) if judge else ())]
        _refuse(found)
        was, will = old.tree(), codec.to_tree(value)
        if was == will:
            return old
        if old.deleting and not meta.finalizers and not given.deletion_grace_period_seconds:
            return self._remove(old)
        if _wanted(old.kind, was) != _wanted(old.kind, will):
            value = replace(value, metadata=replace(value.metadata, generation=old.generation + 1))
        changed = self._commit(old.kind, value, old)
        if given.owner_references != meta.owner_references:
            self._suspect_orphan(changed)
            self._suspects.update(dict.fromkeys(old.owners))
        return changed

    def _delete(self, old: Stored, propagation: Propagation | None, grace: int | None) -> Stored:
        value = old.value()
        meta = value.metadata
        finalizers = _deletion_finalizers(meta.finalizers, propagation)
        seconds = _grace_seconds(old, grace)
        if not finalizers and not seconds:
            return self._remove(old)
        if not old.deleting:
            until = Time.of_millis(self._now().millis + seconds * 1000)
            meta = replace(meta, deletion_timestamp=until, generation=meta.generation + 1)
        elif seconds < (held := meta.deletion_grace_period_seconds or 0):
            meta = replace(meta, deletion_timestamp=Time.of_millis(meta.deletion_timestamp.millis - (held - seconds) * 1000))
        else:
            seconds = held
        meta = replace(meta, finalizers=finalizers, deletion_grace_period_seconds=seconds)
        if meta == value.metadata:
            return old
        self._suspects[old.uid] = None
        return self._commit(old.kind, replace(value, metadata=meta), old)

    def _commit(self, kind: Kind, value: Any, old: Stored | None) -> Stored:
        meta = replace(_cleaned(value.metadata), resource_version=str(self._history.revision + 1))
        new = Stored.read(kind, codec.encode(replace(value, metadata=meta)))
        self._objects.setdefault(_key(kind), {})[new.namespace, new.name] = new
        self._by_uid[new.uid] = new
        if old is None or old.owners != new.owners:
            self._disown(old)
            for owner in new.owners:
                self._dependents.setdefault(owner, {})[new.uid] = None
        self._history.add(Change("ADDED" if old is None else "MODIFIED", old, new))
        return new

    def _remove(self, old: Stored) -> Stored:
        del self._objects[_key(old.kind)][old.namespace, old.name]
        del self._by_uid[old.uid]
        self._disown(old)
        last = _restamped(old, str(self._history.revision + 1))
        self._history.add(Change("DELETED", old, last))
        self._suspects.update(dict.fromkeys((*self._dependents.get(old.uid, ()), *old.owners)))
        return last

    def _disown(self, old: Stored | None) -> None:
        for owner in old.owners if old is not None else ():
            owned = self._dependents[owner]
            owned.pop(old.uid if old is not None else "", None)
            if not owned:
                del self._dependents[owner]

    def _now(self) -> Time:
        return Time.of_millis(stored(self._clock()))

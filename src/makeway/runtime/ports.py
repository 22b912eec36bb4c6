"""What the runtime asks of the outside: a Store of objects, a clock, and a source of names.

A Store behaves like a Kubernetes API server, whatever is behind it: memory, SQLite, a real cluster. The promises are
tests (``testing.conformance``), and every Store passes them.

**Calls are synchronous.** A step of the engine is a function of its inputs, and the virtual driver must own all of its
order; so a write is a call that returns or raises, and a watch is *pulled* with ``poll``, which never waits. A driver
that needs many writes in flight or must not block (the live one) makes these calls in threads of its own; the
functions on the way do not know of it.

**Objects leave as bytes with a small decoded header** (``Stored``). A store of 100,000 workloads holds their pod
templates too, and few readers need those: informers look at the header and decode what they need, once. Bytes also
cannot be changed by a reader. **Objects enter as wire structs or trees** (``Body``): structs from our own controllers,
trees from users and in older versions, both named by their own apiVersion, kind, namespace and name. A tree that was
read already enters as its ``Reading``, with its problems.

**Errors**, by what the caller can do about them::

    StoreError
    ├── NotFound             it is not there (any more)
    ├── AlreadyExists        a create met an object of that name
    ├── Conflict             it has changed: read it again, decide again
    ├── Invalid              the object breaks rules; ``problems`` has all of them
    │   └── TooLarge         it has more bytes than a Store keeps for one object
    ├── Forbidden            not allowed here, whatever the object says
    ├── Expired              that revision is forgotten (410): list again
    └── Retryable            nothing is wrong with the request; ``retry_after`` says when to try again
        ├── TooManyRequests
        ├── Unavailable
        └── TimedOut         it is unknown whether it was applied: read before writing again

At the end stand rules of the API as plain functions: our own Stores, in memory and on SQLite, both follow them, and
adapters do not know each other.
"""

from __future__ import annotations

import base64
import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import msgspec

from makeway.api import codec
from makeway.api.objects.meta import FOREGROUND, ORPHAN, KubernetesObject, ObjectMeta, Wire
from makeway.api.problems import Problem
from makeway.api.quantity import decode_hook
from makeway.api.reading.documents import Tree
from makeway.api.versions import Kind, from_stored
from makeway.core.model import Millis, Selector, selects

Body = Wire | Mapping[str, Tree] | codec.Reading
Propagation = Literal["Background", "Foreground", "Orphan"]
POD_GRACE_SECONDS = 30
OBJECT_BYTES_MAX = 3 * 512 * 1024  # of one object as it is stored: what etcd takes in a request
OWN_BYTES_MAX = 4 * 512 * 1024  # with what our own controllers write beside it: they have room where clients have none
_UNCOUNTED = {  # kinds whose changes Kubernetes does not count
    *(("", name) for name in ("ConfigMap", "Event", "LimitRange", "Namespace", "Node", "Secret")),
    ("coordination.k8s.io", "Lease"),
    ("node.k8s.io", "RuntimeClass"),
}
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # those of Kubernetes: no words, no look-alikes
KindKey = tuple[str, str]  # group, name
Place = tuple[str, str]  # namespace, name
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class Clock(Protocol):
    """The time. The virtual driver answers with its own time, the live one with the machine's."""

    def __call__(self) -> Millis: ...


class Names(Protocol):
    """Where a Store gets unique values. A seeded source makes two runs give the same objects."""

    def uid(self) -> str:
        """A uid that no object ever had."""

    def suffix(self) -> str:
        """Five characters to complete a ``generateName``; they may repeat, so the Store tries again."""


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


# --- errors ----------------------------------------------------------------------------------------------------------


class StoreError(Exception):
    """A Store said no. ``code`` and ``reason`` are those of the Kubernetes API."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"


class NotFound(StoreError):
    code = 404
    reason = "NotFound"


class AlreadyExists(StoreError):
    code = 409
    reason = "AlreadyExists"


class Conflict(StoreError):
    code = 409
    reason = "Conflict"


class Invalid(StoreError):
    code = 422
    reason = "Invalid"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


class TooLarge(Invalid):
    code = 413
    reason = "RequestEntityTooLarge"


class Forbidden(StoreError):
    code = 403
    reason = "Forbidden"


class Expired(StoreError):
    code = 410
    reason = "Expired"


class Retryable(StoreError):
    code = 500
    reason = "ServerTimeout"

    def __init__(self, message: str = "", retry_after: Millis | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooManyRequests(Retryable):
    code = 429
    reason = "TooManyRequests"


class Unavailable(Retryable):
    code = 503
    reason = "ServiceUnavailable"


class TimedOut(Retryable):
    code = 504
    reason = "Timeout"


# --- what is read ----------------------------------------------------------------------------------------------------


class _Header(msgspec.Struct):
    metadata: ObjectMeta


_HEADERS = msgspec.json.Decoder(_Header, dec_hook=decode_hook)
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
RECENT_MAX = 4096
_recent: deque[Stored] = deque()  # those whose value is kept beside their bytes, because a write has several readers


@dataclass(frozen=True, slots=True)
class Stored:
    """An object at one revision: its bytes in the stored version, and the part of its metadata that readers need."""

    kind: Kind
    namespace: str  # "" where the kind has none
    name: str
    uid: str
    resource_version: str
    generation: int
    labels: Mapping[str, str] = field(hash=False)
    owners: tuple[str, ...]  # uids
    finalizers: tuple[str, ...]
    deleting: bool  # it has a deletionTimestamp
    data: bytes
    _value: KubernetesObject | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def read(cls, kind: Kind, data: bytes) -> Stored:
        """From bytes that a Store wrote, in the stored version; only the end of them is parsed."""
        return cls.of(kind, _HEADERS.decode(data).metadata, data)

    @classmethod
    def made(cls, kind: Kind, value: KubernetesObject) -> Stored:
        """From a value that reads the same from its bytes."""
        new = cls.of(kind, value.metadata, codec.encode(value))
        new._keep(value)
        return new

    @classmethod
    def of(cls, kind: Kind, meta: ObjectMeta, data: bytes) -> Stored:
        """From bytes that were just made, where the metadata is at hand."""
        return cls(
            kind=kind, namespace=meta.namespace, name=meta.name, uid=meta.uid, resource_version=meta.resource_version,
            generation=meta.generation, labels=MappingProxyType(dict(meta.labels)),
            owners=tuple(owner.uid for owner in meta.owner_references), finalizers=meta.finalizers,
            deleting=meta.deletion_timestamp is not None, data=data,
        )  # fmt: skip

    def at(self, resource_version: str) -> Stored:
        """The same state under another resourceVersion, as a removal shows it."""
        metadata = msgspec.structs.replace(self.metadata(), resource_version=resource_version)
        try:
            value = self.value()
        except msgspec.ValidationError:  # the rest stays as it is, byte for byte
            parts: dict[str, msgspec.Raw] = _PARTS.decode(self.data)
            parts["metadata"] = msgspec.Raw(codec.encode(metadata))
            return Stored.of(self.kind, metadata, msgspec.json.encode(parts))
        return Stored.made(self.kind, msgspec.structs.replace(value, metadata=metadata))

    def metadata(self) -> ObjectMeta:
        """The metadata, also of an object that cannot be read beyond it."""
        found: ObjectMeta = _HEADERS.decode(self.data).metadata if self._value is None else self._value.metadata
        return found

    @property
    def revision(self) -> int:
        """The resourceVersion as a number: of two states of an object the later one has the greater."""
        return int(self.resource_version)

    def value(self) -> Any:
        """A wire struct of ``kind.type``. Readers that ask soon after each other share one, and must not change it."""
        found: Any = self._value
        if found is None:
            found = codec.decode(self.data, self.kind.type)
            self._keep(found)
        return found

    def _keep(self, value: KubernetesObject) -> None:
        object.__setattr__(self, "_value", value)
        _recent.append(self)
        if len(_recent) > RECENT_MAX:
            object.__setattr__(_recent.popleft(), "_value", None)

    def tree(self, version: str = "") -> dict[str, Tree]:
        """The object as a served version shows it; a tree of its own for every caller."""
        tree: dict[str, Tree] = msgspec.json.decode(self.data)
        return from_stored(self.kind, version or self.kind.versions[0], tree)


class WatchEvent(NamedTuple):
    """What happened to an object. DELETED carries its last state, with the revision at which it went.

    A BOOKMARK has no object: it says that nothing was missed up to its resourceVersion.
    """

    type: EventType
    resource_version: str
    object: Stored | None


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. All pages of a list show the same revision, ``resource_version``; watch from there."""

    items: tuple[Stored, ...]
    resource_version: str
    token: str = ""  # for ``list``, to go on; "" ends the list
    remaining: int = 0  # how many follow; a Store that cannot know says 0 beside a token


class Watch(Protocol):
    """A place in the history of a kind."""

    def poll(self, limit: int = 1000) -> Sequence[WatchEvent]:
        """What has happened since the last call, oldest first, at most ``limit`` events; never waits.

        Raises Expired once its place in the history is forgotten: list again, and start a new watch.
        """

    def close(self) -> None:
        """Give back what it holds; another ``poll`` answers with nothing."""


class Store(Protocol):
    """Objects by (kind, namespace, name); the namespace is "" where the kind has none.

    One counter numbers all writes of all kinds, and ``metadata.resourceVersion`` is that number.
    """

    def latest(self, kind: Kind) -> int | None:
        """The newest revision of a kind, where that is known without a request; None: only a watch can tell."""

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        """Raises NotFound."""

    def list(
        self, kind: Kind, namespace: str | None = None, *, labels: Selector = (), limit: int = 0, token: str = ""
    ) -> Page:
        """Objects by namespace and name; None is every namespace, 0 no limit.

        A token goes on where its page ended, in the state that page showed, or raises Expired.
        """

    def watch(
        self, kind: Kind, since: str = "", *, namespace: str | None = None, labels: Selector = (),
        bookmarks: bool = False,
    ) -> Watch:  # fmt: skip
        """Changes after the resourceVersion ``since``; "" begins with an ADDED for everything there is.

        An object that begins or ceases to have the labels is ADDED or DELETED. Raises Expired where ``since`` is
        forgotten, and Unavailable where it is still to come, here or by the first ``poll``.
        """

    def create(self, body: Body) -> Stored:
        """Status and what the Store itself gives (uid, times, generation) are not taken from the body.

        Raises AlreadyExists, Invalid, Forbidden, and NotFound for a namespace that must exist and does not.
        """

    def update(self, body: Body) -> Stored:
        """All but status, and all of it: what the body lacks goes. A change of nothing is no write.

        A resourceVersion or uid in the body must be the present one, else Conflict. A write that takes the last
        finalizer of an object that is being deleted removes it.
        """

    def update_status(self, body: Body) -> Stored:
        """The status alone; of the metadata only resourceVersion and uid are read, as in ``update``."""

    def patch(
        self, kind: Kind, namespace: str, name: str, change: Mapping[str, Tree], *, status: bool = False
    ) -> Stored:
        """A JSON merge patch of the object or of its status. Lists are replaced, so a caller that merges conditions by
        type sends them all, and a resourceVersion. The patch is in the version of its apiVersion, if it has one.
        """

    def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "",
        propagation: Propagation | None = None, grace: int | None = None,
    ) -> Stored:  # fmt: skip
        """Remove it, or mark it if finalizers or a grace period (seconds; pods only) hold it; the state it is left in.

        Dependents go with it (Background), before it (Foreground) or are let go (Orphan); None lets its finalizers
        decide, else Background. Raises NotFound, and Conflict where uid or resourceVersion is another.
        """


# --- rules of the API that all Stores of our own follow --------------------------------------------------------------


class Revision(NamedTuple):
    """One revision. ``after`` is the last state, at this revision, where the object was removed."""

    type: EventType
    before: Stored | None
    after: Stored


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """The value that one field of an object must have, or must not have; a field that is not set is "".

    ``otherwise``: the field that counts where the first one is not set.
    """

    path: tuple[str, ...]
    value: str
    is_equal: bool = True
    otherwise: tuple[str, ...] = ()

    def holds(self, each: Stored) -> bool:
        return (self.text(each) == self.value) == self.is_equal

    def text(self, each: Stored) -> str:
        found = field_text(each, self.path)
        return found if found or not self.otherwise else field_text(each, self.otherwise)


def field_text(each: Stored, path: tuple[str, ...]) -> str:
    """A field as selectors compare it. Only what leads to it is decoded."""
    if path == ("metadata", "name"):
        return each.name
    if path == ("metadata", "namespace"):
        return each.namespace
    value: Any = _leading_to(path).decode(each.data)
    for name in path:
        value = getattr(value, name, None)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or isinstance(value, dict | list) else str(value)


@lru_cache(maxsize=64)
def _leading_to(path: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    type_: Any = Any
    for name in reversed(path):
        type_ = msgspec.defstruct("Leading", [(name, type_ | None, None)])
    return msgspec.json.Decoder(type_)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which objects of a kind are looked at."""

    key: KindKey
    namespace: str | None
    labels: Selector
    fields: tuple[FieldTerm, ...] = ()

    @property
    def name(self) -> str:
        """The only name that it can take; "" where it can take others."""
        wanted = (each.value for each in self.fields if each.path == ("metadata", "name") and each.is_equal)
        return next(wanted, "")

    def takes(self, each: Stored | None) -> bool:
        if each is None or (self.namespace and each.namespace != self.namespace):
            return False
        if self.labels and not selects(self.labels, each.labels):
            return False
        texts: dict[tuple[str, ...], str] = {}  # terms are many, fields few, and each is looked for in all the bytes
        for term in self.fields:
            if term.path not in texts:
                texts[term.path] = term.text(each)
            if (texts[term.path] == term.value) != term.is_equal:
                return False
        return True

    def event(self, change: Revision) -> WatchEvent | None:
        """How a change looks to a client that sees only these objects."""
        after = change.after
        if kind_key(after.kind) != self.key:
            return None
        version = after.resource_version
        if (
            self.namespace is None and not self.labels and not self.fields
        ):  # it sees all of them, as nearly all clients do
            return WatchEvent(change.type, version, after)
        was = self.takes(change.before)
        if change.type == "DELETED":
            return WatchEvent("DELETED", version, after) if was else None
        if self.takes(after):
            return WatchEvent("MODIFIED" if was else "ADDED", version, after)
        return WatchEvent("DELETED", version, change.before.at(version)) if was and change.before else None


def merged(target: Tree, change: Tree) -> Tree:
    """A JSON merge patch (RFC 7386): null removes, mappings are merged, all else is replaced. Changes neither."""
    if not isinstance(change, Mapping):
        return change
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, each in change.items():
        if each is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), each)
    return result


def kind_key(kind: Kind) -> KindKey:
    return kind.group, kind.name


def called(kind: Kind, name: str) -> str:
    """An object as messages of the API call it."""
    return f'{kind.plural}{"." if kind.group else ""}{kind.group} "{name}"'


def check_size(new: Stored, old: Stored | None, most: int) -> None:
    """An object may not grow beyond ``most`` bytes; what is too large already may become smaller. Raises TooLarge."""
    size = len(new.data)
    if size > most and (old is None or size > len(old.data)):
        words = f"{called(new.kind, new.name)} would have {size} bytes, more than the {most} that an object may have"
        raise TooLarge([Problem("", words, "keep large data in files, or in several objects", cause="TooLong")])


def check_present(old: Stored, uid: str, resource_version: str) -> None:
    """What the caller believes to be there must be there."""
    if uid and uid != old.uid:
        wrong = f"uid is {old.uid}, not {uid}"
    elif resource_version and resource_version != old.resource_version:
        wrong = "the object has been modified; please apply your changes to the latest version and try again"
    else:
        return
    raise Conflict(f"Operation cannot be fulfilled on {called(old.kind, old.name)}: {wrong}")


def first_generation(kind: Kind) -> int:
    """0 for the kinds whose changes Kubernetes does not count: they show no generation."""
    return 0 if kind_key(kind) in _UNCOUNTED else 1


def next_generation(generation: int) -> int:
    return generation + 1 if generation else 0


def wanted(kind: Kind, tree: dict[str, Tree]) -> dict[str, Tree]:
    """What a generation counts the changes of: all but metadata, and status where that is a subresource."""
    return {
        name: each for name, each in tree.items() if name != "metadata" and not (name == "status" and kind.has_status)
    }


def late_finalizers(old: Stored, meta: ObjectMeta) -> Sequence[Problem]:
    """No finalizer can be added to what is being deleted."""
    present = set(old.finalizers)
    late = [name for name in meta.finalizers if name not in present] if old.deleting else []
    return [
        Problem("metadata.finalizers", f"{each} comes too late: it is being deleted", cause="Forbidden")
        for each in late
    ]


def deletion_finalizers(present: tuple[str, ...], propagation: Propagation | None) -> tuple[str, ...]:
    """The finalizers of what is deleted: a propagation that has to be waited for is kept as one."""
    if propagation is None:
        return present
    others = tuple(name for name in present if name not in (ORPHAN, FOREGROUND))
    match propagation:
        case "Foreground":
            return (*others, FOREGROUND)
        case "Orphan":
            return (*others, ORPHAN)
    return others


def grace_seconds(old: Stored, asked: int | None) -> int:
    """How long it may take to go. Only pods take time, and of those only what a node may still run."""
    if kind_key(old.kind) != ("", "Pod"):
        return 0
    tree = old.tree()
    if old.deleting:
        held = int(tree["metadata"].get("deletionGracePeriodSeconds", 0))
        return held if asked is None else max(0, min(held, asked))
    spec, phase = tree.get("spec", {}), tree.get("status", {}).get("phase", "")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return int(spec.get("terminationGracePeriodSeconds", POD_GRACE_SECONDS)) if asked is None else max(0, asked)


def token_after(revision: int, last: Stored) -> str:
    """Where a page of a list ended, as a text that means nothing to others."""
    return base64.urlsafe_b64encode(
        msgspec.json.encode((revision, *kind_key(last.kind), last.namespace, last.name))
    ).decode()


def read_token(kind: Kind, token: str) -> tuple[int, Place]:
    try:
        data = base64.urlsafe_b64decode(token)
        revision, group, name, *last = msgspec.json.decode(data, type=tuple[int, str, str, str, str])
        if (group, name) != kind_key(kind):
            raise ValueError(name)
    except (ValueError, msgspec.MsgspecError) as error:
        raise Invalid([Problem("continue", "this token is not from a list of this kind")]) from error
    return revision, (last[0], last[1])


def named(tree: Mapping[str, Tree]) -> ObjectMeta:
    """As much of the metadata as it takes to find an object."""
    meta = tree.get("metadata")
    texts = {name: each for name, each in meta.items() if isinstance(each, str)} if isinstance(meta, Mapping) else {}
    return ObjectMeta(
        name=texts.get("name", ""), namespace=texts.get("namespace", ""), uid=texts.get("uid", ""),
        resource_version=texts.get("resourceVersion", ""),
    )  # fmt: skip


def identity(tree: Mapping[str, Tree]) -> tuple[Tree, ...]:
    meta = named(tree)
    return tree.get("apiVersion"), tree.get("kind"), meta.namespace, meta.name

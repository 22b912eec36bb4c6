"""The rules by which objects are written, for the Stores of our own: the one in memory and the one on SQLite.

What a Kubernetes API server would answer, without one. How objects are kept and read is in ``pages``; each write adds
a ``Revision`` to the history there, with the state before and after.

Time comes from ``clock``, uids and name suffixes from ``names``: equal calls give equal objects, byte for byte.

Promises: a call that raises has changed nothing; a call costs what it touches, never the number of objects, but for
``list``; no write makes an object larger than ``OBJECT_BYTES_MAX``, none of our own larger than ``OWN_BYTES_MAX``.

Kinder than an API server in one thing: fields that only the server may set are not refused in a body but ignored. Not
here: what empties a namespace, which client owns which field. One thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace as _changed
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from makeway.api import codec
from makeway.api.objects.kubernetes import Namespace, NamespaceSpec, view
from makeway.api.objects.meta import FOREGROUND, ORPHAN, KubernetesObject, ObjectMeta, OwnerReference, Wire
from makeway.api.problems import Problem, has_errors
from makeway.api.quantity import LAST_MILLIS, Time
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Mode
from makeway.api.validation import ValidationContext, validate, validate_update
from makeway.api.versions import Kind, find_kind, from_stored
from makeway.core.model import stored
from makeway.runtime.ports import (
    OBJECT_BYTES_MAX,
    OWN_BYTES_MAX,
    AlreadyExists,
    Body,
    Clock,
    Forbidden,
    Invalid,
    Names,
    NotFound,
    Propagation,
    Revision,
    Stored,
    called,
    check_present,
    check_size,
    deletion_finalizers,
    first_generation,
    grace_seconds,
    identity,
    kind_key,
    late_finalizers,
    merged,
    named,
    next_generation,
    wanted,
)
from makeway.runtime.stores.garbage import Suspects, awaits_dependents, blocks, is_lasting, releases_dependents
from makeway.runtime.stores.history import History
from makeway.runtime.stores.pages import StoredObjects
from makeway.runtime.stores.repair import is_readable, readable, readable_but_for_status

Problems = list[Problem]  # the method ``list`` hides the type inside the class
TEMPLATE = ".template."  # the part of a Workload that Kubernetes defines
NAME_TRIES_MAX = 8
GENERATED_PREFIX_MAX = 58  # the API server cuts a generateName here, to leave room for the suffix


# --- writing ---------------------------------------------------------------------------------------------------------


Admission = Callable[
    [StoredObjects, Kind, KubernetesObject, Stored | None], KubernetesObject
]  # the present object, the new one, and its first form -> what is stored


class ReadBody(NamedTuple):
    """A body that was read: the kind and version it is written in, and its value in the form that is stored."""

    kind: Kind
    version: str
    value: Any
    problems: Problems

    def rules(self, broken: Sequence[Problem]) -> Problems:
        """Broken rules, at the paths that the writer knows."""
        return codec.respelled(broken, self.kind, self.version)


class Mark(NamedTuple):
    """A moment of ``StoreRules``: the writes and suspects up to then."""

    revision: int
    suspects: int


class StoreRules(StoredObjects):
    """See ``runtime.ports.Store``. What goes beyond it: ``collect``, ``compact``, ``uncommitted`` and ``take_back``.

    ``looks``: how many objects the garbage collector checks within a call, None for all; what is left waits for
    ``collect``. ``on_trouble`` is called with each that it cannot deal with; without it the call fails. ``careful``:
    whether our own writes (structs and patches) are checked against limits and rules too; trees always are. ``mode``:
    what becomes of unknown fields. ``admission`` completes an object before it is stored, or refuses it; a created
    object has its uid and name by then. ``advice``: warnings about the last body that was checked.
    """

    def __init__(
        self, history: History, clock: Clock, names: Names, *, looks: int | None = None, careful: bool = True,
        needs_namespaces: bool = False, mode: Mode = "Strict", context: ValidationContext | None = None,
        admission: Admission | None = None, on_trouble: Callable[[Stored, Exception], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(history)
        self.advice: Problems = []
        self._admission = admission
        self._clock = clock
        self._names = names
        self._looks = looks
        self._on_trouble = on_trouble
        self._careful = careful
        self._needs_namespaces = needs_namespaces
        self._mode: Mode = mode
        self._around = context or ValidationContext()
        self._by_uid: dict[str, Stored] = {}
        self._dependents: dict[str, dict[str, None]] = {}  # uid of an owner -> uids of what it owns
        self._suspects = Suspects()  # objects that the collector has to check
        self._unmovable: set[str] = set()  # uids of dependents that it could not change; tried again after a change

    def create(self, body: Body) -> Stored:
        written = self._read(_without_status(body))
        kind, value, problems = written.kind.stored, written.value, written.problems
        meta = _meta(value)
        if meta.resource_version:
            problems.append(Problem("metadata.resourceVersion", "must not be set on what is to be created"))
        if kind.namespaced and not meta.namespace:
            problems.append(Problem("metadata.namespace", "required", "name a namespace", cause="Required"))
        if self._judges(body):
            problems += written.rules(validate(value, self._around, created_as=written.kind))
        self._refuse(problems)
        namespace = meta.namespace if kind.namespaced else ""
        self._check_namespace(namespace)
        meta = replace(
            meta, name=meta.name or self._made_name(kind, namespace, meta.generate_name), namespace=namespace,
            generation=first_generation(kind), creation_timestamp=self._now(), deletion_timestamp=None,
            deletion_grace_period_seconds=None,
        )  # fmt: skip
        if (namespace, meta.name) in self._objects.get(kind_key(kind), {}):
            raise AlreadyExists(f"{called(kind, meta.name)} already exists")
        value = replace(value, metadata=replace(meta, uid=self._names.uid()))
        if self._admission is not None:
            value = self._admission(self, kind, value, None)
        created = self._commit(kind, value, None, most=_most(body))
        self._suspect_orphan(created)
        return self._settled(created)

    def update(self, body: Body) -> Stored:
        written = self._read(_without_status(body))
        kind, value = written.kind.stored, written.value
        old = self._present(kind, _meta(value), written.problems)
        if kind.has_status:
            value = replace(value, status=readable(old).status)
        if self._admission is not None:
            value = self._admission(self, kind, value, old)
        judged = written if self._judges(body) else None
        return self._settled(self._change(old, value, judged, most=_most(body)))

    def update_status(self, body: Body) -> Stored:
        if isinstance(body, Wire) and not self._careful:
            return self._put_status(body)
        if isinstance(body, codec.Reading):
            written = self._read(body)
            old = self._present(written.kind.stored, _meta(written.value), written.problems)
        else:
            tree = codec.to_tree(body) if isinstance(body, Wire) else dict(body)
            kind = _served(tree)
            old = self._present(kind.stored, named(tree), [])
            shown = from_stored(kind, tree["apiVersion"].rpartition("/")[2], old.tree())
            written = self._read({**shown, "status": tree.get("status")})
        if not written.kind.has_status:
            words = f"{written.kind.plural} have no status of their own"
            raise Invalid([Problem("status", words, cause="NotSupported")])
        before = readable_but_for_status(old)
        owned = replace(before.metadata, managed_fields=_meta(written.value).managed_fields)
        value = replace(before, status=written.value.status, metadata=owned)
        judged = written if self._judges(body) else None
        return self._settled(self._change(old, value, judged, most=_most(body)))

    def _put_status(self, body: Wire) -> Stored:
        """A status of our own making, which is not checked: nothing else can have changed."""
        written = self._read(body)
        old = self._present(written.kind.stored, _meta(written.value), written.problems)
        before, status = old.value(), written.value.status
        if before.status == status:
            return old
        return self._settled(self._commit(old.kind, replace(before, status=status), old, most=OWN_BYTES_MAX))

    def patch(
        self, kind: Kind, namespace: str, name: str, change: Mapping[str, Tree], *, status: bool = False
    ) -> Stored:
        old = self.get(kind, namespace, name)
        api_version = str(change.get("apiVersion") or kind.api_version)
        version, served = api_version.rpartition("/")[2], find_kind(api_version, kind.name)
        if served is None or served.stored is not kind:
            raise Invalid([Problem("apiVersion", f"{kind.name} is not served as {version}", cause="NotSupported")])
        before = from_stored(served, version, old.tree())
        tree = merged(before, change)
        if identity(tree) != identity(before):
            raise Invalid([Problem("metadata.name", "a patch cannot change what the object is")])
        body = tree if self._careful or not served.is_stored_as(version) else _decoded(kind, tree)
        return self.update_status(body) if status else self.update(body)

    def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "",
        propagation: Propagation | None = None, grace: int | None = None,
    ) -> Stored:  # fmt: skip
        old = self.get(kind, namespace, name)
        check_present(old, uid, resource_version)
        return self._settled(self._delete(old, propagation, grace))

    # --- steps of a write ---

    def put(self, old: Stored, value: KubernetesObject) -> Stored:
        """A change of our own making, of status and all; it is not checked."""
        return self._settled(self._change(old, value, most=OWN_BYTES_MAX))

    def _judges(self, body: Body) -> bool:
        return self._careful or not isinstance(body, Wire)

    def _refuse(self, problems: Problems) -> None:
        self.advice = [each for each in problems if each.severity == "warning"]
        refuse(problems)

    def _read(self, body: Body) -> ReadBody:
        """Read a body, with the problems of its shape; Invalid where there is no value."""
        if isinstance(body, Wire) and not self._careful:
            named_as = {"apiVersion": getattr(body, "api_version", ""), "kind": getattr(body, "kind", "")}
            kind = _served(named_as)
            return ReadBody(kind, kind.versions[0], body, [])
        if isinstance(body, codec.Reading):
            reading = body
        else:
            reading = codec.read(codec.to_tree(body) if isinstance(body, Wire) else dict(body), self._mode)
        if reading.kind is None or reading.value is None:
            raise Invalid(reading.problems)
        return ReadBody(reading.kind, reading.version, reading.value, [*reading.problems])

    def _check_namespace(self, namespace: str) -> None:
        if not namespace or not self._needs_namespaces:
            return
        found = self._objects.get(("", "Namespace"), {}).get(("", namespace))
        if found is None:
            raise NotFound(f'namespaces "{namespace}" not found')
        if found.deleting:
            raise Forbidden(f"unable to create new content in namespace {namespace} because it is being terminated")

    def _made_name(self, kind: Kind, namespace: str, prefix: str) -> str:
        taken = self._objects.get(kind_key(kind), {})
        for _ in range(NAME_TRIES_MAX):
            name = f"{prefix[:GENERATED_PREFIX_MAX]}{self._names.suffix()}"
            if (namespace, name) not in taken:
                return name
        raise AlreadyExists(f"{called(kind, name)} already exists, the server was not able to generate a unique name")

    def _present(self, kind: Kind, meta: ObjectMeta, problems: Problems) -> Stored:
        """The object that a body names, if uid and resourceVersion are the present ones."""
        if not meta.name:
            raise Invalid([*problems, Problem("metadata.name", "required", cause="Required")])
        old = self.get(kind, meta.namespace if kind.namespaced else "", meta.name)
        check_present(old, meta.uid, meta.resource_version)
        return old

    def _change(
        self, old: Stored, value: KubernetesObject, written: ReadBody | None = None, *, most: int | None = None
    ) -> Stored:
        """Put ``value`` in the place of ``old``; fields that only the store may set are taken from ``old``.

        ``written`` is the body that it was made of, where that is checked; ``most``: bytes that it may have.
        """
        before = readable(old)
        given = before.metadata
        meta = replace(
            _meta(value), namespace=given.namespace, uid=given.uid, resource_version=given.resource_version,
            generation=given.generation, creation_timestamp=given.creation_timestamp,
            deletion_timestamp=given.deletion_timestamp,
            deletion_grace_period_seconds=given.deletion_grace_period_seconds,
            managed_fields=_meta(value).managed_fields or given.managed_fields,
        )  # fmt: skip
        value = replace(value, metadata=_cleaned(meta))
        problems = [*late_finalizers(old, meta)]
        if written is not None:
            if is_readable(old):
                rules = validate_update(before, value, self._around, updated_as=written.kind)
            else:  # the object is repaired: there is nothing to compare with
                rules = validate(value, self._around)
            problems = self._new_ones([*written.problems, *problems, *written.rules(rules)], old, written)
        self._refuse(problems)
        was, will = old.tree(), codec.to_tree(value)
        if was == will:
            return old
        if old.deleting and not _is_held(value) and not given.deletion_grace_period_seconds:
            return self._remove(old, value)
        if wanted(old.kind, was) != wanted(old.kind, will):
            value = replace(value, metadata=replace(value.metadata, generation=next_generation(old.generation)))
        changed = self._commit(old.kind, value, old, most=most)
        if given.owner_references != meta.owner_references:
            self._suspect_orphan(changed)
            self._suspects.add(old.owners)
        return changed

    def _new_ones(self, problems: Problems, old: Stored, written: ReadBody) -> Problems:
        """Without the problems that ``old`` has: an object that an older server took can still be changed elsewhere.

        In parts that Kubernetes defines only, and never for unknown fields.
        """
        if not has_errors(problems):
            return problems
        reading = codec.read(from_stored(written.kind, written.version, old.tree()), self._mode)
        rules = [] if reading.value is None else validate(reading.value, self._around)
        known = {
            (each.path, each.message)
            for each in (*reading.problems, *written.rules(rules))
            if each.cause != "UnknownField" and (not written.kind.ours or TEMPLATE in each.path)
        }
        return [each for each in problems if (each.path, each.message) not in known]

    def _delete(self, old: Stored, propagation: Propagation | None, grace: int | None) -> Stored:
        try:
            value = old.value()
        except msgspec.ValidationError:  # no update of it can be checked, so its finalizers could never be taken away
            return self._remove(old)
        meta = value.metadata
        finalizers = deletion_finalizers(meta.finalizers, propagation)
        seconds = grace_seconds(old, grace)
        if not finalizers and not seconds and not _is_held(replace(value, metadata=replace(meta, finalizers=()))):
            return self._remove(old)
        if not old.deleting:
            until = Time.of_millis(self._now().millis + seconds * 1000)
            meta = replace(meta, deletion_timestamp=until, generation=next_generation(meta.generation))
        elif seconds < (held := meta.deletion_grace_period_seconds or 0):
            asked_at = meta.deletion_timestamp.millis - held * 1000
            if meta.deletion_timestamp.millis >= LAST_MILLIS:  # cut to the latest time there is: its start is unknown
                asked_at = self._now().millis
            until = Time.of_millis(asked_at + seconds * 1000)
            meta = replace(meta, deletion_timestamp=until)
        else:
            seconds = held
        meta = replace(meta, finalizers=finalizers, deletion_grace_period_seconds=seconds)
        if meta == value.metadata:
            return old
        self._suspects.add([old.uid])
        if FOREGROUND in finalizers:  # the owner is checked again for each dependent that goes, a dependent only once
            self._suspects.add(self._dependents.get(old.uid, ()))
        return self._commit(old.kind, replace(value, metadata=meta), old)

    def _commit(self, kind: Kind, value: KubernetesObject, old: Stored | None, *, most: int | None = None) -> Stored:
        """Without ``most`` the size is not checked: a deletion adds its mark, whatever there is."""
        meta = _cleaned(value.metadata, resource_version=str(self._history.revision + 1))
        new = Stored.made(kind, replace(value, metadata=meta))
        if most is not None:
            check_size(new, old, most)
        self.apply(Revision("ADDED" if old is None else "MODIFIED", old, new))
        return new

    def _remove(self, old: Stored, value: KubernetesObject | None = None) -> Stored:
        """Remove an object. ``value`` is its last state, where a write took the last finalizer."""
        last = old if value is None else Stored.read(old.kind, codec.encode(value))
        last = last.at(str(self._history.revision + 1))
        self.apply(Revision("DELETED", old, last))
        self._suspects.add((*self._dependents.get(old.uid, ()), *old.owners))
        return last

    def _keep(self, new: Stored, old: Stored | None) -> None:
        super()._keep(new, old)
        self._by_uid[new.uid] = new
        self._unmovable.discard(new.uid)
        if old is None or old.owners != new.owners:
            self._disown(old)
            for owner in new.owners:
                self._dependents.setdefault(owner, {})[new.uid] = None

    def _drop(self, old: Stored) -> None:
        super()._drop(old)
        del self._by_uid[old.uid]
        self._unmovable.discard(old.uid)
        self._disown(old)

    def _disown(self, old: Stored | None) -> None:
        if old is not None:
            for owner in dict.fromkeys(old.owners):
                del self._dependents[owner][old.uid]
                if not self._dependents[owner]:
                    del self._dependents[owner]

    def _now(self) -> Time:
        return Time.of_millis(stored(self._clock()))

    # --- writes that may be taken back ---

    def uncommitted(self) -> Sequence[Revision]:
        """All writes since the last ``compact``, oldest first."""
        return self._history.changes()

    def mark(self) -> Mark:
        """A moment to which ``take_back`` leads back."""
        return Mark(self._history.revision, self._suspects.mark())

    def take_back(self, mark: Mark) -> None:
        """Undo all writes since ``mark``, which must not be older than the last ``compact``.

        Also in the midst of a call that failed.
        """
        for change in self._history.rewind(mark.revision):
            if change.before is None:
                self._drop(change.after)
            else:
                self._keep(change.before, None if change.type == "DELETED" else change.after)
        self._suspects.undo(mark.suspects)

    def compact(self, keep: int = 0) -> None:
        super().compact(keep)
        self._suspects.forget()

    # --- garbage collection ---

    @property
    def has_suspects(self) -> bool:
        """Whether there is something for ``collect`` to check."""
        return bool(self._suspects)

    def suspect_remains(self) -> None:
        """After a restore: suspect all objects that a collector which was cut short would still have checked."""
        self._suspects.add([each.uid for each in self.all() if self._may_remain(each)])

    def _may_remain(self, each: Stored) -> bool:
        if each.deleting and (ORPHAN in each.finalizers or FOREGROUND in each.finalizers):
            return True
        return any(uid not in self._by_uid or self._by_uid[uid].deleting for uid in each.owners)

    def collect(self, most: int | None = None) -> int:
        """Do what the garbage collector has to do, to the end or for so many objects; return how many it checked.

        Each check deletes, marks or releases an object, or ends there, so that the collection comes to an end.
        """
        looks = 0
        while self._suspects and (most is None or looks < most):
            uid = self._suspects.take()
            if uid in self._by_uid:
                self._look_with_care(self._by_uid[uid])
                looks += 1
        return looks

    def _look_with_care(self, each: Stored) -> None:
        if self._on_trouble is None:
            self._look(each)
            return
        before = self.mark()
        try:
            self._look(each)
        except Exception as error:
            self.take_back(before)
            self._unmovable.add(each.uid)
            self._on_trouble(each, error)

    def _settled(self, answer: Stored) -> Stored:
        self.collect(self._looks)
        return answer

    def _suspect_orphan(self, each: Stored) -> None:
        """An object may name an owner that is gone, or that waits for its dependents to go."""
        if each.owners:
            self._suspects.add([each.uid])

    def _look(self, each: Stored) -> None:
        if releasing := {uid for uid in each.owners if releases_dependents(self._by_uid.get(uid))}:
            self._let_go(each, releasing)
            each = self._by_uid.get(each.uid, each)
        if releases_dependents(each):
            if any(uid not in self._unmovable for uid in self._dependents.get(each.uid, ())):  # they are checked first
                self._suspects.add((*self._dependents[each.uid], each.uid))
            else:
                self._drop_finalizer(each, ORPHAN)
        elif awaits_dependents(each):
            if not any(blocks(dependent, each) for dependent in self._owned_by(each)):
                self._drop_finalizer(each, FOREGROUND)
        elif not each.deleting and each.owners:
            self._look_at_owners(each)

    def _look_at_owners(self, each: Stored) -> None:
        owners = each.metadata().owner_references
        gone = {owner.uid for owner in owners if self._is_gone(owner, each)}
        waiting = {uid for uid in each.owners if uid not in gone and awaits_dependents(self._by_uid.get(uid))}
        if not gone | waiting:
            return
        if len(gone | waiting) < len(set(each.owners)) or is_lasting(each):
            self._let_go(each, gone | waiting)
            return
        has_dependents = bool(waiting) and each.uid in self._dependents
        if has_dependents and any(awaits_dependents(dependent) for dependent in self._owned_by(each)):
            each = self._unblock(each)  # owners in a circle would wait for each other for ever
        self._delete(each, "Foreground" if has_dependents else None, None)

    def _is_gone(self, reference: OwnerReference, dependent: Stored) -> bool:
        kind = find_kind(reference.api_version, reference.kind)
        if kind is None:
            return False  # nothing is known of such an owner
        owner = self._by_uid.get(reference.uid)
        if owner is None or (owner.kind, owner.name) != (kind.stored, reference.name):
            return True
        return owner.namespace not in ("", dependent.namespace)

    def _owned_by(self, owner: Stored) -> Iterator[Stored]:
        return (self._by_uid[uid] for uid in self._dependents.get(owner.uid, ()))

    def _let_go(self, dependent: Stored, owners: set[str]) -> None:
        kept = tuple(each for each in dependent.metadata().owner_references if each.uid not in owners)
        try:
            self._change(dependent, _with_meta(dependent, owner_references=kept))
        except msgspec.ValidationError:
            self._unmovable.add(dependent.uid)

    def _unblock(self, each: Stored) -> Stored:
        owners = tuple(replace(owner, block_owner_deletion=False) for owner in each.value().metadata.owner_references)
        return self._change(each, _with_meta(each, owner_references=owners))

    def _drop_finalizer(self, each: Stored, finalizer: str) -> None:
        self._change(each, _with_meta(each, finalizers=tuple(name for name in each.finalizers if name != finalizer)))


# --- what is asked of objects ----------------------------------------------------------------------------------------


def _meta(value: KubernetesObject) -> ObjectMeta:
    return value.metadata


def _with_meta(each: Stored, **changes: object) -> KubernetesObject:
    value: KubernetesObject = each.value()
    return replace(value, metadata=replace(value.metadata, **changes))


def _cleaned(meta: ObjectMeta, **changes: object) -> ObjectMeta:
    """Metadata without the fields that are not stored."""
    return replace(meta, self_link="", **changes)


def _is_held(value: KubernetesObject) -> bool:
    """Whether something must happen before it can go; a namespace has finalizers in its spec too."""
    if value.metadata.finalizers:
        return True
    return isinstance(value, Namespace) and bool(view(value.spec, NamespaceSpec).finalizers)


# --- what is asked of bodies -----------------------------------------------------------------------------------------


def refuse(problems: list[Problem]) -> None:
    if has_errors(problems):
        raise Invalid(problems)


def _most(body: Body) -> int:
    """How many bytes the object of a body may have; bodies of our own are structs."""
    return OWN_BYTES_MAX if isinstance(body, Wire) else OBJECT_BYTES_MAX


def _served(tree: Mapping[str, Tree]) -> Kind:
    api_version, name = tree.get("apiVersion"), tree.get("kind")
    kind = find_kind(api_version, name) if isinstance(api_version, str) and isinstance(name, str) else None
    if kind is None:
        raise Invalid(codec.read(dict(tree)).problems)
    return kind


@cache
def _blank(type_: type[Wire]) -> Any:
    return codec.decode(b"{}", type_)


def _without_status(body: Body) -> Body:
    """A body as the main resource reads it: the status is not even read."""
    if isinstance(body, Wire):
        return replace(body, status=_blank(type(body)).status) if hasattr(body, "status") else body
    if isinstance(body, codec.Reading):
        if body.kind is None or body.value is None or not body.kind.has_status:
            return body
        return _changed(body, value=replace(body.value, status=_blank(body.kind.type).status))
    return {name: each for name, each in body.items() if name != "status"} if _served(body).has_status else body


def _decoded(kind: Kind, tree: Tree) -> Wire:
    try:
        return codec.decode(msgspec.json.encode(tree), kind.type)
    except msgspec.ValidationError as error:
        raise Invalid([Problem("", str(error), cause="TypeInvalid")]) from error

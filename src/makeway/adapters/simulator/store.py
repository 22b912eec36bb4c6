"""A Store in memory that answers as a Kubernetes API server would.

The rules are those of ``runtime.stores.rules``, which the embedded server uses too. Equal calls give equal objects,
byte for byte.

Promises: the Store conformance suite. Not here: faults (``faults`` wraps them around any Store). One thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from makeway.api.names import DEFAULT_NAMESPACE
from makeway.api.objects.custom import CustomObject
from makeway.api.objects.meta import OwnerReference
from makeway.api.reading.structure import Mode
from makeway.api.validation import ValidationContext, validate
from makeway.api.versions import Kind
from makeway.runtime.ports import AlreadyExists, Body, Clock, Names, SeededNames, Stored, called, kind_key
from makeway.runtime.stores.history import History
from makeway.runtime.stores.rules import Admission, ReadBody, StoreRules, refuse


class MemoryStore(StoreRules):
    """See ``runtime.ports.Store``. In addition: ``load``, ``define``, and a seed for its names.

    ``history``: how many revisions a watch or a list may fall behind before it expires. For the rest see
    ``StoreRules``.
    """

    def __init__(
        self, clock: Clock, names: Names | None = None, *, history: int = 10_000, looks: int | None = None,
        careful: bool = True, needs_namespaces: bool = False, mode: Mode = "Strict",
        context: ValidationContext | None = None, admission: Admission | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            History(history), clock, names or SeededNames(), looks=looks, careful=careful,
            needs_namespaces=needs_namespaces, mode=mode, context=context, admission=admission,
        )  # fmt: skip
        self._defined: dict[tuple[str, str], Kind] = {}  # by apiVersion and name

    def define(self, kind: Kind) -> None:
        """Store objects of one more kind, as a CustomResourceDefinition adds it."""
        self._defined[kind.api_version, kind.name] = kind

    def _read(self, body: Body) -> ReadBody:
        if self._defined and isinstance(body, CustomObject):
            kind = self._defined.get((body.api_version, body.kind))
            if kind is not None:
                return ReadBody(kind, kind.versions[0], body, [])
        return super()._read(body)

    def _is_gone(self, reference: OwnerReference, dependent: Stored) -> bool:
        if (reference.api_version, reference.kind) in self._defined:
            return reference.uid not in self._by_uid
        return super()._is_gone(reference, dependent)

    def load(self, bodies: Iterable[Body]) -> None:
        """Add objects as they are, with their status, and with uid and creationTimestamp if they have them.

        For the beginning of a simulation, from files or from the state of another store: a missing namespace is
        ``default``, as kubectl reads files, and objects whose owners are missing stay. Raises Invalid and AlreadyExists
        at the first refused object; those before it are stored.
        """
        for body in bodies:
            written = self._read(body)
            kind, value, problems = written.kind.stored, written.value, written.problems
            meta = value.metadata
            refuse(problems + written.rules(validate(value, self._around)) if self._judges(body) else problems)
            namespace = (meta.namespace or DEFAULT_NAMESPACE) if kind.namespaced else ""
            name = meta.name or self._made_name(kind, namespace, meta.generate_name)
            if (namespace, name) in self._objects.get(kind_key(kind), {}) or meta.uid in self._by_uid:
                raise AlreadyExists(f"{called(kind, name)} already exists")
            meta = replace(
                meta, name=name, namespace=namespace, uid=meta.uid or self._names.uid(),
                generation=meta.generation or 1, creation_timestamp=meta.creation_timestamp or self._now(),
            )  # fmt: skip
            self._commit(kind, replace(value, metadata=meta), None)

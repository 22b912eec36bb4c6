"""The verbs that write: create, update, patch, apply, delete, of objects and of their parts.

A write is a *decision* that the writer thread makes on the newest state, whole or not at all. A patch is merged there,
not against an earlier read, so no client has to try again. Reading a body needs no state, so it happens before.

Not here: subresources of pods (``pod_calls``), who may do what (``access.tokens``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from makeway.adapters.server.changes import patches
from makeway.adapters.server.changes.field_ownership import applied, noted
from makeway.adapters.server.http import bodies
from makeway.adapters.server.http.answers import Response, plain
from makeway.adapters.server.http.bodies import WriteOptions
from makeway.adapters.server.http.routes import Route
from makeway.adapters.server.http.statuses import Cause, RequestRefused, bad_request, refusal, success
from makeway.adapters.server.resources.calls import Call, ReaderThreads
from makeway.adapters.server.resources.reads import Reads
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api import codec
from makeway.api.names import LASTING_NAMESPACES
from makeway.api.objects.kubernetes import DeleteOptions, Namespace, NamespaceSpec, amended, view
from makeway.api.objects.meta import ObjectMeta
from makeway.api.problems import Problem
from makeway.api.quantity import Time
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Mode
from makeway.api.versions import kind_of
from makeway.core.model import stored
from makeway.runtime.ports import (
    Clock,
    NotFound,
    Propagation,
    Stored,
    StoreError,
    check_present,
    identity,
    merged,
)
from makeway.runtime.stores.rules import StoreRules, refuse

Change = Callable[[dict[str, Tree]], Tree]  # a patch: the present object -> the new one
NAMESPACES = kind_of(Namespace)
COLLECTION_PIECE = 500  # objects that one decision removes


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The result of a write; if ``is_gone``, ``each`` is the last state of a removed object."""

    each: Stored
    advice: Sequence[Problem] = ()
    is_new: bool = False
    is_gone: bool = False


class Writes:
    def __init__(self, store: SqliteStore, threads: ReaderThreads, reads: Reads, clock: Clock) -> None:
        self._store = store
        self._threads = threads
        self._reads = reads
        self._clock = clock

    async def create(self, call: Call) -> Response:
        route, options = call.route, WriteOptions.of(call.query, call.user_agent)

        def prepare() -> codec.Reading:
            read = bodies.read_object(call.body, call.content_type, route.kind.type)
            tree = bodies.aimed(route, bodies.mapping(read))
            tree["metadata"].pop("managedFields", None)
            if options.names_itself:
                tree = noted(route.kind, route.version, None, tree, manager=options.manager, now=self._now())
            return _reading(tree, options.mode, read.problems)

        reading = await self._threads.apart(call, prepare)

        def decide(ahead: StoreRules) -> WriteOutcome:
            return WriteOutcome(ahead.create(reading), ahead.advice, is_new=True)

        try:
            return self._answer(call, await self._written(decide, dry=options.is_dry))
        except StoreError as error:  # the path alone does not name the object
            meta = getattr(reading.value, "metadata", ObjectMeta())
            raise refusal(error, route.kind, route.version, meta.name or meta.generate_name) from error

    async def update(self, call: Call) -> Response:
        route, options = call.route, WriteOptions.of(call.query, call.user_agent)

        def prepare() -> tuple[bodies.Read, dict[str, Tree], codec.Reading | None]:
            read = bodies.read_object(call.body, call.content_type, route.kind.type)
            tree = bodies.aimed(route, bodies.mapping(read))
            is_known = not route.part and "managedFields" not in tree["metadata"]
            return read, tree, _reading(tree, options.mode, read.problems) if is_known else None

        read, tree, reading = await self._threads.apart(call, prepare)

        def decide(ahead: StoreRules) -> WriteOutcome:
            old = ahead.get(route.stored, route.place, route.name)
            if reading is not None and b'"managedFields"' not in old.data:
                return WriteOutcome(ahead.update(reading), ahead.advice)
            return _changed(ahead, route, old, tree, read.problems, options, self._now())

        return self._answer(call, await self._written(decide, dry=options.is_dry))

    async def patch(self, call: Call) -> Response:
        route, options = call.route, WriteOptions.of(call.query, call.user_agent)
        media = bodies.media_type(call.content_type)
        read = await self._threads.apart(
            call, lambda: bodies.read(call.body, call.content_type or "none", bodies.PATCH_TYPES, route.kind.type)
        )
        if media == bodies.APPLY_PATCH:
            return await self._apply(call, read, options)
        change = _change(route, media, read.tree)

        def decide(ahead: StoreRules) -> WriteOutcome:
            old = ahead.get(route.stored, route.place, route.name)
            before = route.shown(old)
            after = change(before)
            if not isinstance(after, dict) or identity(after) != identity(before):
                raise bad_request("a patch cannot change apiVersion, kind, namespace or name of an object")
            return _changed(ahead, route, old, after, read.problems, options, self._now())

        return self._answer(call, await self._written(decide, dry=options.is_dry))

    async def _apply(self, call: Call, read: bodies.Read, options: WriteOptions) -> Response:
        """Server-side apply: creates or changes an object."""
        route = call.route
        if not options.names_itself:
            cause = Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
            words = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
            raise RequestRefused(422, words, causes=[cause])
        wanted = bodies.aimed(route, bodies.mapping(read))

        def decide(ahead: StoreRules) -> WriteOutcome:
            try:
                old = ahead.get(route.stored, route.place, route.name)
            except NotFound:
                if route.part:
                    raise
                old = None
            live = None if old is None else route.shown(old)
            tree = applied(
                route.kind, route.version, live, wanted, manager=options.manager, force=options.force,
                now=self._now(), subresource=route.part,
            )  # fmt: skip
            reading = _reading(tree, options.mode, read.problems, status=bool(route.part))
            if old is None:
                return WriteOutcome(ahead.create(reading), ahead.advice, is_new=True)
            each = ahead.update_status(reading) if route.part else ahead.update(reading)
            return WriteOutcome(each, ahead.advice)

        return self._answer(call, await self._written(decide, dry=options.is_dry))

    # --- removing ---

    async def delete(self, call: Call) -> Response:
        route = call.route
        options = await self._threads.apart(
            call, lambda: bodies.delete_options(call.body, call.content_type, call.query)
        )

        def decide(ahead: StoreRules) -> WriteOutcome:
            return _deleted(ahead, ahead.get(route.stored, route.place, route.name), options)

        written = await self._written(decide, dry=bool(options.dry_run) or bodies.dry_run(call.query))
        if written.is_gone and call.form.shape == "object":
            return plain(success(route.kind, written.each.name, written.each.uid))
        return self._answer(call, written)

    async def delete_collection(self, call: Call) -> Response:
        route, chosen = call.route, self._reads.chosen(call)
        options = await self._threads.apart(
            call, lambda: bodies.delete_options(call.body, call.content_type, call.query)
        )
        if options.preconditions is not None:
            raise bad_request("preconditions: not allowed when a whole collection is deleted")
        items = (await self._threads.among_many(route.stored, lambda: self._store.page(route.stored, chosen))).items

        def decide(some: Sequence[Stored]) -> Callable[[StoreRules], None]:
            def remove(ahead: StoreRules) -> None:
                for each in some:
                    try:
                        found = ahead.get(each.kind, each.namespace, each.name)
                    except NotFound:
                        continue
                    if found.uid == each.uid:
                        _deleted(ahead, found, options)

            return remove

        is_dry = bool(options.dry_run) or bodies.dry_run(call.query)
        for start in range(0, len(items), COLLECTION_PIECE):
            piece = decide(items[start : start + COLLECTION_PIECE])
            await asyncio.wrap_future(self._store.submit(piece, dry_run=is_dry))
        return plain(success(route.kind, "", ""))

    # --- decisions ---

    def _now(self) -> Time:
        return Time.of_millis(stored(self._clock()))

    async def _written(self, decision: Callable[[StoreRules], WriteOutcome], *, dry: bool) -> WriteOutcome:
        written = await asyncio.wrap_future(self._store.submit(decision, dry_run=dry))
        return replace(written, each=self._unwritten(written.each)) if dry else written

    def _unwritten(self, each: Stored) -> Stored:
        """Return the result of a dry run with the resourceVersion of the stored object, or none."""
        try:
            return each.at(self._store.get(each.kind, each.namespace, each.name).resource_version)
        except NotFound:
            return each.at("")

    def _answer(self, call: Call, written: WriteOutcome) -> Response:
        answer = self._reads.shown(call).answer(201 if written.is_new else 200, written.each)
        answer.advice = written.advice
        return answer


def _change(route: Route, media: str, change: Tree) -> Change:
    if media == bodies.JSON_PATCH:
        return lambda before: patches.json_patch(before, change)
    if not isinstance(change, dict):
        raise bad_request("the patch is not a mapping")
    if media == bodies.STRATEGIC_PATCH:
        return lambda before: patches.strategic_merge(route.kind, route.version, before, change)
    return lambda before: merged(before, change)


def _changed(
    ahead: StoreRules, route: Route, old: Stored, tree: dict[str, Tree], odd: Sequence[Problem],
    options: WriteOptions, now: Time,
) -> WriteOutcome:  # fmt: skip
    """Write ``tree`` as the object, or as its status."""
    before = route.shown(old)
    if route.part == "status":
        given = tree.get("metadata") or {}
        present = {name: given[name] for name in ("resourceVersion", "uid") if given.get(name)}
        tree = {**before, "metadata": {**before["metadata"], **present}, "status": tree.get("status")}
    elif route.kind.has_status:
        tree = {**tree, "status": before.get("status")}
    if before["metadata"].get("managedFields") or (tree.get("metadata") or {}).get("managedFields"):
        tree = noted(
            route.kind, route.version, before, tree, manager=options.manager, now=now,
            subresource=route.part,
        )  # fmt: skip
    reading = _reading(tree, options.mode, odd, status=route.part == "status")
    if route.part == "finalize":
        return WriteOutcome(_finalized(ahead, old, reading))
    each = ahead.update_status(reading) if route.part else ahead.update(reading)
    return WriteOutcome(each, ahead.advice)


def _reading(tree: dict[str, Tree], mode: Mode, odd: Sequence[Problem], *, status: bool = False) -> codec.Reading:
    """Read a tree by its kind; duplicate keys are reported as the mode demands."""
    if not status:
        tree = {name: each for name, each in tree.items() if name != "status"}
    reading = codec.read(tree, mode)
    if not odd or mode == "Ignore":
        return reading
    told = odd if mode == "Strict" else [replace(each, severity="warning") for each in odd]
    return replace(reading, problems=[*told, *reading.problems])


def _finalized(ahead: StoreRules, old: Stored, reading: codec.Reading) -> Stored:
    """Return a namespace with the finalizers of ``reading`` in its spec, and no other change."""
    refuse(reading.problems)
    value, wanted = old.value(), reading.value
    assert isinstance(wanted, Namespace)
    check_present(old, wanted.metadata.uid, wanted.metadata.resource_version)
    finalizers = list(view(wanted.spec, NamespaceSpec).finalizers)
    return ahead.put(old, structs.replace(value, spec=amended(value.spec, {"finalizers": finalizers or None})))


def _deleted(ahead: StoreRules, old: Stored, options: DeleteOptions) -> WriteOutcome:
    if old.kind is NAMESPACES and old.name in LASTING_NAMESPACES:
        words = f'namespaces "{old.name}" is forbidden: this namespace may not be deleted'
        raise RequestRefused(403, words, about=("", "namespaces", old.name))
    asked = options.preconditions
    propagation: Propagation | None = options.propagation_policy
    if options.orphan_dependents is not None:
        propagation = "Orphan" if options.orphan_dependents else "Background"
    grace = options.grace_period_seconds
    each = ahead.delete(
        old.kind, old.namespace, old.name, uid=(asked and asked.uid) or "",
        resource_version=(asked and asked.resource_version) or "", propagation=propagation,
        grace=1 if grace == -1 else grace,
    )  # fmt: skip
    try:
        return WriteOutcome(ahead.get(old.kind, old.namespace, old.name))
    except NotFound:
        return WriteOutcome(each, is_gone=True)

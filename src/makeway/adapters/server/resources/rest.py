"""The verbs: get, list, create, update, patch, apply, delete, of objects and of their status.

A write is a *decision* that the writer thread takes on the newest state, whole or not at all: a patch is merged there,
not against what was read before, so that nobody has to try again. What needs no state, reading a body, happens before.

Not here: watches (``watch``), calls that a pod answers (``pod_calls``), who may do what (``access.tokens``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from msgspec import structs

from makeway.adapters.server.changes import patches
from makeway.adapters.server.changes.field_ownership import applied, noted
from makeway.adapters.server.http import bodies
from makeway.adapters.server.http.answers import AnswerForm, Response, Shown, plain
from makeway.adapters.server.http.bodies import Query, WriteOptions
from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.routes import Route
from makeway.adapters.server.http.statuses import Cause, RequestRefused, bad_request, refusal, success
from makeway.adapters.server.resources.selectors import field_selector, label_selector
from makeway.adapters.server.resources.troubles import GaveUp, log_trouble
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api import codec
from makeway.api.names import LASTING_NAMESPACES
from makeway.api.objects.kubernetes import DeleteOptions, Namespace, NamespaceSpec, amended, view
from makeway.api.objects.meta import ObjectMeta
from makeway.api.problems import Problem
from makeway.api.quantity import Time
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Mode, short
from makeway.api.versions import Kind, kind_of
from makeway.core.model import stored
from makeway.runtime.ports import (
    Clock,
    FieldTerm,
    Filter,
    Invalid,
    NotFound,
    Propagation,
    Stored,
    StoreError,
    check_present,
    identity,
    kind_key,
    merged,
)
from makeway.runtime.stores.rules import StoreRules, refuse

T = TypeVar("T")
Change = Callable[[dict[str, Tree]], Tree]  # a patch: the object as it is -> as it is to be
LARGE_BYTES = 64 * 1024
MANY = 5_000  # objects
READERS = 2
NAMESPACES = kind_of(Namespace)
COLLECTION_PIECE = 500  # objects that one decision removes


@dataclass(frozen=True, slots=True)
class Call:
    """A request about objects, taken apart."""

    route: Route
    query: Query
    form: AnswerForm
    body: bytes = b""
    content_type: str = ""
    user_agent: str = ""


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What became of a write; ``each`` is gone where ``is_gone``."""

    each: Stored
    advice: Sequence[Problem] = ()
    is_new: bool = False
    is_gone: bool = False


class Rest:
    def __init__(self, store: SqliteStore, limits: Limits, clock: Clock, gave_up: GaveUp = log_trouble) -> None:
        self._gave_up = gave_up
        self._store = store
        self._limits = limits
        self._clock = clock
        self._readers = ThreadPoolExecutor(READERS, "makeway-reader")

    def close(self) -> None:
        self._readers.shutdown()

    # --- reading ---

    def chosen(self, call: Call) -> Filter:
        """What the selectors of a query choose."""
        route, query, most = call.route, call.query, self._limits.selector_terms_max
        labels = label_selector(query.text("labelSelector"), most)
        fields = field_selector(query.text("fieldSelector"), route.kind, route.version, most)
        if route.name:
            fields = (*fields, FieldTerm(("metadata", "name"), route.name))
        return Filter(kind_key(route.stored), route.namespace if route.kind.namespaced else "", labels, fields)

    def shown(self, call: Call) -> Shown:
        objects = call.query.text("includeObject") or "Metadata"
        if objects not in ("None", "Metadata", "Object"):
            raise bad_request("includeObject: allowed are None, Metadata and Object")
        return Shown(call.route, call.form, self._clock(), objects, self._gave_up)

    async def get(self, call: Call) -> Response:
        route = call.route
        found = self._store.get(route.stored, route.place, route.name)
        self._check_known(call.query.text("resourceVersion"))
        return self.shown(call).answer(200, found)

    async def list(self, call: Call) -> Response:
        query, token = call.query, call.query.text("continue")
        limit = min(query.integer("limit") or 0, self._limits.list_limit_max)
        at = self._revision_shown(query, paged=limit > 0)
        stored, chosen = call.route.stored, self.chosen(call)
        look = partial(self._store.page, stored, chosen, limit=limit, token=token, at=at)
        try:
            page = await self.among_many(stored, look) if chosen.labels or chosen.fields or not limit else look()
        except Invalid:
            raise bad_request("continue: it is not a token of a list of this kind") from None
        return self.shown(call).answer_page(page)

    async def among_many(self, kind: Kind, look: Callable[[], T]) -> T:
        """Look through all objects of a kind; where they are many, in a thread of its own."""
        if self._store.count(kind) < MANY:
            return look()
        return await asyncio.get_running_loop().run_in_executor(self._readers, look)

    def _revision_shown(self, query: Query, *, paged: bool) -> int | None:
        """At which revision a list is wanted; None: the newest."""
        version, match = query.text("resourceVersion"), query.text("resourceVersionMatch")
        if query.text("continue"):
            if version not in ("", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            return None
        check_match(version, match)
        self._check_known(version)
        is_exact = match == "Exact" or (not match and paged and version not in ("", "0"))
        return int(version) if is_exact else None

    def _check_known(self, version: str) -> None:
        """A client may have seen a revision that we have not, and must not be shown an older one."""
        if version in ("", "0"):
            return
        if not (version.isascii() and version.isdigit() and len(version) <= 19):
            raise bad_request(f"resourceVersion: Invalid value: {short(version)!r}: it is not a resource version")
        newest = int(self._store.resource_version)
        if int(version) > newest:
            message = f"Too large resource version: {version}, current: {newest}"
            cause = Cause("ResourceVersionTooLarge", "Too large resource version")
            raise RequestRefused(504, f"Timeout: {message}", causes=[cause], retry_seconds=1)

    # --- writing ---

    def _now(self) -> Time:
        return Time.of_millis(stored(self._clock()))

    async def apart(self, call: Call, work: Callable[[], T]) -> T:
        """Do what needs no state. What may take long, a large body or one in YAML, is read in a thread of its own."""
        if len(call.body) < LARGE_BYTES and "yaml" not in call.content_type:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _written(self, decision: Callable[[StoreRules], WriteOutcome], *, dry: bool) -> WriteOutcome:
        written = await asyncio.wrap_future(self._store.submit(decision, dry_run=dry))
        return replace(written, each=self._unwritten(written.each)) if dry else written

    def _unwritten(self, each: Stored) -> Stored:
        """What would have been written has the version of what is there, or none."""
        try:
            return each.at(self._store.get(each.kind, each.namespace, each.name).resource_version)
        except NotFound:
            return each.at("")

    def _answer(self, call: Call, written: WriteOutcome) -> Response:
        answer = self.shown(call).answer(201 if written.is_new else 200, written.each)
        answer.advice = written.advice
        return answer

    async def create(self, call: Call) -> Response:
        route, options = call.route, WriteOptions.of(call.query, call.user_agent)

        def prepare() -> codec.Reading:
            read = bodies.read_object(call.body, call.content_type, route.kind.type)
            tree = bodies.aimed(route, bodies.mapping(read))
            tree["metadata"].pop("managedFields", None)
            if options.names_itself:
                tree = noted(route.kind, route.version, None, tree, manager=options.manager, now=self._now())
            return self._reading(tree, options.mode, read.problems)

        reading = await self.apart(call, prepare)

        def decide(ahead: StoreRules) -> WriteOutcome:
            return WriteOutcome(ahead.create(reading), ahead.advice, is_new=True)

        try:
            return self._answer(call, await self._written(decide, dry=options.is_dry))
        except StoreError as error:  # the path does not say of which object it speaks
            meta = getattr(reading.value, "metadata", ObjectMeta())
            raise refusal(error, route.kind, route.version, meta.name or meta.generate_name) from error

    async def update(self, call: Call) -> Response:
        route, options = call.route, WriteOptions.of(call.query, call.user_agent)

        def prepare() -> tuple[bodies.Read, dict[str, Tree], codec.Reading | None]:
            read = bodies.read_object(call.body, call.content_type, route.kind.type)
            tree = bodies.aimed(route, bodies.mapping(read))
            is_known = not route.part and "managedFields" not in tree["metadata"]
            return read, tree, self._reading(tree, options.mode, read.problems) if is_known else None

        read, tree, reading = await self.apart(call, prepare)

        def decide(ahead: StoreRules) -> WriteOutcome:
            old = ahead.get(route.stored, route.place, route.name)
            if reading is not None and b'"managedFields"' not in old.data:
                return WriteOutcome(ahead.update(reading), ahead.advice)
            return self._changed(ahead, route, old, tree, read.problems, options)

        return self._answer(call, await self._written(decide, dry=options.is_dry))

    async def patch(self, call: Call) -> Response:
        route, options = call.route, WriteOptions.of(call.query, call.user_agent)
        media = bodies.media_type(call.content_type)
        read = await self.apart(
            call, lambda: bodies.read(call.body, call.content_type or "none", bodies.PATCH_TYPES, route.kind.type)
        )
        if media == bodies.APPLY_PATCH:
            return await self._apply(call, read, options)
        change = self._change(route, media, read.tree)

        def decide(ahead: StoreRules) -> WriteOutcome:
            old = ahead.get(route.stored, route.place, route.name)
            before = route.shown(old)
            after = change(before)
            if not isinstance(after, dict) or identity(after) != identity(before):
                raise bad_request("a patch cannot change apiVersion, kind, namespace or name of an object")
            return self._changed(ahead, route, old, after, read.problems, options)

        return self._answer(call, await self._written(decide, dry=options.is_dry))

    def _change(self, route: Route, media: str, change: Tree) -> Change:
        if media == bodies.JSON_PATCH:
            return lambda before: patches.json_patch(before, change)
        if not isinstance(change, dict):
            raise bad_request("the patch is not a mapping")
        if media == bodies.STRATEGIC_PATCH:
            return lambda before: patches.strategic_merge(route.kind, route.version, before, change)
        return lambda before: merged(before, change)

    async def _apply(self, call: Call, read: bodies.Read, options: WriteOptions) -> Response:
        """Server-side apply: what is wanted, by whom, whether it is there already or not."""
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
            reading = self._reading(tree, options.mode, read.problems, status=bool(route.part))
            if old is None:
                return WriteOutcome(ahead.create(reading), ahead.advice, is_new=True)
            each = ahead.update_status(reading) if route.part else ahead.update(reading)
            return WriteOutcome(each, ahead.advice)

        return self._answer(call, await self._written(decide, dry=options.is_dry))

    def _changed(
        self, ahead: StoreRules, route: Route, old: Stored, tree: dict[str, Tree], odd: Sequence[Problem],
        options: WriteOptions,
    ) -> WriteOutcome:  # fmt: skip
        """The object, or its status, as ``tree`` has it."""
        before = route.shown(old)
        if route.part == "status":
            given = tree.get("metadata") or {}
            present = {name: given[name] for name in ("resourceVersion", "uid") if given.get(name)}
            tree = {**before, "metadata": {**before["metadata"], **present}, "status": tree.get("status")}
        elif route.kind.has_status:
            tree = {**tree, "status": before.get("status")}
        if before["metadata"].get("managedFields") or (tree.get("metadata") or {}).get("managedFields"):
            tree = noted(
                route.kind, route.version, before, tree, manager=options.manager, now=self._now(),
                subresource=route.part,
            )  # fmt: skip
        reading = self._reading(tree, options.mode, odd, status=route.part == "status")
        if route.part == "finalize":
            return WriteOutcome(_finalized(ahead, old, reading))
        each = ahead.update_status(reading) if route.part else ahead.update(reading)
        return WriteOutcome(each, ahead.advice)

    def _reading(
        self, tree: dict[str, Tree], mode: Mode, odd: Sequence[Problem], *, status: bool = False
    ) -> codec.Reading:
        """A tree held against its kind; keys that came twice are told as the mode wants it."""
        if not status:
            tree = {name: each for name, each in tree.items() if name != "status"}
        reading = codec.read(tree, mode)
        if not odd or mode == "Ignore":
            return reading
        told = odd if mode == "Strict" else [replace(each, severity="warning") for each in odd]
        return replace(reading, problems=[*told, *reading.problems])

    # --- removing ---

    async def delete(self, call: Call) -> Response:
        route = call.route
        options = await self.apart(call, lambda: bodies.delete_options(call.body, call.content_type, call.query))

        def decide(ahead: StoreRules) -> WriteOutcome:
            return _deleted(ahead, ahead.get(route.stored, route.place, route.name), options)

        written = await self._written(decide, dry=bool(options.dry_run) or bodies.dry_run(call.query))
        if written.is_gone and call.form.shape == "object":
            return plain(success(route.kind, written.each.name, written.each.uid))
        return self._answer(call, written)

    async def delete_collection(self, call: Call) -> Response:
        route, chosen = call.route, self.chosen(call)
        options = await self.apart(call, lambda: bodies.delete_options(call.body, call.content_type, call.query))
        if options.preconditions is not None:
            raise bad_request("preconditions: not allowed when a whole collection is deleted")
        items = (await self.among_many(route.stored, lambda: self._store.page(route.stored, chosen))).items

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


def check_match(version: str, match: str) -> None:
    """How a resourceVersion is meant, where that is said."""
    if not match:
        return
    if match not in ("Exact", "NotOlderThan"):
        raise bad_request("resourceVersionMatch: allowed are Exact and NotOlderThan")
    if not version:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match == "Exact" and version == "0":
        raise bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')


def _finalized(ahead: StoreRules, old: Stored, reading: codec.Reading) -> Stored:
    """A namespace with the finalizers of ``reading`` in its spec, and nothing else of it."""
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

"""A real API server as a Store: ours over HTTPS, or that of a Kubernetes cluster.

An API server keeps most promises of a Store by itself. This module covers the differences:

- An update without a resourceVersion means "overwrite whatever is there", which many kinds refuse. The object is read
  first, and again after a conflict, a bounded number of times.
- A watch without a start revision is a list, and a watch from there on: events of a list cannot be resumed.
- The answer to a delete may be a Status that only says "done". The object is read before, so that its last state is
  known.
- A body without a kind or a place is refused before it is sent, as other Stores do it.

Managed fields are removed from what is read: no controller needs them, and they are half of many objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.resources import Resource, resource_of
from makeway.adapters.kubernetes.transport import Object, Reply
from makeway.adapters.kubernetes.watching import FollowedWatch, WatchFollower
from makeway.api import codec
from makeway.api.objects.meta import Wire
from makeway.api.problems import Problem
from makeway.api.reading.documents import Tree
from makeway.api.versions import Kind, find_kind, from_stored, to_stored
from makeway.core.model import Expression, Selector
from makeway.runtime.ports import (
    Body,
    Conflict,
    Invalid,
    Page,
    Propagation,
    Stored,
    StoreError,
    check_present,
    named,
)

READS_MAX = 5  # of an object that other clients write to all the time


class KubernetesStore:
    """See ``runtime.ports.Store``. ``news`` is called, in another thread, whenever a watch has new events."""

    def __init__(self, client: Client, *, news: Callable[[], None] | None = None) -> None:
        self._client = client
        self._news = news

    # --- reading ---

    def latest(self, kind: Kind) -> int | None:
        return None

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        return stored(kind, self._client.get(resource_of(kind), namespace, name))

    def list(
        self, kind: Kind, namespace: str | None = None, *, labels: Selector = (), limit: int = 0, token: str = ""
    ) -> Page:
        resource, selector = resource_of(kind), selector_text(labels)
        if limit or token:
            return _page(kind, [self._client.list(resource, namespace, labels=selector, limit=limit, token=token)])
        page = _page(kind, self._client.whole(resource, namespace, labels=selector))
        items = sorted(page.items, key=lambda each: (each.namespace, each.name))
        return Page(tuple(items), page.resource_version)

    def watch(
        self, kind: Kind, since: str = "", *, namespace: str | None = None, labels: Selector = (),
        bookmarks: bool = False,
    ) -> FollowedWatch:  # fmt: skip
        client, resource, selector = self._client, resource_of(kind), selector_text(labels)
        first: Sequence[Stored] = ()
        if since in ("", "0"):
            page = self.list(kind, namespace, labels=labels)
            first, since = page.items, page.resource_version
        return FollowedWatch(WatchFollower(
            lambda place: client.watch(resource, namespace, since=place, labels=selector),
            lambda tree: stored(kind, tree), since, first=first, bookmarks=bookmarks, news=self._news,
        ))  # fmt: skip

    # --- writing ---

    def create(self, body: Body) -> Stored:
        kind, resource, tree = _addressed(body)
        meta = named(tree)
        if meta.resource_version:
            raise Invalid([Problem("metadata.resourceVersion", "must not be set on what is to be created")])
        return _answered(kind, self._client.create(resource, meta.namespace, tree))

    def update(self, body: Body) -> Stored:
        kind, resource, tree = _addressed(body)
        return self._replaced(kind, resource, tree, "")

    def update_status(self, body: Body) -> Stored:
        kind, resource, tree = _addressed(body)
        _check_status(kind)
        return self._replaced(kind, resource, tree, "status")

    def _replaced(self, kind: Kind, resource: Resource, tree: Object, subresource: str) -> Stored:
        meta = named(tree)
        if meta.resource_version:
            answer = self._client.replace(resource, meta.namespace, meta.name, tree, subresource=subresource)
            return _answered(kind, answer)
        for reads in range(1, READS_MAX + 1):
            old = self.get(kind, meta.namespace, meta.name)
            check_present(old, meta.uid, "")
            body = {**tree, "metadata": {**tree["metadata"], "resourceVersion": old.resource_version}}
            try:
                answer = self._client.replace(resource, meta.namespace, meta.name, body, subresource=subresource)
                return _answered(kind, answer)
            except Conflict:
                if reads == READS_MAX:
                    raise
        raise AssertionError("unreachable")

    def patch(
        self, kind: Kind, namespace: str, name: str, change: Mapping[str, Tree], *, status: bool = False
    ) -> Stored:
        api_version = str(change.get("apiVersion") or kind.api_version)
        version, served = api_version.rpartition("/")[2], find_kind(api_version, kind.name)
        if served is None or served.stored is not kind:
            raise Invalid([Problem("apiVersion", f"{kind.name} is not served as {version}", cause="NotSupported")])
        if status:
            _check_status(kind)
        resource, subresource = resource_of(served, version), "status" if status else ""
        return _answered(served, self._client.patch(resource, namespace, name, dict(change), subresource=subresource))

    def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "",
        propagation: Propagation | None = None, grace: int | None = None,
    ) -> Stored:  # fmt: skip
        before = self.get(kind, namespace, name)
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Object = {"preconditions": {key: value for key, value in preconditions.items() if value}}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        tree = self._client.delete(resource_of(kind), namespace, name, options).tree()
        return before if tree.get("kind") == "Status" else stored(kind, tree)


# --- trees and bytes -------------------------------------------------------------------------------------------------


def stored(kind: Kind, tree: Object) -> Stored:
    """Return an object of a server, in whatever version it came, as all Stores return it."""
    version = str(tree.get("apiVersion") or kind.api_version).rpartition("/")[2]
    tree = {"apiVersion": kind.api_version, "kind": kind.name, **tree}  # items of a list may lack them
    tree = to_stored(kind, version, tree).tree
    metadata = tree.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        tree = {**tree, "metadata": {name: each for name, each in metadata.items() if name != "managedFields"}}
    try:
        return Stored.read(kind.stored, msgspec.json.encode(tree))
    except msgspec.MsgspecError as error:
        raise StoreError(f"the server told of a {kind.name} that cannot be read: {error}") from error


def _answered(kind: Kind, answer: Reply) -> Stored:
    return stored(kind, answer.tree())


def _page(kind: Kind, pages: Sequence[Object]) -> Page:
    """Join consecutive pages into one, which has the revision of the first."""
    first, last = _meta(pages[0]), _meta(pages[-1])
    return Page(
        tuple(stored(kind, each) for page in pages for each in page.get("items") or ()),
        str(first.get("resourceVersion") or ""), str(last.get("continue") or ""),
        int(last.get("remainingItemCount") or 0),
    )  # fmt: skip


def _meta(tree: Object) -> Mapping[str, Any]:
    found = tree.get("metadata")
    return found if isinstance(found, Mapping) else {}


def _addressed(body: Body) -> tuple[Kind, Resource, Object]:
    """Return the kind and the place of a body; raises Invalid if it has none."""
    if isinstance(body, codec.Reading):
        if not body.ok or body.value is None or body.kind is None:
            raise Invalid(body.problems)
        body = from_stored(body.kind, body.version, codec.to_tree(body.value))
    tree = codec.to_tree(body) if isinstance(body, Wire) else dict(body)
    api_version, name = tree.get("apiVersion"), tree.get("kind")
    kind = find_kind(api_version, name) if isinstance(api_version, str) and isinstance(name, str) else None
    if kind is None:
        raise Invalid(codec.read(tree).problems)
    if kind.namespaced and not named(tree).namespace:
        raise Invalid([Problem("metadata.namespace", "required", "name a namespace", cause="Required")])
    return kind, resource_of(kind, str(api_version).rpartition("/")[2]), tree


def _check_status(kind: Kind) -> None:
    if not kind.has_status:
        raise Invalid([Problem("status", f"{kind.plural} have no status of their own", cause="NotSupported")])


def selector_text(selector: Selector) -> str:
    """Return a selector in the syntax of URLs."""
    return ",".join(map(_requirement, selector))


def _requirement(each: Expression) -> str:
    values = ",".join(each.values)
    match each.operator:
        case "In":
            return f"{each.key} in ({values})"
        case "NotIn":
            return f"{each.key} notin ({values})"
        case "Exists":
            return each.key
        case "DoesNotExist":
            return f"!{each.key}"
        case "Gt":
            return f"{each.key}>{values}"
    return f"{each.key}<{values}"

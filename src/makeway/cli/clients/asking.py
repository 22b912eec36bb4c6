"""Requests of commands: kinds and names as people write them, tables, and changes as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.resources import Resource
from makeway.adapters.kubernetes.transport import PLAIN, Object
from makeway.api.quantity import Duration, Time
from makeway.cli.clients.connection import Connection
from makeway.core.model import Millis
from makeway.runtime.ports import Expired, Unavailable

FAILURES_MAX = 6  # of a watch, in a row
PAUSE_SECONDS = 0.2  # doubles with each failure
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Wanted:
    """One kind, and which of its objects: those of these names, or all that the selectors match."""

    resource: Resource
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryScope:
    """The namespace and the selectors of a request."""

    namespace: str | None  # None: all namespaces
    labels: str = ""
    fields: str = ""

    def of(self, resource: Resource) -> str | None:
        return self.namespace if resource.namespaced else None

    def words(self, resource: Resource) -> str:
        if not resource.namespaced:
            return ""
        return " in any namespace" if self.namespace is None else f" in namespace {self.namespace}"


def wanted(connection: Connection, words: Sequence[str]) -> list[Wanted]:
    """Parse ``cq``, ``cq a b``, ``cq,lq`` or ``cq/a lq/b``; anything else is wrong usage."""
    if not words:
        raise click.UsageError("no kind is named\n\nhint: for example `makeway get workloads`")
    if all("/" in word for word in words):
        found: dict[Resource, list[str]] = {}
        for word in words:
            kind, _, name = word.partition("/")
            if not kind or not name:
                raise click.UsageError(f"`{word}` is not KIND/NAME\n\nhint: for example `clusterqueue/team-a`")
            found.setdefault(connection.resource(kind), []).append(name)
        return [Wanted(resource, tuple(names)) for resource, names in found.items()]
    kinds, *names = words
    if "" in words:
        raise click.UsageError("a name is empty\n\nhint: leave it out, or write a name")
    if any("/" in word for word in words):
        raise click.UsageError("KIND/NAME and KIND NAME do not go together\n\nhint: write all of them as KIND/NAME")
    resources = dict.fromkeys(connection.resource(kind) for kind in kinds.split(",") if kind)
    if names and len(resources) != 1:
        raise click.UsageError("names need one kind\n\nhint: write them as KIND/NAME")
    return [Wanted(resource, tuple(dict.fromkeys(names))) for resource in resources]


def version_of(tree: Mapping[str, Any]) -> str:
    """The resourceVersion of an object, of a list, or of the first object beside a table's rows."""
    for row in tree.get("rows") or ():
        found = ((row.get("object") or {}).get("metadata") or {}).get("resourceVersion")
        if found:
            return str(found)
    return str((tree.get("metadata") or {}).get("resourceVersion") or "")


def all_pages(client: Client, resource: Resource, scope: QueryScope, *, accept: str = PLAIN) -> Sequence[Object]:
    """A list of everything in the scope."""
    return client.whole(resource, scope.of(resource), labels=scope.labels, fields=scope.fields, accept=accept)


def all_items(client: Client, resource: Resource, scope: QueryScope) -> list[Object]:
    """Every object, each with its kind and apiVersion, which items of lists may lack."""
    named = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**named, **each} for page in all_pages(client, resource, scope) for each in page.get("items") or ()]


def followed(
    client: Client, resource: Resource, scope: QueryScope, *, accept: str = PLAIN
) -> Iterator[tuple[str, Object]]:
    """Yield the present objects as one list, then changes; an object that was shown is not repeated.

    If the server no longer knows the changes since then, as after a restart, the differences to a new list are shown.
    """
    shown: dict[str, str] = {}  # uid -> resourceVersion
    while True:
        pages = all_pages(client, resource, scope, accept=accept)
        for page in pages:
            yield "LIST", _unseen(page, shown)
        since = str((pages[0].get("metadata") or {}).get("resourceVersion") or "")
        try:
            for type_, tree in _changes(client, resource, scope, since, accept):
                yield type_, _unseen(tree, shown)
        except Expired:
            continue


def _unseen(tree: Object, shown: dict[str, str]) -> Object:
    """A list or table without objects that were shown in the same state; the others count as shown."""
    for part in ("rows", "items"):
        if part in tree:
            return {**tree, part: [each for each in tree[part] or () if _is_new(each, shown)]}
    _is_new(tree, shown)
    return tree


def _is_new(each: Mapping[str, Any], shown: dict[str, str]) -> bool:
    meta = (each.get("object") or each).get("metadata") or {}
    uid, version = str(meta.get("uid") or ""), str(meta.get("resourceVersion") or "")
    if uid and shown.get(uid) == version:
        return False
    shown[uid] = version
    return True


def _changes(
    client: Client, resource: Resource, scope: QueryScope, since: str, accept: str
) -> Iterator[tuple[str, Object]]:
    """Yield changes from now on, as long as the server runs, without bookmarks."""
    namespace, labels, fields = scope.of(resource), scope.labels, scope.fields
    failures = 0
    while True:
        try:
            stream = client.watch(resource, namespace, since=since, labels=labels, fields=fields, accept=accept)
            for type_, tree in stream:
                since, failures = version_of(tree) or since, 0
                if type_ != "BOOKMARK":
                    yield type_, tree
            time.sleep(PAUSE_SECONDS)
        except Unavailable:
            failures += 1
            if failures == FAILURES_MAX:
                raise
            time.sleep(PAUSE_SECONDS * 2**failures)


# --- times -----------------------------------------------------------------------------------------------------------


def clock() -> Millis:
    return Millis(time.time_ns() // 10**6)


def age(text: object, now: Millis) -> str:
    """An age in one unit or two: ``45s``, ``3m20s``, ``5h``, ``3d``."""
    try:
        seconds = max(0, now // 1000 - Time.parse(str(text)).seconds)
    except ValueError:
        return ""
    if seconds >= 2 * DAY:
        return f"{seconds // DAY}d"
    grain = 3600 if seconds >= 10 * 3600 else 60 if seconds >= 600 else 1
    return Duration.of_seconds(seconds // grain * grain).short()

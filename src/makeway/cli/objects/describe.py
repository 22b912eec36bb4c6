"""``makeway describe``: one object for people, with its status and its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from makeway.adapters.kubernetes.resources import Resource, resource_of
from makeway.adapters.kubernetes.transport import Object
from makeway.api.names import JOB_UID_LABEL
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.cli.clients.asking import QueryScope, age, all_items, clock, wanted
from makeway.cli.clients.connection import Connection, connected, server_options
from makeway.cli.completion import complete_objects
from makeway.cli.objects.events import COLUMNS, event_cells, events_about
from makeway.cli.objects.resources import namespace_option, scope_of
from makeway.cli.terminal.output import Table, list_of, print_data, without_managed_fields, yaml_text
from makeway.cli.terminal.screen import echo, plain
from makeway.runtime.ports import StoreError

WORKLOADS = resource_of(kind_of(Workload))
VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"
EVENTS_MAX = 20  # newest events of one object
POSITIONS_MAX = 1000
LAST_APPLIED = "last-applied-configuration"
TOP = ("apiVersion", "kind", "metadata", "spec", "status", "data", "stringData")


@click.command()
@click.argument("what", nargs=-1, metavar="KIND [NAME]...", shell_complete=complete_objects)
@namespace_option
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Look in every namespace.")
@click.option("-l", "--selector", "labels", default="", metavar="LABELS", help="Only objects with these labels.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@server_options
def describe(what: tuple[str, ...], namespace: str | None, everywhere: bool, labels: str, output: str) -> None:
    """Show all about some objects: what they want, how they are, what happened."""
    with connected() as connection:
        scope = scope_of(connection, namespace, everywhere, labels)
        found = [(each.resource, tree) for each in wanted(connection, what) for tree in _trees(connection, each, scope)]
        if output == "name":
            for resource, tree in found:
                click.echo(f"{resource.full_name}/{plain(_meta(tree, 'name'))}")
        elif output == "text":
            for number, (resource, tree) in enumerate(found):
                if number:
                    click.echo("\n")
                _Description(connection, resource, tree).print()
        else:
            detailed = [{**tree, "events": _events(connection, resource, tree)} for resource, tree in found]
            print_data(detailed[0] if len(detailed) == 1 else list_of(detailed), output)
        if not found:
            click.echo("nothing to describe", err=True)


def _trees(connection: Connection, asked: Any, scope: QueryScope) -> Iterator[Object]:
    if not asked.names:
        yield from (without_managed_fields(each) for each in all_items(connection.client, asked.resource, scope))
    for name in asked.names:
        namespace = scope.of(asked.resource) or ""
        yield without_managed_fields(connection.client.get(asked.resource, namespace, name))


def _meta(tree: Mapping[str, Any], name: str) -> str:
    return str((tree.get("metadata") or {}).get(name) or "")


def _events(connection: Connection, resource: Resource, tree: Object) -> list[Object]:
    found = events_about(connection, resource, _meta(tree, "namespace"), _meta(tree, "name"))
    return [without_managed_fields(each) for each in found[-EVENTS_MAX:]]


class _Description:
    def __init__(self, connection: Connection, resource: Resource, tree: Object) -> None:
        self._connection = connection
        self._resource = resource
        self._tree = tree
        self._now = clock()

    def print(self) -> None:
        for name, value in self._head():
            echo(f"{click.style(f'{name}:', bold=True)}{' ' * max(1, 14 - len(name))}{plain(value)}")
        for name, block in self._blocks():
            self._title(name)
            for line in yaml_text([block]).splitlines():
                echo(f"  {plain(line)}")
        self._print_conditions("Conditions", self._tree)
        for workload in self._workloads():
            self._print_conditions(f"Workload {_meta(workload, 'name')}", workload)
        self._print_events()

    def _workloads(self) -> list[Object]:
        """Return the Workloads of a Job: they have the reason for waiting."""
        if (self._resource.kind, self._resource.group) != ("Job", "batch"):
            return []
        scope = QueryScope(_meta(self._tree, "namespace"), f"{JOB_UID_LABEL}={_meta(self._tree, 'uid')}")
        try:
            return all_items(self._connection.client, WORKLOADS, scope)
        except StoreError:  # not every server has them
            return []

    def _title(self, name: str) -> None:
        echo(click.style(f"{name}:", bold=True))

    def _head(self) -> Iterator[tuple[str, str]]:
        meta = self._tree.get("metadata") or {}
        yield "Name", _meta(self._tree, "name")
        if self._resource.namespaced:
            yield "Namespace", _meta(self._tree, "namespace")
        yield "Kind", f"{self._resource.kind} ({self._tree.get('apiVersion')})"
        for title in ("labels", "annotations"):
            pairs = [f"{key}={value}" for key, value in (meta.get(title) or {}).items() if LAST_APPLIED not in key]
            if pairs:
                yield title.capitalize(), ", ".join(pairs)
        created = _meta(self._tree, "creationTimestamp")
        yield "Created", f"{created} ({age(created, self._now)} ago)"
        if meta.get("deletionTimestamp"):
            held = ", ".join(map(str, meta.get("finalizers") or ())) or "its pods"
            yield "Deleted", f"{meta['deletionTimestamp']}, held by {held}"
        owners = [f"{each.get('kind')} {each.get('name')}" for each in meta.get("ownerReferences") or ()]
        if owners:
            yield "Owned by", ", ".join(owners)
        position = self._position()
        if position:
            yield "Waits", position

    def _position(self) -> str:
        """Return the place of a pending Workload in its queue, if the server tells it."""
        queue = (self._tree.get("spec") or {}).get("queueName")
        if self._resource.plural != "workloads" or not queue or not self._resource.group.startswith("kueue"):
            return ""
        path = f"{VISIBILITY}/namespaces/{_meta(self._tree, 'namespace')}/localqueues/{queue}/pendingworkloads"
        try:
            summary = self._connection.client.send("GET", path, query={"limit": str(POSITIONS_MAX)}).tree()
        except StoreError:  # not every server tells it
            return ""
        for each in summary.get("items") or ():
            if (each.get("metadata") or {}).get("name") == _meta(self._tree, "name"):
                local, cluster = each.get("positionInLocalQueue"), each.get("positionInClusterQueue")
                return f"{_before(local)} in LocalQueue {queue}, {_before(cluster)} in its ClusterQueue"
        return ""

    def _blocks(self) -> Iterator[tuple[str, Any]]:
        tree = self._tree
        secret = self._resource.kind == "Secret"
        for name in ("data", "stringData"):
            if tree.get(name):
                yield (
                    name.capitalize(),
                    {k: f"{len(str(v))} characters" if secret else v for k, v in tree[name].items()},
                )
        others = {name: value for name, value in tree.items() if name not in TOP}
        for name, value in [*others.items(), ("spec", tree.get("spec"))]:
            if value not in (None, {}, [], ""):
                yield name[:1].upper() + name[1:], value
        status = {name: value for name, value in (tree.get("status") or {}).items() if name != "conditions"}
        if status:
            yield "Status", status

    def _print_conditions(self, title: str, tree: Object) -> None:
        conditions = (tree.get("status") or {}).get("conditions") or []
        if conditions:
            self._title(plain(title))
            Table(["Type", "Status", "Reason", "Since", "Message"], indent=2).print([
                [
                    condition.get("type"), condition.get("status"), condition.get("reason"),
                    age(condition.get("lastTransitionTime"), self._now),
                    " ".join(str(condition.get("message") or "").split()),
                ]
                for condition in conditions
            ])  # fmt: skip

    def _print_events(self) -> None:
        found = _events(self._connection, self._resource, self._tree)
        self._title("Events")
        if found:
            Table([name for name in COLUMNS if name != "Object"], indent=2).print(
                [[cell for i, cell in enumerate(event_cells(each, self._now)) if i != 3] for each in found]
            )
        else:
            echo("  none")


def _before(position: object) -> str:
    """Return how many come before it: positions count from 0."""
    number = position if isinstance(position, int) else 0
    return "first" if number == 0 else f"{number} before it"
